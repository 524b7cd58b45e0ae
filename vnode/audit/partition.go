package audit

import (
	"bytes"
	"fmt"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"
	"github.com/norn-dev/norn/vnode/index"
	"github.com/norn-dev/norn/vnode/record"
)

// Partition recomputes every index entry and counter of a partition from its facts
// and claims and compares them with what is stored. It reads the whole
// partition: for tests, the simulator and `cluster verify`. It returns the
// first difference, an error that wraps [vnode.ErrDamaged].
func Partition(view store.View, p ring.Partition) error {
	a := &audit{view: view, p: p, want: make(map[string]bool), counts: make(map[string]*vnode.Counts), graves: make(map[string]bool)}
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
	if err := vnode.AuditTries(a.view, a.p); err != nil {
		return err
	}
	return a.counters()
}

// logs compares what is counted of the logs with the updates that are there.
func (a *audit) logs() error {
	want := make(map[string]vnode.LogSize)
	prefix := index.AppendPrefix(nil, index.Facts, a.p)
	for key, value := range a.view.Scan(prefix, index.After(prefix)) {
		f, err := vnode.StoredFact(key, value)
		if err != nil || f.Key.Kind != crdt.KindUpdate {
			continue // tasks has seen to the keys
		}
		for _, of := range [][]byte{index.AppendTask(nil, index.Logs, a.p, f.Task), index.AppendClaim(nil, index.Logs, a.p, f.Task, f.Key.A)} {
			n := want[string(of)]
			want[string(of)] = vnode.LogSize{Updates: n.Updates + 1, Bytes: n.Bytes + uint64(len(f.Body))}
		}
	}
	prefix = index.AppendPrefix(nil, index.Logs, a.p)
	for key := range a.view.Scan(prefix, index.After(prefix)) {
		if n := vnode.LogAt(a.view, key); n != want[string(key)] {
			return fmt.Errorf("%w: the log %x counts %v, there is %v", vnode.ErrDamaged, key, n, want[string(key)])
		}
		delete(want, string(key))
	}
	for key, n := range want { // Any order: whichever is found is reported.
		return fmt.Errorf("%w: the log %x is not counted, there is %v", vnode.ErrDamaged, key, n)
	}
	return nil
}

// tree compares the root of the tree, where there is one, with the facts.
func (a *audit) tree() error {
	tree, want := vnode.Counted(a.view, a.p), antientropy.Node{}
	if tree == nil {
		return nil // none is kept, or not for all facts yet
	}
	for f, err := range vnode.EachFact(a.view, a.p, antientropy.Position{}, id.ID{}) {
		if err != nil {
			return err
		}
		want.Sum, want.Count = want.Sum.Add(crdt.HashFact(f)), want.Count+1
	}
	if got := tree.Root(a.view); got != want {
		return fmt.Errorf("%w: the tree counts %d facts with sum %x, there are %d with %x", vnode.ErrDamaged, got.Count, got.Sum, want.Count, want.Sum)
	}
	return nil
}

// tombstones compares them with the times at which their tasks were collected.
func (a *audit) tombstones() error {
	prefix := index.AppendPrefix(nil, index.Graves, a.p)
	for key := range a.view.Scan(prefix, index.After(prefix)) {
		if seen, ok := a.graves[string(key)]; !ok || seen {
			return fmt.Errorf("%w: grave %x has no tombstone that says so", vnode.ErrDamaged, key)
		}
		a.graves[string(key)] = true
	}
	for grave, seen := range a.graves { // Any order: whichever is found is reported.
		if !seen {
			return fmt.Errorf("%w: grave %x is missing: its tombstone never goes", vnode.ErrDamaged, grave)
		}
	}
	return nil
}

type audit struct {
	view    store.View
	p       ring.Partition
	want    map[string]bool // index keys; true once seen
	counts  map[string]*vnode.Counts
	orphans uint64
	graves  map[string]bool // of tombstones; true once seen
}

// tasks walks over all tasks and notes where they must stand.
func (a *audit) tasks() error {
	for task, ok := vnode.NextTask(a.view, a.p, id.ID{}); ok; task, ok = vnode.NextTask(a.view, a.p, task) {
		d, err := vnode.ReadTask(a.view, a.p, task, vnode.ReadOptions{})
		if err != nil {
			return err
		}
		e := d.Task.Enqueued
		if e == nil && d.Task.Collected() {
			if err := a.alone(task); err != nil {
				return err
			}
			a.graves[string(index.AppendTimed(nil, index.Graves, a.p, max(d.Task.CollectedAt(), 0), task))] = false
			continue
		}
		if e == nil {
			a.orphans++
			a.want[string(index.AppendTask(nil, index.Orphans, a.p, task))] = false
			continue
		}
		if a.counts[e.Queue] == nil {
			a.counts[e.Queue] = &vnode.Counts{}
		}
		a.counts[e.Queue][d.State]++
		rank := vnode.RankOf(d.Task)
		switch d.State {
		case crdt.StateReady:
			a.want[string(index.AppendReady(nil, a.p, e.Queue, &rank))] = false
		case crdt.StateScheduled:
			a.want[string(index.AppendTimed(nil, index.Scheduled, a.p, d.Task.NotBefore(), task))] = false
		case crdt.StateCompleted, crdt.StateDead, crdt.StateCancelled:
			a.want[string(index.AppendFinished(nil, a.p, d.State, e.Queue, d.Task.FinishedAt(), task))] = false
		}
	}
	return nil
}

// alone tells that beside a tombstone there is no other fact: [vnode.Forget] would leave it behind.
func (a *audit) alone(task id.ID) error {
	facts, err := vnode.Facts(a.view, a.p, task)
	if err == nil && len(facts) > 1 {
		err = fmt.Errorf("%w: task %s has %d facts beside its tombstone", vnode.ErrDamaged, task, len(facts)-1)
	}
	return err
}

// indexes compares the stored index keys with those that must be there.
func (a *audit) indexes() error {
	moved, _, _, err := vnode.Noted(a.view, a.p)
	if err != nil {
		return err
	}
	for _, table := range []byte{index.Ready, index.Scheduled, index.Finished, index.Orphans} {
		prefix := index.AppendPrefix(nil, table, a.p)
		for key := range a.view.Scan(prefix, index.After(prefix)) {
			if _, ok := a.want[string(key)]; !ok {
				return fmt.Errorf("%w: index entry %q should not be there", vnode.ErrDamaged, key)
			}
			a.want[string(key)] = true
			if table == index.Scheduled && bytes.Compare(key[index.PrefixSize:], moved[:]) <= 0 {
				return fmt.Errorf("%w: scheduled entry %x is below the mark %x and would never be found", vnode.ErrDamaged, key, moved)
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
		return fmt.Errorf("%w: index entry %q is missing", vnode.ErrDamaged, missing)
	}
	return nil
}

// counters compares the stored counters with the tasks counted.
func (a *audit) counters() error {
	prefix := index.AppendPrefix(nil, index.Queues, a.p)
	stored := 0
	for key, value := range a.view.Scan(prefix, index.After(prefix)) {
		counts, low, hasLow, err := record.Queue(value)
		if err != nil {
			return err
		}
		name := string(bytes.TrimSuffix(key[index.PrefixSize:], []byte{0}))
		want := a.counts[name]
		if want == nil {
			want = &vnode.Counts{}
		} else {
			stored++
		}
		if counts != *want {
			return fmt.Errorf("%w: queue %s counts %v, its tasks are %v", vnode.ErrDamaged, name, counts, *want)
		}
		if first, ok := a.firstReady(name); ok && (!hasLow || low.Compare(&first) > 0) {
			return fmt.Errorf("%w: queue %s: low-water rank %x is above the first ready key %x", vnode.ErrDamaged, name, low, first)
		}
	}
	if stored != len(a.counts) {
		return fmt.Errorf("%w: %d queues have counters, %d have tasks", vnode.ErrDamaged, stored, len(a.counts))
	}
	_, orphans, _, err := vnode.Noted(a.view, a.p)
	if err == nil && orphans != a.orphans {
		err = fmt.Errorf("%w: %d orphans on record, %d found", vnode.ErrDamaged, orphans, a.orphans)
	}
	return err
}

func (a *audit) firstReady(queue string) (claim.Rank, bool) {
	prefix := index.AppendQueue(nil, index.Ready, a.p, queue)
	for key := range a.view.Scan(prefix, index.After(prefix)) {
		return claim.Rank(key[len(prefix):]), true
	}
	return claim.Rank{}, false
}
