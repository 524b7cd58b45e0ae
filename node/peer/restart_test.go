package peer

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/register"
)

// TestAPeerThatRestarts is found again at once, and gets what is sent from then
// on in order.
func TestAPeerThatRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.add(who(1, 0))
		defer a.stop()
		var b *testNode
		next := 0
		for range 20 {
			b = w.add(who(2, 0))
			settle(2100 * time.Millisecond)
			first := next
			for range 50 {
				next++
				a.Send(who(2, 0), numbered(next))
				settle(time.Millisecond)
			}
			got := numbers(b.taken())
			if len(got) == 0 || !slices.IsSorted(got) || got[0] <= uint64(first) || got[len(got)-1] != uint64(next) {
				t.Errorf("of %d to %d came %v", first+1, next, got)
			}
			b.stop()
		}
	})
}

// TestANewIncarnationAtAnOldAddress: messages to the old one never reach the new
// one, and both can be addressed at the same time.
func TestANewIncarnationAtAnOldAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.add(who(1, 0)), w.add(who(2, 0))
		defer a.stop()
		a.Send(who(2, 0), numbered(1))
		settle(time.Second)
		b.stop()
		b = w.add(who(2, 1))
		defer b.stop()
		for i := range 100 {
			a.Send(who(2, 0), numbered(i+2))
			settle(100 * time.Millisecond)
		}
		if got := b.taken(); len(got) > 0 {
			t.Errorf("the new incarnation got %d messages for the old one", len(got))
		}
		a.Send(who(2, 1), numbered(500))
		settle(time.Millisecond)
		if got := numbers(b.taken()); !slices.Equal(got, []uint64{500}) {
			t.Errorf("the new incarnation got %v", got)
		}
		if s := a.Status().Peers; len(s) != 2 || !errors.Is(s[0].Control.Err, ErrOtherNode) || !s[1].Control.Up {
			t.Errorf("%+v", s)
		}
		if n := a.log.count("answers instead of") + a.log.count("it was formatted anew"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, a.log.b.String())
		}
	})
}

// TestAddressesAreTriedInOrder: one that does not answer, and one where somebody
// else is, are passed over.
func TestAddressesAreTriedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var dialled []string
		a := w.add(who(1, 0), func(c *Config) {
			c.Addresses = func(register.Member) []string { return []string{"black hole", "n3", "nobody", "n2", "n4"} }
			c.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
				dialled = append(dialled, addr)
				if addr == "black hole" {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return w.dial(ctx, addr)
			}
		})
		b, c := w.add(who(2, 0)), w.add(who(3, 0))
		defer a.stop()
		defer b.stop()
		defer c.stop()
		a.Send(who(2, 0), numbered(1))
		settle(10 * time.Second)
		if got := strings.Join(dialled, ", "); got != "black hole, n3, nobody, n2" {
			t.Errorf("dialled %s", got)
		}
		if len(b.taken()) != 1 || len(c.taken()) != 0 {
			t.Error("the message did not come where it should")
		}
		if s := a.Status().Peers[0].Control; !s.Up || s.Address != "n2" {
			t.Errorf("%+v", s)
		}
	})
}

// frozen is a connection whose bytes can be made to vanish in either direction,
// without any end of it noticing.
type frozen struct {
	net.Conn
	mu  sync.Mutex // guards the fields below
	in  bool
	out bool
}

func (f *frozen) freeze(in, out bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.in, f.out = in, out
}

func (f *frozen) Write(b []byte) (int, error) {
	f.mu.Lock()
	out := f.out
	f.mu.Unlock()
	if out {
		return len(b), nil
	}
	return f.Conn.Write(b)
}

func (f *frozen) Read(b []byte) (int, error) {
	for {
		n, err := f.Conn.Read(b)
		f.mu.Lock()
		in := f.in
		f.mu.Unlock()
		if err != nil || !in {
			return n, err
		}
	}
}

// TestHalfOpenConnections: bytes that vanish, in one direction or both, end a
// connection although each side goes on writing; the next one works.
func TestHalfOpenConnections(t *testing.T) {
	for _, c := range []struct {
		name    string
		in, out bool
	}{{"both", true, true}, {"to the peer", false, true}, {"from the peer", true, false}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var last *frozen
				a := w.add(who(1, 0), func(cfg *Config) {
					cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
						nc, err := w.dial(ctx, addr)
						if err != nil {
							return nil, err
						}
						last = &frozen{Conn: nc}
						return last, nil
					}
				})
				b := w.add(who(2, 0))
				defer a.stop()
				defer b.stop()
				a.Send(who(2, 0), numbered(1))
				settle(time.Second)
				last.freeze(c.in, c.out)
				for range 80 { // traffic that nobody answers must not hide it
					a.Send(who(2, 0), numbered(2))
					settle(100 * time.Millisecond)
				}
				if a.seen() != "up n2, down n2, up n2" {
					t.Errorf("a saw %q", a.seen())
				}
				b.taken()
				a.Send(who(2, 0), numbered(3))
				settle(time.Second)
				if got := numbers(b.taken()); !slices.Equal(got, []uint64{3}) {
					t.Errorf("came: %v", got)
				}
				settle(30 * time.Second)
				b.mu.Lock()
				defer b.mu.Unlock()
				b.Network.mu.Lock()
				defer b.Network.mu.Unlock()
				b.arrivals.mu.Lock()
				defer b.arrivals.mu.Unlock()
				if n := len(b.arrivals.all); n != 1 || len(b.sessions) != 1 {
					t.Errorf("b holds %d connections", n)
				}
			})
		})
	}
}

// TestCloseEndsEverything, whatever is under way.
func TestCloseEndsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.add(who(1, 0)), w.add(who(2, 0))
		for i := range 3 {
			a.Send(who(2+i, 0), numbered(1))
			a.Send(who(2+i, 0), bulky(1, 1<<20))
		}
		nc, err := w.dial(t.Context(), "n2") // says nothing
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		settle(time.Second)
		began := time.Now()
		a.stop()
		b.stop()
		if took := time.Since(began); took > 0 {
			t.Errorf("closing took %v", took)
		}
		if a.seen() != "up n2, down n2" || a.Send(who(2, 0), numbered(1)) || a.Send(who(9, 0), numbered(1)) {
			t.Errorf("a saw %q, or takes messages", a.seen())
		}
		if err := a.Serve(w.listener()); !errors.Is(err, ErrClosed) {
			t.Errorf("Serve after Close: %v", err)
		}
		a.Keep([]register.Member{who(2, 0)})
	})
}

// TestANewConnectionWaitsForTheOld: while what came over the one before is being
// worked on, nothing comes over the next.
func TestANewConnectionWaitsForTheOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, b := w.add(who(1, 0)), w.add(who(2, 0))
		defer a.stop()
		defer b.stop()
		hold := make(chan struct{})
		b.hold = hold
		a.Send(who(2, 0), numbered(1))
		settle(time.Second)
		b.arrivals.mu.Lock()
		for c := range b.arrivals.all {
			_ = c.Close()
		}
		b.arrivals.mu.Unlock()
		for i := range 200 {
			a.Send(who(2, 0), numbered(i+2))
			settle(100 * time.Millisecond)
		}
		if got := numbers(b.taken()); len(got) != 1 || !errors.Is(a.Status().Peers[0].Control.Err, ErrBusy) || a.seen() != "up n2, down n2" {
			t.Errorf("meanwhile came %v; a saw %q, %v", got, a.seen(), a.Status().Peers[0].Control.Err)
		}
		b.arrivals.mu.Lock()
		open := len(b.arrivals.all)
		b.arrivals.mu.Unlock()
		if open > 2 {
			t.Errorf("%d connections wait", open)
		}
		b.mu.Lock()
		b.hold = nil
		b.mu.Unlock()
		close(hold)
		settle(5 * time.Second)
		a.Send(who(2, 0), numbered(500))
		settle(time.Second)
		if got := numbers(b.taken()); len(got) == 0 || got[len(got)-1] != 500 || !slices.IsSorted(got) {
			t.Errorf("afterwards came %v", got)
		}
	})
}
