//go:build ignore

// Report reads the output of `go test -json` and prints what a person wants to
// see: one line per package, all output of what failed, the reason of every
// skip, and totals. With -v it prints all output as it comes. It exits 1 when
// anything failed or nothing ran.
//
//	go test -json ./... | go run .ci/report.go [-v]
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// event is one line of `go test -json`; see `go doc test2json`.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

type tally struct{ passed, failed, skipped, packages, failedPackages int }

func main() {
	verbose := len(os.Args) > 1 && os.Args[1] == "-v"
	output := map[string][]string{} // package and test -> what it printed
	var n tally
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
		case "pass", "fail", "skip":
			if why := n.count(e, output[key]); why != "" {
				skips = append(skips, why)
			}
			if e.Action == "fail" {
				show(verbose, output[key])
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
	if n.failed+n.failedPackages > 0 || n.passed == 0 || in.Err() != nil {
		os.Exit(1)
	}
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

func show(verbose bool, lines []string) {
	if !verbose {
		fmt.Print(strings.Join(lines, ""))
	}
}
