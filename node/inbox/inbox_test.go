package inbox

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"pgregory.net/rapid"
)

// bookkeeper knows what an inbox must hold.
type bookkeeper struct {
	t       *rapid.T
	in      *Inbox
	owner   *sender
	first   []any
	rest    []any
	weights map[any]int
	weight  int // of all that waits
	cancels int
	number  int // of the next event
}

// sender is a connection.
type sender struct {
	held    atomic.Int64
	cancels atomic.Int32
}

// marked is an event of this test.
type marked struct{ number int }

// deliver adds a delivery with requests of both lines.
func (k *bookkeeper) deliver() {
	d := &Delivery{}
	for range rapid.SampledFrom([]int{1, 3, 3000, 6000}).Draw(k.t, "requests") {
		urgent, w := rapid.Bool().Draw(k.t, "urgent"), rapid.SampledFrom([]int{1, 1000, TakeBytes + 1}).Draw(k.t, "weight")
		if !k.in.Admit(&k.owner.held, w, urgent) {
			continue
		}
		e := marked{k.number}
		k.number++
		k.weight += w
		k.weights[e] = w
		if urgent {
			d.First, k.first = append(d.First, Waiting{e, w, &k.owner.held}), append(k.first, e)
		} else {
			d.Rest, k.rest = append(d.Rest, Waiting{e, w, &k.owner.held}), append(k.rest, e)
		}
	}
	k.in.Put(d)
}

func (k *bookkeeper) cancel() {
	c := message.Cancel{From: message.Origin{Request: uint64(k.number)}}
	k.number++
	k.cancels++
	k.owner.cancels.Add(1)
	k.in.Follow(Cancelled{c, &k.owner.cancels})
	k.rest = append(k.rest, c)
}

// take is what the loop does.
func (k *bookkeeper) take() {
	select {
	case <-k.in.Wake:
	default:
	}
	first, rest, _ := k.in.Take(nil, nil)
	waited := len(k.first)+len(k.rest) > 0
	k.first, k.rest = k.left(k.first, first), k.left(k.rest, rest)
	waits := len(k.first)+len(k.rest) > 0
	if waited && len(first)+len(rest) == 0 {
		k.t.Fatal("nothing was taken and something waits")
	}
	if asks := len(k.in.Wake) > 0; asks != waits {
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
		if before >= TakeBytes || i >= TakeEvents {
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
	if k.in.Bytes.Load() != int64(k.weight) || k.owner.cancels.Load() != int32(k.cancels) {
		k.t.Fatalf("%d bytes and %d cancels wait, want %d and %d", k.in.Bytes.Load(), k.owner.cancels.Load(), k.weight, k.cancels)
	}
}

// TestInboxLosesNothing: whatever comes in goes out once, in the order of its
// line, in slices, and the weight is that of what waits.
func TestInboxLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := &bookkeeper{t: t, in: New(64 << 20), owner: &sender{}, weights: map[any]int{}}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				k.deliver()
			case 1:
				k.cancel()
			case 2: // a request that cannot be decoded
				if k.in.Admit(&k.owner.held, 1000, false) {
					k.in.Leave(&k.owner.held, 1000)
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
	in := New(1000)
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
		if got := in.Admit(step.of, step.weight, step.urgent); got != step.want {
			t.Fatalf("step %d: %v, want %v", i, got, step.want)
		}
	}
	in.Leave(&a, 750)
	in.Leave(&b, 162)
	in.Leave(&c, 230)
	in.Leave(nil, 40)
	if in.Bytes.Load() != 0 || a.Load() != 0 || b.Load() != 0 || c.Load() != 0 {
		t.Fatalf("left are %d: %d, %d, %d", in.Bytes.Load(), a.Load(), b.Load(), c.Load())
	}
	if !in.Admit(&a, 5000, false) {
		t.Fatal("a request that is over the limit by itself must get in when nothing else waits")
	}
	if in.Admit(&b, 1, true) {
		t.Fatal("and nothing beside it")
	}
}

// TestNoConnectionHasMoreThanAQuarterOfTheInbox while others ask, also of what is urgent.
func TestNoConnectionHasMoreThanAQuarterOfTheInbox(t *testing.T) {
	for _, urgent := range []bool{false, true} {
		in := New(1 << 20)
		var other, greedy atomic.Int64
		if !in.Admit(&other, 100, urgent) {
			t.Fatal("the first one is refused")
		}
		for in.Admit(&greedy, 100, urgent) {
		}
		limit := in.limit
		if urgent {
			limit *= 2
		}
		if got := greedy.Load(); got > limit/4 || got < limit/5 {
			t.Errorf("urgent %v: it has %d of %d", urgent, got, limit)
		}
		if !in.Admit(&other, 1000, urgent) {
			t.Error("the other one is refused")
		}
	}
}

// TestBurstLeavesNoMemory: neither the inbox nor a connection keeps the memory
// of a flood.
func TestBurstLeavesNoMemory(t *testing.T) {
	in := New(1 << 20)
	d := &Delivery{}
	for range 10 * keepEvents {
		d.Rest = append(d.Rest, Waiting{Event: message.Tick{}})
	}
	in.Put(d)
	d.Reset()
	for !in.rest.empty() {
		in.Take(nil, nil)
	}
	if n := cap(in.rest.events); n > keepEvents {
		t.Errorf("the inbox keeps room for %d events", n)
	}
	if n := cap(d.Rest); n > keepDelivery {
		t.Errorf("the connection keeps room for %d events", n)
	}
}

// TestTheEndOfAConnectionOvertakesNothing: with more renewals and completions waiting than the
// loop takes at once, the last request of a connection came after its end, and what is
// kept for a worker was kept for one that had gone.
func TestTheEndOfAConnectionOvertakesNothing(t *testing.T) {
	in := New(64 << 20)
	request := func(conn uint64, m nornv1.Method) *message.Request {
		return &message.Request{From: message.Origin{Conn: conn, Request: 1, Method: uint16(m)}}
	}
	var d Delivery
	for range TakeEvents {
		d.First = append(d.First, Waiting{Event: request(1, nornv1.Method_METHOD_RENEW), Weight: 1})
	}
	d.First = append(d.First, Waiting{Event: request(7, nornv1.Method_METHOD_SESSION), Weight: 1})
	d.Rest = append(d.Rest, Waiting{Event: request(7, nornv1.Method_METHOD_CLAIM), Weight: 1})
	in.Put(&d)
	in.Gone(7)
	var last any
	for range 2 {
		first, rest, _ := in.Take(nil, nil)
		for _, events := range [][]any{first, rest} { // as the loop steps them
			for _, e := range events {
				if r, is := e.(*message.Request); !is || r.From.Conn == 7 {
					last = e
				}
			}
		}
	}
	if last != (message.Gone{Conn: 7}) {
		t.Errorf("the last that is heard of the connection is %+v", last)
	}
}
