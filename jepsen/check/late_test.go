package check

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// A claim whose answer came when its lease was over binds nobody: another worker
// may have been granted the task before. One that is still believed in does.
func TestALateAnswerHoldsNoLock(t *testing.T) {
	for _, c := range []struct {
		until  time.Duration
		broken int
	}{{4 * time.Second, 0}, {8 * time.Second, 1}} {
		task := id.ID{1}
		l := NewLedger(LedgerOptions{})
		add := func(at time.Duration, op uint64, process int, phase history.Phase, items ...history.Item) {
			l.Add(&history.Event{At: int64(at), Op: op, Process: process, Phase: phase, Func: history.Claim, Items: items, Session: uint64(process), Request: op, Max: 1})
		}
		claimed := func(token uint64, until time.Duration) history.Item {
			return history.Item{Task: task, Spec: &history.Spec{Queue: "q"}, Token: token, State: history.Claimed, Until: int64(until)}
		}
		add(time.Second, 1, 1, history.Invoke)
		add(5*time.Second, 2, 2, history.Invoke)
		add(6*time.Second, 2, 2, history.OK, claimed(2, 9*time.Second))
		add(7*time.Second, 1, 1, history.OK, claimed(1, c.until))
		for _, r := range l.Judge() {
			if r.Checker == "lock" && (r.Judged != 1 || r.Broken != c.broken) {
				t.Errorf("a claim until %v that was heard of at 7s: %v, want %d broken", c.until, &r, c.broken)
			}
		}
	}
}
