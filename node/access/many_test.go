package access

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/norn-dev/norn/internal/secrets"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/wire"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// many is a register with as many tokens, roles and tenants as there may be, and the tokens. Each second
// token is of a tenant with a rate.
func many() (s register.State, all []string) {
	s = register.State{Revision: 1, AccessAt: 1, Access: make(map[string]register.Value)}
	put := func(c register.AccessChange) {
		s.Revision++
		s.Access[c.Key] = register.Value{Version: s.Revision, Data: c.Data}
	}
	for i := range maxCustom {
		put(stored(fmt.Sprintf("%srole%d", roleKey, i), 0, &nornv1.StoredRole{Allow: []string{
			fmt.Sprintf("enqueue:team%d/*", i), fmt.Sprintf("see:team%d/*", i), "read:shared/*",
		}}))
	}
	for i := range maxTenants {
		put(stored(fmt.Sprintf("%steam%d", tenantKey, i), 0, &nornv1.StoredTenant{Prefix: fmt.Sprintf("team%d/", i), Limits: &nornv1.TenantLimits{Tasks: 1e6, Rate: math.MaxInt32}}))
	}
	for i := range maxTokens {
		secret := fmt.Sprintf("%043d", i)
		sum, id := sha256.Sum256([]byte(secret)), hex.EncodeToString([]byte{byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)})
		token := &nornv1.StoredToken{
			Name: fmt.Sprintf("ci%d", i), Hash: sum[:], Roles: []string{fmt.Sprintf("role%d", i%maxCustom)}, Created: timestamppb.New(time.Unix(1e9, 0)), Creator: "root",
			Expires: timestamppb.New(time.Unix(4e9, int64(i))),
		}
		if i%2 == 1 {
			token.Tenant, token.TenantHash, token.Hash = fmt.Sprintf("team%d", i%maxTenants), sum[:], nil
		}
		put(stored(tokenKey+id, 0, token))
		all = append(all, tokenPrefix+id+"_"+secret)
	}
	s.AccessAt = s.Revision
	return s, all
}

// TestTenThousandTokens, a thousand roles and a thousand tenants: each token lets in with its role, a check allocates nothing, and one more
// change costs no state of the register twice: it is small, and only what has changed is read
// again.
func TestTenThousandTokens(t *testing.T) {
	s, all := many()
	w := &wire.Writer{}
	register.AppendState(w, &s)
	if n := len(w.B); n > 3<<20 {
		t.Errorf("the register's state has %d bytes", n)
	}
	d := New(Config{Tokens: func() secrets.Set { return secrets.Set{"root"} }})
	d.Learn(&s)
	for i := 0; i < len(all); i += 997 {
		c, err := d.Enter(t.Context(), Shown{Token: all[i]})
		if err != nil {
			t.Fatal(err)
		}
		own, other := fmt.Sprintf("team%d/mail", i%maxCustom), fmt.Sprintf("team%d/mail", (i+1)%maxCustom)
		for queue, may := range map[string]bool{own: true, other: false} {
			body := &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: queue}}}
			if _, err := d.Check(c, nornv1.Method_METHOD_ENQUEUE, body); (err == nil) != may {
				t.Errorf("token %d on queue %s: %v", i, queue, err)
			}
		}
		body := &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: own}}}
		if n := testing.AllocsPerRun(100, func() { _, _ = d.Check(c, nornv1.Method_METHOD_ENQUEUE, body) }); n != 0 {
			t.Errorf("a check allocates %v times", n)
		}
	}
	before := d.book.Load()
	next, _, _ := s.Apply(&register.Request{Access: []register.AccessChange{{Key: tokenKey + "00000007", Old: s.Access[tokenKey+"00000007"].Version}}})
	d.Learn(&next)
	after := d.book.Load()
	if len(after.tokens) != maxTokens-1 {
		t.Errorf("%d tokens are left", len(after.tokens))
	}
	for id, x := range after.tokens {
		if before.tokens[id] != x {
			t.Fatalf("token %s was read again though nothing of it has changed", id)
		}
	}
	if _, err := d.Enter(t.Context(), Shown{Token: all[7]}); err == nil {
		t.Error("the revoked one lets in")
	}
}

// BenchmarkCheckOfTenThousand is one request, and one look at whether a token still lets in, with as many
// tokens, roles and tenants as there may be; of who is of no tenant, and of who is.
func BenchmarkCheckOfTenThousand(b *testing.B) {
	s, all := many()
	d := New(Config{Tokens: func() secrets.Set { return secrets.Set{"root"} }})
	d.Learn(&s)
	var callers []*Caller
	for i := 0; i < len(all); i += 97 {
		c, err := d.Enter(b.Context(), Shown{Token: all[i]})
		if err != nil {
			b.Fatal(err)
		}
		callers = append(callers, c)
	}
	for at, name := range map[int]string{0: "no tenant", 1: "a tenant"} { // callers[1] has token 97
		body := &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: fmt.Sprintf("team%d/mail", at*97)}}}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := d.Check(callers[at], nornv1.Method_METHOD_ENQUEUE, body); err != nil {
					b.Fatal(err)
				}
				if err := d.Ended(callers[i%len(callers)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
