package id

import (
	"encoding/binary"
	"time"
)

// MaxAhead is how far the IDs of a generator may run ahead of the clock before
// its user should wait: nodes refuse IDs that lie further in the future than
// eta, and a generator runs ahead when the clock has stepped back.
const MaxAhead = time.Second

// Generator makes IDs of kind task that strictly increase, also when the clock
// steps back. It must not be used by two goroutines at once.
type Generator struct {
	incarnation uint32
	random      func() uint64
	// last is the wall ns in the newest ID.
	// Invariant: it never decreases, and no two IDs have the same.
	last int64
}

// NewGenerator makes a generator. The incarnation is drawn at random at each
// start of a process: it keeps generators apart that work in the same
// nanosecond. random gives 64 random bits for each ID.
func NewGenerator(incarnation uint32, random func() uint64) *Generator {
	return &Generator{incarnation: incarnation, random: random, last: firstNanos - 1}
}

// Next makes an ID at a wall time in ns, or one nanosecond after the ID before
// where that is later. See [Generator.Ahead] for how much later it may be.
func (g *Generator) Next(nowWall int64) ID {
	g.last = max(nowWall, g.last+1)
	var i ID
	order := OrderOf(g.last, KindTask)
	copy(i[:8], order[:])
	binary.BigEndian.PutUint32(i[8:12], g.incarnation)
	binary.BigEndian.PutUint64(i[12:20], g.random())
	return i
}

// Ahead is how far the newest ID lies ahead of a wall time in ns; 0 when it
// does not. Callers wait, or refuse, above [MaxAhead].
func (g *Generator) Ahead(nowWall int64) time.Duration {
	return time.Duration(max(g.last-max(nowWall, firstNanos), 0))
}
