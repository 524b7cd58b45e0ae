package access

import (
	"fmt"
	"strings"
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// withTenants makes a desk with so many tenants, and gives a caller of one of them.
func withTenants(t testing.TB, n int) (*Desk, *Caller) {
	t.Helper()
	s := register.State{Revision: 1}
	d := New(Config{Node: "n1", Always: true})
	do := func(m *nornv1.AccessRequest) string {
		change, reply, err := plan((&book{}).read(&s), Self(), m, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		next, res, _ := s.Apply(&register.Request{Access: []register.AccessChange{change}})
		if s = next; !res.AccessWon[0] {
			t.Fatal("it was not written")
		}
		return reply.GetSecret()
	}
	change := &nornv1.AccessRequest{Action: &nornv1.AccessRequest_SetTenant{SetTenant: &nornv1.SetTenant{Name: "t", Limits: &nornv1.TenantLimits{Rate: 1e9, Connections: 2}}}}
	do(change)
	first := s.Access[tenantKey+"t"]
	for i := range n - 1 {
		name := fmt.Sprint("t", i)
		x := &nornv1.StoredTenant{Prefix: name + "/"}
		s.Access[tenantKey+name] = register.Value{Version: first.Version, Data: stored("", 0, x).Data}
	}
	secret := do(&nornv1.AccessRequest{Action: &nornv1.AccessRequest_CreateToken{CreateToken: &nornv1.CreateToken{Name: "w", Roles: []string{"worker"}, Tenant: "t"}}})
	d.Learn(&s)
	c, err := d.Enter(t.Context(), Shown{Token: secret})
	if err != nil {
		t.Fatal(err)
	}
	return d, c
}

// TestACheckAmongAThousandTenantsAllocatesNothing, with a rate that is counted.
func TestACheckAmongAThousandTenantsAllocatesNothing(t *testing.T) {
	d, c := withTenants(t, maxTenants)
	request := claims("t/mail")
	if n := testing.AllocsPerRun(100, func() {
		if _, err := d.Check(c, nornv1.Method_METHOD_CLAIM, request); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkCheckAmongAThousandTenants is what each request of a tenant costs.
func BenchmarkCheckAmongAThousandTenants(b *testing.B) {
	d, c := withTenants(b, maxTenants)
	request := claims("t/mail")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Check(c, nornv1.Method_METHOD_CLAIM, request); err != nil {
			b.Fatal(err)
		}
	}
}

// TestATenantHasAsManyConnectionsAsItMay, also after its limits have changed.
func TestATenantHasAsManyConnectionsAsItMay(t *testing.T) {
	d, c := withTenants(t, 3)
	var here []*Caller
	for range 2 {
		x := &Caller{Principal: c.Principal}
		if err := d.Arrive(x); err != nil {
			t.Fatal(err)
		}
		here = append(here, x)
	}
	x := &Caller{Principal: c.Principal}
	if err := d.Arrive(x); err == nil || !strings.Contains(err.Message, "tenant t has 2 connections to this node, its limit (max-connections) is 2") {
		t.Errorf("one more: %v", err)
	}
	d.Leave(x)
	d.Leave(nil)
	for range 2 {
		d.Leave(here[0])
	}
	if err := d.Arrive(x); err != nil {
		t.Errorf("with one gone: %v", err)
	}
	if err := d.Arrive(&Caller{Principal: Self().Principal}); err != nil {
		t.Errorf("who is of no tenant: %v", err)
	}
}

// TestTheRateOfATenant: those of a second at once, then one after the other; what keeps work is
// not held up.
func TestTheRateOfATenant(t *testing.T) {
	u := &uses{left: 1e9}
	now := int64(time.Hour)
	for range 10 {
		if after := u.pace(10, now); after != 0 {
			t.Fatalf("one of the first ten may come after %v", after)
		}
	}
	if after := u.pace(10, now); after != 100*time.Millisecond {
		t.Errorf("the next may come after %v", after)
	}
	if u.pace(10, now+int64(100*time.Millisecond)) != 0 || u.pace(10, now+int64(150*time.Millisecond)) == 0 {
		t.Error("after a tenth of a second there is not one")
	}
	d, c := withTenants(t, 1)
	d.book.Load().tenants["t"].limits.Rate = 1e-9
	d.book.Load().tenants["t"].uses.left = 0
	if _, err := d.Check(c, nornv1.Method_METHOD_CLAIM, claims("t/mail")); err == nil || !strings.Contains(err.Message, "its limit (rate)") || err.RetryAfter <= 0 {
		t.Errorf("over the rate: %v", err)
	}
	if _, err := d.Check(c, nornv1.Method_METHOD_COMPLETE, &nornv1.CompleteRequest{}); err != nil {
		t.Errorf("a completion is held up: %v", err)
	}
}
