package claim

import (
	"container/heap"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
)

// order is what a heap of claims is sorted by.
type order uint8

// The orders: by the monotonic time at which claims lapse; by the one at which their
// end comes, of those that were recovered; and both again of those that are over, so
// that a follower, which ends no others, is not woken for the rest.
const (
	byLapse order = iota
	byEnd
	overByLapse
	overByEnd
	orders
)

// file puts a claim where it belongs after a change.
func (t *Table) file(h *Held) {
	h.at = h.Lease.LapseAt(t.buffer)
	t.heaps[byLapse].keep(h, true)
	t.heaps[byEnd].keep(h, h.Lease.Recovered)
	t.heaps[overByLapse].keep(h, h.Over)
	t.heaps[overByEnd].keep(h, h.Over && h.Lease.Recovered)
}

func (t *Table) unfile(h *Held) {
	for o := range t.heaps {
		t.heaps[o].keep(h, false)
	}
}

// Lapsed gives a claim that has lapsed by now, and slack ago. The wall clock
// counts for recovered claims while another node confirms it. The caller ends
// the claim and asks again, until ok is false.
func (t *Table) Lapsed(now clock.Time, slack time.Duration, confirmed bool) (task id.ID, token uint64, ok bool) {
	return t.lapsed(byLapse, now, slack, confirmed)
}

// Spent gives a claim that is over and has lapsed by now; else like
// [Table.Lapsed].
func (t *Table) Spent(now clock.Time, confirmed bool) (task id.ID, token uint64, ok bool) {
	return t.lapsed(overByLapse, now, 0, confirmed)
}

func (t *Table) lapsed(o order, now clock.Time, slack time.Duration, confirmed bool) (id.ID, uint64, bool) {
	if t.heaps == nil {
		return id.ID{}, 0, false
	}
	buffer := t.buffer + slack
	if confirmed {
		t.anchor(&t.heaps[o+1], now, buffer)
	}
	for _, l := range []*lapses{&t.heaps[o], &t.heaps[o+1]} {
		if len(l.all) > 0 && l.all[0].Lease.Lapsed(now, buffer, confirmed) {
			return l.all[0].task, l.all[0].Token, true
		}
	}
	return id.ID{}, 0, false
}

// anchor puts those whose end has come but not by the wall clock, which was set back
// since they were learned, where it says now.
func (t *Table) anchor(l *lapses, now clock.Time, buffer time.Duration) {
	for len(l.all) > 0 {
		h := l.all[0]
		if now.Mono < h.Lease.EndAt(buffer) || h.Lease.Past(now, buffer) {
			return
		}
		h.Lease = h.Lease.Anchor(now)
		t.file(h)
	}
}

// Overdue calls fn for up to limit claims that lapsed by elapsed time at least
// late ago. Where there are none it costs a look.
func (t *Table) Overdue(now clock.Time, late time.Duration, limit int, fn func(*Held)) {
	if t.heaps == nil {
		return
	}
	all := t.heaps[byLapse].all
	due := now.Add(-late).Mono
	if len(all) == 0 || all[0].at > due {
		return
	}
	for _, h := range all {
		if limit > 0 && h.at <= due {
			fn(h)
			limit--
		}
	}
}

// NextLapse is when, in mono ns, [Table.Lapsed] should be called next, clock.Never
// for never.
func (t *Table) NextLapse(slack time.Duration, confirmed bool) (mono int64) {
	return t.next(byLapse, slack, confirmed)
}

// NextSpent is when [Table.Spent] should be called next.
func (t *Table) NextSpent(confirmed bool) (mono int64) {
	return t.next(overByLapse, 0, confirmed)
}

func (t *Table) next(o order, slack time.Duration, confirmed bool) (mono int64) {
	mono = clock.Never
	if t.heaps == nil {
		return mono
	}
	if l := &t.heaps[o]; len(l.all) > 0 {
		mono = clock.Time{Mono: l.all[0].at}.Add(slack).Mono
	}
	if l := &t.heaps[o+1]; len(l.all) > 0 && confirmed {
		mono = min(mono, l.all[0].Lease.EndAt(t.buffer+slack))
	}
	return mono
}

// Holds tells whether a claim has not lapsed by this process's own rule.
func (t *Table) Holds(h *Held, now clock.Time, confirmed bool) bool {
	return !h.Lease.Lapsed(now, t.buffer, confirmed)
}

// Left is for how long a claim still holds by this process's own rule; at
// least 1 ns for one that does, 0 for one that does not.
func (t *Table) Left(h *Held, now clock.Time, confirmed bool) time.Duration {
	if !t.Holds(h, now, confirmed) {
		return 0
	}
	left := clock.Time{Mono: h.at}.SinceMono(now.Mono)
	if h.Lease.Recovered && confirmed {
		end := clock.Time{Mono: h.Lease.End}.Add(t.buffer + 1).Mono
		byWall := clock.Time{Mono: end}.SinceMono(now.Wall)
		left = min(left, max(byWall, clock.Time{Mono: h.Lease.EndAt(t.buffer)}.SinceMono(now.Mono)))
	}
	return max(left, 1)
}

// Refresh takes a renewal, or a repetition of the grant, from the leader: the
// end may grow, and the elapsed time starts anew even when it does not
// (protocol (b), variant 3e). Nothing shortens the lease. It gives the record
// as it is to be stored.
func (t *Table) Refresh(h *Held, r Record, now clock.Time) *Record {
	t.renew(h, r, now)
	h.Lease.Recovered = false
	t.file(h)
	return &h.Record
}

// Rejoin takes what a voter says of a claim that is known here too: as
// [Table.Refresh], but learned by vote or push.
func (t *Table) Rejoin(h *Held, r Record, now clock.Time) *Record {
	end := h.Lease.EndBy(now)
	t.renew(h, r, now)
	t.rebase(h, end, now)
	return &h.Record
}

func (t *Table) renew(h *Held, r Record, now clock.Time) {
	left := h.Lease.Duration - max(now.SinceMono(h.Lease.Learned), 0)
	h.Lease.Duration, h.Lease.Learned = max(r.Lease, left), now.Mono
	h.Lease.End = max(h.Lease.End, r.End)
	h.Record.End, h.Record.Lease = h.Lease.End, h.Lease.Duration
}

// rebase counts the elapsed time of a claim from now, and has it end by the wall
// clock at end or later.
func (t *Table) rebase(h *Held, end int64, now clock.Time) {
	h.Lease.End = max(h.Lease.End, end)
	h.Record.End = h.Lease.End
	h.Lease, h.own = h.Lease.Recover(now), false
	t.file(h)
}

// TakeOver has the elapsed time of every claim count from now: its last renewal
// may have passed this process by. So a dead worker's claim lives on through
// each election, but never past its end and the buffer on a wall clock that
// another node confirms, and without a second node there is no election. With
// own, those that this process granted itself are left alone: nobody else can
// have renewed them.
func (t *Table) TakeOver(now clock.Time, own bool) {
	if t.heaps == nil {
		return
	}
	for _, h := range append([]*Held(nil), t.heaps[byLapse].all...) {
		if !own || !h.own {
			t.rebase(h, h.Lease.EndBy(now), now)
		}
	}
}

// Hold adds a claim that somebody else says holds for a while from now, or has
// it hold at least that long. left counts up to the lease and the buffer. It
// gives the record as it is to be stored.
func (t *Table) Hold(task id.ID, brief Brief, r Record, left time.Duration, now clock.Time) *Record {
	left = min(max(left, 0), max(r.Lease, 0)+t.buffer)
	learned := now.Add(left - r.Lease - t.buffer).Mono
	h := t.entries[task].Of(r.Token)
	if h == nil {
		h = &Held{task: task, Record: r, Lease: clock.Lease{Start: r.Start, End: r.End, Duration: r.Lease, Learned: learned}}
		t.add(brief, h)
		return &h.Record
	}
	h.Lease.End = max(h.Lease.End, r.End)
	if now.Add(left).Mono > h.at {
		h.Lease.Duration, h.Lease.Learned, h.Lease.Recovered = r.Lease, learned, false
	}
	if h.Lease.Recovered {
		h.Lease = h.Lease.Anchor(now)
	}
	h.Record.End, h.Record.Lease = h.Lease.End, max(h.Record.Lease, r.Lease)
	t.file(h)
	return &h.Record
}

// Expire notes that a leader has written that a claim expired. lapsed says that
// it may be ended now; else [Table.Spent] gives it in time.
func (t *Table) Expire(task id.ID, token uint64, now clock.Time, confirmed bool) (lapsed bool) {
	h := t.entries[task].Of(token)
	if h == nil {
		return false
	}
	h.Over = true
	t.file(h)
	return !t.Holds(h, now, confirmed)
}

// lapses is a heap of claims.
type lapses struct {
	all   []*Held
	order order
}

// keep puts a claim in, moves it to its place, or takes it out.
func (l *lapses) keep(h *Held, in bool) {
	at := int(h.places[l.order]) - 1
	switch {
	case in && at < 0:
		heap.Push(l, h)
	case in:
		heap.Fix(l, at)
	case at >= 0:
		heap.Remove(l, at)
	}
}

func (l *lapses) Len() int { return len(l.all) }

func (l *lapses) Less(i, j int) bool {
	if l.order == byLapse || l.order == overByLapse {
		return l.all[i].at < l.all[j].at
	}
	return l.all[i].Lease.Until < l.all[j].Lease.Until
}

func (l *lapses) Swap(i, j int) {
	l.all[i], l.all[j] = l.all[j], l.all[i]
	l.all[i].places[l.order], l.all[j].places[l.order] = int32(i+1), int32(j+1)
}

func (l *lapses) Push(x any) {
	h := x.(*Held)
	l.all = append(l.all, h)
	h.places[l.order] = int32(len(l.all))
}

func (l *lapses) Pop() any {
	last := len(l.all) - 1
	h := l.all[last]
	l.all[last] = nil
	l.all, h.places[l.order] = l.all[:last], 0
	return h
}
