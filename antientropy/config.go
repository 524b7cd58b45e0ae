package antientropy

import (
	"iter"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/store"
)

// Replica is the partition whose facts are compared.
type Replica interface {
	// View reads the store that the tree lies in, as it is now.
	View() store.View
	// Facts walks the facts after a place, of tasks before to (of all tasks when
	// to is zero), in the order of [Position]. A fact is valid during one step.
	Facts(after Position, to id.ID) iter.Seq[crdt.Fact]
	// Apply stores what is new among facts of a peer, counts it with [Tree.Add]
	// and [Tree.Remove], and gives the number of those that changed something,
	// and of those that it refused: neither stored nor had in these words or better. It checks them: nothing
	// here has. The slices share their memory with the message.
	Apply(facts []crdt.Fact) (changed, refused int)
}

// Config bounds the work of an exchange. Zero fields get their defaults; both
// sides need not agree.
type Config struct {
	// PageBytes is about how many bytes of facts go into one message; a fact
	// that is larger travels alone. Default 256 KiB, at most 8 MiB.
	PageBytes int
	// ScanFacts and ScanBytes bound the facts read in one call. Default 4,096
	// facts, 4 MiB.
	ScanFacts, ScanBytes int
	// Timeout is when an unanswered message is sent again at the latest: it is
	// sooner where answers were sooner, and doubles up to this. It should be some
	// times what a page takes at the rate of the Bucket. Default 5 s.
	Timeout time.Duration
	// Retries is for how many time-outs more than one an answer is waited for
	// before the round is given up. Default 4.
	Retries int
	// MinBackoff and MaxBackoff bound the wait after a round, and for a node,
	// that differs without anything having come of it: it doubles each time.
	// Default 2 s, 1 h.
	MinBackoff, MaxBackoff time.Duration
	// Settle leaves alone what was enqueued less than this ago by the wall
	// clock: most likely it is under way. Default 0: nothing.
	Settle time.Duration
	// Bucket bounds the bytes that are sent, and asked for; nil does not. An
	// initiator and a responder of one process may share it.
	Bucket *Bucket
}

func (c *Config) complete() {
	def := func(v *int, d, most int) {
		if *v <= 0 {
			*v = d
		}
		*v = min(*v, most)
	}
	def(&c.PageBytes, 256<<10, 8<<20)
	def(&c.ScanFacts, 4096, 1<<30)
	def(&c.ScanBytes, 4<<20, 1<<30)
	def(&c.Retries, 4, 1<<30)
	wait := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	wait(&c.Timeout, 5*time.Second)
	wait(&c.MinBackoff, 2*time.Second)
	wait(&c.MaxBackoff, time.Hour)
	c.MaxBackoff = max(c.MaxBackoff, c.MinBackoff)
}

func (c *Config) budget() *budget { return &budget{c.ScanFacts, c.ScanBytes} }

// Ready is what a machine wants done after a call.
type Ready struct {
	// Send goes to the peer, once everything applied during the call is durable;
	// nil is nothing. It is not changed afterwards.
	Send *Message
	// More says that work is left: call Advance again, whenever there is time.
	More bool
	// Wake is the mono ns at which to call Advance if nothing comes before;
	// [clock.Never] when there is nothing to wait for.
	Wake int64
	// Result is set when a round has ended.
	Result *Result
}

// Result is what came of a round.
type Result struct {
	// Equal says that the roots were the same when they were compared.
	Equal bool
	// Err is nil, ErrTimeout, ErrRefused, ErrVersion or ErrProtocol.
	Err error
	// Pulled and Pushed are the facts that were new here and there; Moved are
	// all that travelled. Refused are facts that the peer seemed to lack and did
	// not take: had it them after all, they do not count, unless its build does not
	// tell them apart.
	Pulled, Pushed, Moved, Refused uint64
	// Sent and Received are bytes of messages, repeated ones included.
	Sent, Received uint64
	// Requests is the number of round trips.
	Requests int
	// Young and Skipped are nodes left alone: too young, or backing off.
	Young, Skipped int
	// Suspects are nodes that have differed at least three times without
	// anything having come of it: check them with a [Scrubber], on both sides.
	Suspects []Path
}

// never is a Ready without anything to do.
func never() Ready { return Ready{Wake: clock.Never} }

// budget bounds the facts that one call reads.
type budget struct{ facts, bytes int }

func (b *budget) spent() bool { return b.facts <= 0 || b.bytes <= 0 }

// cursor walks the facts of a node in pieces, while writes go on.
type cursor struct {
	spans []Span
	after Position
}

// newCursor begins after a place.
func newCursor(p Path, after Position) cursor { return cursor{p.spans(nil), after} }

// walk goes on until the end, done, or until the budget is spent or visit says
// no: then that fact comes again.
func (c *cursor) walk(r Replica, b *budget, visit func(*crdt.Fact) bool) (done bool) {
	for len(c.spans) > 0 {
		s := c.spans[0]
		if first := (Position{Task: s.From}); c.after.Compare(first) < 0 {
			c.after = first
		}
		if s.To.IsZero() || c.after.Task.Compare(s.To) < 0 {
			for f := range r.Facts(c.after, s.To) {
				if b.spent() || !visit(&f) {
					return false
				}
				c.after = positionOf(&f)
				b.facts--
				b.bytes -= len(f.Body) + 64
			}
		}
		c.spans = c.spans[1:]
	}
	return true
}
