package node

import (
	"slices"
	"testing"

	"github.com/norn-dev/norn/node/core"

	"pgregory.net/rapid"
)

// TestInboxLosesNothing: whatever comes in goes out once, in the order of its
// line, what frees work before what adds it, and the weight is what waits.
func TestInboxLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 64 << 20
		in := newInbox(limit)
		type item struct {
			urgent bool
			number int
		}
		owner := &client{}
		var want [2][]any // rest, first
		waits := map[any]int{}
		number, weight, cancels := 0, 0, 0
		take := func() {
			first, rest := in.take(nil, nil)
			for urgent, got := range [][]any{rest, first} {
				size := 0
				if len(got) > len(want[urgent]) || !slices.Equal(got, want[urgent][:len(got)]) {
					t.Fatalf("took %v, want the start of %v", got, want[urgent])
				}
				want[urgent] = want[urgent][len(got):]
				for i, event := range got {
					if _, ok := event.(core.Cancel); ok {
						cancels--
					}
					if size += waits[event]; size-waits[event] >= takeBytes || i >= takeEvents {
						t.Fatalf("event %d was taken after %d bytes", i, size)
					}
				}
				weight -= size
			}
			if len(first)+len(rest) == 0 && len(want[0])+len(want[1]) > 0 {
				t.Fatal("nothing was taken and something waits")
			}
			if left := len(want[0])+len(want[1]) > 0; left != (len(in.wake) > 0) {
				t.Fatalf("something is left: %v; it asks for another look: %v", left, !left)
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0: // a delivery
				d := &delivery{}
				for range rapid.SampledFrom([]int{1, 3, 3000, 9000}).Draw(t, "requests") {
					e := item{rapid.Bool().Draw(t, "urgent"), number}
					number++
					w := rapid.SampledFrom([]int{1, 1000, takeBytes + 1}).Draw(t, "weight")
					if !in.admit(w, e.urgent) {
						continue
					}
					weight += w
					waits[e] = w
					line, i := &d.rest, 0
					if e.urgent {
						line, i = &d.first, 1
					}
					*line = append(*line, waiting{e, w})
					want[i] = append(want[i], e)
				}
				in.put(d)
			case 1:
				c := core.Cancel{From: core.Origin{Request: uint64(number)}}
				number++
				cancels++
				owner.cancels.Add(1)
				in.follow(cancelled{c, owner})
				want[0] = append(want[0], c)
			case 2: // a request that cannot be decoded
				if in.admit(1000, false) {
					in.leave(1000)
				}
			default:
				select {
				case <-in.wake:
				default:
				}
				take()
			}
			if in.bytes.Load() != int64(weight) || owner.cancels.Load() != int32(cancels) {
				t.Fatalf("%d bytes and %d cancels wait, want %d and %d", in.bytes.Load(), owner.cancels.Load(), weight, cancels)
			}
		}
		for len(want[0])+len(want[1]) > 0 {
			<-in.wake
			take()
		}
	})
}

func TestInboxAdmits(t *testing.T) {
	in := newInbox(1000)
	for i, step := range []struct {
		weight int
		urgent bool
		want   bool
	}{
		{900, false, true}, {101, false, false}, {100, false, true}, {1, false, false},
		{900, true, true}, {101, true, false}, {100, true, true}, {1, true, false},
	} {
		if got := in.admit(step.weight, step.urgent); got != step.want {
			t.Fatalf("step %d: %v, want %v", i, got, step.want)
		}
	}
	in.leave(2000)
	if !in.admit(5000, false) {
		t.Fatal("a request that is over the limit by itself must get in when nothing else waits")
	}
	if in.admit(1, true) {
		t.Fatal("and nothing beside it")
	}
}

// TestBurstLeavesNoMemory: neither the inbox nor a connection keeps the memory
// of a flood.
func TestBurstLeavesNoMemory(t *testing.T) {
	in := newInbox(1 << 20)
	d := &delivery{}
	for range 10 * keepEvents {
		d.rest = append(d.rest, waiting{event: core.Tick{}})
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
