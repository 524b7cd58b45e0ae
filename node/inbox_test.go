package node

import (
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"pgregory.net/rapid"
)

// TestAJoinerGathersNothing: a node that waits to be let into a cluster has no loop yet that
// takes what is in its inbox, and may wait for weeks, with clients that try again and again.
func TestAJoinerGathersNothing(t *testing.T) {
	c := testConfig(t)
	c.Join, c.DiskCheckInterval = []string{"127.0.0.1:1"}, time.Millisecond
	var looks atomic.Int64
	n := start(t, c, Options{FreeBytes: func(string) (uint64, error) { looks.Add(1); return math.MaxInt64, nil }})
	for range 5 {
		p, _, err := dial(t, n, &nornv1.Hello{MinVersion: 1, MaxVersion: 1})
		if err == nil {
			t.Fatal("it takes clients")
		}
		if err := p.c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the disk is looked at", func() bool { return looks.Load() > 5 })
	stop(t, n)                                                           // all connections have ended by then
	if first, rest := n.inbox.take(nil, nil); len(first)+len(rest) > 1 { // that it stops
		t.Errorf("events that nobody takes: %v, %v", first, rest)
	}
}

// bookkeeper knows what an inbox must hold.
type bookkeeper struct {
	t       *rapid.T
	in      *inbox
	owner   *client
	first   []any
	rest    []any
	weights map[any]int
	weight  int // of all that waits
	cancels int
	number  int // of the next event
}

// marked is an event of this test.
type marked struct{ number int }

// deliver adds a delivery with requests of both lines.
func (k *bookkeeper) deliver() {
	d := &delivery{}
	for range rapid.SampledFrom([]int{1, 3, 3000, 6000}).Draw(k.t, "requests") {
		urgent, w := rapid.Bool().Draw(k.t, "urgent"), rapid.SampledFrom([]int{1, 1000, takeBytes + 1}).Draw(k.t, "weight")
		if !k.in.admit(&k.owner.held, w, urgent) {
			continue
		}
		e := marked{k.number}
		k.number++
		k.weight += w
		k.weights[e] = w
		if urgent {
			d.first, k.first = append(d.first, waiting{e, w, &k.owner.held}), append(k.first, e)
		} else {
			d.rest, k.rest = append(d.rest, waiting{e, w, &k.owner.held}), append(k.rest, e)
		}
	}
	k.in.put(d)
}

func (k *bookkeeper) cancel() {
	c := message.Cancel{From: message.Origin{Request: uint64(k.number)}}
	k.number++
	k.cancels++
	k.owner.cancels.Add(1)
	k.in.follow(cancelled{c, k.owner})
	k.rest = append(k.rest, c)
}

// take is what the loop does.
func (k *bookkeeper) take() {
	select {
	case <-k.in.wake:
	default:
	}
	first, rest := k.in.take(nil, nil)
	waited := len(k.first)+len(k.rest) > 0
	k.first, k.rest = k.left(k.first, first), k.left(k.rest, rest)
	waits := len(k.first)+len(k.rest) > 0
	if waited && len(first)+len(rest) == 0 {
		k.t.Fatal("nothing was taken and something waits")
	}
	if asks := len(k.in.wake) > 0; asks != waits {
		k.t.Fatalf("something is left: %v; it asks for another look: %v", waits, asks)
	}
}

// left checks what was taken from a line and gives the rest of it.
func (k *bookkeeper) left(line, taken []any) []any {
	if len(taken) > len(line) || !slices.Equal(taken, line[:len(taken)]) {
		k.t.Fatalf("took %v, want the start of %v", taken, line)
	}
	before := 0
	for i, event := range taken {
		if before >= takeBytes || i >= takeEvents {
			k.t.Fatalf("event %d was taken after %d bytes", i, before)
		}
		before += k.weights[event]
		if _, ok := event.(message.Cancel); ok {
			k.cancels--
		}
	}
	k.weight -= before
	return line[len(taken):]
}

func (k *bookkeeper) check() {
	if k.in.bytes.Load() != int64(k.weight) || k.owner.cancels.Load() != int32(k.cancels) {
		k.t.Fatalf("%d bytes and %d cancels wait, want %d and %d", k.in.bytes.Load(), k.owner.cancels.Load(), k.weight, k.cancels)
	}
}

// TestInboxLosesNothing: whatever comes in goes out once, in the order of its
// line, in slices, and the weight is that of what waits.
func TestInboxLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := &bookkeeper{t: t, in: newInbox(64 << 20), owner: &client{}, weights: map[any]int{}}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				k.deliver()
			case 1:
				k.cancel()
			case 2: // a request that cannot be decoded
				if k.in.admit(&k.owner.held, 1000, false) {
					k.in.leave(&k.owner.held, 1000)
				}
			default:
				k.take()
			}
			k.check()
		}
		for len(k.first)+len(k.rest) > 0 {
			k.take()
			k.check()
		}
	})
}

func TestInboxAdmits(t *testing.T) {
	in := newInbox(1000)
	var a, b, c atomic.Int64
	for i, step := range []struct {
		of     *atomic.Int64
		weight int
		urgent bool
		want   bool
	}{
		{&a, 700, false, true}, {&a, 51, false, false}, {&a, 50, false, true}, {&a, 1, false, false}, // alone: three quarters
		{&b, 63, false, false}, {&b, 62, false, true}, {&a, 1, false, false}, {&b, 1, false, false}, // a third of what is left then
		{nil, 40, false, true}, {&c, 30, false, true}, {&c, 10, false, false},
		{&a, 1, true, false}, {&b, 100, true, true}, {&c, 200, true, true}, // of twice the limit
	} {
		if got := in.admit(step.of, step.weight, step.urgent); got != step.want {
			t.Fatalf("step %d: %v, want %v", i, got, step.want)
		}
	}
	in.leave(&a, 750)
	in.leave(&b, 162)
	in.leave(&c, 230)
	in.leave(nil, 40)
	if in.bytes.Load() != 0 || a.Load() != 0 || b.Load() != 0 || c.Load() != 0 {
		t.Fatalf("left are %d: %d, %d, %d", in.bytes.Load(), a.Load(), b.Load(), c.Load())
	}
	if !in.admit(&a, 5000, false) {
		t.Fatal("a request that is over the limit by itself must get in when nothing else waits")
	}
	if in.admit(&b, 1, true) {
		t.Fatal("and nothing beside it")
	}
}

// TestNoConnectionHasMoreThanAQuarterOfTheInbox while others ask, also of what is urgent.
func TestNoConnectionHasMoreThanAQuarterOfTheInbox(t *testing.T) {
	for _, urgent := range []bool{false, true} {
		in := newInbox(1 << 20)
		var other, greedy atomic.Int64
		if !in.admit(&other, 100, urgent) {
			t.Fatal("the first one is refused")
		}
		for in.admit(&greedy, 100, urgent) {
		}
		limit := in.limit
		if urgent {
			limit *= 2
		}
		if got := greedy.Load(); got > limit/4 || got < limit/5 {
			t.Errorf("urgent %v: it has %d of %d", urgent, got, limit)
		}
		if !in.admit(&other, 1000, urgent) {
			t.Error("the other one is refused")
		}
	}
}

// TestBurstLeavesNoMemory: neither the inbox nor a connection keeps the memory
// of a flood.
func TestBurstLeavesNoMemory(t *testing.T) {
	in := newInbox(1 << 20)
	d := &delivery{}
	for range 10 * keepEvents {
		d.rest = append(d.rest, waiting{event: message.Tick{}})
	}
	in.put(d)
	d.reset()
	for !in.rest.empty() {
		in.take(nil, nil)
	}
	if n := cap(in.rest.events); n > keepEvents {
		t.Errorf("the inbox keeps room for %d events", n)
	}
	if n := cap(d.rest); n > keepDelivery {
		t.Errorf("the connection keeps room for %d events", n)
	}
}
