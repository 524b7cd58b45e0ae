package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/transport"

	gproto "google.golang.org/protobuf/proto"
)

// flips is a wire that flips bits while it is told to, in both directions.
type flips struct {
	mu    sync.Mutex // guards the fields below
	on    bool
	bytes int // that passed
	every int // bytes, with one flipped bit each
	done  int // bits
}

func (f *flips) pass(b []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range b {
		if f.bytes++; f.on && f.bytes%f.every == 0 {
			b[i] ^= 1 << (f.done % 8)
			f.done++
		}
	}
}

func (f *flips) set(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.on = on
}

// flipped is an end of such a wire.
type flipped struct {
	net.Conn
	by *flips
}

func (c *flipped) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.by.pass(b[:n])
	return n, err
}

func (c *flipped) Write(b []byte) (int, error) {
	b = append([]byte(nil), b...)
	c.by.pass(b)
	return c.Conn.Write(b)
}

// TestFlippedBitsBringNoMessage: while bits flip between two nodes, no message comes that
// was not sent, the frames are counted and told once, and after it messages come again
// within the time of a reconnect.
func TestFlippedBitsBringNoMessage(t *testing.T) {
	for _, every := range []int{61, 997, 10007} {
		t.Run(fmt.Sprint(every), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, wire := newWorld(t), &flips{every: every}
				a := w.add(who(1, 0), func(c *Config) {
					c.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
						nc, err := w.dial(ctx, addr)
						return &flipped{nc, wire}, err
					}
				})
				b := w.add(who(2, 0))
				defer a.stop()
				defer b.stop()
				body := strings.Repeat("the result ", 30)
				sent := func(i uint64) *message.Facts {
					f := crdt.Completed{At: 1, Token: i, Result: []byte(body)}.Fact(id.ID{byte(i)})
					return &message.Facts{Write: i, Parts: []message.PartFacts{{Facts: []crdt.Fact{f}}}}
				}
				number, came := uint64(0), 0
				pass := func(for_ time.Duration) {
					for end := time.Now().Add(for_); time.Now().Before(end); {
						number++
						a.Send(who(2, 0), sent(number))
						settle(10 * time.Millisecond)
					}
					for _, m := range b.taken() {
						came++
						got, ok := m.(*message.Facts)
						if !ok {
							t.Fatalf("came %#v", m)
						}
						want := sent(got.Write).Parts[0].Facts[0]
						if f := got.Parts[0].Facts[0]; got.Write == 0 || got.Write > number || f.Task != want.Task || f.Key != want.Key || string(f.Body) != string(want.Body) {
							t.Errorf("came as %d: %+v", got.Write, f)
						}
					}
				}
				pass(time.Second)
				if came < 90 {
					t.Fatalf("%d of %d came before", came, number)
				}
				wire.set(true)
				pass(10 * time.Second)
				wire.set(false)
				began := time.Now()
				settle(3 * time.Second)
				b.taken()
				a.Send(who(2, 0), sent(1))
				settle(time.Millisecond)
				if got := b.taken(); len(got) != 1 {
					t.Errorf("%v after the last bit %d messages come; %+v", time.Since(began), len(got), a.Status().Peers)
				}
				damaged := a.Status().Damaged + b.Status().Damaged
				if s := b.Status(); damaged == 0 || b.log.count("peer.malformed") > 0 || s.Unknown > 0 {
					t.Errorf("%d bits flipped, counted %d; %+v", wire.done, damaged, s)
				}
				if n := b.log.count("peer.damaged") + a.log.count("peer.damaged"); n == 0 || n > 3 {
					t.Errorf("told %d times", n)
				}
			})
		})
	}
}

// TestNodesWithoutSumsAreToldWhy: a node of version 1, and a client, hear in frames that
// they can read what is the matter; and a node that dials one is told, too.
func TestNodesWithoutSumsAreToldWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.add(who(1, 0))
		defer a.stop()
		hello, err := gproto.Marshal(&nornv1.PeerHello{MinVersion: 1, MaxVersion: 1, From: node(who(3, 0)), To: node(who(1, 0)), Cluster: testCluster[:], Lane: 1})
		if err != nil {
			t.Fatal(err)
		}
		answer := a.say(transport.AppendFrame(nil, transport.Frame{Request: 1, Method: uint16(nornv1.PeerMethod_PEER_METHOD_HELLO), Body: hello}))
		f, n, err := transport.ParseFrame(answer, maxHello)
		if err != nil || n == 0 || f.Flags&transport.FlagError == 0 {
			t.Fatalf("answer %q, %v", answer, err)
		}
		if err := remoteError(f.Body); !strings.Contains(err.Error(), fmt.Sprintf("speaks version %d of the peer protocol", MaxVersion)) {
			t.Error(err)
		}
		old := transport.NewMemListener(0)
		w.at["n2"] = old
		defer old.Close()
		go func() {
			for {
				nc, err := old.Accept()
				if err != nil {
					return
				}
				_, _ = nc.Read(make([]byte, 4<<10)) // or the end of it is why nothing can be written
				_, _ = nc.Write(answer)
				_ = nc.Close()
			}
		}()
		a.Keep([]register.Member{who(2, 0)})
		settle(time.Second)
		if err := a.Status().Peers[0].Control.Err; !errors.Is(err, transport.ErrDamaged) || !strings.Contains(err.Error(), "another version of the peer protocol") {
			t.Error(err)
		}
		if _, err := a.Dialer().Probe(t.Context(), "n2"); !errors.Is(err, transport.ErrDamaged) || !strings.Contains(err.Error(), "another version of the peer protocol") {
			t.Error(err)
		}
	})
}
