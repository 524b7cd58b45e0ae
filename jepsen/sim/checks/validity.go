package checks

import (
	"fmt"
	"strings"
	"time"

	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/world"
)

// musts are what has to happen after the storm of a cluster has begun for the
// run to prove anything: a run that lacks one of them is invalid, not passed.
var musts = []struct {
	stat stats.Stat
	name string
}{
	{stats.Enqueues, "an enqueue"}, {stats.Completions, "a completion"}, {stats.Crashes, "a crash"}, {stats.Leaders, "an election"},
	{stats.Moves, "a movement"}, {stats.Repaired, "a repair"}, {stats.Renewals, "a renewal"}, {stats.Lapses, "an expiry"},
	{stats.Pushed, "a task for a session"}, {stats.HandOvers, "a session that was handed over"}, {stats.Collected, "a collection"},
}

// Calm tells what did not happen in a run of a cluster; "": it counts.
func (f *Ending) Calm() string {
	var missing []string
	for _, must := range musts {
		p, asked := &f.s.Plan, true
		switch must.stat {
		case stats.Pushed, stats.HandOvers:
			asked = p.Hands > 0
		case stats.Moves:
			asked = f.s.Lossy // else nobody comes, goes or loses a disk: acknowledgements of one copy are held to
		case stats.Collected:
			asked = p.Collect > 0
		}
		if asked && f.s.Stats[must.stat] == f.Before[must.stat] {
			missing = append(missing, must.name)
		}
	}
	if missing == nil {
		return ""
	}
	return "without " + strings.Join(missing, ", ")
}

// passing is for how long a ready task may be passed over by worse ones while
// nothing is wrong: nodes hear of each other's heads a few times a second.
const passing = 5 * time.Second

// book makes the ledger of a cluster: it judges the whole history once more, by
// itself, and the order of grants in the lull before the storm.
func (f *Ending) book() {
	s := f.s
	o := check.LedgerOptions{Partitions: s.Plan.Partitions, Passing: int64(passing), Search: time.Minute}
	o.Healthy = []check.Window{{}} // no order is promised while leaders change
	if f.Stable {
		o.Healthy[0] = check.Window{From: f.Whole, To: f.Whole + int64(Lull)}
	}
	if s.Plan.Collect > 0 {
		o.Retention = int64(s.Plan.Retention)
	}
	if s.Plan.Clock.Set == 0 {
		o.Wall, o.Skew = world.Origin, int64(s.Plan.Eta)
	}
	ledger := check.NewLedger(o)
	for _, e := range s.Events {
		if e.Func != history.Try {
			ledger.Add(e)
		}
	}
	ranks := ledger.Ranks()
	s.Note("order: %d grants passed over %d better tasks at most, half of them over %d at most", ranks.Grants, ranks.Max, ranks.P50)
	for _, r := range ledger.Judge() {
		s.Note("ledger: %s", r.String())
		switch {
		case r.Broken > 0:
			s.Fail(&r.Violations[0])
		case r.Unknown > 0:
			s.Violation(check.Internal, "%s", fmt.Sprintf("the ledger's %s checker could not search through %d", r.Checker, r.Unknown))
		}
	}
}
