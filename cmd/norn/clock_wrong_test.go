package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestAClockIsNotSetWrongInThisBuild(t *testing.T) {
	r := norn(t, "server", "--data", t.TempDir(), "--test-clock-offset", "1s")
	if r.code != 64 || !strings.Contains(r.err, "make build-test") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
}

// wrongBuild has tests run the build whose clock can be set wrong.
func wrongBuild(t *testing.T) {
	t.Helper()
	wrong := filepath.Join(t.TempDir(), "norn")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-tags", "norntest", "-o", wrong, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	right := the.norn
	t.Cleanup(func() { the.norn = right })
	the.norn = wrong
}

// clockFile is a file that says how wrong the clocks are of those who follow it.
type clockFile string

func newClockFile(t *testing.T) clockFile { return clockFile(filepath.Join(t.TempDir(), "clock")) }

func (f clockFile) set(t *testing.T, text string) {
	t.Helper()
	next := string(f) + ".new"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, string(f)); err != nil {
		t.Fatal(err)
	}
}

// TestClusterClockIsSetWrong has one of three nodes with a clock that is set ahead
// and back while it runs, and sees that it leads just as long as its clock is right.
func TestClusterClockIsSetWrong(t *testing.T) {
	thorough(t)
	wrongBuild(t)
	file := newClockFile(t)
	c := newCompany(t, "--eta", "4s")
	for i := range 3 {
		p := c.add()
		if i == 2 {
			p.args = append(p.args, "--test-clock-file", string(file))
		}
		p.start(t)
	}
	c.settled(3)
	sees := func(what string, seconds float64) {
		t.Helper()
		eventually(t, what, func() bool {
			s := c.all[0].status(t)
			if s == nil {
				return false
			}
			for _, n := range s.Nodes {
				if d := *n.Offset/1000 - seconds; n.Name == "n3" && d > -0.5 && d < 0.5 {
					return (seconds == 0) == (n.Led > 0)
				}
			}
			return false
		})
	}
	for _, s := range []int{0, 3, 0, -7200, 0} {
		file.set(t, fmt.Sprintf("%ds", s))
		sees(fmt.Sprintf("n3 is seen to be %d s ahead, and leads just when it is not", s), float64(s))
	}
}
