package access

import (
	"context"
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/internal/jwts"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
)

// identity is who has shown a certificate or a JWT, or nothing where that is enough. The register says what roles that gives.
type identity struct {
	proof  string
	names  []string // those of the certificate, or the subject of the JWT
	roles  []string // that the JWT claims
	tenant string   // likewise
	// expires is until when it lets in, wall ns.
	expires int64

	known atomic.Pointer[judged] // by the newest book
}

// judged is what a book says of an identity.
type judged struct {
	book      *book
	principal *guard.Principal // nil with err
	err       *proto.Error
}

// The names in a certificate that can say whose it is, by the setting auth-cert.
var certNames = map[string]func(*x509.Certificate) []string{
	"san-uri": func(c *x509.Certificate) (names []string) {
		for _, u := range c.URIs {
			names = append(names, u.String())
		}
		return names
	},
	"san-dns": func(c *x509.Certificate) (names []string) {
		for _, name := range c.DNSNames {
			names = append(names, strings.ToLower(name))
		}
		return names
	},
	"cn": func(c *x509.Certificate) []string {
		if c.Subject.CommonName == "" {
			return nil
		}
		return []string{c.Subject.CommonName}
	},
}

// NamesOf gives what reads the names of certificates, by a value of auth-cert; nil: nothing does.
func NamesOf(kind string) func(*x509.Certificate) []string { return certNames[kind] }

// namesIn are the names that say whose a certificate is; none: nobody's.
func (d *Desk) namesIn(c *x509.Certificate) []string {
	if c == nil || d == nil || d.o.Names == nil {
		return nil
	}
	return d.o.Names(c)
}

// bearer lets in who has a JWT. Why it lets in nobody is told only where the issuer has signed it.
func (d *Desk) bearer(ctx context.Context, c *Caller, token string) *proto.Error {
	claims, err := d.o.JWT.Verify(ctx, token, time.Now())
	switch {
	case errors.Is(err, jwts.ErrRefused):
		return unauthenticated("%v", err)
	case err != nil:
		return nil
	}
	return d.identified(c, &identity{proof: guard.ByJWT, names: []string{claims.Subject}, roles: claims.Roles, tenant: claims.Tenant, expires: claims.Expires.UnixNano()})
}

// identified lets in who has shown an identity.
func (d *Desk) identified(c *Caller, i *identity) (err *proto.Error) {
	if c.Principal, err = d.book.Load().principalOf(i); err != nil {
		return err
	}
	c.as = i
	if i.proof != guard.ByNothing {
		d.outside.Store(true)
	}
	return nil
}

// principalOf is who an identity is, and what it may do.
//
// The verdict is remembered with the book that it is from: a busy connection is judged once per
// change of rights.
func (b *book) principalOf(i *identity) (*guard.Principal, *proto.Error) {
	j := i.known.Load()
	if j == nil || j.book != b {
		j = &judged{book: b}
		j.principal, j.err = b.judge(i)
		i.known.Store(j)
	}
	if j.err == nil && time.Now().UnixNano() >= i.expires {
		return nil, unauthenticated("the %s of %s has expired at %s; show another one", i.proof, j.principal.Name, time.Unix(0, i.expires).UTC().Format(time.RFC3339))
	}
	return j.principal, j.err
}

// judge works out who an identity is.
//
// Names come from the map with the closest pattern. A tenant that is claimed and one that is
// mapped have to agree.
func (b *book) judge(i *identity) (*guard.Principal, *proto.Error) {
	if i.proof == guard.ByNothing {
		return b.anonymous(i.roles)
	}
	if b.suspended {
		return nil, unauthenticated(suspended)
	}
	name, tenant, roles := i.names[0], i.tenant, []string(nil)
	if m, as := b.mapOf(i); m != nil {
		if name = as; tenant != "" && m.stored.GetTenant() != "" && tenant != m.stored.GetTenant() {
			return nil, unauthenticated("%s claims tenant %s, and map %s says %s", name, tenant, m.name, m.stored.GetTenant())
		}
		roles = slices.Clone(m.stored.GetRoles())
		if tenant == "" {
			tenant = m.stored.GetTenant()
		}
	}
	for _, role := range i.roles {
		if b.isRole(role) && !slices.Contains(roles, role) {
			roles = append(roles, role)
		}
	}
	switch {
	case slices.Contains([]string{rootName, anonymousName, selfName}, name):
		return nil, unauthenticated("the name %s is taken by who shows a token of auth-token-file, by who shows none, or by the nodes", name)
	case len(roles) == 0 && i.proof == guard.ByCertificate:
		return nil, unauthenticated("nobody has given roles to the certificate of %s: norn access map set does", strings.Join(i.names, ", "))
	case len(roles) == 0:
		return nil, unauthenticated("the JWT of %s claims no role that there is, and norn access map set has given it none", name)
	case len(roles) > guard.MaxRoles:
		return nil, unauthenticated("%s has %d roles, over %d", name, len(roles), guard.MaxRoles)
	}
	if err := b.fits(roles); err != nil {
		return nil, unauthenticated("%s: %s", name, err.Message)
	}
	p := b.principal(name, i.proof, roles, tenant)
	if p == nil {
		return nil, unauthenticated("%s is of tenant %s, and there is none of that name", name, tenant)
	}
	p.Expires = i.expires
	return p, nil
}

// anonymous is who shows nothing. Nobody could be told what it does to the cluster and to rights.
func (b *book) anonymous(roles []string) (*guard.Principal, *proto.Error) {
	if !b.isRole(roles[0]) {
		return nil, unauthenticated("the auth token is missing, and there is no role %.80q for who shows none (auth-anonymous)", roles[0])
	}
	var rules []guard.Rule
	for _, r := range b.rulesOf(roles) {
		if r.Verbs &^= guard.Cluster | guard.Access; r.Verbs != guard.None {
			rules = append(rules, r)
		}
	}
	return guard.NewPrincipal(anonymousName, guard.ByNothing, roles, rules, ""), nil
}
