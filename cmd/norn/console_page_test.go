package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// console gives the commands of a page: lines that begin with "$ " in blocks named console.
func console(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	in := false
	for line := range strings.Lines(string(text)) {
		command, is := strings.CutPrefix(line, "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			in = strings.TrimSpace(line) == "```console"
		case in && is:
			out = append(out, strings.TrimSpace(command))
		}
	}
	if len(out) == 0 {
		t.Fatalf("%s has no commands", page)
	}
	return out
}

// shell runs the commands of a page in one shell, which ends at the first that fails, and
// gives what they print.
func shell(t *testing.T, page string, env ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patientCommand)
	defer cancel()
	sh := exec.CommandContext(ctx, "sh", "-eux", "-c", strings.Join(console(t, page), "\n"))
	sh.Env = environment(append(env, "PATH="+filepath.Dir(the.norn)+":"+os.Getenv("PATH"), "TMPDIR="+t.TempDir())...)
	sh.Dir = t.TempDir()
	sh.WaitDelay = 10 * time.Second
	out, err := sh.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v:\n%s", page, err, out)
	}
	return string(out)
}

// TestREADME runs what the README has to try.
func TestREADME(t *testing.T) {
	s := ownServer(t, t.TempDir())
	out := single(shell(t, "../../README.md", "NORN_ADDR="+s.addr))
	for _, want := range []string{"1 completed in", "state completed\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("without %q:\n%s", want, out)
		}
	}
}

// TestFirstHour runs the commands of the tutorial against three nodes.
func TestFirstHour(t *testing.T) {
	beside(t)
	if testing.Short() {
		t.Skip("three processes")
	}
	d := startDev(t, "--nodes", "3", "--base-port", fmt.Sprint(basePort(t, 3)), "--partitions", "8").ready(t)
	addrs := d.rows[0][1] + "," + d.rows[1][1] + "," + d.rows[2][1]
	out := single(shell(t, "../../docs/tutorial/first-hour.md", "NORN_ADDR="+addrs, "N2="+d.rows[1][4]))
	at := 0
	for _, want := range []string{" mail ready ", "completed, copies on disk: ", "\nstate completed\n", "letter 5", "no luck", "\nstate dead\n", "\nstate completed\n", "after 5", " build waiting ", "Europe/Berlin"} {
		i := strings.Index(out[at:], want)
		if i < 0 {
			t.Fatalf("without %q in its place:\n%s", want, out)
		}
		at += i
	}
}
