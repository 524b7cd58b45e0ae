package core

import (
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/history"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
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

// add counts a grant that was just made. The clock that admitted the task may be ahead
// of this one: then it has not waited.
func (w *Waits) add(now clock.Time, d *vnode.Detail) {
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

// unknown is a time that is not known, see [message.Decided].
const unknown = time.Duration(-1)

// decided tells what was decided about a task.
func decided(c *Core, what message.Decision, d message.Decided) {
	d.What = what
	c.round.Ready.Decided = append(c.round.Ready.Decided, d)
}

// ended tells how a claim has ended, and with it its task where that is dead now.
func ended(c *Core, what message.Decision, d message.Decided, s crdt.State) {
	age := d.Age
	d.Age = unknown
	decided(c, what, d)
	if s == crdt.StateDead {
		d.Age, d.Run = age, unknown
		decided(c, message.DecidedDead, d)
	}
}

// waited is for how long a task that was just granted was ready; [unknown] where its facts do
// not say since when, as after a claim that was given back.
func waited(now clock.Time, d *vnode.Detail) time.Duration {
	since := d.Task.ReadySince()
	if n := len(d.Claims); since == 0 || n > 1 && d.Claims[n-2].Outcome == claim.Released {
		return unknown
	}
	return time.Duration(max(now.Wall-since, 0))
}

// endBefore is what is known of a task before a claim of it ends. A task under none here is read:
// its claim is another node's, or was none.
func endBefore(c *Core, now clock.Time, task id.ID, token uint64) message.Decided {
	v := c.vnode(task)
	if e := vnode.EntryOf(v, task); e != nil && e.Known() {
		r := &claim.Record{}
		if h := e.Of(token); h != nil {
			r = &h.Record
		}
		return endOfClaim(now, &e.Brief, r)
	}
	t, err := vnode.LoadTask(c.round.Tx, ring.Of(task, len(c.view.Cells)), task)
	if err != nil || t.Enqueued == nil { // who decides finds the damage
		return message.Decided{Run: unknown, Age: unknown}
	}
	return endsNow(now, t)
}

// endOfClaim is what a claim table remembers of the claim that ends.
func endOfClaim(now clock.Time, b *claim.Brief, r *claim.Record) message.Decided {
	var began id.ID // of which the first bytes are when its task was let in
	order := b.Rank.Order()
	copy(began[:], order[:])
	d := message.Decided{Queue: b.Queue, Kind: b.Kind, Run: unknown, Age: time.Duration(max(now.Wall-began.Nanos(), 0))}
	if r.Start != 0 {
		d.Run = time.Duration(max(now.Wall-r.Start, 0))
	}
	return d
}

// endsNow is what the facts of a task say when it ends without a claim.
func endsNow(now clock.Time, t *crdt.Task) message.Decided {
	return message.Decided{Queue: t.Enqueued.Queue, Kind: proto.KindOf(t.Enqueued.Further), Run: unknown, Age: time.Duration(max(now.Wall-t.Admission(), 0))}
}

// remembered answers a request for what was decided when, as far as this node remembers it: the
// runner of the core does that for it. Others are asked in [router.Machine.take].
func remembered(c *Core, now clock.Time, r *message.Request, m *nornv1.HistoryRequest) (gproto.Message, *proto.Error) {
	m, err := history.Check(m, now.Wall)
	if err == nil && c.cfg.History == nil {
		err = proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNIMPLEMENTED, "this node remembers nothing")
	}
	return c.round.Read(message.Read{From: r.From, Func: func(store.View, clock.Time) (gproto.Message, *proto.Error, error) {
		return c.cfg.History(m), nil, nil
	}}, err)
}

// histories joins what several nodes remember.
type histories struct {
	whole *nornv1.HistoryReply
	err   *proto.Error
	most  int
}

func (h *histories) Take(_ []int, m gproto.Message) {
	switch part, ok := m.(*nornv1.HistoryReply); {
	case !ok:
	case h.whole == nil:
		h.whole = part
	default:
		history.Join(h.whole, part)
	}
}

// fail: a node that is away, or of a build that remembers nothing, is missing in the sums, and
// in the number of nodes.
func (h *histories) Fail(_ []int, err *proto.Error) { h.err = err }

func (h *histories) Answer() (gproto.Message, *proto.Error) {
	if h.whole == nil {
		return nil, h.err
	}
	h.whole.Busiest = history.Busiest(h.whole.Busiest, h.most)
	return h.whole, nil
}
