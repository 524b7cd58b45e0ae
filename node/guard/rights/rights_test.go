package rights

import (
	"strings"
	"testing"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	gproto "google.golang.org/protobuf/proto"
)

func stored(t *testing.T, m gproto.Message) register.Value {
	t.Helper()
	b, err := gproto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return register.Value{Version: 1, Data: b}
}

// TestWhoMadeAScheduleNeedsTheRight: that of its token or of its roles as they are now, within
// its tenant. An expired token has it still, a revoked one has not.
func TestWhoMadeAScheduleNeedsTheRight(t *testing.T) {
	access := map[string]register.Value{
		RoleKey + "cron":  stored(t, &nornv1.StoredRole{Allow: []string{"schedule:acme/*", "fly:acme/*"}}),
		TokenKey + "7f3a": stored(t, &nornv1.StoredToken{Name: "ci", Hash: make([]byte, 32), Roles: []string{"cron"}}),
	}
	for _, c := range []struct {
		of    *nornv1.ScheduleMaker
		queue string
		why   string
	}{
		{nil, "acme/mail", ""},
		{&nornv1.ScheduleMaker{Name: "ci", Token: "7f3a"}, "acme/mail", ""},
		{&nornv1.ScheduleMaker{Name: "ci", Token: "7f3a"}, "other", "may not schedule on queue other"},
		{&nornv1.ScheduleMaker{Name: "ci", Token: "0000"}, "acme/mail", "ci (ID 0000), with which it was made, was revoked"},
		{&nornv1.ScheduleMaker{Name: "x509", Roles: []string{"operator"}}, "acme/mail", ""},
		{&nornv1.ScheduleMaker{Name: "x509", Roles: []string{"operator"}, Prefix: "acme/"}, "acme/mail", ""},
		{&nornv1.ScheduleMaker{Name: "x509", Roles: []string{"operator"}, Prefix: "acme/"}, "acme2/mail", "may not"},
		{&nornv1.ScheduleMaker{Name: "x509", Roles: []string{"worker", "gone"}}, "acme/mail", "no right to it any more"},
		{&nornv1.ScheduleMaker{Name: "x509"}, "acme/mail", "may not"},
	} {
		if got := Barred(access, c.of, c.queue); (got == "") != (c.why == "") || !strings.Contains(got, c.why) {
			t.Errorf("%v on %s: %q, want %q", c.of, c.queue, got, c.why)
		}
	}
}
