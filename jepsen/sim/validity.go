package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/norn-dev/norn/id"
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

// calm tells what did not happen in a run of a cluster; "": it counts.
func (f *fleet) calm() string {
	var missing []string
	for _, must := range musts {
		p, asked := &f.s.plan, true
		switch must.stat {
		case stats.Pushed, stats.HandOvers:
			asked = p.Hands > 0
		case stats.Moves:
			asked = f.lossy // else nobody comes, goes or loses a disk: acknowledgements of one copy are held to
		case stats.Collected:
			asked = p.Collect > 0
		}
		if asked && f.s.stats[must.stat] == f.before[must.stat] {
			missing = append(missing, must.name)
		}
	}
	if missing == nil {
		return ""
	}
	return "without " + strings.Join(missing, ", ")
}

// lapse names a claim that ran out.
type lapse struct {
	task  id.ID
	token uint64
}

// lapses are the claims that clients were shown as run out.
type lapses map[lapse]bool

// of gives how many an event shows for the first time.
func (l lapses) of(e *history.Event) (n int) {
	for i := range e.Items {
		for _, c := range e.Items[i].Claims {
			if this := (lapse{e.Items[i].Task, c.Token}); c.Outcome == "expired" && !l[this] {
				l[this] = true
				n++
			}
		}
	}
	return n
}

// passing is for how long a ready task may be passed over by worse ones while
// nothing is wrong: nodes hear of each other's heads a few times a second.
const passing = 5 * time.Second

// book makes the ledger of a cluster: it judges the whole history once more, by
// itself, and the order of grants in the lull before the storm.
func (f *fleet) book() {
	s := f.s
	o := check.LedgerOptions{Partitions: s.plan.Partitions, Passing: int64(passing), Search: time.Minute}
	o.Healthy = []check.Window{{}} // no order is promised while leaders change
	if f.stable {
		o.Healthy[0] = check.Window{From: f.whole, To: f.whole + int64(lull)}
	}
	if s.plan.Collect > 0 {
		o.Retention = int64(s.plan.Retention)
	}
	if s.plan.Clock.Set == 0 {
		o.Wall, o.Skew = world.Origin, int64(s.plan.Eta)
	}
	ledger := check.NewLedger(o)
	for _, e := range s.events {
		if e.Func != history.Try {
			ledger.Add(e)
		}
	}
	ranks := ledger.Ranks()
	s.note("order: %d grants passed over %d better tasks at most, half of them over %d at most", ranks.Grants, ranks.Max, ranks.P50)
	for _, r := range ledger.Judge() {
		s.note("ledger: %s", r.String())
		switch {
		case r.Broken > 0:
			s.fail(&r.Violations[0])
		case r.Unknown > 0:
			s.violation(check.Internal, "%s", fmt.Sprintf("the ledger's %s checker could not search through %d", r.Checker, r.Unknown))
		}
	}
}
