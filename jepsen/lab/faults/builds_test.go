package faults

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/machine"
)

// TestAnUpgradeAmongClocksNeedsABuildThatTakesThem: an upgrade to a build whose
// clock cannot be set, in a run that sets clocks, would end every node that is
// upgraded; it is said before the run, and the same upgrade alone is fine.
func TestAnUpgradeAmongClocksNeedsABuildThatTakesThem(t *testing.T) {
	build := func(name, says string) string {
		at := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(at, []byte("#!/bin/sh\necho '"+says+"' >&2\nexit 2\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		return at
	}
	plain := build("plain", "norn: test-clock-file: the clock of this program cannot be set wrong, it was not built for tests")
	tests := build("tests", "norn: data directory: mkdir /dev/null: not a directory")
	upgrade := builds()[0]
	for _, c := range []struct {
		fault, old string
		refused    bool
	}{
		{"upgrade", "", true},
		{"upgrade", plain, false},
		{"kill,upgrade", plain, false},
		{"upgrade,clock-jump", plain, true},
		{"upgrade,clock-jump", tests, false},
		{"upgrade,clock-jump", filepath.Join(t.TempDir(), "nothing"), true},
	} {
		err := upgrade.Needs(&cluster.Config{Fault: c.fault, Old: c.old})
		var notRun *machine.NotRun
		if is := errors.As(err, &notRun); is != c.refused || err != nil && !is {
			t.Errorf("%s with %q: %v", c.fault, filepath.Base(c.old), err)
		}
	}
}
