package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestWalkthrough runs examples/walkthrough.sh, the walk through Skuld's README,
// on three nodes of its own. The script checks what it is told.
func TestWalkthrough(t *testing.T) {
	beside(t)
	if testing.Short() {
		t.Skip("three processes, and a wait for a lease")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patientCommand)
	defer cancel()
	script := exec.CommandContext(ctx, "sh", "../../examples/walkthrough.sh")
	script.Env = environment("NORN="+the.norn, fmt.Sprint("PORT=", basePort(t, 3)), "LEASE=5s", "ETA=2s", "TMPDIR="+t.TempDir())
	script.WaitDelay = 10 * time.Second
	out, err := script.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	at := 0
	for _, want := range []string{ // in this order
		"\nn3 up ", "\n(all) 0 0 0 0 0 0 0 0\n", "\ngeneral 0 0 1 0 0 0 0 1\n", " general ready ", `"outcome": "active"`, "norn: nothing is ready\n",
		"\ncompleted, copies on disk: ", "\nstate completed\n", " expired\n", " completed\n",
	} {
		i := strings.Index(single(string(out))[at:], want)
		if i < 0 {
			t.Fatalf("without %q in its place:\n%s", want, out)
		}
		at += i
	}
}
