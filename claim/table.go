package claim

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
)

// ErrLost is returned when a token names no claim that still holds: it was
// superseded, has lapsed, was released or its task is finished.
var ErrLost = errors.New("claim: the claim is no longer held")

// Held is a claim that has not ended.
type Held struct {
	Record
	Lease clock.Lease // the lease as this process must judge it
	// Over says that a leader has written that the claim expired. It holds here
	// until it has lapsed by this process's own rule: a leader with a fast clock
	// breaks no lease.
	Over bool

	task   id.ID
	own    bool          // granted by this process
	at     int64         // mono ns at which it lapses by the elapsed rule
	places [orders]int32 // its places in the table's heaps, from 1; 0: in none
}

// Brief is what the table remembers of a claimed task so that ending the claim
// needs no read: where the task goes back to, and what it counts as.
type Brief struct {
	Queue       string
	Kind        string // for who counts; empty: none
	Rank        Rank
	Attempts    uint32 // that count, before this claim
	MaxAttempts uint32
	Linked      bool // it has dependencies
	Size        int  // what it holds, bytes
}

// Entry is a task with the claims that have not ended, by ascending token.
type Entry struct {
	Brief  Brief
	Claims []*Held

	one [1]*Held // room for the only claim that most tasks have
}

// Of gives the claim with a token, or nil.
func (e *Entry) Of(token uint64) *Held {
	if e == nil {
		return nil
	}
	for _, h := range e.Claims {
		if h.Token == token {
			return h
		}
	}
	return nil
}

// Task is the claimed task.
func (h *Held) Task() id.ID { return h.task }

// Newest is the claim with the highest token.
func (e *Entry) Newest() *Held { return e.Claims[len(e.Claims)-1] }

// Known tells whether the task's enqueue is here: without it a claim is kept,
// but nothing is known of where the task goes back to.
func (e *Entry) Known() bool { return e.Brief.Queue != "" }

// Table is the claim table of one partition.
//
// Invariant: an entry has at least one claim; a task without an entry is free.
type Table struct {
	// entries and heaps are made for the first claim: a node has a table for each partition,
	// and most of them are empty.
	entries map[id.ID]*Entry
	heaps   *[orders]lapses
	buffer  time.Duration
}

// NewTable makes an empty table. buffer is added to every lease before it may
// lapse; it is at least eta.
func NewTable(buffer time.Duration) *Table {
	return &Table{buffer: buffer}
}

// Len is the number of claimed tasks.
func (t *Table) Len() int { return len(t.entries) }

// Lookup gives the entry of a task, or nil when it is free.
func (t *Table) Lookup(task id.ID) *Entry { return t.entries[task] }

// Describe replaces what is remembered of a claimed task: its facts have changed.
func (t *Table) Describe(task id.ID, brief Brief) {
	if e := t.entries[task]; e != nil {
		e.Brief = brief
	}
}

// Grant adds a claim that starts now.
func (t *Table) Grant(task id.ID, brief Brief, r Record, now clock.Time) {
	t.add(brief, &Held{task: task, Record: r, own: true, Lease: clock.Lease{
		Start: r.Start, End: r.End, Duration: r.Lease, Learned: now.Mono,
	}})
}

// Accept adds a claim that another process grants now.
func (t *Table) Accept(task id.ID, brief Brief, r Record, now clock.Time) {
	t.add(brief, &Held{task: task, Record: r, Lease: clock.Lease{
		Start: r.Start, End: r.End, Duration: r.Lease, Learned: now.Mono,
	}})
}

// Recover adds a claim that was learned by restart, vote or push: its elapsed
// time counts from now, because this process cannot know how much of it has
// passed.
func (t *Table) Recover(task id.ID, brief Brief, r Record, now clock.Time) {
	t.add(brief, &Held{task: task, Record: r, Lease: clock.Lease{
		Start: r.Start, End: r.End, Duration: r.Lease,
	}.Recover(now)})
}

func (t *Table) add(brief Brief, h *Held) {
	e := t.entries[h.task]
	if e == nil {
		e = &Entry{}
		e.Claims = e.one[:0]
		t.begin()
		t.entries[h.task] = e
	}
	e.Brief = brief
	at := len(e.Claims)
	for at > 0 && e.Claims[at-1].Token > h.Token {
		at--
	}
	e.Claims = append(e.Claims, nil)
	copy(e.Claims[at+1:], e.Claims[at:])
	e.Claims[at] = h
	t.file(h)
}

// begin makes what the first claim needs.
func (t *Table) begin() {
	if t.entries != nil {
		return
	}
	t.entries, t.heaps = make(map[id.ID]*Entry), new([orders]lapses)
	for o := range t.heaps {
		t.heaps[o].order = order(o)
	}
}

// find gives the newest claim of the task when token names it, else ErrLost.
// An older claim that has not ended is superseded: it blocks nothing any more
// that its worker could still want.
func (t *Table) find(task id.ID, token uint64) (*Entry, *Held, error) {
	e := t.entries[task]
	if e == nil {
		return nil, nil, ErrLost
	}
	if h := e.Claims[len(e.Claims)-1]; h.Token == token {
		return e, h, nil
	}
	return nil, nil, ErrLost
}

// Current tells whether token is the claim that holds the task now, and gives
// it. The lease's own length decides, without the buffer: past it a leader
// neither renews nor takes failures, so that expiry is decided once.
func (t *Table) Current(task id.ID, token uint64, now clock.Time) (*Entry, *Held, error) {
	e, h, err := t.find(task, token)
	if err != nil {
		return nil, nil, err
	}
	if h.Over || !h.Lease.Renewable(now) {
		return nil, nil, ErrLost
	}
	return e, h, nil
}

// Renew extends the claim by d from now and refreshes its elapsed time. It
// returns ErrLost when the claim may not be renewed any more.
func (t *Table) Renew(task id.ID, token uint64, d time.Duration, now clock.Time) (*Held, error) {
	_, h, err := t.Current(task, token, now)
	if err != nil {
		return nil, err
	}
	if d == 0 {
		d = h.Record.Lease
	}
	h.Lease = h.Lease.Renew(now, d)
	h.Record.End, h.Record.Lease = h.Lease.End, h.Lease.Duration
	t.file(h)
	return h, nil
}

// End takes one claim out and gives its record. The entry goes with its last
// claim.
func (t *Table) End(task id.ID, token uint64) (Record, bool) {
	e := t.entries[task]
	if e == nil {
		return Record{}, false
	}
	for i := range e.Claims {
		if e.Claims[i].Token != token {
			continue
		}
		r := e.Claims[i].Record
		t.unfile(e.Claims[i])
		e.Claims = append(e.Claims[:i], e.Claims[i+1:]...)
		if len(e.Claims) == 0 {
			delete(t.entries, task)
		}
		return r, true
	}
	return Record{}, false
}

// Move takes one claim out and puts it into another table, with its lease as this
// process judges it, and gives it; nil when it is not here.
func (t *Table) Move(to *Table, task id.ID, token uint64, brief Brief) *Held {
	h := t.entries[task].Of(token)
	if h == nil {
		return nil
	}
	t.End(task, token)
	to.add(brief, h)
	return h
}

// Each calls fn for every claim, in the order of tasks and tokens.
func (t *Table) Each(fn func(task id.ID, r *Record)) {
	tasks := slices.SortedFunc(maps.Keys(t.entries), id.ID.Compare)
	for _, task := range tasks {
		for _, h := range t.entries[task].Claims {
			fn(task, &h.Record)
		}
	}
}
