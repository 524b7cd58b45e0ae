package workers

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/scope"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/session"
)

// want is a worker's wish for tasks, on its way through the cluster.
type want struct {
	session.Want
	open   map[uint64]bool // numbers of its requests
	gone   bool
	got    []session.Assignment
	asked  int64 // mono ns: leases of what it got run from then on at the earliest
	failed time.Duration
	quick  bool // it was answered with nothing sooner than it may be

	// Of those whose queues have shares of their own.
	queues []session.Appetite
	empty  []bool // gave less than it was asked for, or has no room
}

// plain tells whether one request for all queues asks for what is wanted.
func plain(w *session.Want) bool {
	for _, q := range w.Queues {
		if q.Slots < w.Max || q.Weight != w.Queues[0].Weight {
			return false
		}
	}
	return true
}

// want asks for tasks. Queues with limits or weights are asked one by one first;
// when all of them have nothing, one task of any of them is waited for.
func (a *Asks) want(now clock.Time, m session.Want) {
	w := &want{Want: m, open: make(map[uint64]bool)}
	a.wants[m.No] = w
	a.seek(now, w)
}

// seek asks for tasks, by one request or by shares.
func (a *Asks) seek(now clock.Time, w *want) {
	w.asked, w.failed = clock.Never, 0
	if plain(&w.Want) {
		a.claim(now, w, w.Max)
		return
	}
	w.queues = w.queues[:0]
	for _, q := range w.Queues {
		w.queues = append(w.queues, session.Appetite{Queue: q.Queue, Room: min(q.Slots, w.Max), Weight: max(1, q.Weight)})
	}
	w.empty = make([]bool, len(w.queues))
	if a.Shares[w.Instance] == nil {
		maps.DeleteFunc(a.Shares, func(i session.Instance, _ *session.Shares) bool { return !a.s.Dispatcher.Knows(i) })
		a.Shares[w.Instance] = &session.Shares{}
	}
	a.share(now, w, true)
}

// share asks queues for their shares of the room that is left. first says that these
// are what weights have earned; then what is left over is offered to those who gave
// all of theirs.
//
// Each queue gets its part of the room by weight ([session.Shares]), and what one does not use is
// offered to the others.
func (a *Asks) share(now clock.Time, w *want, first bool) {
	sums := a.Shares[w.Instance]
	divide := sums.Leftover
	if first {
		divide = sums.Split
	}
	shares, left := divide(w.queues, w.empty, w.Max-len(w.got)), 1
	done := func(now clock.Time) {
		if left--; left > 0 {
			return
		}
		if first && !w.gone && w.failed == 0 && len(w.got) < w.Max && slices.Contains(w.empty, true) && slices.Contains(w.empty, false) {
			a.share(now, w, false)
			return
		}
		a.shared(now, w)
	}
	for i, n := range shares {
		if n == 0 {
			continue
		}
		left++
		a.claimFor(now, w, []string{w.queues[i].Queue}, n, 0, func(now clock.Time, got int) {
			q := &w.queues[i]
			if q.Room -= got; first {
				sums.Took(q.Queue, got)
			}
			if w.empty[i] = got < n || q.Room == 0; got < n {
				sums.Empty(q.Queue)
			}
			done(now)
		})
	}
	done(now)
}

// shared gives what came of the shares, or waits for one task of any queue.
func (a *Asks) shared(now clock.Time, w *want) {
	if len(w.got) > 0 || w.gone || w.failed > 0 {
		a.granted(now, w)
		return
	}
	a.claim(now, w, 1)
}

// claim asks for tasks of all queues of a want, and waits for them.
func (a *Asks) claim(now clock.Time, w *want, most int) {
	var names []string
	for _, q := range w.Queues {
		names = append(names, q.Queue)
	}
	a.claimFor(now, w, names, most, wantWait, func(now clock.Time, _ int) { a.granted(now, w) })
}

// claimFor makes one request.
func (a *Asks) claimFor(now clock.Time, w *want, queues []string, most int, wait time.Duration, then func(now clock.Time, got int)) {
	m := &nornv1.ClaimRequest{
		Queues: queues, MaxTasks: uint32(most), LeaseSeconds: w.Lease.Seconds(), WaitSeconds: wait.Seconds(), Worker: w.Name,
		Session: slices.Clone(w.Instance[:]), RequestNo: w.Association<<32 | (a.Number+1)&(1<<32-1),
	}
	received := now.Mono
	number := uint64(0)
	a.holders.Now = scope.Holder{By: a.holders.Of(w.Instance).By} // its queues were judged when it named them
	number = a.put(now, nornv1.Method_METHOD_CLAIM, m, func(now clock.Time, r *message.Reply) {
		delete(w.open, number)
		reply, _ := r.Message.(*nornv1.ClaimReply)
		if r.Err != nil || reply == nil {
			w.failed = max(w.failed, workPause)
			if r.Err != nil {
				w.failed = max(w.failed, r.Err.RetryAfter)
				if r.Err.Effect == nornv1.Effect_EFFECT_UNKNOWN {
					a.unanswered(now, w, m.GetRequestNo())
				}
			}
			then(now, 0)
			return
		}
		w.asked = min(w.asked, received+int64(proto.Seconds(reply.GetWaitedSeconds())))
		if len(reply.GetGrants()) == 0 && now.Mono-received < int64(wait)/2 {
			w.quick = true
		}
		for _, g := range reply.GetGrants() {
			task, err := id.Parse(g.GetTask().GetId())
			if err != nil {
				continue // the claim lapses
			}
			w.got = append(w.got, session.Assignment{
				Claim: session.Claim{Task: task, Token: g.GetToken()}, Queue: g.GetTask().GetQueue(), Lease: proto.Seconds(g.GetLeaseSeconds()), Grant: g,
			})
		}
		then(now, len(reply.GetGrants()))
	})
	a.holders.Now = scope.Holder{}
	w.open[number] = true
}

// unanswered has freed what a request was granted whose answer died with another node:
// only this one knows that no worker has heard of it.
func (a *Asks) unanswered(now clock.Time, w *want, request uint64) {
	a.put(now, nornv1.Method_METHOD_CLAIM, &nornv1.ClaimRequest{
		Session: slices.Clone(w.Instance[:]), RequestNo: w.Association<<32 | (a.Number+1)&(1<<32-1), Unanswered: []uint64{request},
	}, func(clock.Time, *message.Reply) {})
}

// granted answers a want. One that failed is asked again after a pause.
func (a *Asks) granted(now clock.Time, w *want) {
	pause := w.failed
	if w.quick {
		pause, w.quick = max(pause, workPause), false
	}
	if len(w.got) == 0 && !w.gone && pause > 0 {
		a.after(now, pause, func(now clock.Time) {
			if !w.gone {
				a.seek(now, w)
			}
		})
		return
	}
	delete(a.wants, w.No)
	if len(w.got) == 0 && w.gone {
		return
	}
	a.s.Dispatcher.Granted(now, w.No, min(w.asked, now.Mono), w.got)
}

// unwant withdraws a want. What it is granted all the same is given back.
func (a *Asks) unwant(no uint64) {
	w := a.wants[no]
	if w == nil {
		return
	}
	w.gone = true
	delete(a.wants, no)
	numbers := make([]uint64, 0, len(w.open))
	for number := range w.open { // Any order: sorted below.
		numbers = append(numbers, number)
	}
	slices.SortFunc(numbers, cmp.Compare[uint64])
	for _, number := range numbers {
		a.s.Pending.Cancel(message.Origin{Conn: message.WorkConn, Request: number, Method: uint16(nornv1.Method_METHOD_CLAIM)})
	}
}
