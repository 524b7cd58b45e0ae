//go:build ignore

// Report reads the output of `go test -json` and prints what a person wants to
// see: one line per package, all output of what failed, the reason of every
// skip, and totals. With -v it prints all output as it comes. With -failures it
// appends what failed, and the end of what that printed, to a file. It exits 1
// when anything failed or nothing ran.
//
// With -again FILE it writes there, a line each, the package and name of the
// failed tests that may be run once more: where processes and real time are
// involved, a slow machine can fail a test that says nothing of the code. The
// file stays empty when one of the failures is of a kind that no second run
// takes back: a race, a panic, a time limit of a whole package, a broken
// promise found by a judge, or a property that does not hold.
//
//	go test -json ./... | go run .ci/report.go [-v] [-failures FILE] [-again FILE]
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
)

// event is one line of `go test -json`; see `go doc test2json`.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

type tally struct{ passed, failed, skipped, packages, failedPackages int }

// final is what the output of a failure says that a second run cannot take
// back.
var final = regexp.MustCompile(`DATA RACE|race detected|panic:|fatal error:|timed out|problems, the first|iolation|\[rapid\]`)

func main() {
	verb := flag.Bool("v", false, "print all output as it comes")
	again := flag.String("again", "", "`file` for the failed tests that may be run once more")
	failures := flag.String("failures", "", "`file` to append what failed to")
	flag.Parse()
	verbose, broken := *verb, open(*failures)
	output := map[string][]string{} // package and test -> what it printed
	var n tally
	var once retries
	var skips []string
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var e event
		if json.Unmarshal(in.Bytes(), &e) != nil {
			fmt.Println(in.Text()) // not an event: the go command itself speaks
			continue
		}
		key := e.Package + e.ImportPath + " " + e.Test
		switch e.Action {
		case "output", "build-output":
			if verbose {
				fmt.Print(e.Output)
			}
			output[key] = append(output[key], e.Output)
		case "build-fail":
			show(verbose, output[key])
			repeat(broken, e, output[key])
		case "pass", "fail", "skip":
			if why := n.count(e, output[key]); why != "" {
				skips = append(skips, why)
			}
			if e.Action == "fail" {
				said := output[key]
				if e.Test == "" {
					said = append(unended(output, e.Package), said...)
				}
				once.add(e, said)
				show(verbose, said)
				repeat(broken, e, said)
			} else if e.Test == "" && e.Action == "pass" && !verbose {
				fmt.Printf("ok    %s (%.1f s)\n", e.Package, e.Elapsed)
			}
			delete(output, key)
		}
	}
	for _, s := range skips {
		fmt.Println("NOT RUN: " + s)
	}
	fmt.Printf("tests: %d passed, %d failed, %d skipped, in %d packages (%d failed)\n", n.passed, n.failed, n.skipped, n.packages, n.failedPackages)
	if err := in.Err(); err != nil {
		fmt.Println("reading the output of go test:", err)
	}
	if *again != "" && in.Err() == nil {
		if err := os.WriteFile(*again, []byte(once.list()), 0o600); err != nil {
			fmt.Println(err)
		}
	}
	if n.failed+n.failedPackages > 0 || n.passed == 0 || in.Err() != nil {
		os.Exit(1)
	}
}

// unended takes out what the tests of a package printed that neither passed nor
// failed: the process ended in one of them, and only they say how.
func unended(output map[string][]string, pkg string) []string {
	var said []string
	for key, lines := range output {
		if strings.HasPrefix(key, pkg+" ") && key != pkg+" " {
			said = append(said, lines...)
			delete(output, key)
		}
	}
	return said
}

// detector is how a process ends in which the race detector itself has crashed, within a timer
// of the runtime: no test of the package says anything by that, and all are run again.
var detector = regexp.MustCompile(`(?s)SIGSEGV: .*runtime: g 0: unknown pc .*runtime\.race`)

// retries are the failures of a run.
type retries struct {
	tests    []string        // "package test", tests of the top level
	packages map[string]bool // that have one
	never    bool            // one of them is final
	failed   map[string]bool // packages that failed
}

func (r *retries) add(e event, output []string) {
	if r.packages == nil {
		r.packages, r.failed = map[string]bool{}, map[string]bool{}
	}
	said := strings.Join(output, "")
	crashed := detector.MatchString(said)
	if !crashed && final.MatchString(said) {
		r.never = true
	}
	switch {
	case e.Test == "":
		r.failed[e.Package] = true
		if crashed {
			r.tests = append(r.tests, e.Package+" .*")
			r.packages[e.Package] = true
		}
	case !strings.Contains(e.Test, "/"):
		r.tests = append(r.tests, e.Package+" "+e.Test)
		r.packages[e.Package] = true
	}
}

// list is what may be run again: nothing unless that would settle everything.
func (r *retries) list() string {
	if r.never || len(r.failed) == 0 {
		return ""
	}
	for p := range r.failed {
		if !r.packages[p] {
			return "" // it did not build, or ended before its tests did
		}
	}
	return strings.Join(r.tests, "\n") + "\n"
}

// count adds an end of a test or package; for a skipped test it gives the
// reason.
func (n *tally) count(e event, output []string) (skip string) {
	switch {
	case e.Test == "" && e.Action == "fail":
		n.packages, n.failedPackages = n.packages+1, n.failedPackages+1
	case e.Test == "" && e.Action == "pass":
		n.packages++
	case e.Test == "":
	case e.Action == "pass":
		n.passed++
	case e.Action == "fail":
		n.failed++
	default:
		n.skipped++
		return e.Package + " " + e.Test + ": " + reason(output)
	}
	return ""
}

// reason is what a skipped test said.
func reason(output []string) string {
	for _, line := range output {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			return line
		}
	}
	return "no reason given"
}

// open opens a file to append to; none without a name.
func open(name string) *os.File {
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	return f
}

// repeat writes down a failure with the last lines of what it printed.
func repeat(to *os.File, e event, output []string) {
	if to == nil {
		return
	}
	const lines = 60
	_, _ = fmt.Fprintf(to, "FAILED: %s%s %s\n%s", e.Package, e.ImportPath, e.Test, strings.Join(output[max(0, len(output)-lines):], ""))
}

func show(verbose bool, lines []string) {
	if !verbose {
		fmt.Print(strings.Join(lines, ""))
	}
}
