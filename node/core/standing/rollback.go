package standing

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"
)

// seenRegisterKey has what the register was when this node last acted on it.
var seenRegisterKey = []byte("!mark/register")

// Rollback notices a register that has gone back: what it answers is older than what this
// node was shown, and has acted on. It cannot by itself; so the disks of most that keep it were
// set back or brought back from a copy, or those of all. What was decided in between is gone,
// and may be decided otherwise.
type Rollback struct {
	epochs []uint64 // of each partition, what this disk knew when the process began
	// Invariant: the pair only goes up, and is on disk with or before what this node does by
	// it.
	Generation, Revision uint64 // what it knows to have been read
	Why                  string // it has: how that shows; for good, for the next change hides it
}

// began reads what the register is at least, by this disk.
func (b *Rollback) began(epochs []uint64, view store.View) error {
	b.epochs = epochs
	v, ok := view.Get(seenRegisterKey)
	if !ok {
		return nil
	}
	if len(v) != 24 || binary.BigEndian.Uint64(v[16:]) != xxhash.Sum64(v[:16]) {
		return fmt.Errorf("core: %w: what this disk knows of the register", vnode.ErrDamaged)
	}
	b.Generation, b.Revision = binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:])
	return nil
}

// keep notes how far the register is, with a batch that is written anyway: who acts on it
// writes something.
func (b *Rollback) keep(env *Env) {
	s := &env.View.State
	if env.Round.Tx.Pending() == 0 || !env.View.Current || b.Why != "" || !Earlier(b.Generation, b.Revision, s.Generation, s.Revision) {
		return
	}
	b.Generation, b.Revision = s.Generation, s.Revision
	v := binary.BigEndian.AppendUint64(make([]byte, 0, 24), b.Generation)
	v = binary.BigEndian.AppendUint64(v, b.Revision)
	env.Round.Tx.Set(seenRegisterKey, binary.BigEndian.AppendUint64(v, xxhash.Sum64(v)))
}

// Earlier tells whether one state of the register is before another one.
func Earlier(generation, revision, thanGeneration, thanRevision uint64) bool {
	return cmp.Or(cmp.Compare(generation, thanGeneration), cmp.Compare(revision, thanRevision)) < 0
}

// Judge looks at an answer, which is no older than the question.
//
// generation and revision are what this node had seen when it asked. The cells are compared,
// too, since a register that was rebuilt may have a higher revision with lower epochs.
func (b *Rollback) Judge(generation, revision uint64, s *register.State) {
	if b.Why != "" || len(s.Cells) != len(b.epochs) {
		return
	}
	if Earlier(s.Generation, s.Revision, generation, revision) {
		b.Why = fmt.Sprintf("it is at revision %d of generation %d, and was at %d of %d here", s.Revision, s.Generation, revision, generation)
		return
	}
	for p := range b.epochs {
		if epoch := s.Cells[p].Epoch; epoch < b.epochs[p] {
			b.Why = fmt.Sprintf("partition %d is in epoch %d by it, and by this disk was in %d", p, epoch, b.epochs[p])
			return
		}
	}
}
