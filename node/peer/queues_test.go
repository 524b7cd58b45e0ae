package peer

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
)

// bulky is a message of so many bytes, for the bulk lane when it is large.
func bulky(write uint64, bytes int) *message.Facts {
	return &message.Facts{Write: write, Parts: []message.PartFacts{{Partition: 3, Facts: []crdt.Fact{{Key: crdt.Key{Kind: 1}, Body: make([]byte, bytes)}}}}}
}

// TestFullQueuesDropAndCount: with a peer that takes nothing, what waits stays
// within the limit, for each lane apart.
func TestFullQueuesDropAndCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		limit := func(c *Config) { c.Limits.QueueControl, c.Limits.QueueBulk = 1<<20, 4<<20 }
		a, b := w.add(who(1, 0), limit), w.add(who(2, 0))
		defer a.stop()
		defer b.stop()
		a.Send(who(2, 0), numbered(1))
		a.Send(who(2, 0), bulky(1, 1<<20))
		settle(time.Second)
		hold := make(chan struct{})
		b.mu.Lock()
		b.hold = hold
		b.mu.Unlock()
		taken := map[Lane]int{}
		for range 1000 {
			if a.Send(who(2, 0), bulky(1, 10<<10)) {
				taken[Control]++
			}
			if a.Send(who(2, 0), bulky(1, 100<<10)) {
				taken[Bulk]++
			}
		}
		settle(time.Second)
		for lane, s := range map[Lane]LaneStatus{Control: a.Status().Peers[0].Control, Bulk: a.Status().Peers[0].Bulk} {
			limit, size := 1<<20, 10<<10
			if lane == Bulk {
				limit, size = 4<<20, 100<<10
			}
			if s.Queued > limit || s.Queued < limit/2 {
				t.Errorf("%v: %d bytes wait, the limit is %d", lane, s.Queued, limit)
			}
			// Beyond the queue there are the buffers of the connection.
			if n := taken[lane]; n < limit/size || n > (limit+1<<20)/size || s.Dropped != uint64(1000-n) || s.Sent != uint64(n+1) {
				t.Errorf("%v: %d of 1000 taken; %+v", lane, n, s)
			}
		}
		b.mu.Lock()
		b.hold = nil
		b.mu.Unlock()
		close(hold)
		settle(time.Second)
		if got := len(b.taken()); got != taken[Control]+taken[Bulk]+2 {
			t.Errorf("%d messages came, %d were taken", got, taken[Control]+taken[Bulk]+2)
		}
		if a.seen() != "up n2" {
			t.Errorf("a saw %q: full queues are no reason to part", a.seen())
		}
	})
}

// TestASlowPeerHoldsUpNobody: a peer that reads nothing is given up after the
// write time-out; messages to another one arrive meanwhile.
func TestASlowPeerHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.add(who(1, 0)), w.add(who(2, 0)), w.add(who(3, 0))
		defer a.stop()
		defer b.stop()
		defer c.stop()
		b.hold = make(chan struct{})
		for i := range 200 {
			a.Send(who(2, 0), bulky(1, 1<<20))
			a.Send(who(2, 0), bulky(1, 50<<10))
			a.Send(who(3, 0), numbered(i+1))
		}
		settle(time.Millisecond)
		if got := numbers(c.taken()); len(got) != 200 || !slices.IsSorted(got) {
			t.Errorf("%d of 200 messages came", len(got))
		}
		settle(30 * time.Second)
		if s := a.Status().Peers[0].Bulk; s.Queued > 0 || s.Dropped < 100 || !strings.Contains(a.seen(), "down n2") || strings.Contains(a.seen(), "down n3") {
			t.Errorf("a connection that takes nothing lives on: %+v, a saw %q", s, a.seen())
		}
		close(b.hold)
		a.Send(who(3, 0), numbered(201))
		settle(time.Millisecond)
		if got := numbers(c.taken()); len(got) != 1 {
			t.Errorf("the other peer got %v", got)
		}
	})
}

// TestMessagesWaitForTheFirstConnection and are dropped when there is none.
func TestMessagesWaitForTheFirstConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var slow time.Duration
		a := w.add(who(1, 0), func(c *Config) {
			c.Limits.QueueControl = 4 << 10
			c.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
				time.Sleep(slow)
				return w.dial(ctx, addr)
			}
		})
		defer a.stop()
		slow = time.Second
		sent := 0
		for i := range 1000 {
			if a.Send(who(2, 0), numbered(i+1)) {
				sent++
			}
		}
		s := a.Status().Peers[0].Control
		if s.Queued > 4<<10 || s.Queued < 2<<10 || s.Dropped != uint64(1000-sent) {
			t.Errorf("%d taken, %+v", sent, s)
		}
		settle(1500 * time.Millisecond) // there is nobody
		if s := a.Status().Peers[0].Control; s.Queued != 0 || s.Dropped != 1000 || s.Err == nil {
			t.Errorf("after the attempt: %+v", s)
		}
		b := w.add(who(2, 0))
		defer b.stop()
		slow = 0
		settle(5 * time.Second)
		if len(b.taken()) != 0 || a.seen() != "up n2" {
			t.Errorf("what was dropped came, or a did not see it: %q", a.seen())
		}
		a.Send(who(2, 0), numbered(7))
		settle(time.Millisecond)
		if got := numbers(b.taken()); !slices.Equal(got, []uint64{7}) {
			t.Errorf("came: %v", got)
		}
	})
}

// TestBackoff: attempts are quick at first, then every two seconds; a message
// after a long pause does not wait for the next.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex // guards at
		var at []time.Duration
		began := time.Now()
		a := w.add(who(1, 0), func(c *Config) {
			c.Timing.MaxBackoff = 10 * time.Second
			c.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
				mu.Lock()
				at = append(at, time.Since(began))
				mu.Unlock()
				return w.dial(ctx, addr)
			}
		})
		defer a.stop()
		a.Keep([]register.Member{who(2, 0)})
		settle(time.Minute)
		mu.Lock()
		for i := 1; i < len(at); i++ {
			most := min(10*time.Second, 50*time.Millisecond<<(i-1))
			if pause := at[i] - at[i-1]; pause < most/2 || pause > most {
				t.Errorf("pause %d is %v, not %v to %v", i, pause, most/2, most)
			}
		}
		if len(at) < 10 || len(at) > 25 {
			t.Errorf("%d attempts in a minute", len(at))
		}
		mu.Unlock()
		for recent := false; !recent; { // the next one is some seconds off
			settle(100 * time.Millisecond)
			mu.Lock()
			recent = time.Since(began)-at[len(at)-1] < time.Second
			mu.Unlock()
		}
		b := w.add(who(2, 0))
		defer b.stop()
		if !a.Send(who(2, 0), numbered(1)) {
			t.Error("a message after a long pause was dropped")
		}
		settle(time.Millisecond)
		if got := numbers(b.taken()); len(got) != 1 || a.seen() != "up n2" {
			t.Errorf("came: %v, a saw %q", got, a.seen())
		}
	})
}

func TestPeersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b, c := w.add(who(1, 0), func(c *Config) { c.Limits.Peers = 3 }), w.add(who(2, 0)), w.add(who(3, 0))
		defer a.stop()
		defer b.stop()
		defer c.stop()
		a.Keep([]register.Member{who(2, 0)})
		a.Send(who(3, 0), numbered(1))
		a.Send(who(4, 0), numbered(1))
		settle(10 * time.Second)
		if s := a.Status(); len(s.Peers) != 3 || a.Send(who(5, 0), numbered(1)) || a.Send(who(1, 0), numbered(1)) || a.Status().Unsent != 2 {
			t.Errorf("%+v", s)
		}
		settle(3 * time.Minute)
		if s := a.Status(); len(s.Peers) != 1 || s.Peers[0].Member != who(2, 0) || a.seen() != "up n2, up n3, down n3" && a.seen() != "up n3, up n2, down n3" {
			t.Errorf("after minutes: %+v, a saw %q", s, a.seen())
		}
		a.Keep(nil)
		settle(3 * time.Minute)
		if s := a.Status(); len(s.Peers) != 0 {
			t.Errorf("no longer kept: %+v", s)
		}
	})
}
