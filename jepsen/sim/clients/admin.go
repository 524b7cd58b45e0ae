package clients

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
	*Caller
	stopped bool
	resumed map[string]bool // in the calm: queues that surely run again
}

func (s *People) newAdmin() *admin {
	a := &admin{Caller: s.NewCaller(), resumed: map[string]bool{}}
	a.After(s.About(2*s.Plan.Work.Think), a.act)
	return a
}

func (d *admin) act() {
	if d.stopped {
		return
	}
	s := d.S
	next := func() { d.After(s.About(2*s.Plan.Work.Think), d.act) }
	switch n := s.Rnd.IntN(10); {
	case n < 4 && !s.Cannot(history.Cancel):
		d.cancel(next)
	case n < 7 && !s.Cannot(history.Retry):
		d.retry(next)
	case n < 8 && !s.Cannot(history.Cancel) && s.Plan.Work.Settings:
		d.purge(world.Pick(&s.World, s.Plan.Queues), nil, next)
	case s.Plan.Work.Settings && !s.Cannot(history.SetQueue):
		// Most changes end a pause: queues are to be busy.
		n := s.Rnd.IntN(6)
		d.set(world.Pick(&s.World, s.Plan.Queues), n == 0, n == 1, func(bool) { next() })
	default:
		next()
	}
}

// some draws the IDs of a few tasks.
func (d *admin) some() (ids [][]byte) {
	for range 1 + d.S.Rnd.IntN(3) {
		if j := d.S.Board.Some(&d.S.World); j != nil {
			ids = append(ids, j.ID.Bytes())
		}
	}
	return ids
}

func (d *admin) cancel(next func()) {
	m := &nornv1.CancelRequest{Ids: d.some(), Reason: "not wanted", Durability: d.S.Durability()}
	if d.S.Chance(0.3) {
		m.OnlyStates = []nornv1.State{nornv1.State_STATE_READY, nornv1.State_STATE_SCHEDULED, nornv1.State_STATE_WAITING}
	}
	d.bulk(m, len(m.Ids), stats.Cancels, next)
}

// retry retries a few tasks, most often some that need it.
func (d *admin) retry(next func()) {
	m := &nornv1.RetryRequest{}
	if d.S.Chance(0.3) {
		m.OnlyStates = []nornv1.State{nornv1.State_STATE_DEAD}
	}
	if d.S.Chance(0.3) {
		m.Ids = d.some()
		d.bulk(m, len(m.Ids), stats.Retries, next)
		return
	}
	failed := []nornv1.State{nornv1.State_STATE_DEAD, nornv1.State_STATE_CANCELLED}
	d.Do(&nornv1.ListRequest{States: failed, Limit: 10}, 3*time.Second, func(a *Answer) {
		if a.Fine() {
			for _, i := range a.End.Items {
				if d.S.Chance(0.5) {
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
	d.Do(m, 3*time.Second, func(a *Answer) {
		if a.Fine() {
			for _, i := range a.End.Items {
				if i.Error == "" && !i.Existed {
					d.S.Stats[stat]++
				}
			}
		}
		next()
	})
}

// purge cancels what waits in a queue, page by page.
func (d *admin) purge(queue string, cursor []byte, next func()) {
	idle := []nornv1.State{nornv1.State_STATE_WAITING, nornv1.State_STATE_SCHEDULED, nornv1.State_STATE_READY}
	d.Do(&nornv1.ListRequest{Queue: queue, States: idle, Limit: 10, Cursor: cursor}, 3*time.Second, func(a *Answer) {
		if !a.Fine() {
			next()
			return
		}
		page := a.Message.(*nornv1.ListReply)
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
	d.Do(&nornv1.QueuesRequest{Names: []string{queue}}, 3*time.Second, func(a *Answer) {
		version := uint64(0)
		if a.Fine() {
			for _, q := range a.Message.(*nornv1.QueuesReply).GetQueues() {
				version = q.GetVersion()
			}
		} else if a.Refused == nil || a.Refused.Kind != nornv1.ErrorKind_ERROR_KIND_NOT_FOUND {
			done(false)
			return
		}
		m := &nornv1.SetQueueRequest{
			Name: queue, IfVersion: version, Fields: []string{"paused", "draining", "max_tasks"},
			Settings: &nornv1.QueueSettings{Paused: paused, Draining: draining},
		}
		if !d.S.Healing && d.S.Chance(0.2) {
			m.Settings.MaxTasks = uint64(5 + d.S.Rnd.IntN(10))
		}
		d.Do(m, 3*time.Second, func(a *Answer) {
			if a.Fine() {
				d.S.Stats[stats.Settings]++
			}
			// Of a queue without tasks and settings there is nothing to take back.
			none := a.Refused != nil && a.Refused.Kind == nornv1.ErrorKind_ERROR_KIND_NOT_FOUND
			done(a.Fine() || none)
		})
	})
}

// resume ends all pauses and drains, and insists.
func (d *admin) resume() {
	s := d.S
	if s.Cannot(history.SetQueue) || !s.Plan.Work.Settings {
		for _, q := range s.Plan.Queues {
			d.resumed[q] = true
		}
	}
	for _, q := range s.Plan.Queues {
		if d.resumed[q] {
			continue
		}
		d.set(q, false, false, func(ok bool) {
			d.resumed[q] = ok
			d.After(200*time.Millisecond, d.resume)
		})
		return
	}
}
