package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/internal/secrets"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/wire"
)

// oneRegister is a register that answers at once, or not at all.
type oneRegister struct {
	state register.State
	cut   bool
}

func (r *oneRegister) Do(q register.Request, done func(register.Result)) {
	if r.cut {
		done(register.Result{Err: errors.New("no leader")})
		return
	}
	next, res, _ := r.state.Apply(&q)
	r.state = next
	done(res)
}

type desk struct {
	t *testing.T
	*Desk
	r *oneRegister
}

func newTestDesk(t *testing.T) *desk {
	d := &desk{t, New(Config{Policy: Policy{ExpiryReversed: mutant.ExpiryReversed.On()}, Node: "n1", Tokens: func() secrets.Set { return secrets.Set{"root"} }}), &oneRegister{state: register.State{Revision: 1}}}
	d.Serve(d.r)
	return d
}

func (d *desk) ask(m *nornv1.AccessRequest) *nornv1.AccessReply {
	d.t.Helper()
	reply, err := d.Do(d.t.Context(), Self(), m)
	if err != nil {
		d.t.Fatal(err)
	}
	return reply.(*nornv1.AccessReply)
}

func (d *desk) role(name string, allow ...string) {
	d.t.Helper()
	d.ask(&nornv1.AccessRequest{Action: &nornv1.AccessRequest_SetRole{SetRole: &nornv1.SetRole{Name: name, Allow: allow}}})
}

func (d *desk) create(m *nornv1.CreateToken) (secret, id string) {
	d.t.Helper()
	secret = d.ask(&nornv1.AccessRequest{Action: &nornv1.AccessRequest_CreateToken{CreateToken: m}}).GetSecret()
	return secret, strings.Split(secret, "_")[1]
}

func (d *desk) enter(token string) (*Caller, *proto.Error) {
	return d.Enter(context.Background(), Shown{Token: token, Remote: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 4}, Send: "send it"})
}

func revoke(id string) *nornv1.AccessRequest {
	return &nornv1.AccessRequest{Action: &nornv1.AccessRequest_RevokeToken{RevokeToken: &nornv1.RevokeToken{Id: id}}}
}

func claims(queue string) *nornv1.ClaimRequest { return &nornv1.ClaimRequest{Queues: []string{queue}} }

// TestATokensLife: it is shown once and kept as a hash, has its roles as they are now, and ends
// when it is revoked, also for who came before.
func TestATokensLife(t *testing.T) {
	d := newTestDesk(t)
	d.role("mailer", "work:acme/mail*")
	secret, id := d.create(&nornv1.CreateToken{Name: "ci", Roles: []string{"mailer", "viewer"}})
	var w wire.Writer
	register.AppendState(&w, &d.r.state)
	if bytes.Contains(w.B, []byte(secret[len(secret)-43:])) || strings.Contains(fmt.Sprint(d.book.Load().list()), secret[len(secret)-43:]) {
		t.Error("the secret is kept, or shown again")
	}
	c, err := d.enter(secret)
	if err != nil || c.Name != "ci" || c.ID != id {
		t.Fatal(c, err)
	}
	if _, err := d.Check(c, nornv1.Method_METHOD_CLAIM, claims("acme/mail")); err != nil {
		t.Error(err)
	}
	if _, err := d.Check(c, nornv1.Method_METHOD_CLAIM, claims("acme/billing")); err == nil || err.Kind != nornv1.ErrorKind_ERROR_KIND_PERMISSION_DENIED || !strings.Contains(err.Message, "ci (role mailer, viewer) may not work on queue acme/billing; it may: see *, work acme/mail*") {
		t.Error(err)
	}
	d.role("mailer", "work:acme/billing")
	if _, err := d.Check(c, nornv1.Method_METHOD_CLAIM, claims("acme/billing")); err != nil {
		t.Errorf("the role has changed: %v", err)
	}
	if _, err := d.Do(t.Context(), Self(), &nornv1.AccessRequest{Action: &nornv1.AccessRequest_RemoveRole{RemoveRole: &nornv1.RemoveRole{Name: "mailer"}}}); err == nil || err.Kind != nornv1.ErrorKind_ERROR_KIND_CONFLICT {
		t.Errorf("a role that a token has is removed: %v", err)
	}
	if m, err := d.Do(t.Context(), c, &nornv1.WhoAmIRequest{}); err != nil || m.(*nornv1.WhoAmIReply).GetId() != id || m.(*nornv1.WhoAmIReply).GetRevision() != d.r.state.AccessAt {
		t.Error(m, err)
	}
	if _, err := d.Do(t.Context(), c, &nornv1.AccessRequest{Action: &nornv1.AccessRequest_List{List: &nornv1.ListAccess{}}}); err == nil || err.Kind != nornv1.ErrorKind_ERROR_KIND_PERMISSION_DENIED {
		t.Errorf("a worker lists tokens: %v", err)
	}
	if at := d.ask(&nornv1.AccessRequest{Action: &nornv1.AccessRequest_List{List: &nornv1.ListAccess{}}}).GetTokens()[0].GetLastUsed(); time.Since(at.AsTime()) > time.Minute {
		t.Errorf("last used at %v", at)
	}
	changed, _ := d.Changed()
	d.ask(revoke(id))
	select {
	case <-changed:
	default:
		t.Error("nobody hears that rights have changed")
	}
	if _, err := d.Check(c, nornv1.Method_METHOD_CLAIM, claims("acme/billing")); err == nil || err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED || !strings.Contains(err.Message, "was revoked") {
		t.Error(err)
	}
	if _, err := d.enter(secret); err == nil || err.Message != "the auth token is missing or wrong; send it" {
		t.Errorf("who shows a revoked token is told %v", err)
	}
}

// TestATokenExpires: to the instant, also for who came before, and is told so only to who has
// its secret.
func TestATokenExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTestDesk(t)
		secret, id := d.create(&nornv1.CreateToken{Name: "ci", Roles: []string{"worker"}, TtlSeconds: 60})
		c, err := d.enter(secret)
		if err != nil {
			t.Fatal(err)
		}
		if _, after := d.Changed(); after != time.Minute {
			t.Errorf("the next one expires in %s", after)
		}
		time.Sleep(time.Minute - 1)
		if err := d.Ended(c); err != nil {
			t.Errorf("an instant before its end: %v", err)
		}
		time.Sleep(time.Nanosecond)
		for _, got := range []*proto.Error{d.Ended(c), func() *proto.Error { _, err := d.enter(secret); return err }()} {
			if got == nil || got.Kind != nornv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED || !strings.HasPrefix(got.Message, "token ci (ID "+id+") has expired at ") {
				t.Error(got)
			}
		}
		if _, err := d.enter(tokenPrefix + id + "_wrong"); err == nil || err.Message != "the auth token is missing or wrong; send it" {
			t.Errorf("who knows the ID alone is told %v", err)
		}
		d.ask(&nornv1.AccessRequest{Action: &nornv1.AccessRequest_RenewToken{RenewToken: &nornv1.RenewToken{Id: id, TtlSeconds: 60}}})
		if err := d.Ended(c); err != nil {
			t.Errorf("renewed: %v", err)
		}
	})
}

// TestWhereFromATokenLetsIn.
func TestWhereFromATokenLetsIn(t *testing.T) {
	d := newTestDesk(t)
	for from, want := range map[string]bool{"10.0.0.0/8": true, "10.1.2.3": true, "10.1.2.4": false, "192.168.0.0/16": false} {
		secret, _ := d.create(&nornv1.CreateToken{Name: "ci", Roles: []string{"worker"}, From: []string{from}})
		if _, err := d.enter(secret); (err == nil) != want {
			t.Errorf("from %s: %v", from, err)
		}
	}
}

// TestTheRegisterWithoutAMajority: who was let in goes on, changes are refused with the reason.
func TestTheRegisterWithoutAMajority(t *testing.T) {
	d := newTestDesk(t)
	secret, id := d.create(&nornv1.CreateToken{Name: "ci", Roles: []string{"worker"}})
	d.r.cut = true
	c, err := d.enter(secret)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Check(c, nornv1.Method_METHOD_CLAIM, claims("q")); err != nil {
		t.Error(err)
	}
	if _, err := d.Do(t.Context(), Self(), revoke(id)); err == nil || err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || !strings.Contains(err.Message, "majority") || err.Effect != nornv1.Effect_EFFECT_NONE {
		t.Error(err)
	}
}

// TestAnOlderStateTellsNothing: a node that hears states out of order, or starts anew with what
// its disk has, keeps the newest.
func TestAnOlderStateTellsNothing(t *testing.T) {
	d := newTestDesk(t)
	secret, id := d.create(&nornv1.CreateToken{Name: "ci", Roles: []string{"worker"}})
	before := d.r.state
	d.ask(revoke(id))
	d.Learn(&before)
	if _, err := d.enter(secret); err == nil {
		t.Error("a revoked token lives again")
	}
	alone := New(Config{Always: true})
	alone.Learn(&before)
	if _, err := alone.Enter(t.Context(), Shown{Token: secret}); err != nil {
		t.Errorf("a node that starts without the others: %v", err)
	}
}

// TestARestoreSuspendsTokens: which ones were revoked since the backup nobody knows. A token of
// the file enables them.
func TestARestoreSuspendsTokens(t *testing.T) {
	d := newTestDesk(t)
	secret, _ := d.create(&nornv1.CreateToken{Name: "ci", Roles: []string{"admin"}})
	self := register.Node{Member: register.Member{Node: "n1", Incarnation: register.Incarnation{1}}}
	d.r.state = d.r.state.Rebuilt(self, 7, 1)
	d.Learn(&d.r.state)
	if _, err := d.enter(secret); err == nil || !strings.Contains(err.Message, "suspended") {
		t.Fatal(err)
	}
	root, err := d.enter("root")
	if err != nil || root.Proof != guard.ByTokenFile {
		t.Fatal(err)
	}
	if _, err := d.Do(t.Context(), root, &nornv1.AccessRequest{Action: &nornv1.AccessRequest_EnableTokens{EnableTokens: &nornv1.EnableTokens{}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.enter(secret); err != nil {
		t.Error(err)
	}
}

// TestBadRolesAndTokensAreRefused before anything is written.
func TestBadRolesAndTokensAreRefused(t *testing.T) {
	d := newTestDesk(t)
	d.role("mailer", "work:acme/mail*")
	long := make([]string, guard.MaxRules)
	for i := range long {
		long[i] = fmt.Sprintf("work:%s%d", strings.Repeat("q", 100), i)
	}
	set := func(name string, allow ...string) *nornv1.AccessRequest {
		return &nornv1.AccessRequest{Action: &nornv1.AccessRequest_SetRole{SetRole: &nornv1.SetRole{Name: name, Allow: allow}}}
	}
	create := func(m *nornv1.CreateToken) *nornv1.AccessRequest {
		return &nornv1.AccessRequest{Action: &nornv1.AccessRequest_CreateToken{CreateToken: m}}
	}
	before := d.r.state.Revision
	for name, m := range map[string]*nornv1.AccessRequest{
		"no action": {}, "built in": set("worker", "work:*"), "no rules": set("x"), "name": set("a/b", "work:*"), "pattern": set("x", "work:a*b"), "verb": set("x", "purge:*"),
		"too long": set("x", long...), "cluster by pattern": set("x", "cluster:acme/*"),
		"no role": create(&nornv1.CreateToken{Name: "ci"}), "unknown role": create(&nornv1.CreateToken{Name: "ci", Roles: []string{"x"}}), "no name": create(&nornv1.CreateToken{Roles: []string{"worker"}}),
		"negative": create(&nornv1.CreateToken{Name: "ci", Roles: []string{"worker"}, TtlSeconds: -1}), "from": create(&nornv1.CreateToken{Name: "ci", Roles: []string{"worker"}, From: []string{"acme"}}),
		"unknown token": revoke("00000000"),
	} {
		if _, err := d.Do(t.Context(), Self(), m); err == nil || err.Effect != nornv1.Effect_EFFECT_NONE {
			t.Errorf("%s: %v", name, err)
		}
	}
	if d.r.state.Revision != before {
		t.Error("something was written")
	}
}

// TestManyTokens: a check by the register's tokens takes no look through all of them, and
// allocates nothing.
func TestManyTokens(t *testing.T) {
	d := newTestDesk(t)
	secret, _ := d.create(&nornv1.CreateToken{Name: "ci", Roles: []string{"worker"}, TtlSeconds: 3600})
	c, err := d.enter(secret)
	if err != nil {
		t.Fatal(err)
	}
	body := claims("q")
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := d.Check(c, nornv1.Method_METHOD_CLAIM, body); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("a check allocates %v times", n)
	}
}
