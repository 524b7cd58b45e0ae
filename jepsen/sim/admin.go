package sim

import (
	"time"

	"github.com/norn-dev/norn/jepsen/history"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/jepsen/sim/convert"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/world"
)

// admin cancels and retries tasks, and pauses, drains, purges and resumes
// queues.
type admin struct {
	*caller
	stopped bool
	resumed map[string]bool // in the calm: queues that surely run again
}

func (s *sim) newAdmin() *admin {
	a := &admin{caller: s.newCaller(), resumed: map[string]bool{}}
	a.after(s.About(2*s.plan.Work.Think), a.act)
	return a
}

func (d *admin) act() {
	if d.stopped {
		return
	}
	s := d.s
	next := func() { d.after(s.About(2*s.plan.Work.Think), d.act) }
	switch n := s.Rnd.IntN(10); {
	case n < 4 && !s.cannot(history.Cancel):
		d.cancel(next)
	case n < 7 && !s.cannot(history.Retry):
		d.retry(next)
	case n < 8 && !s.cannot(history.Cancel) && s.plan.Work.Settings:
		d.purge(world.Pick(&s.World, s.plan.Queues), nil, next)
	case s.plan.Work.Settings && !s.cannot(history.SetQueue):
		// Most changes end a pause: queues are to be busy.
		n := s.Rnd.IntN(6)
		d.set(world.Pick(&s.World, s.plan.Queues), n == 0, n == 1, func(bool) { next() })
	default:
		next()
	}
}

// some draws the IDs of a few tasks.
func (d *admin) some() (ids [][]byte) {
	for range 1 + d.s.Rnd.IntN(3) {
		if j := d.s.board.some(&d.s.World); j != nil {
			ids = append(ids, j.id.Bytes())
		}
	}
	return ids
}

func (d *admin) cancel(next func()) {
	m := &nornv1.CancelRequest{Ids: d.some(), Reason: "not wanted", Durability: d.s.durability()}
	if d.s.Chance(0.3) {
		m.OnlyStates = []nornv1.State{nornv1.State_STATE_READY, nornv1.State_STATE_SCHEDULED, nornv1.State_STATE_WAITING}
	}
	d.bulk(m, len(m.Ids), stats.Cancels, next)
}

// retry retries a few tasks, most often some that need it.
func (d *admin) retry(next func()) {
	m := &nornv1.RetryRequest{}
	if d.s.Chance(0.3) {
		m.OnlyStates = []nornv1.State{nornv1.State_STATE_DEAD}
	}
	if d.s.Chance(0.3) {
		m.Ids = d.some()
		d.bulk(m, len(m.Ids), stats.Retries, next)
		return
	}
	failed := []nornv1.State{nornv1.State_STATE_DEAD, nornv1.State_STATE_CANCELLED}
	d.do(&nornv1.ListRequest{States: failed, Limit: 10}, 3*time.Second, func(a *answer) {
		if a.fine() {
			for _, i := range a.end.Items {
				if d.s.Chance(0.5) {
					m.Ids = append(m.Ids, i.Task.Bytes())
				}
			}
		}
		d.bulk(m, len(m.Ids), stats.Retries, next)
	})
}

// bulk sends an action on n tasks once: like people, admins look before they
// repeat.
func (d *admin) bulk(m gproto.Message, n int, stat stats.Stat, next func()) {
	if n == 0 {
		next()
		return
	}
	d.do(m, 3*time.Second, func(a *answer) {
		if a.fine() {
			for _, i := range a.end.Items {
				if i.Error == "" && !i.Existed {
					d.s.stats[stat]++
				}
			}
		}
		next()
	})
}

// purge cancels what waits in a queue, page by page.
func (d *admin) purge(queue string, cursor []byte, next func()) {
	idle := []nornv1.State{nornv1.State_STATE_WAITING, nornv1.State_STATE_SCHEDULED, nornv1.State_STATE_READY}
	d.do(&nornv1.ListRequest{Queue: queue, States: idle, Limit: 10, Cursor: cursor}, 3*time.Second, func(a *answer) {
		if !a.fine() {
			next()
			return
		}
		page := a.message.(*nornv1.ListReply)
		m := &nornv1.CancelRequest{Reason: "purged", OnlyStates: idle}
		for _, t := range page.GetTasks() {
			m.Ids = append(m.Ids, convert.Parse(t.GetId()).Bytes())
		}
		rest := next
		if c := page.GetNextCursor(); len(c) > 0 {
			rest = func() { d.purge(queue, c, next) }
		}
		d.bulk(m, len(m.Ids), stats.Purged, rest)
	})
}

// set changes a queue, bound to the version it has just read so that a late
// copy of the request cannot change it again.
func (d *admin) set(queue string, paused, draining bool, done func(bool)) {
	d.do(&nornv1.QueuesRequest{Names: []string{queue}}, 3*time.Second, func(a *answer) {
		version := uint64(0)
		if a.fine() {
			for _, q := range a.message.(*nornv1.QueuesReply).GetQueues() {
				version = q.GetVersion()
			}
		} else if a.refused == nil || a.refused.Kind != nornv1.ErrorKind_ERROR_KIND_NOT_FOUND {
			done(false)
			return
		}
		m := &nornv1.SetQueueRequest{
			Name: queue, IfVersion: version, Fields: []string{"paused", "draining", "max_tasks"},
			Settings: &nornv1.QueueSettings{Paused: paused, Draining: draining},
		}
		if !d.s.healing && d.s.Chance(0.2) {
			m.Settings.MaxTasks = uint64(5 + d.s.Rnd.IntN(10))
		}
		d.do(m, 3*time.Second, func(a *answer) {
			if a.fine() {
				d.s.stats[stats.Settings]++
			}
			// Of a queue without tasks and settings there is nothing to take back.
			none := a.refused != nil && a.refused.Kind == nornv1.ErrorKind_ERROR_KIND_NOT_FOUND
			done(a.fine() || none)
		})
	})
}

// resume ends all pauses and drains, and insists.
func (d *admin) resume() {
	s := d.s
	if s.cannot(history.SetQueue) || !s.plan.Work.Settings {
		for _, q := range s.plan.Queues {
			d.resumed[q] = true
		}
	}
	for _, q := range s.plan.Queues {
		if d.resumed[q] {
			continue
		}
		d.set(q, false, false, func(ok bool) {
			d.resumed[q] = ok
			d.after(200*time.Millisecond, d.resume)
		})
		return
	}
}
