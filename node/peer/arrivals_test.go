package peer

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/register"
)

// from is a connection from an address.
type from struct {
	net.Conn
	addr string
}

func (f *from) RemoteAddr() net.Addr {
	a, _ := net.ResolveTCPAddr("tcp", f.addr)
	return a
}
func (f *from) Close() error { return nil }

// TestWhoGivesWay: the oldest silent stranger, never who is known, and who comes from a member's
// address only for one that does, too.
func TestWhoGivesWay(t *testing.T) {
	a := newArrivals(6, 2)
	a.learn([]string{"10.0.0.1:7712", "db1.lan:7712"})
	enter := func(addr string, gone net.Conn, ok bool) *from {
		t.Helper()
		c := &from{addr: addr}
		if victim, is := a.enter(c); victim != gone || is != ok {
			t.Errorf("%s: %v gives way, want %v; %v", addr, victim, gone, is)
		}
		return c
	}
	home1, home2 := enter("10.0.0.1:1", nil, true), enter("[::ffff:10.0.0.1]:2", nil, true)
	s1, s2 := enter("10.0.0.9:1", nil, true), enter("10.0.0.9:2", nil, true)
	s3 := enter("10.0.0.8:1", s1, true)
	home3 := enter("10.0.0.1:3", home1, true)
	a.known(s2, true) // it was a member, and comes again
	s4 := enter("10.0.0.8:2", nil, true)
	home4 := enter("10.0.0.9:3", home2, true) // as one of a member's address
	a.known(home3, true)
	a.known(home4, true)
	home5 := enter("10.0.0.9:4", nil, true)
	enter("10.0.0.1:4", s3, true) // all places are taken
	enter("10.0.0.8:3", s4, true)
	for c := range a.all {
		a.known(c, false)
	}
	enter("10.0.0.8:4", nil, false) // nobody is silent
	enter("10.0.0.1:5", nil, false)
	a.leave(home5)
	enter("10.0.0.8:5", nil, true)
	a.close()
	enter("10.0.0.1:6", nil, false)
}

// TestSilentConnectionsKeepNobodyOut: however many there are, and however often they come again,
// a member is let in at once.
func TestSilentConnectionsKeepNobodyOut(t *testing.T) {
	for name, first := range map[string][]byte{"silent": nil, "half a frame": {0, 0, 1}, "a handshake that does not go on": {22, 3}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				a, b := w.add(who(1, 0), func(c *Config) { c.Limits.Greeting, c.Limits.Conns = 8, 16 }), w.add(who(2, 0))
				defer a.stop()
				defer b.stop()
				for range 40 {
					nc, err := w.dial(t.Context(), "n1")
					if err != nil {
						t.Fatal(err)
					}
					defer nc.Close()
					if len(first) > 0 {
						_ = nc.SetWriteDeadline(time.Now().Add(time.Millisecond))
						_, _ = nc.Write(first)
					}
				}
				b.Keep([]register.Member{who(1, 0)})
				settle(100 * time.Millisecond)
				if p := b.Status().Peers[0]; !p.Control.Up {
					t.Errorf("the other node is kept out: %+v", p)
				}
			})
		})
	}
}
