package session

import (
	"testing"
	"time"
)

// TestAKilledWorkerThatDoesNotObey is renewed nothing from then on, and is declared lost after
// LoseAfter, whatever it says; its claims are not freed: it may run them. One that says no more
// has given itself up by the time that any lost worker has.
func TestAKilledWorkerThatDoesNotObey(t *testing.T) {
	for _, silent := range []bool{false, true} {
		b := newBoss(t)
		c := claims(1)[0]
		b.grant(c)
		b.says(&RunReply{Push: b.s().push, Claim: c})
		list := func(h *Heartbeat) { h.Claims = []Claim{c} }
		b.beat(list)
		echo := b.s().beat
		if silent {
			b.pass(DefaultTimeouts.HeartbeatGap + DefaultTimeouts.LoseAfter - time.Second)
		}
		b.d.Kill(b.now, Instance{1}, "why")
		b.d.Renewed(b.now, Instance{1}, 1, echo, []Renewal{{Claim: c, Lease: time.Minute}}, true)
		b.take()
		if out := b.done(); len(frames[*Renewed](out.Send)) > 0 || b.d.Renews(Instance{1}) {
			t.Errorf("what was being renewed is, to a killed worker")
		}
		for range 29 {
			if !silent {
				b.beat(list)
			}
			b.d.Kill(b.now, Instance{1}, "again")
			b.pass(time.Second)
		}
		out := b.done()
		if len(out.Renew) > 0 || !silent && b.s().state == MustDie {
			t.Fatalf("after 29 s it is %v, and is renewed %v", b.s().state, out.Renew)
		}
		for _, r := range frames[*HeartbeatReply](out.Send) {
			if r.Good {
				t.Fatal("it hears that all is well")
			}
		}
		b.pass(2 * time.Second)
		out.Settle = append(out.Settle, b.done().Settle...)
		if i, _ := b.d.Info(b.now, Instance{1}); !i.Killed || i.State != MustDie || !b.s().revoked {
			t.Errorf("silent %v: after 31 s it is %+v", silent, i)
		}
		if freed := is(settledFor(out.Settle, c), WhyLost); freed != silent {
			t.Errorf("silent %v: settled is %+v", silent, out.Settle)
		}
		if silent {
			continue
		}
		b.beat(list)
		if out := b.done(); len(frames[*Suicide](out.Send)) != 1 || len(out.Renew) > 0 {
			t.Errorf("it comes again, and hears %+v", out)
		}
		b.says(&Leave{})
		if why := settledFor(b.done().Settle, c); !is(why, WhyLeft) || b.d.Knows(Instance{1}) {
			t.Errorf("it leaves, and its claim is settled for %v", why)
		}
	}
}
