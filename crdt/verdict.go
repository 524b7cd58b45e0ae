package crdt

import "github.com/norn-dev/norn/id"

// Facts that say what becomes of a task. Any node may write Cancelled; the
// others only the leader of the task's partition, so that a policy once applied
// is final (design 5).

// Cancelled states that somebody does not want the task any more. Key: nothing.
type Cancelled struct {
	At      int64 // wall ns
	Reason  string
	Further []byte // fields of the client's CancelRequest that are not above, see [Further]
}

func (c Cancelled) key() Key { return Key{Kind: KindCancelled} }

// AppendTo appends the canonical bytes.
func (c Cancelled) AppendTo(dst []byte) []byte {
	return appendFurther(appendBytes(appendUint(append(dst, version), uint64(c.At)), c.Reason), c.Further)
}

// Encode gives the canonical bytes.
func (c Cancelled) Encode() []byte { return encode(c, len(c.Reason)+furtherSize(c.Further)) }

// Fact gives the fact of this task.
func (c Cancelled) Fact(task id.ID) Fact { return NewFact(task, c.key(), c.Encode()) }

// DecodeCancelled is the inverse of [Cancelled.Encode]. Errors as
// [DecodeEnqueued].
func DecodeCancelled(b []byte) (Cancelled, error) {
	r := read(b)
	c := Cancelled{At: r.int64(), Reason: r.text(), Further: r.further()}
	if err := r.end(); err != nil {
		return Cancelled{}, err
	}
	return c, nil
}

// Dead states that the task is out of attempts, or was thrown away by its
// worker. It holds for one generation. Key: Generation.
type Dead struct {
	Generation uint64 // number of replays before it
	At         int64  // wall ns
	Reason     string
}

func (d Dead) key() Key { return Key{Kind: KindDead, A: d.Generation} }

// AppendTo appends the canonical bytes.
func (d Dead) AppendTo(dst []byte) []byte {
	dst = appendUint(append(dst, version), d.Generation)
	return appendBytes(appendUint(dst, uint64(d.At)), d.Reason)
}

// Encode gives the canonical bytes.
func (d Dead) Encode() []byte { return encode(d, len(d.Reason)) }

// Fact gives the fact of this task.
func (d Dead) Fact(task id.ID) Fact { return NewFact(task, d.key(), d.Encode()) }

// DecodeDead is the inverse of [Dead.Encode]. Errors as [DecodeEnqueued].
func DecodeDead(b []byte) (Dead, error) {
	r := read(b)
	d := Dead{Generation: r.uint(), At: r.int64(), Reason: r.text()}
	if err := r.end(); err != nil {
		return Dead{}, err
	}
	return d, nil
}

// DependencyCancelled states that the task is cancelled because a dependency
// died or was cancelled, or is forgotten: see design 8. It holds for one
// generation. Key: Generation.
type DependencyCancelled struct {
	Generation uint64
	Dependency id.ID
	At         int64 // wall ns
}

func (d DependencyCancelled) key() Key { return Key{Kind: KindDependencyCancelled, A: d.Generation} }

// AppendTo appends the canonical bytes.
func (d DependencyCancelled) AppendTo(dst []byte) []byte {
	dst = appendUint(append(dst, version), d.Generation)
	return append(appendUint(dst, uint64(d.At)), d.Dependency[:]...)
}

// Encode gives the canonical bytes.
func (d DependencyCancelled) Encode() []byte { return encode(d, id.Size) }

// Fact gives the fact of this task.
func (d DependencyCancelled) Fact(task id.ID) Fact {
	return NewFact(task, d.key(), d.Encode())
}

// DecodeDependencyCancelled is the inverse of [DependencyCancelled.Encode].
// Errors as [DecodeEnqueued].
func DecodeDependencyCancelled(b []byte) (DependencyCancelled, error) {
	r := read(b)
	d := DependencyCancelled{Generation: r.uint(), At: r.int64(), Dependency: r.id()}
	if err := r.end(); err != nil {
		return DependencyCancelled{}, err
	}
	return d, nil
}

// Requeued states that a dead task, or one cancelled by a dependency, is to be
// tried anew: it begins a generation. Key: Generation.
type Requeued struct {
	Generation uint64 // from 1
	AfterToken uint64 // attempts up to this claim count no more
	At         int64  // wall ns
	Further    []byte // fields of the client's RetryRequest that are not above, see [Further]
}

func (q Requeued) key() Key { return Key{Kind: KindRequeued, A: q.Generation} }

// AppendTo appends the canonical bytes.
func (q Requeued) AppendTo(dst []byte) []byte {
	dst = appendUint(append(dst, version), q.Generation)
	return appendFurther(appendUint(appendUint(dst, uint64(q.At)), q.AfterToken), q.Further)
}

// Encode gives the canonical bytes.
func (q Requeued) Encode() []byte { return encode(q, furtherSize(q.Further)) }

// Fact gives the fact of this task.
func (q Requeued) Fact(task id.ID) Fact { return NewFact(task, q.key(), q.Encode()) }

// DecodeRequeued is the inverse of [Requeued.Encode]. Generation 0 is what a
// task begins with, so nothing requeues into it. Errors as [DecodeEnqueued].
func DecodeRequeued(b []byte) (Requeued, error) {
	r := read(b)
	q := Requeued{Generation: r.uint(), At: r.int64(), AfterToken: r.uint(), Further: r.further()}
	if q.Generation == 0 {
		r.fail("requeued into generation 0")
	}
	if err := r.end(); err != nil {
		return Requeued{}, err
	}
	return q, nil
}

// Unblocked states that nothing the task depends on holds it back any more:
// each dependency was completed, or has failed under the policy to run all the
// same. Once said it stays, also where a dependency is retried. Key: nothing.
type Unblocked struct {
	At int64 // wall ns
}

func (u Unblocked) key() Key { return Key{Kind: KindUnblocked} }

// AppendTo appends the canonical bytes.
func (u Unblocked) AppendTo(dst []byte) []byte {
	return appendUint(append(dst, version), uint64(u.At))
}

// Encode gives the canonical bytes.
func (u Unblocked) Encode() []byte { return encode(u, 0) }

// Fact gives the fact of this task.
func (u Unblocked) Fact(task id.ID) Fact { return NewFact(task, u.key(), u.Encode()) }

// DecodeUnblocked is the inverse of [Unblocked.Encode]. Errors as
// [DecodeEnqueued].
func DecodeUnblocked(b []byte) (Unblocked, error) {
	r := read(b)
	u := Unblocked{At: r.int64()}
	if err := r.end(); err != nil {
		return Unblocked{}, err
	}
	return u, nil
}

// Tombstone states how a task ended whose other facts were collected (design
// 6). Key: nothing.
type Tombstone struct {
	Outcome State // completed, dead or cancelled
	At      int64 // when it was finished, wall ns
	// Collected is when the rest was, wall ns, but not before the end of a unique
	// key's window. How long the tombstone stays counts from it, so that it is the
	// same on every replica.
	Collected int64
}

func (t Tombstone) key() Key { return Key{Kind: KindTombstone} }

// Over tells whether t stays where both were written: completed wins over
// cancelled and that over dead, as among facts (see [Task.Outcome]), because
// somebody may have been told so who reached none of those that collected the
// task. Of one outcome that stays which [Wins].
func (t Tombstone) Over(o Tombstone) bool {
	if t.Outcome != o.Outcome {
		return t.Outcome == StateCompleted || t.Outcome == StateCancelled && o.Outcome == StateDead
	}
	return Wins(t.Encode(), o.Encode())
}

// Raised gives the tombstone that stays when a fact of the same task comes late
// or was not known where the task was collected: t, unless it is a completion or
// a cancellation that is stronger. The fact was checked.
func (t Tombstone) Raised(f Fact) Tombstone {
	o := Tombstone{Collected: t.Collected}
	switch f.Key.Kind {
	case KindCompleted:
		c, _ := DecodeCompleted(f.Body) // checked
		o.Outcome, o.At = StateCompleted, c.At
	case KindCancelled:
		c, _ := DecodeCancelled(f.Body) // checked
		o.Outcome, o.At = StateCancelled, c.At
	default:
		return t
	}
	if o.Over(t) {
		return o
	}
	return t
}

// AppendTo appends the canonical bytes.
func (t Tombstone) AppendTo(dst []byte) []byte {
	dst = appendUint(append(dst, version), uint64(t.At))
	return append(appendUint(dst, uint64(t.Collected)), byte(t.Outcome))
}

// Encode gives the canonical bytes.
func (t Tombstone) Encode() []byte { return encode(t, 1) }

// Fact gives the fact of this task.
func (t Tombstone) Fact(task id.ID) Fact { return NewFact(task, t.key(), t.Encode()) }

// DecodeTombstone is the inverse of [Tombstone.Encode]. Errors as
// [DecodeEnqueued].
func DecodeTombstone(b []byte) (Tombstone, error) {
	r := read(b)
	t := Tombstone{At: r.int64(), Collected: r.int64(), Outcome: State(r.flag(byte(StateCancelled)))}
	if !t.Outcome.Finished() {
		r.fail("tombstone of a task that is not finished")
	}
	if err := r.end(); err != nil {
		return Tombstone{}, err
	}
	return t, nil
}
