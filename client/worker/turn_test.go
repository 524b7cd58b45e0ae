package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/session"
)

// linked is a link with a stream on which the test says what the node says.
func linked(t *testing.T, addresses ...string) *link {
	t.Helper()
	c, err := client.Dial(t.Context(), addresses, client.WithDialer(fakenode.Dialer(nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	w := New(c, Config{Name: "w", Queues: []string{"q"}})
	p := newPushed(c, w.cfg, w.grace, keeping{w}, func() stamp { now := time.Now(); return stamp{at: now, wall: now.Round(0)} }, w.direct)
	p.config.Capacity.Queues = []session.QueueSlots{{Queue: "q"}}
	p.began = p.clock()
	if err := p.rebirth(); err != nil {
		t.Fatal(err)
	}
	l := newLink(p)
	l.turn()
	return l
}

// turn begins a stream, without connecting.
func (l *link) turn() {
	l.connected(dialed{stream: &client.Stream{}})
	l.open = 1
}

// hears has the node answer the newest heartbeat.
func (l *link) hears(t *testing.T, reply session.HeartbeatReply) {
	t.Helper()
	p := l.p
	var m session.Message
	p.use(func(w *session.Worker, now clock.Time) {
		reply.Echo = w.Stamp(now)
		m = session.Message{Instance: p.config.Identity.Instance, Association: w.Info().Association, Body: &reply}
	})
	answer, err := session.BundleReply([]session.Message{m})
	if err != nil {
		t.Fatal(err)
	}
	l.answered(result{stream: l.stream, reply: answer})
	l.open = 1
}

// TestANodeThatDoesNotGetAWorkersNameIsLeft: it answers, but may be cut off from those who
// keep names, and others not. Where somebody else has the name it is the same everywhere,
// and who has one address has nowhere to go.
func TestANodeThatDoesNotGetAWorkersNameIsLeft(t *testing.T) {
	good := session.HeartbeatReply{Version: session.MaxVersion, Good: true, Timeouts: session.DefaultTimeouts}
	cut := session.HeartbeatReply{Version: session.MaxVersion, Timeouts: session.DefaultTimeouts}
	for name, tt := range map[string]struct {
		addresses []string
		first     session.HeartbeatReply // for a minute
		then      session.HeartbeatReply
		left      bool
	}{
		"from the beginning":  {[]string{"x", "y"}, cut, cut, true},
		"later":               {[]string{"x", "y"}, good, cut, true},
		"it has it":           {[]string{"x", "y"}, good, good, false},
		"somebody else has":   {[]string{"x", "y"}, session.HeartbeatReply{Refused: session.RefusedName}, session.HeartbeatReply{Refused: session.RefusedName}, false},
		"there is no other":   {[]string{"x"}, cut, cut, false},
		"the name is refused": {[]string{"x", "y"}, good, session.HeartbeatReply{Refused: session.RefusedStale}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := linked(t, tt.addresses...)
				for i := range 40 {
					time.Sleep(time.Second)
					reply := tt.first
					if i >= 10 {
						reply = tt.then
					}
					l.hears(t, reply)
					if l.keep(t.Context(), l.p.machine.Info()); l.stream == nil {
						break
					}
				}
				if left := l.stream == nil; left != tt.left {
					t.Errorf("left it: %v", left)
				}
				if l.dialing {
					<-l.dialed
				} else if l.stream == nil {
					t.Error("no other node is turned to")
				}
				l.drop()
			})
		})
	}
}

// TestANodeOfAnotherVersionIsLeft: another one may be of the worker's. Only where all refuse
// it does it go on without a session.
func TestANodeOfAnotherVersionIsLeft(t *testing.T) {
	for _, why := range []session.Refusal{session.RefusedVersion, session.RefusedInvalid} {
		synctest.Test(t, func(t *testing.T) {
			l := linked(t, "x", "y")
			no := session.HeartbeatReply{Refused: why, Text: "update one of them"}
			l.hears(t, no)
			if _, _, more := l.step(t.Context()); !more || l.stream != nil {
				t.Fatalf("%v: after one of two nodes it goes on: %v, has a stream: %v", why, more, l.stream != nil)
			}
			l.turn()
			l.hears(t, session.HeartbeatReply{Refused: session.RefusedName})
			if l.stream == nil {
				t.Fatalf("%v: a node that would take it is left", why)
			}
			l.drop()
			for range 2 {
				l.turn()
				l.hears(t, no)
			}
			if _, _, more := l.step(t.Context()); more {
				t.Errorf("%v: after all nodes it goes on with sessions", why)
			}
		})
	}
}
