package access

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/internal/secrets"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	"github.com/prometheus/client_golang/prometheus"
)

// TestATokenTakenOutOfTheFileEnds: who has shown it is not let in any more, on what is open too,
// and who waits for rights to change hears of it, also where nobody new comes. The others stay.
func TestATokenTakenOutOfTheFileEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var file atomic.Pointer[secrets.Set]
		file.Store(&secrets.Set{"new", "old"})
		d := New(Config{Tokens: func() secrets.Set { return *file.Load() }, Reread: time.Minute})
		enter := func(token string) *Caller {
			c, err := d.Enter(t.Context(), Shown{Token: token})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		old, other := enter("old"), enter("new")
		changed, after := d.Changed()
		if after != time.Minute {
			t.Errorf("the file is looked at again after %v", after)
		}
		file.Store(&secrets.Set{"new", "newer"})
		d.Changed()
		select {
		case <-changed:
		default:
			t.Error("nobody hears that the file has changed")
		}
		if err := d.Ended(old); err == nil || err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED || !strings.Contains(err.Message, "taken out") {
			t.Errorf("with the token that was taken out: %v", err)
		}
		for _, c := range []*Caller{other, enter("newer")} {
			if err := d.Ended(c); err != nil {
				t.Errorf("with a token of the file: %v", err)
			}
		}
	})
}

// TestWhatIsTooOldIsNotTaken: a node that hears no majority of the register for auth-max-stale
// takes no token of the register, neither from who comes nor on what is open, until it hears one;
// those of the file it takes. Without the setting it takes all of them.
func TestWhatIsTooOldIsNotTaken(t *testing.T) {
	for _, most := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			d := newTestDesk(t)
			d.o.MaxStale = most
			secret, _ := d.create(&nornv1.CreateToken{Name: "ci", Roles: []string{"worker"}})
			ci, _ := d.enter(secret)
			root, _ := d.enter("root")
			d.Contact(false)
			time.Sleep(most - time.Second)
			d.Contact(false) // no news
			if err := d.Ended(ci); err != nil {
				t.Errorf("%v: before the time is over: %v", most, err)
			}
			if _, after := d.Changed(); most > 0 && after > time.Second {
				t.Errorf("it is looked at again after %v", after)
			}
			time.Sleep(2 * time.Second)
			_, entered := d.enter(secret)
			for what, err := range map[string]*proto.Error{"open": d.Ended(ci), "new": entered} {
				if (err != nil) != (most > 0) || err != nil && !strings.Contains(err.Message, "auth-max-stale") {
					t.Errorf("%v: what is %s is told %v", most, what, err)
				}
			}
			if err := d.Ended(root); err != nil {
				t.Errorf("a token of the file is told %v", err)
			}
			d.Contact(true)
			if err := d.Ended(ci); err != nil {
				t.Errorf("in touch again: %v", err)
			}
		})
	}
}

// TestTheMetricSaysTheRevision: of roles and tokens, as this node knows them.
func TestTheMetricSaysTheRevision(t *testing.T) {
	d := newTestDesk(t)
	all := prometheus.NewRegistry()
	all.MustRegister(d.Desk)
	read := func() float64 {
		found, err := all.Gather()
		if err != nil || len(found) != 1 || found[0].GetName() != "norn_access_revision" {
			t.Fatal(found, err)
		}
		return found[0].GetMetric()[0].GetGauge().GetValue()
	}
	if got := read(); got != 0 {
		t.Errorf("without any it is %v", got)
	}
	d.role("mailer", "work:acme/*")
	if got, want := read(), float64(d.r.state.AccessAt); got != want || want == 0 {
		t.Errorf("it is %v, want %v", got, want)
	}
}

// TestWhoSignsIsStored: the name of a token goes with what is stored, and with pauses whatever a
// client says; of who may do everything where there are no rights none does.
func TestWhoSignsIsStored(t *testing.T) {
	d := newTestDesk(t)
	pause := func(c *Caller) (by, paused string) {
		m := &nornv1.SetQueueRequest{Name: "q", Settings: &nornv1.QueueSettings{Paused: true, PausedBy: "somebody else"}, Fields: []string{"paused"}}
		by = d.Sign(c, m)
		return by, m.Settings.PausedBy
	}
	root, _ := d.enter("root")
	if by, paused := pause(root); by != "" || paused != "somebody else" {
		t.Errorf("without rights: %q, paused by %q", by, paused)
	}
	secret, id := d.create(&nornv1.CreateToken{Name: "ci", Roles: []string{"operator"}})
	ci, _ := d.enter(secret)
	if by, paused := pause(ci); by != "ci" || paused != "ci" {
		t.Errorf("with a token: %q, paused by %q", by, paused)
	}
	if by, paused := pause(root); by != rootName || paused != rootName {
		t.Errorf("root: %q, paused by %q", by, paused)
	}
	forged := &nornv1.ScheduleMaker{Name: "root"}
	for _, c := range []struct {
		who  *Caller
		want string
	}{{ci, id}, {root, ""}, {Self(), ""}} {
		m := &nornv1.ChangeSchedulesRequest{Changes: []*nornv1.ScheduleChange{{Name: "s", Maker: forged}}}
		d.Sign(c.who, m)
		if got := m.Changes[0].Maker; got.GetToken() != c.want || (got == nil) != (c.want == "") {
			t.Errorf("%s makes a schedule of %v", c.who, got)
		}
	}
	m := &nornv1.ChangeSchedulesRequest{Changes: []*nornv1.ScheduleChange{{Name: "s", Maker: forged}}}
	(*Desk)(nil).Sign(&Caller{Principal: guard.Root("a", guard.ByNothing)}, m)
	if m.Changes[0].Maker != nil {
		t.Error("without a desk a client says who makes a schedule")
	}
}

// TestANodeThatIsBehind lets in who was revoked elsewhere until it hears of that, and then nobody
// with that token, on what is open neither; a state from before does not bring it back.
func TestANodeThatIsBehind(t *testing.T) {
	d := newTestDesk(t)
	behind := New(Config{Node: "n2", Tokens: d.o.Tokens})
	secret, id := d.create(&nornv1.CreateToken{Name: "ci", Roles: []string{"worker"}})
	before := d.r.state
	behind.Learn(&before)
	ci, err := behind.Enter(t.Context(), Shown{Token: secret})
	if err != nil {
		t.Fatal(err)
	}
	d.ask(revoke(id))
	if err := behind.Ended(ci); err != nil {
		t.Errorf("before it has heard of it: %v", err)
	}
	after := d.r.state
	for _, s := range []*register.State{&after, &before} {
		behind.Learn(s)
		if _, err := behind.Enter(t.Context(), Shown{Token: secret}); err == nil || behind.Ended(ci) == nil {
			t.Errorf("at revision %d the token lets in", s.Revision)
		}
	}
}

// TestExpiryByTheNodesOwnClock: a token lets in up to its end by the clock of the node that is
// asked, whichever node made it: with clocks that differ by eta up to eta longer, and no more.
func TestExpiryByTheNodesOwnClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTestDesk(t)
		secret, _ := d.create(&nornv1.CreateToken{Name: "ci", Roles: []string{"worker"}, TtlSeconds: 60})
		ci, _ := d.enter(secret)
		if _, after := d.Changed(); after != time.Minute {
			t.Errorf("it is looked at again after %v", after)
		}
		time.Sleep(time.Minute - time.Nanosecond)
		if err := d.Ended(ci); err != nil {
			t.Errorf("before its end: %v", err)
		}
		time.Sleep(time.Nanosecond)
		if _, err := d.enter(secret); err == nil || d.Ended(ci) == nil {
			t.Error("it lets in at its end")
		}
	})
}
