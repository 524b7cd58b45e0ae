package client_test

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// placed opens a client that was told a placement.
func placed(t *testing.T, p *nornv1.Placement) *client.Client {
	t.Helper()
	n := fakenode.New(t, func(r fakenode.Request) fakenode.Answer {
		if r.Method == nornv1.Method_METHOD_HELLO {
			return fakenode.Answer{Message: &nornv1.HelloReply{Version: 1, Placement: p}}
		}
		return fakenode.Answer{Message: &nornv1.PingReply{Placement: p}}
	})
	c, err := client.Dial(context.Background(), []string{"x"}, client.WithDialer(n.Dial))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func partitionsOf(ids []id.ID, p int) map[ring.Partition]int {
	out := map[ring.Partition]int{}
	for _, i := range ids {
		out[ring.Of(i, p)]++
	}
	return out
}

// The client's idea of a partition is the servers'.
func TestIDsLandWhereTasksCanGo(t *testing.T) {
	for _, tt := range []struct {
		name       string
		partitions uint32
		open       []byte
		allowed    func(ring.Partition) bool
		most       int // partitions of a batch
	}{
		{"one", 1, []byte{1}, func(ring.Partition) bool { return true }, 1},
		{"all of 64", 64, fakenode.Placement().GetEnqueueable(), func(ring.Partition) bool { return true }, 4},
		{"three of 64", 64, []byte{0, 0x21, 0, 0, 0, 0, 0, 0x80}, func(p ring.Partition) bool { return p == 8 || p == 13 || p == 63 }, 3},
		{"some of 4,096", 4096, []byte{0xff, 0xff}, func(p ring.Partition) bool { return p < 16 }, 4},
		{"short bitmap", 1000, []byte{0xff}, func(p ring.Partition) bool { return p < 8 }, 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := placed(t, &nornv1.Placement{Partitions: tt.partitions, Enqueueable: tt.open})
			batch := c.NewIDs(1000)
			for p := range partitionsOf(batch, int(tt.partitions)) {
				if !tt.allowed(p) {
					t.Errorf("an ID in partition %d", p)
				}
			}
			if got := len(partitionsOf(batch, int(tt.partitions))); got > tt.most {
				t.Errorf("a batch of 1,000 is in %d partitions", got)
			}
			var singles []id.ID
			for range 2000 {
				singles = append(singles, c.NewID())
			}
			for p := range partitionsOf(singles, int(tt.partitions)) {
				if !tt.allowed(p) {
					t.Errorf("an ID in partition %d", p)
				}
			}
			if tt.name == "all of 64" && len(partitionsOf(singles, 64)) < 10 {
				t.Errorf("2,000 single IDs in only %d partitions", len(partitionsOf(singles, 64)))
			}
		})
	}
}

// TestIDsOfASecondAreInItsWindow: where there are many partitions, all clients use the same few at a time, and a
// batch a few of those. The shares of them are even.
func TestIDsOfASecondAreInItsWindow(t *testing.T) {
	all := bytes.Repeat([]byte{0xff}, 4096/8)
	count := map[ring.Partition]int{}
	window := func(nanos int64) (in []int) {
		for i := range 64 {
			in = append(in, id.Window(nanos, 4096, i))
		}
		return in
	}
	for range 20 {
		c := placed(t, &nornv1.Placement{Partitions: 4096, Enqueueable: all, Window: 64})
		var ids []id.ID
		for range 500 {
			ids = append(ids, c.NewID())
		}
		if n := len(partitionsOf(ids[:64], 4096)); n > 8 { // 4, and 4 more where a second begins
			t.Errorf("64 IDs in a row are in %d partitions", n)
		}
		for _, i := range ids {
			p := ring.Of(i, 4096)
			if !slices.Contains(window(i.Nanos()), int(p)) {
				t.Fatalf("an ID in partition %d, which is not in the window", p)
			}
			count[p]++
		}
	}
	if len(count) < 40 {
		t.Errorf("IDs of 20 clients are in %d partitions", len(count))
	}
}

// TestAClosedWindowIsNone: as long as no partition of it takes enqueues, IDs are in others.
func TestAClosedWindowIsNone(t *testing.T) {
	open := make([]byte, 4096/8)
	open[1], open[400] = 0x80, 1
	c := placed(t, &nornv1.Placement{Partitions: 4096, Enqueueable: open, Window: 64})
	for range 1000 {
		if p := ring.Of(c.NewID(), 4096); p != 15 && p != 3200 {
			t.Fatalf("an ID in partition %d", p)
		}
	}
}

func TestIDsIncreaseAcrossGoroutines(t *testing.T) {
	c := placed(t, fakenode.Placement())
	var wg sync.WaitGroup
	all := make(chan id.ID, 8*500)
	for range 8 {
		wg.Go(func() {
			last := id.ID{}
			for range 500 {
				next := c.NewID()
				if next.Compare(last) <= 0 || next.Kind() != id.KindTask {
					t.Errorf("%v after %v", next, last)
				}
				last = next
				all <- next
			}
		})
	}
	wg.Wait()
	close(all)
	seen := map[id.ID]bool{}
	for i := range all {
		if seen[i] {
			t.Errorf("%v twice", i)
		}
		seen[i] = true
	}
}

func TestIDsWithoutPlacement(t *testing.T) {
	c := placed(t, &nornv1.Placement{Partitions: 64, Enqueueable: make([]byte, 8)})
	if c.NewID().IsZero() || len(c.NewIDs(5)) != 5 || len(c.NewIDs(-1)) != 0 {
		t.Error("no partition takes enqueues: IDs are made all the same")
	}
}

// TestCopies: whoever wants to know hears how many copies a quorum is one of.
func TestCopies(t *testing.T) {
	c := placed(t, &nornv1.Placement{Partitions: 64, Enqueueable: make([]byte, 8), Copies: 1, Replicas: 3})
	if i := c.Info(); i.Copies != 1 || i.Replicas != 3 {
		t.Errorf("%d of %d", i.Copies, i.Replicas)
	}
}
