package top

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/norn-dev/norn/client"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// look is what was seen at one time.
type look struct {
	at      time.Time
	queues  []*nornv1.Queue
	workers []*nornv1.Worker
	status  *nornv1.StatusReply
}

// gather asks the cluster.
func gather(ctx context.Context, c *client.Client) (*look, error) {
	l := &look{}
	var err error
	if l.queues, err = c.Queues().List(ctx); err != nil {
		return nil, err
	}
	if l.workers, err = c.Workers().List(ctx); err != nil {
		return nil, err
	}
	if l.status, err = c.Status(ctx); err != nil {
		return nil, err
	}
	l.at = time.Now()
	return l, nil
}

// rates are tasks per second; known is false after the first look.
type rates struct {
	known              bool
	in, out, dead, net float64 // enqueued, finished, of those dead, and by how much the unfinished grow
}

// row is one queue with what changed.
type row struct {
	q       *nornv1.Queue
	rates   rates
	workers int // sessions that take its tasks
	slots   int // theirs
	busy    int // that they use, for whatever queue
}

func finished(n *nornv1.Count) uint64 { return n.GetCompleted() + n.GetDead() + n.GetCancelled() }

// since is what changed from one count to the next, over so many seconds.
func since(before, n *nornv1.Count, seconds float64) rates {
	if before == nil || seconds <= 0 {
		return rates{}
	}
	per := func(now, then uint64) float64 { return (float64(now) - float64(then)) / seconds }
	r := rates{known: true, out: max(0, per(finished(n), finished(before))), dead: max(0, per(n.GetDead(), before.GetDead()))}
	r.net = per(n.GetTotal()-finished(n), before.GetTotal()-finished(before))
	r.in = max(0, r.net+r.out)
	return r
}

// rowsOf puts queues, workers and what changed together; before may be nil.
func rowsOf(before, l *look) (rows []row, all rates) {
	was := map[string]*nornv1.Count{}
	seconds := 0.0
	if before != nil {
		seconds = l.at.Sub(before.at).Seconds()
		for _, q := range before.queues {
			was[q.GetName()] = q.GetCount()
		}
	}
	type serving struct{ workers, slots, busy int }
	served := map[string]*serving{}
	for _, w := range l.workers {
		if w.GetState() != nornv1.SessionState_SESSION_STATE_HEALTHY {
			continue
		}
		for _, q := range w.GetQueues() {
			s := served[q.GetQueue()]
			if s == nil {
				s = &serving{}
				served[q.GetQueue()] = s
			}
			s.workers, s.slots, s.busy = s.workers+1, s.slots+int(w.GetSlots()), s.busy+min(len(w.GetRunning()), int(w.GetSlots()))
		}
	}
	all.known = before != nil && seconds > 0
	for _, q := range l.queues {
		then := was[q.GetName()]
		if then == nil && before != nil {
			then = &nornv1.Count{} // it is new
		}
		r := row{q: q, rates: since(then, q.GetCount(), seconds)}
		if s := served[q.GetName()]; s != nil {
			r.workers, r.slots, r.busy = s.workers, s.slots, s.busy
		}
		all.in, all.out, all.dead, all.net = all.in+r.rates.in, all.out+r.rates.out, all.dead+r.rates.dead, all.net+r.rates.net
		rows = append(rows, r)
	}
	return rows, all
}

// orders are how queues can be sorted, the first one unless told otherwise.
var orders = []struct {
	name string
	less func(a, b row) int
}{
	{"ready", func(a, b row) int { return cmp.Compare(b.q.GetCount().GetReady(), a.q.GetCount().GetReady()) }},
	{"rate", func(a, b row) int { return cmp.Compare(b.rates.in+b.rates.out, a.rates.in+a.rates.out) }},
	{"dead", func(a, b row) int { return cmp.Compare(b.q.GetCount().GetDead(), a.q.GetCount().GetDead()) }},
	{"oldest", func(a, b row) int { return cmp.Compare(b.q.GetOldestReadySeconds(), a.q.GetOldestReadySeconds()) }},
	{"name", func(a, b row) int { return 0 }},
}

// sorted orders rows; what is equal is by name.
func sorted(rows []row, order int) {
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(orders[order].less(a, b), cmp.Compare(a.q.GetName(), b.q.GetName()))
	})
}
