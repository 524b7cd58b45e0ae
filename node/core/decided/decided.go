package decided

import (
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/vnode"
)

// Waits counts first grants of tasks by how long these had to wait. A task that depends
// on others does not count: when it could have begun is not in its facts.
type Waits struct {
	Counts [len(WaitBounds) + 1]uint64 // the last: over all bounds
	Sum    time.Duration
}

// WaitBounds are the upper ends of the classes, inclusive.
var WaitBounds = [...]time.Duration{
	time.Millisecond, 5 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond,
	2500 * time.Millisecond, 10 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
}

// Add counts a grant that was just made. The clock that admitted the task may be ahead
// of this one: then it has not waited.
func (w *Waits) Add(now clock.Time, d *vnode.Detail) {
	e := d.Task.Enqueued
	if len(d.Claims) != 1 || e == nil || len(e.Dependencies) > 0 {
		return
	}
	waited := time.Duration(max(now.Wall-max(d.Task.Admission(), e.NotBefore), 0))
	i := 0
	for i < len(WaitBounds) && waited > WaitBounds[i] {
		i++
	}
	w.Counts[i]++
	w.Sum += waited
}

// Unknown is a time that is not known, see [message.Decided].
const Unknown = time.Duration(-1)

// Tell tells what was decided about a task.
func Tell(w *round.Writer, what message.Decision, d message.Decided) {
	d.What = what
	w.Ready.Decided = append(w.Ready.Decided, d)
}

// End tells how a claim has ended, and with it its task where that is dead now.
func End(w *round.Writer, what message.Decision, d message.Decided, s crdt.State) {
	age := d.Age
	d.Age = Unknown
	Tell(w, what, d)
	if s == crdt.StateDead {
		d.Age, d.Run = age, Unknown
		Tell(w, message.DecidedDead, d)
	}
}

// Waited is for how long a task that was just granted was ready; [Unknown] where its facts do
// not say since when, as after a claim that was given back.
func Waited(now clock.Time, d *vnode.Detail) time.Duration {
	since := d.Task.ReadySince()
	if n := len(d.Claims); since == 0 || n > 1 && d.Claims[n-2].Outcome == claim.Released {
		return Unknown
	}
	return time.Duration(max(now.Wall-since, 0))
}

// OfClaim is what a claim table remembers of the claim that ends.
func OfClaim(now clock.Time, b *claim.Brief, r *claim.Record) message.Decided {
	var began id.ID // of which the first bytes are when its task was let in
	order := b.Rank.Order()
	copy(began[:], order[:])
	d := message.Decided{Queue: b.Queue, Kind: b.Kind, Run: Unknown, Age: time.Duration(max(now.Wall-began.Nanos(), 0))}
	if r.Start != 0 {
		d.Run = time.Duration(max(now.Wall-r.Start, 0))
	}
	return d
}

// WithoutClaim is what the facts of a task say when it ends without a claim.
func WithoutClaim(now clock.Time, t *crdt.Task) message.Decided {
	return message.Decided{Queue: t.Enqueued.Queue, Kind: proto.KindOf(t.Enqueued.Further), Run: Unknown, Age: time.Duration(max(now.Wall-t.Admission(), 0))}
}
