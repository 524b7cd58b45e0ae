package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/node/guard/rights"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	gproto "google.golang.org/protobuf/proto"
)

// The keys of the register's entries.
const (
	roleKey   = rights.RoleKey
	tokenKey  = rights.TokenKey
	mapKey    = "map/"
	tenantKey = "tenant/"
)

// book is what the register says of roles and tokens. It does not change.
type book struct {
	policy               Policy
	generation, revision uint64 // of the state that it is from
	at                   uint64 // the newest revision that changed it
	suspended            bool
	kept                 map[string]register.Value // all of it, as it is there
	roles                map[string]*role
	tokens               map[string]*token // by ID
	maps                 map[string]*mapped
	tenants              map[string]*tenant
}

// role is one of the register's; the built-in ones are in package guard.
type role struct {
	allow []string
	rules []guard.Rule
}

// token is one of the register's with what it allows, worked out once per book.
type token struct {
	id        string
	stored    *nornv1.StoredToken
	from      []netip.Prefix
	principal *guard.Principal
	used      *atomic.Int64 // when this node was shown it last, wall ns; 0: never
}

// read makes the book of a state. Of the one before it keeps what is the same.
//
// A token that has not changed is kept with its principal and its time of use as long as no
// role and no tenant has changed. So a change of one of 10,000 tokens decodes one.
func (b *book) read(s *register.State) *book {
	next := &book{policy: b.policy, generation: s.Generation, revision: s.Revision, at: s.AccessAt, kept: s.Access}
	_, next.suspended = s.Access[register.SuspendedKey]
	var same, alike bool
	next.roles, same = take(next, b, roleKey, b.roles, false, readRole)
	next.tenants, alike = take(next, b, tenantKey, b.tenants, false, readTenant)
	next.maps, _ = take(next, b, mapKey, b.maps, false, readMap)
	next.tokens, _ = take(next, b, tokenKey, b.tokens, !same || !alike, next.readToken)
	return next
}

// take reads all of one kind, and tells whether they are those of the book before. What has the
// same version there stays, unless all are to be read anew.
func take[T any](b, before *book, kind string, had map[string]*T, anew bool, read func(name string, v register.Value, old *T) *T) (all map[string]*T, same bool) {
	all, same = make(map[string]*T), true
	for key, v := range b.kept { // Any order: each has its place.
		name, is := strings.CutPrefix(key, kind)
		if !is {
			continue
		}
		x := had[name]
		if x == nil || anew || before.kept[key].Version != v.Version {
			x, same = read(name, v, x), false
		}
		if x != nil {
			all[name] = x
		}
	}
	return all, same && len(all) == len(had)
}

// readRole decodes a role. Rules that cannot be read allow nothing.
func readRole(_ string, v register.Value, _ *role) *role {
	r := &role{}
	r.allow, r.rules = rights.Role(v)
	return r
}

// readToken reads a token; nil: it is none.
func (b *book) readToken(id string, v register.Value, before *token) *token {
	t := &token{id: id, stored: &nornv1.StoredToken{}, used: new(atomic.Int64)}
	if before != nil {
		t.used = before.used
	}
	if gproto.Unmarshal(v.Data, t.stored) != nil || len(t.hash()) != sha256.Size {
		return nil
	}
	for _, text := range t.stored.GetFrom() {
		if p, err := parseFrom(text); err == nil {
			t.from = append(t.from, p)
		}
	}
	if len(t.from) != len(t.stored.GetFrom()) {
		return nil // where it lets in from is not known
	}
	if t.principal = b.principal(t.stored.GetName(), guard.ByToken, t.stored.GetRoles(), t.stored.GetTenant()); t.principal == nil {
		return nil
	}
	t.principal.ID = id
	if end := t.stored.GetExpires(); end != nil {
		t.principal.Expires = end.AsTime().UnixNano()
	}
	return t
}

// rulesOf joins the rules of some roles.
func (b *book) rulesOf(names []string) (rules []guard.Rule) {
	for _, name := range names {
		if built, ok := guard.BuiltIn(name); ok {
			rules = append(rules, built...)
		} else if r := b.roles[name]; r != nil {
			rules = append(rules, r.rules...)
		}
	}
	return rules
}

// hash is that of the secret. Of a token of a tenant it is in a field of its own: a build that
// knows no tenants finds none, and lets nobody in.
func (t *token) hash() []byte {
	if t.stored.GetTenant() != "" {
		return t.stored.GetTenantHash()
	}
	return t.stored.GetHash()
}

// principal makes one of its roles and its tenant; nil: there is no such tenant.
func (b *book) principal(name, proof string, roles []string, tenant string) *guard.Principal {
	prefix := ""
	if tenant != "" {
		t := b.tenants[tenant]
		if t == nil {
			return nil
		}
		prefix = t.prefix
	}
	p := guard.NewPrincipal(name, proof, roles, b.rulesOf(roles), prefix)
	p.Tenant = tenant
	return p
}

// parseFrom reads an address, or a network.
func parseFrom(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return a.Prefix(a.BitLen())
	}
	return netip.ParsePrefix(text)
}

// tokenPrefix is what a token begins with: norn_ID_SECRET.
const tokenPrefix = "norn_"

// find gives the token that a text is, if its secret is right; nil: nobody knows it.
//
// The hashes are compared in constant time. Its ID, which is no secret, finds the token: a
// search by hash would tell by its time how much of a guess was right.
func (b *book) find(text string) *token {
	rest, ok := strings.CutPrefix(text, tokenPrefix)
	if !ok {
		return nil
	}
	id, secret, ok := strings.Cut(rest, "_")
	t := b.tokens[id]
	if !ok || t == nil {
		return nil
	}
	sum := sha256.Sum256([]byte(secret))
	if subtle.ConstantTimeCompare(sum[:], t.hash()) != 1 {
		return nil
	}
	return t
}

// live tells why a token that somebody has shown lets in nobody any more; nil: it does.
func (b *book) live(id, name string, now int64) (*token, *proto.Error) {
	t := b.tokens[id]
	switch {
	case t == nil:
		return nil, unauthenticated("token %s (ID %s) was revoked; show another one", name, id)
	case b.suspended:
		return nil, unauthenticated(suspended)
	case (now >= t.principal.Expires) != b.policy.ExpiryReversed:
		return nil, unauthenticated("token %s (ID %s) has expired at %s; show another one, or have it renewed (norn access token renew)", name, id, time.Unix(0, t.principal.Expires).UTC().Format(time.RFC3339))
	}
	return t, nil
}

// reaches tells whether a token lets in from an address.
func (t *token) reaches(remote net.Addr) bool {
	if len(t.from) == 0 {
		return true
	}
	if remote == nil {
		return false
	}
	at, err := netip.ParseAddrPort(remote.String())
	return err == nil && slices.ContainsFunc(t.from, func(p netip.Prefix) bool { return p.Contains(at.Addr().Unmap().WithZone("")) })
}

// suspended is told to who shows a token after the register was restored from a snapshot:
// tokens that were revoked since the snapshot are in it again.
const suspended = "the tokens are suspended since the register was restored: somebody with a token of auth-token-file looks through them (norn access token list) and enables them (norn access token enable)"

// unauthenticated is the error for who is not let in. It lasts: to ask again with the same
// token is in vain.
func unauthenticated(format string, args ...any) *proto.Error {
	e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED, format, args...)
	e.Lasting = true
	return e
}
