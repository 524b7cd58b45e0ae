package vnode

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// Merged tells what became of facts from another replica.
type Merged struct {
	Stored  int // new here, or winners over what was here
	Known   int // here already, in these words or in ones that win
	Clashes int // among both: another body was here under the key
	Refused int // facts of a collected task: nothing collected comes back
	// Void says that some of those say what the tombstone does not, more than that the
	// task has been and how it ended, and came without it.
	Void bool
	// Spec is the enqueue that was stored, where it is all that was; nil else. Of most that is only the queue.
	Spec  *crdt.Enqueued
	Queue string
}

// Merge joins facts of one task, which another replica has, with those that
// are here (design 5: the join of two replicas is the union), and moves the
// task where they now say. They may be of any kind, in any order, and come
// before their enqueue. Whoever wrote them, they are final; a claim that they
// end is ended here too. A tombstone takes the place of everything.
//
// It returns ErrMalformed or ErrUnknown of package crdt, and has changed
// nothing, when a fact does not pass [crdt.Fact.Check] or is of another task
// than the first.
func Merge(v *Vnode, tx store.Tx, facts []crdt.Fact, now clock.Time) (Merged, error) {
	if len(facts) == 1 && facts[0].Key == (crdt.Key{Kind: crdt.KindEnqueued}) && bare(v, facts[0].Task) {
		return merging{v, tx, now}.fresh(facts[0])
	}
	if len(facts) == 1 && facts[0].Key.Kind == crdt.KindCompleted && facts[0].Check() == nil && v.finishClaimed(tx, facts[0], now) {
		v.cfg.OnFact(facts[0].Task) // as [Vnode.Add] does, and as cheap: most tasks end under a claim
		return Merged{Stored: 1}, nil
	}
	for i := range facts {
		if facts[i].Task != facts[0].Task {
			return Merged{}, fmt.Errorf("%w: facts of %s and %s in one merge", crdt.ErrMalformed, facts[0].Task, facts[i].Task)
		}
		if err := facts[i].Check(); err != nil {
			return Merged{}, err
		}
	}
	if len(facts) == 0 {
		return Merged{}, nil
	}
	g, task := merging{v, tx, now}, facts[0].Task
	for i := range facts {
		if facts[i].Key.Kind == crdt.KindTombstone {
			return g.bury(facts, facts[i])
		}
	}
	if v.recent.Maybe(task) && !mutant.GraveOpened.On() && Collected(tx, v.Partition, task) {
		return g.graves(facts)
	}
	fresh, m, err := g.news(facts)
	if err != nil {
		return Merged{}, err
	}
	if mutant.LargerWins.On() && g.larger(task, len(facts)) {
		return Merged{Known: len(facts)}, nil
	}
	if len(fresh) == 0 {
		return m, nil
	}
	return m, g.take(task, fresh)
}

// larger tells whether more facts of a task are here than were sent, for a mutant.
func (v merging) larger(task id.ID, n int) bool {
	prefix := appendTask(nil, tableFacts, v.Partition, task)
	for range v.tx.Scan(prefix, after(prefix)) {
		n--
	}
	return n <= 0
}

// bare tells, without a read, whether surely no fact of the task is here. A
// claim that came before the enqueue was taken only on such a task.
func bare(v *Vnode, task id.ID) bool {
	if !v.recent.Maybe(task) {
		return true
	}
	e := v.claims.Lookup(task)
	return e != nil && !e.Known() && v.record.orphans == 0
}

// merging is one [Merge].
type merging struct {
	*Vnode
	tx  store.Tx
	now clock.Time
}

// fresh stores the enqueue of a task that surely is not here, which is most of
// what replicas are sent, and reads nothing.
func (v merging) fresh(f crdt.Fact) (Merged, error) {
	g, err := f.Glance()
	if err != nil {
		return Merged{}, err
	}
	if q := v.queues[string(g.Queue)]; q != nil && f.Task.Kind() != id.KindKey && g.Dependencies == 0 && v.record.orphans == 0 && v.claims.Lookup(f.Task) == nil {
		v.shelf.put(v.tx, f, nil)
		v.recent.Add(f.Task)
		first(v.Vnode, v.tx, f, q.name, &g, true, v.now)
		return Merged{Stored: 1, Queue: q.name}, nil
	}
	spec, err := crdt.DecodeEnqueued(f.Body)
	if err != nil {
		return Merged{}, err
	}
	return Merged{Stored: 1, Spec: &spec}, begin(v.Vnode, v.tx, f, &spec, true, v.now)
}

// news gives the facts that change what is here.
func (v merging) news(facts []crdt.Fact) (fresh []crdt.Fact, m Merged, err error) {
	best := make(map[crdt.Key]int, len(facts)) // into fresh
	old, err := (*crdt.Older)(nil), error(nil)
	if slices.ContainsFunc(facts, crdt.Fact.Ends) {
		if old, err = olderOf(v.tx, v.Partition, facts[0].Task); err != nil {
			return nil, m, err
		}
		old = old.With(facts)
	}
	for _, f := range facts {
		if old.Covers(f.Key) {
			m.Known++ // it is counted, and gone
			continue
		}
		old, err := v.shelf.get(v.tx, f.Task, f.Key)
		if err != nil {
			return nil, m, err
		}
		at, twice := best[f.Key]
		if twice {
			old = fresh[at].Body
		}
		switch {
		case old == nil:
			best[f.Key] = len(fresh)
			fresh = append(fresh, f)
			m.Stored++
			continue
		case bytes.Equal(old, f.Body):
			m.Known++
			continue
		case !crdt.SameContent(f.Key.Kind, f.Body, old):
			m.Clashes++
		}
		switch {
		case !crdt.Wins(f.Body, old), mutant.FirstStays.On():
			m.Known++
		case twice:
			fresh[at] = f
			m.Known++
		default:
			best[f.Key] = len(fresh)
			fresh = append(fresh, f)
			m.Stored++
		}
	}
	return fresh, m, nil
}

// take stores facts that are new and moves their task.
func (v merging) take(task id.ID, fresh []crdt.Fact) error {
	tx := v.tx
	before, err := LoadTask(tx, v.Partition, task)
	if err != nil {
		return err
	}
	was := v.stands(tx, before)
	v.leave(tx, task, &was)
	for _, f := range fresh {
		old, err := v.shelf.get(tx, task, f.Key)
		if err != nil {
			return err
		}
		v.shelf.put(tx, f, old)
	}
	v.recent.Add(task)
	after, err := LoadTask(tx, v.Partition, task)
	if err != nil {
		return err
	}
	if b, a := before.Enqueued, after.Enqueued; b != nil && !slices.Equal(b.Dependencies, a.Dependencies) {
		v.cfg.OnUnlink(task, b.Dependencies)
	}
	defer v.cfg.OnFact(task)
	if v.claims.Lookup(task) != nil || v.suspended.Lookup(task) != nil {
		v.conclusions(after, fresh)
	}
	if after.Enqueued == nil {
		v.record.adopt(tx, v.Partition, task)
		if after.Finished() {
			v.cfg.OnFinish(v.Partition, task, false)
		}
		return nil
	}
	v.record.settled(tx, v.Partition, task)
	if before.Finished() && !after.Finished() {
		if err := revive(v.Vnode, tx, after, v.now); err != nil {
			return err
		}
	}
	v.claims.Describe(task, briefOf(after))
	is := v.goes(after, v.now)
	v.enter(tx, task, &is)
	return nil
}

// conclusions ends the claims that new facts end. A claim that a leader says has
// expired ends once it has lapsed here too.
func (v merging) conclusions(t *crdt.Task, fresh []crdt.Fact) {
	for _, f := range fresh {
		switch f.Key.Kind {
		case crdt.KindFailed:
			v.endClaim(v.tx, t.ID, f.Key.A, claim.Failed)
		case crdt.KindExpired:
			if v.claims.Expire(t.ID, f.Key.A, v.now, v.term.confirmed) || mutant.ExpiredAtOnce.On() {
				v.endClaim(v.tx, t.ID, f.Key.A, claim.Expired)
			}
		case crdt.KindOlder:
			if o, err := crdt.DecodeOlder(f.Body); err == nil {
				endUpTo(v.Vnode, v.tx, t.ID, o.Below-1)
			}
		case crdt.KindRequeued:
			// The task was finished in between, perhaps unseen here.
			if r, err := crdt.DecodeRequeued(f.Body); err == nil {
				endUpTo(v.Vnode, v.tx, t.ID, r.AfterToken)
			}
		}
	}
	if t.Finished() {
		token := uint64(0)
		if c := t.Completion(); c != nil {
			token = c.Token
		}
		v.endClaims(v.tx, t.ID, token, t.Undoable() && !mutant.Unsuspended.On())
	}
}

// graves joins facts with a tombstone: of two tombstones the same one stays
// everywhere, everything else is refused, but that it ended better than those knew
// who have collected it stays known.
func (v merging) graves(facts []crdt.Fact) (m Merged, err error) {
	tx, knows := v.tx, false
	for _, f := range facts {
		stone := crdt.Key{Kind: crdt.KindTombstone}
		knows = knows || f.Key == stone
		old, err := v.shelf.get(tx, f.Task, stone)
		if err != nil {
			return m, err
		}
		was, err := crdt.DecodeTombstone(old)
		if err != nil {
			return m, fmt.Errorf("%w: tombstone of %s: %w", ErrDamaged, f.Task, err)
		}
		if f.Key != stone {
			m.Refused++
			m.Void = m.Void || !told(f.Key.Kind)
			if raised := was.Raised(f); raised != was && !mutant.StoneUnraised.On() {
				if err := v.putStone(raised.Fact(f.Task), old); err != nil {
					return m, err
				}
			}
			continue
		}
		is, err := crdt.DecodeTombstone(f.Body)
		switch {
		case err != nil:
			return m, err // checked before
		case is == was:
			m.Known++
			continue
		case is.Over(was):
			if err := v.putStone(f, old); err != nil {
				return m, err
			}
			m.Stored++
		default:
			m.Known++
		}
		if is.Outcome != was.Outcome {
			m.Clashes++
		}
	}
	m.Void = m.Void && !knows
	return m, nil
}

// told tells whether a tombstone, which may be raised, says all that matters of facts
// of a kind.
func told(k crdt.Kind) bool {
	return k == crdt.KindEnqueued || k == crdt.KindCompleted || k == crdt.KindCancelled
}

// putStone stores a tombstone, in place of another one or of nothing.
func (v merging) putStone(f crdt.Fact, old []byte) error {
	stone, err := crdt.DecodeTombstone(f.Body)
	if err != nil {
		return err // checked before
	}
	var gone []byte // grave of the old one
	if old != nil {
		was, err := crdt.DecodeTombstone(old)
		if err != nil {
			return fmt.Errorf("%w: tombstone of %s: %w", ErrDamaged, f.Task, err)
		}
		gone = graveOf(v.Partition, was, f.Task)
	}
	v.shelf.put(v.tx, f, old)
	if gone != nil {
		v.tx.Delete(gone)
	}
	dig(v.Vnode, v.tx, stone, f.Task, v.now)
	return nil
}

// bury replaces a task by its tombstone: another replica has collected it. Of a task that is
// buried here the tombstones are joined.
func (v merging) bury(facts []crdt.Fact, stone crdt.Fact) (Merged, error) {
	tx := v.tx
	held := v.shelf.hold(tx, stone.Task)
	if held.stone && !mutant.GraveOpened.On() {
		return v.graves(facts)
	}
	before, err := held.load()
	if err != nil {
		return Merged{}, err
	}
	was := v.stands(tx, before)
	v.leave(tx, stone.Task, &was)
	v.endClaims(tx, stone.Task, 0, false)
	v.record.settled(tx, v.Partition, stone.Task)
	said, err := crdt.DecodeTombstone(stone.Body)
	if err != nil {
		return Merged{}, err // checked before
	}
	knew := said // with what is here
	for _, f := range held.facts {
		knew = knew.Raised(f)
	}
	v.shelf.drop(tx, held)
	v.shelf.dropEnded(tx, stone.Task)
	if err := v.putStone(stone, nil); err != nil {
		return Merged{}, err
	}
	v.recent.Add(stone.Task)
	v.cfg.OnFact(stone.Task)
	if before.Enqueued != nil { // nothing here says any more what it depended on
		v.cfg.OnUnlink(stone.Task, before.Enqueued.Dependencies)
	}
	v.cfg.OnFinish(v.Partition, stone.Task, false)
	m, err := v.graves(facts)
	m.Stored, m.Known = m.Stored+1, m.Known-1
	if err == nil && knew != said {
		err = v.raise(stone.Task, knew)
	}
	return m, err
}

// raise has the tombstone of a task say what is known of its end, if that is stronger.
func (v merging) raise(task id.ID, knew crdt.Tombstone) error {
	old, err := v.shelf.get(v.tx, task, crdt.Key{Kind: crdt.KindTombstone})
	if err != nil {
		return err
	}
	was, err := crdt.DecodeTombstone(old)
	if err != nil {
		return fmt.Errorf("%w: tombstone of %s: %w", ErrDamaged, task, err)
	}
	knew.Collected = was.Collected
	if !knew.Over(was) || mutant.StoneUnraised.On() {
		return nil
	}
	return v.putStone(knew.Fact(task), old)
}

// settled takes a task out of those whose enqueue is missing, if it was there.
func (r *partitionRecord) settled(tx store.Tx, p ring.Partition, task id.ID) bool {
	if r.orphans == 0 {
		return false
	}
	orphan := appendTask(nil, tableOrphans, p, task)
	if _, ok := tx.Get(orphan); !ok {
		return false
	}
	tx.Delete(orphan)
	r.orphans--
	r.write(tx, p)
	return true
}
