package access

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/internal/jwts"
	"github.com/norn-dev/norn/internal/secrets"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	gproto "google.golang.org/protobuf/proto"
)

func (d *desk) mapped(m *nornv1.SetMap) {
	d.t.Helper()
	d.ask(&nornv1.AccessRequest{Action: &nornv1.AccessRequest_SetMap{SetMap: m}})
}

func (d *desk) tenant(m *nornv1.SetTenant) {
	d.t.Helper()
	d.ask(&nornv1.AccessRequest{Action: &nornv1.AccessRequest_SetTenant{SetTenant: m}})
}

// certificateOf is one that an authority has vouched for.
func certificateOf(names ...string) *x509.Certificate {
	c := &x509.Certificate{Subject: pkix.Name{CommonName: names[0]}, DNSNames: names, NotAfter: time.Now().Add(time.Hour)}
	for _, name := range names {
		u, _ := url.Parse(name)
		c.URIs = append(c.URIs, u)
	}
	return c
}

func newNamesDesk(t *testing.T, kind string) *desk {
	d := &desk{t, New(Config{Node: "n1", Always: true, Names: NamesOf(kind), Tokens: func() secrets.Set { return secrets.Set{"root"} }}), &oneRegister{state: register.State{Revision: 1}}}
	d.Serve(d.r)
	return d
}

func (d *desk) shows(c *x509.Certificate) (*Caller, *proto.Error) {
	return d.Enter(context.Background(), Shown{Certificate: c, Send: "send it"})
}

// TestACertificateHasTheRolesOfItsMap: of the one that says most of its names; a token goes
// before it.
func TestACertificateHasTheRolesOfItsMap(t *testing.T) {
	d := newNamesDesk(t, "san-uri")
	d.mapped(&nornv1.SetMap{Name: "all", Certificate: "*", Roles: []string{"metrics"}})
	d.mapped(&nornv1.SetMap{Name: "acme", Certificate: "spiffe://acme/*", Roles: []string{"viewer"}})
	d.mapped(&nornv1.SetMap{Name: "workers", Certificate: "spiffe://acme/worker-*", Roles: []string{"worker"}})
	d.mapped(&nornv1.SetMap{Name: "one", Certificate: "spiffe://acme/worker-7", Roles: []string{"operator"}})
	d.mapped(&nornv1.SetMap{Name: "end", Certificate: "spiffe://*/cron", Roles: []string{"producer"}})
	d.mapped(&nornv1.SetMap{Name: "jwt", JwtSubject: "spiffe://acme/worker-1", Roles: []string{"admin"}})
	for name, role := range map[string]string{
		"spiffe://acme/worker-1": "worker", "spiffe://acme/worker-7": "operator", "spiffe://acme/worker": "viewer", "spiffe://acme/x": "viewer",
		"spiffe://acme2/worker-1": "metrics", "spiffe://acme2/cron": "producer", "spiffe://acme/worker-cron": "worker",
	} {
		c, err := d.shows(certificateOf(name))
		if err != nil || c.Name != name || strings.Join(c.Roles, ",") != role || c.Proof != guard.ByCertificate {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	if c, err := d.shows(certificateOf("spiffe://other/x", "spiffe://acme/worker-7")); err != nil || c.Name != "spiffe://acme/worker-7" || c.Roles[0] != "operator" {
		t.Errorf("two names: %+v, %v", c, err)
	}
	if c, err := d.Enter(t.Context(), Shown{Token: "root", Certificate: certificateOf("spiffe://acme/worker-1")}); err != nil || c.Name != "root" {
		t.Errorf("with a token: %+v, %v", c, err)
	}
	if c, err := d.Enter(t.Context(), Shown{Token: "wrong", Certificate: certificateOf("spiffe://acme/worker-1")}); err == nil {
		t.Errorf("with a wrong token: %+v", c)
	}
}

// TestACertificateWithoutAMapIsNobodys, and one whose names do not count, or that has ended.
func TestACertificateWithoutAMapIsNobodys(t *testing.T) {
	for _, kind := range []string{"san-uri", "san-dns", "cn"} {
		d := newNamesDesk(t, kind)
		d.mapped(&nornv1.SetMap{Name: "w", Certificate: "w.acme", Roles: []string{"worker"}})
		if _, err := d.shows(certificateOf("w.acme2")); err == nil || err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED || !strings.Contains(err.Message, "certificate of w.acme2: norn access map set") {
			t.Errorf("%s: %v", kind, err)
		}
		if c, err := d.shows(certificateOf("w.acme")); err != nil || c.Roles[0] != "worker" {
			t.Errorf("%s: %v, %v", kind, c, err)
		}
		if _, err := d.shows(&x509.Certificate{}); err == nil || !strings.Contains(err.Message, "missing or wrong") {
			t.Errorf("%s, without names: %v", kind, err)
		}
	}
	d := newNamesDesk(t, "none")
	d.mapped(&nornv1.SetMap{Name: "w", Certificate: "w.acme", Roles: []string{"worker"}})
	if c, err := d.shows(certificateOf("w.acme")); err == nil {
		t.Errorf("without the setting: %+v", c)
	}
	synctest.Test(t, func(t *testing.T) {
		d := newNamesDesk(t, "cn")
		d.mapped(&nornv1.SetMap{Name: "w", Certificate: "w", Roles: []string{"worker"}})
		c, err := d.shows(certificateOf("w"))
		if err != nil {
			t.Fatal(err)
		}
		if _, after := d.Changed(); after != glance {
			t.Errorf("who closes connections looks again in %v", after)
		}
		time.Sleep(time.Hour)
		if err := d.Ended(c); err == nil || !strings.Contains(err.Message, "the certificate of w has expired at") {
			t.Errorf("an hour later: %v", err)
		}
	})
}

// TestAChangeOfAMapCountsAtOnce: for those who are connected.
func TestAChangeOfAMapCountsAtOnce(t *testing.T) {
	d := newNamesDesk(t, "cn")
	d.mapped(&nornv1.SetMap{Name: "w", Certificate: "w*", Roles: []string{"worker"}})
	c, err := d.shows(certificateOf("w1"))
	if err != nil {
		t.Fatal(err)
	}
	request := claims("mail")
	may := func() bool {
		_, err := d.Check(c, nornv1.Method_METHOD_CLAIM, request)
		return err == nil
	}
	if !may() {
		t.Error("a worker may not work")
	}
	if n := testing.AllocsPerRun(100, func() { may() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	d.mapped(&nornv1.SetMap{Name: "w", Certificate: "w*", Roles: []string{"viewer"}})
	if may() || d.Ended(c) != nil {
		t.Error("a viewer may work, or is not let in")
	}
	d.mapped(&nornv1.SetMap{Name: "w1", Certificate: "w1", Roles: []string{"worker"}})
	if !may() {
		t.Error("a closer map does not count")
	}
	for _, name := range []string{"w", "w1"} {
		d.ask(&nornv1.AccessRequest{Action: &nornv1.AccessRequest_RemoveMap{RemoveMap: &nornv1.RemoveMap{Name: name}}})
	}
	if err := d.Ended(c); err == nil {
		t.Error("without a map it is let in still")
	}
}

// TestTheTenantOfAPrincipal: its names begin with the prefix, and acme is not acme2.
func TestTheTenantOfAPrincipal(t *testing.T) {
	d := newNamesDesk(t, "cn")
	d.tenant(&nornv1.SetTenant{Name: "acme"})
	d.tenant(&nornv1.SetTenant{Name: "acme2"})
	d.mapped(&nornv1.SetMap{Name: "w", Certificate: "w", Roles: []string{"admin"}, Tenant: "acme"})
	secret, id := d.create(&nornv1.CreateToken{Name: "ci", Roles: []string{"admin"}, Tenant: "acme"})
	byToken, err := d.enter(secret)
	if err != nil {
		t.Fatal(err)
	}
	byName, err := d.shows(certificateOf("w"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Caller{byToken, byName} {
		for queue, want := range map[string]bool{"acme/mail": true, "acme2/mail": false, "acme": false, "acmemail": false, "mail": false, "x/acme/mail": false} {
			if _, err := d.Check(c, nornv1.Method_METHOD_CLAIM, claims(queue)); (err == nil) != want {
				t.Errorf("%s: %v", queue, err)
			}
		}
		for _, m := range []nornv1.Method{nornv1.Method_METHOD_CLUSTER, nornv1.Method_METHOD_ACCESS, nornv1.Method_METHOD_VERIFY} {
			if _, err := d.Check(c, m, nil); err == nil {
				t.Errorf("an admin of a tenant may %v", m)
			}
		}
		if who := d.who(c.Principal); who.GetTenant() != "acme" || who.GetPrefix() != "acme/" {
			t.Errorf("%v", who)
		}
	}
	var s nornv1.StoredToken
	if err := gproto.Unmarshal(d.r.state.Access[tokenKey+id].Data, &s); err != nil || s.GetHash() != nil {
		t.Errorf("a build that knows no tenants lets it in everywhere: %v, %v", &s, err)
	}
	for what, m := range map[string]*nornv1.AccessRequest{
		"maps are of tenant acme": {Action: &nornv1.AccessRequest_RemoveTenant{RemoveTenant: &nornv1.RemoveTenant{Name: "acme"}}},
		"never changes":           {Action: &nornv1.AccessRequest_SetTenant{SetTenant: &nornv1.SetTenant{Name: "acme", Prefix: "x/"}}},
		"has the prefix acme/":    {Action: &nornv1.AccessRequest_SetTenant{SetTenant: &nornv1.SetTenant{Name: "other", Prefix: "acme/"}}},
		"no prefix of a tenant":   {Action: &nornv1.AccessRequest_SetTenant{SetTenant: &nornv1.SetTenant{Name: "other", Prefix: "acme"}}},
		"is no prefix":            {Action: &nornv1.AccessRequest_SetTenant{SetTenant: &nornv1.SetTenant{Name: "other", Prefix: "a/b/"}}},
		"cannot be":               {Action: &nornv1.AccessRequest_SetTenant{SetTenant: &nornv1.SetTenant{Name: "other", Limits: &nornv1.TenantLimits{Rate: -1}}}},
		"there is no tenant":      {Action: &nornv1.AccessRequest_CreateToken{CreateToken: &nornv1.CreateToken{Name: "x", Roles: []string{"viewer"}, Tenant: "none"}}},
		"there is no role":        {Action: &nornv1.AccessRequest_SetMap{SetMap: &nornv1.SetMap{Name: "x", Certificate: "x", Roles: []string{"none"}}}},
		"is for w already":        {Action: &nornv1.AccessRequest_SetMap{SetMap: &nornv1.SetMap{Name: "x", Certificate: "w", Roles: []string{"viewer"}}}},
		"no pattern":              {Action: &nornv1.AccessRequest_SetMap{SetMap: &nornv1.SetMap{Name: "x", Certificate: "a*b*", Roles: []string{"viewer"}}}},
		"give either":             {Action: &nornv1.AccessRequest_SetMap{SetMap: &nornv1.SetMap{Name: "x", Certificate: "a", JwtSubject: "b", Roles: []string{"viewer"}}}},
		"there is no map":         {Action: &nornv1.AccessRequest_RemoveMap{RemoveMap: &nornv1.RemoveMap{Name: "x"}}},
	} {
		if _, err := d.Do(t.Context(), Self(), m); err == nil || !strings.Contains(err.Message, what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if reply := d.ask(&nornv1.AccessRequest{Action: &nornv1.AccessRequest_List{}}); len(reply.GetTenants()) != 2 || len(reply.GetMaps()) != 1 || reply.GetTokens()[0].GetTenant() != "acme" {
		t.Errorf("%v", reply)
	}
}

// issuer signs JWTs.
type issuer struct {
	t   *testing.T
	key *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &issuer{t, key}
}

func (i *issuer) desk() *desk {
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: "k", Use: "sig"}}})
	if err != nil {
		i.t.Fatal(err)
	}
	file := filepath.Join(i.t.TempDir(), "keys.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		i.t.Fatal(err)
	}
	v, err := jwts.New(jwts.Config{Issuer: "i", Audience: "a", Keys: file, RolesClaim: "norn_roles", TenantClaim: "norn_tenant", MaxLife: time.Hour, Reload: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		i.t.Fatal(err)
	}
	d := &desk{i.t, New(Config{Node: "n1", Always: true, JWT: v}), &oneRegister{state: register.State{Revision: 1}}}
	d.Serve(d.r)
	return d
}

func (i *issuer) sign(sub string, more map[string]any) string {
	i.t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: i.key}, (&jose.SignerOptions{}).WithHeader("kid", "k"))
	if err != nil {
		i.t.Fatal(err)
	}
	all := map[string]any{"iss": "i", "aud": "a", "sub": sub, "exp": time.Now().Add(time.Minute).Unix()}
	for name, claim := range more {
		all[name] = claim
	}
	text, err := jwt.Signed(s).Claims(all).Serialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return text
}

// TestAJWTHasTheRolesOfItsClaimAndOfItsMap, within its tenant; those that there are not give
// nothing, and why somebody is not let in is told only to who shows what the issuer has signed.
func TestAJWTHasTheRolesOfItsClaimAndOfItsMap(t *testing.T) {
	i := newIssuer(t)
	d := i.desk()
	d.tenant(&nornv1.SetTenant{Name: "acme"})
	d.tenant(&nornv1.SetTenant{Name: "other"})
	d.mapped(&nornv1.SetMap{Name: "ci", JwtSubject: "ci@*", Roles: []string{"producer"}, Tenant: "acme"})
	d.mapped(&nornv1.SetMap{Name: "cert", Certificate: "bob", Roles: []string{"admin"}})
	for _, c := range []struct {
		sub           string
		claims        map[string]any
		roles, tenant string
		err           string
	}{
		{sub: "ci@acme", roles: "producer", tenant: "acme"},
		{sub: "ci@acme", claims: map[string]any{"norn_roles": []string{"worker", "producer", "none"}}, roles: "producer,worker", tenant: "acme"},
		{sub: "bob", claims: map[string]any{"norn_roles": "viewer"}, roles: "viewer"},
		{sub: "bob", claims: map[string]any{"norn_roles": "viewer", "norn_tenant": "other"}, roles: "viewer", tenant: "other"},
		{sub: "bob", err: "claims no role that there is"},
		{sub: "bob", claims: map[string]any{"norn_roles": "none"}, err: "claims no role that there is"},
		{sub: "bob", claims: map[string]any{"norn_roles": "viewer", "norn_tenant": "none"}, err: "there is none of that name"},
		{sub: "ci@acme", claims: map[string]any{"norn_tenant": "other"}, err: "claims tenant other, and map ci says acme"},
		{sub: "ci@acme", claims: map[string]any{"aud": "else"}, err: "audience"},
		{sub: "ci@acme", claims: map[string]any{"exp": 1}, err: "expired"},
	} {
		who, err := d.enter(i.sign(c.sub, c.claims))
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Message, c.err) || err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED {
				t.Errorf("%+v: %+v, %v", c, who, err)
			}
		case err != nil || who.Name != c.sub || strings.Join(who.Roles, ",") != c.roles || who.Tenant != c.tenant || who.Proof != guard.ByJWT:
			t.Errorf("%+v: %+v, %v", c, who, err)
		}
	}
	if _, err := d.enter(newIssuer(t).sign("ci@acme", nil)); err == nil || !strings.Contains(err.Message, "missing or wrong") {
		t.Errorf("of another issuer: %v", err)
	}
}
