package transport

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// gate is a server that answers when it is told to, and its client; the text of a request
// names it.
type gate struct {
	t      *testing.T
	c      *Client
	mu     sync.Mutex // guards the fields below
	conn   *Conn
	open   map[string]uint64
	order  []string // as they came
	failed int      // calls without an answer
}

func newGate(t *testing.T) *gate {
	g := &gate{t: t, open: make(map[string]uint64)}
	_, ln := serve(t, Config{}, &handler{handle: func(c *Conn, f Frame) {
		g.mu.Lock()
		defer g.mu.Unlock()
		name := string(f.Body)
		g.conn, g.open[name], g.order = c, f.Request, append(g.order, name)
	}})
	g.c = dialTo(t, ln, ClientConfig{})
	return g
}

// call makes calls of a class, one after the other.
func (g *gate) call(ctx context.Context, class Class, names ...string) {
	for _, name := range names {
		go func() {
			if err := g.c.CallAs(ctx, class, 7, Bytes(name), func(uint16, []byte) error { return nil }); err != nil {
				g.mu.Lock()
				g.failed++
				g.mu.Unlock()
			}
		}()
		synctest.Wait()
	}
}

// answer lets calls return.
func (g *gate) answer(names ...string) {
	g.t.Helper()
	for _, name := range names {
		g.mu.Lock()
		request, is := g.open[name]
		delete(g.open, name)
		conn := g.conn
		g.mu.Unlock()
		if !is {
			g.t.Fatalf("%s is not open", name)
		}
		conn.Reply(request, 7, 0, nil)
		synctest.Wait()
	}
}

// want checks which requests came since the last time, in their order.
func (g *gate) want(names ...string) {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Equal(g.order, names) {
		g.t.Fatalf("came %v, want %v", g.order, names)
	}
	g.order = nil
}

// TestLongCallsLeaveTheLastPlaces to short ones, and both to urgent ones, also those that
// were given up and are not answered yet. Each gets its turn.
func TestLongCallsLeaveTheLastPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		g.c.SetMaxInFlight(5)
		g.c.Keep(1, 2)
		hasty, cancel := context.WithCancel(t.Context())
		g.call(hasty, Long, "l1")
		cancel()
		synctest.Wait()
		g.call(t.Context(), Long, "l2", "l3", "l4")
		g.want("l1", "l2")
		g.call(t.Context(), Short, "s1", "s2", "s3")
		g.want("s1", "s2")
		g.call(t.Context(), Urgent, "u1", "u2")
		g.want("u1")
		g.answer("s1") // the urgent one goes first, though it came last
		g.want("u2")
		g.answer("u1")
		g.want()
		g.answer("u2")
		g.want("s3") // no long one may, though it came before
		g.answer("l2")
		g.want("l3")
		g.answer("l1")
		g.want("l4")
		g.answer("s2", "s3", "l3", "l4")
		if n := g.c.InFlight(); n != 0 || g.c.longs != 0 || g.failed != 1 {
			t.Errorf("%d places are taken, %d by long calls, %d calls have failed", n, g.c.longs, g.failed)
		}
	})
}

// TestShortCallsLeaveLongOnesTheirTurn: however many there are.
func TestShortCallsLeaveLongOnesTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		g.c.SetMaxInFlight(3)
		g.c.Keep(1, 1)
		g.call(t.Context(), Short, "s1", "s2")
		g.call(t.Context(), Long, "l1", "l2")
		g.call(t.Context(), Short, "s3", "s4", "s5")
		g.want("s1", "s2")
		g.answer("s1")
		g.want("l1")
		g.answer("s2")
		g.want("s3")
		g.answer("s3")
		g.want("s4")
		g.answer("l1")
		g.want("l2")
		g.answer("l2", "s4")
		g.want("s5")
		g.answer("s5")
	})
}

// TestOnePlaceIsForAll, whatever is to be kept.
func TestOnePlaceIsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		g.c.SetMaxInFlight(1)
		g.c.Keep(10, 10)
		g.call(t.Context(), Long, "l1")
		g.call(t.Context(), Short, "s1")
		g.want("l1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g.call(ctx, Long, "l2")
		time.Sleep(time.Second)
		synctest.Wait()
		g.answer("l1")
		g.want("s1")
		g.answer("s1")
		if g.failed != 1 {
			t.Errorf("%d calls have failed", g.failed)
		}
	})
}
