package worker

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client/internal/fakenode"
)

// TestABubbleThatNeverEndsFails: a test that waits for what never comes while its worker
// dials without end fails, instead of running for ever. A process of its own does that.
func TestABubbleThatNeverEndsFails(t *testing.T) {
	const variable = "NORN_TEST_ENDLESS_BUBBLE"
	if os.Getenv(variable) != "" {
		fakenode.Longest = time.Hour // days of dialling take a race detector minutes
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t)
			r := start(t, q, Config{}, untilDone)
			q.node.Stop()
			<-r.events // nothing ever happens
		})
		return
	}
	if testing.Short() {
		t.Skip("it takes seconds: an hour of a bubble, full of dialling")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestABubbleThatNeverEndsFails$")
	cmd.Env = append(os.Environ(), variable+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "tries something without end") {
		t.Errorf("%v: %.2000s", err, out)
	}
}
