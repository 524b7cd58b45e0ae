package vnode

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode/record"
)

// Audit recomputes every index entry and counter of a partition from its facts
// and claims and compares them with what is stored. It reads the whole
// partition: for tests, the simulator and `cluster verify`. It returns the
// first difference, an error that wraps ErrDamaged.
func Audit(view store.View, p ring.Partition) error {
	a := &audit{view: view, p: p, want: make(map[string]bool), counts: make(map[string]*Counts), graves: make(map[string]bool)}
	if err := a.tasks(); err != nil {
		return err
	}
	if err := a.claims(); err != nil {
		return err
	}
	if err := a.indexes(); err != nil {
		return err
	}
	if err := a.tombstones(); err != nil {
		return err
	}
	if err := a.tree(); err != nil {
		return err
	}
	if err := a.logs(); err != nil {
		return err
	}
	if err := a.tries(); err != nil {
		return err
	}
	return a.counters()
}

// logs compares what is counted of the logs with the updates that are there.
func (a *audit) logs() error {
	want := make(map[string]LogSize)
	prefix := appendPrefix(nil, tableFacts, a.p)
	for key, value := range a.view.Scan(prefix, after(prefix)) {
		f, err := storedFact(key, value)
		if err != nil || f.Key.Kind != crdt.KindUpdate {
			continue // tasks has seen to the keys
		}
		for _, of := range [][]byte{appendTask(nil, tableLogs, a.p, f.Task), appendClaim(nil, tableLogs, a.p, f.Task, f.Key.A)} {
			n := want[string(of)]
			want[string(of)] = LogSize{n.Updates + 1, n.Bytes + uint64(len(f.Body))}
		}
	}
	prefix = appendPrefix(nil, tableLogs, a.p)
	for key := range a.view.Scan(prefix, after(prefix)) {
		if n := sizeUnder(a.view, key); n != want[string(key)] {
			return fmt.Errorf("%w: the log %x counts %v, there is %v", ErrDamaged, key, n, want[string(key)])
		}
		delete(want, string(key))
	}
	for key, n := range want { // Any order: whichever is found is reported.
		return fmt.Errorf("%w: the log %x is not counted, there is %v", ErrDamaged, key, n)
	}
	return nil
}

// tries compares what is counted of failures and expiries with those that are there, and
// what is made of it with what all facts say.
func (a *audit) tries() error {
	prefix := appendPrefix(nil, tableTries, a.p)
	for key := range a.view.Scan(prefix, after(prefix)) {
		task := id.ID(key[prefixSize:])
		e, ok := endsOf(a.view, a.p, task)
		all, err := endsFrom(a.view, a.p, task, 0)
		if err != nil {
			return err
		}
		old, err := olderOf(a.view, a.p, task)
		if err != nil {
			return err
		}
		want := old.Base(e.After)
		for _, o := range all {
			if o.Token < e.Below {
				want.Take(o)
			}
		}
		if !ok || e != want {
			return fmt.Errorf("%w: of task %s %+v is counted, there is %+v", ErrDamaged, task, e, want)
		}
		short, err := LoadTask(a.view, a.p, task)
		if err != nil {
			return err
		}
		whole, err := loadAll(a.view, a.p, task)
		if err != nil {
			return err
		}
		if short.Attempts() != whole.Attempts() || short.Failures() != whole.Failures() || short.NotBefore() != whole.NotBefore() ||
			short.Error() != whole.Error() || short.RuledOut() != whole.RuledOut() || short.Outcome() != whole.Outcome() {
			return fmt.Errorf("%w: task %s has %d attempts and %d failures by what is counted, %d and %d by its facts", ErrDamaged, task,
				short.Attempts(), short.Failures(), whole.Attempts(), whole.Failures())
		}
	}
	return nil
}

// tree compares the root of the tree, where there is one, with the facts.
func (a *audit) tree() error {
	tree, want := Counted(a.view, a.p), antientropy.Node{}
	if tree == nil {
		return nil // none is kept, or not for all facts yet
	}
	for f, err := range EachFact(a.view, a.p, antientropy.Position{}, id.ID{}) {
		if err != nil {
			return err
		}
		want.Sum, want.Count = want.Sum.Add(crdt.HashFact(f)), want.Count+1
	}
	if got := tree.Root(a.view); got != want {
		return fmt.Errorf("%w: the tree counts %d facts with sum %x, there are %d with %x", ErrDamaged, got.Count, got.Sum, want.Count, want.Sum)
	}
	return nil
}

// tombstones compares them with the times at which their tasks were collected.
func (a *audit) tombstones() error {
	prefix := appendPrefix(nil, tableGraves, a.p)
	for key := range a.view.Scan(prefix, after(prefix)) {
		if seen, ok := a.graves[string(key)]; !ok || seen {
			return fmt.Errorf("%w: grave %x has no tombstone that says so", ErrDamaged, key)
		}
		a.graves[string(key)] = true
	}
	for grave, seen := range a.graves { // Any order: whichever is found is reported.
		if !seen {
			return fmt.Errorf("%w: grave %x is missing: its tombstone never goes", ErrDamaged, grave)
		}
	}
	return nil
}

type audit struct {
	view    store.View
	p       ring.Partition
	want    map[string]bool // index keys; true once seen
	counts  map[string]*Counts
	orphans uint64
	graves  map[string]bool // of tombstones; true once seen
}

// tasks walks over all tasks and notes where they must stand.
func (a *audit) tasks() error {
	for task, ok := NextTask(a.view, a.p, id.ID{}); ok; task, ok = NextTask(a.view, a.p, task) {
		d, err := ReadTask(a.view, a.p, task, ReadOptions{})
		if err != nil {
			return err
		}
		e := d.Task.Enqueued
		if e == nil && d.Task.Collected() {
			a.graves[string(appendTimed(nil, tableGraves, a.p, max(d.Task.CollectedAt(), 0), task))] = false
			continue
		}
		if e == nil {
			a.orphans++
			a.want[string(appendTask(nil, tableOrphans, a.p, task))] = false
			continue
		}
		if a.counts[e.Queue] == nil {
			a.counts[e.Queue] = &Counts{}
		}
		a.counts[e.Queue][d.State]++
		rank := rankOf(d.Task)
		switch d.State {
		case crdt.StateReady:
			a.want[string(appendReady(nil, a.p, e.Queue, &rank))] = false
		case crdt.StateScheduled:
			a.want[string(appendTimed(nil, tableScheduled, a.p, d.Task.NotBefore(), task))] = false
		case crdt.StateCompleted, crdt.StateDead, crdt.StateCancelled:
			a.want[string(appendFinished(nil, a.p, d.State, e.Queue, d.Task.FinishedAt(), task))] = false
		}
	}
	return nil
}

// indexes compares the stored index keys with those that must be there.
func (a *audit) indexes() error {
	moved := [28]byte{}
	if b, ok := a.view.Get(appendPrefix(nil, tablePartition, a.p)); ok {
		r, err := decodePartitionRecord(b)
		if err != nil {
			return err
		}
		moved = r.moved
	}
	for _, table := range []byte{tableReady, tableScheduled, tableFinished, tableOrphans} {
		prefix := appendPrefix(nil, table, a.p)
		for key := range a.view.Scan(prefix, after(prefix)) {
			if _, ok := a.want[string(key)]; !ok {
				return fmt.Errorf("%w: index entry %q should not be there", ErrDamaged, key)
			}
			a.want[string(key)] = true
			if table == tableScheduled && bytes.Compare(key[prefixSize:], moved[:]) <= 0 {
				return fmt.Errorf("%w: scheduled entry %x is below the mark %x and would never be found", ErrDamaged, key, moved)
			}
		}
	}
	missing := ""
	// Any order: of several missing entries the first by key is reported.
	for key, seen := range a.want {
		if !seen && (missing == "" || key < missing) {
			missing = key
		}
	}
	if missing != "" {
		return fmt.Errorf("%w: index entry %q is missing", ErrDamaged, missing)
	}
	return nil
}

// counters compares the stored counters with the tasks counted.
func (a *audit) counters() error {
	prefix := appendPrefix(nil, tableQueues, a.p)
	stored := 0
	for key, value := range a.view.Scan(prefix, after(prefix)) {
		counts, low, hasLow, err := record.Queue(value)
		if err != nil {
			return err
		}
		name := string(bytes.TrimSuffix(key[prefixSize:], []byte{0}))
		want := a.counts[name]
		if want == nil {
			want = &Counts{}
		} else {
			stored++
		}
		if counts != *want {
			return fmt.Errorf("%w: queue %s counts %v, its tasks are %v", ErrDamaged, name, counts, *want)
		}
		if first, ok := a.firstReady(name); ok && (!hasLow || low.Compare(&first) > 0) {
			return fmt.Errorf("%w: queue %s: low-water rank %x is above the first ready key %x", ErrDamaged, name, low, first)
		}
	}
	if stored != len(a.counts) {
		return fmt.Errorf("%w: %d queues have counters, %d have tasks", ErrDamaged, stored, len(a.counts))
	}
	b, ok := a.view.Get(appendPrefix(nil, tablePartition, a.p))
	if !ok {
		b = (&partitionRecord{}).appendTo(nil)
	}
	if r := binary.BigEndian.Uint64(b[len(b)-16:]); r != a.orphans {
		return fmt.Errorf("%w: %d orphans on record, %d found", ErrDamaged, r, a.orphans)
	}
	return nil
}

func (a *audit) firstReady(queue string) (claim.Rank, bool) {
	prefix := appendQueue(nil, tableReady, a.p, queue)
	for key := range a.view.Scan(prefix, after(prefix)) {
		return claim.Rank(key[len(prefix):]), true
	}
	return claim.Rank{}, false
}
