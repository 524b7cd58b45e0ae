package access

import (
	"strings"
	"testing"

	"github.com/norn-dev/norn/internal/secrets"
	"github.com/norn-dev/norn/node/guard"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// TestWhoShowsNothingHasARole: that of the setting, as the register says it now, and never with what is about the
// cluster and rights. What is shown counts before that, also when it is wrong.
func TestWhoShowsNothingHasARole(t *testing.T) {
	d := &desk{t, New(Config{Node: "n1", Always: true, Anonymous: "wall", Names: NamesOf("cn"), Tokens: func() secrets.Set { return secrets.Set{"root"} }}), &oneRegister{state: register.State{Revision: 1}}}
	d.Serve(d.r)
	if _, err := d.Enter(t.Context(), Shown{Send: "send it"}); err == nil || err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED || !strings.Contains(err.Message, "no role \"wall\"") {
		t.Errorf("without the role: %v", err)
	}
	d.role("wall", "see,schedule:acme/*", "cluster,access:*")
	c, err := d.Enter(t.Context(), Shown{})
	if err != nil || c.Name != anonymousName || c.Proof != guard.ByNothing {
		t.Fatalf("%+v, %v", c, err)
	}
	see := func(queue string) error {
		if _, err := d.Check(c, nornv1.Method_METHOD_LIST, &nornv1.ListRequest{Queue: queue}); err != nil {
			return err
		}
		return nil
	}
	if err := see("acme/mail"); err != nil {
		t.Error(err)
	}
	if see("mail") == nil {
		t.Error("it sees another queue")
	}
	for _, m := range []nornv1.Method{nornv1.Method_METHOD_CLUSTER, nornv1.Method_METHOD_ACCESS, nornv1.Method_METHOD_VERIFY} {
		if _, err := d.Check(c, m, nil); err == nil {
			t.Errorf("it may do %s", m)
		}
	}
	change := &nornv1.ChangeSchedulesRequest{Changes: []*nornv1.ScheduleChange{{Name: "s"}}}
	if d.Sign(c, change); change.GetChanges()[0].GetMaker().GetName() != anonymousName || change.GetChanges()[0].GetMaker().GetRoles()[0] != "wall" {
		t.Errorf("its schedules are %v's: nobody looks at their rights", change.GetChanges()[0].GetMaker())
	}
	d.role("wall", "see:mail")
	if see("acme/mail") == nil || see("mail") != nil {
		t.Error("a change of the role does not count at once")
	}
	d.mapped(&nornv1.SetMap{Name: "w", Certificate: "w", Roles: []string{"worker"}})
	d.mapped(&nornv1.SetMap{Name: "all", Certificate: "*", Roles: []string{"admin"}})
	if c, err := d.shows(certificateOf("w")); err != nil || c.Name != "w" || c.Roles[0] != "worker" {
		t.Errorf("a certificate: %+v, %v", c, err)
	}
	if c, err := d.Enter(t.Context(), Shown{}); err != nil || c.Roles[0] != "wall" {
		t.Errorf("a map for all certificates is no map for who shows none: %+v, %v", c, err)
	}
	if c, err := d.Enter(t.Context(), Shown{Token: "root"}); err != nil || c.Name != rootName {
		t.Errorf("a token: %+v, %v", c, err)
	}
	if c, err := d.Enter(t.Context(), Shown{Token: "wrong"}); err == nil {
		t.Errorf("a wrong token: %+v", c)
	}
}
