package tally

import "github.com/norn-dev/norn/crdt"

// Counts has the number of tasks per state; the index is the state.
type Counts [crdt.StateCancelled + 1]uint64

// Total is the sum over all states.
func (c *Counts) Total() (sum uint64) {
	for _, n := range c {
		sum += n
	}
	return sum
}

// Add adds o to c.
func (c *Counts) Add(o *Counts) {
	for i, n := range o {
		c[i] += n
	}
}
