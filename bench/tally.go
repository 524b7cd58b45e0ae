package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
)

// header is how many bytes of a payload say which task it is: four for the run,
// four for the number in it.
const header = 8

// ErrForeign is returned when a claim brings a task of somebody else's.
var ErrForeign = errors.New("bench: a task that this run did not enqueue; give it a queue of its own")

// ErrTwice is returned when a task is claimed for the second time.
var ErrTwice = errors.New("bench: a task was claimed twice")

// tally remembers what became of every task of a run, in two bits for each.
type tally struct {
	run          uint32 // in every payload
	next         atomic.Uint32
	acknowledged []atomic.Uint64
	claimed      []atomic.Uint64
	twice        atomic.Int64
	completed    atomic.Int64 // acknowledged completions
}

// newTally has room for n tasks.
func newTally(run uint32, n int) *tally {
	words := (n + 63) / 64
	return &tally{run: run, acknowledged: make([]atomic.Uint64, words), claimed: make([]atomic.Uint64, words)}
}

// payload makes the payload of task number n.
func (t *tally) payload(n uint32, size int) []byte {
	b := make([]byte, size)
	binary.BigEndian.PutUint32(b, t.run)
	binary.BigEndian.PutUint32(b[4:], n)
	return b
}

// acknowledge notes that task number n was enqueued.
func (t *tally) acknowledge(n uint32) { set(t.acknowledged, n) }

// claim notes a claim and gives the task's number. It returns ErrForeign or
// ErrTwice.
func (t *tally) claim(payload []byte) (uint32, error) {
	if len(payload) < header || binary.BigEndian.Uint32(payload) != t.run {
		return 0, ErrForeign
	}
	n := binary.BigEndian.Uint32(payload[4:])
	if n >= t.next.Load() {
		return 0, ErrForeign
	}
	if set(t.claimed, n) {
		t.twice.Add(1)
		return n, fmt.Errorf("%w: number %d", ErrTwice, n)
	}
	return n, nil
}

// set sets a bit and tells whether it was set before.
func set(words []atomic.Uint64, n uint32) bool {
	bit := uint64(1) << (n % 64)
	return words[n/64].Or(bit)&bit != 0
}

// known is how many tasks were acknowledged.
func (t *tally) known() (n int) {
	for i := range t.acknowledged {
		n += bits.OnesCount64(t.acknowledged[i].Load())
	}
	return n
}

// lost is how many tasks were acknowledged and never claimed.
func (t *tally) lost() int {
	n := 0
	for i := range t.acknowledged {
		n += bits.OnesCount64(t.acknowledged[i].Load() &^ t.claimed[i].Load())
	}
	return n
}
