package access

import (
	"slices"
	"strings"
	"unicode"

	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	gproto "google.golang.org/protobuf/proto"
)

// mapped gives roles to who shows a certificate or a JWT.
type mapped struct {
	name   string
	stored *nornv1.StoredMap
}

// pattern is what the names have to be like.
func (m *mapped) pattern(jwt bool) string {
	if jwt {
		return m.stored.GetJwtSubject()
	}
	return m.stored.GetCertificate()
}

// readMap reads a map; nil: it cannot be read, and gives nobody anything.
func readMap(name string, v register.Value, _ *mapped) *mapped {
	m := &mapped{name: name, stored: &nornv1.StoredMap{}}
	if gproto.Unmarshal(v.Data, m.stored) != nil {
		return nil
	}
	return m
}

// maxPattern bounds what names have to be like, bytes.
const maxPattern = 256

// checkNames refuses what names cannot be like.
func checkNames(pattern string) *proto.Error {
	bad := func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }
	if pattern == "" || len(pattern) > maxPattern || strings.Count(pattern, "*") > 1 || strings.ContainsFunc(pattern, bad) {
		return proto.Invalid("%.280q is no pattern of names: 1 to %d printable characters without spaces, of which one may be a star, for any text", pattern, maxPattern)
	}
	return nil
}

// like tells whether a name is as a pattern says.
func like(pattern, name string) bool {
	before, after, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	return len(name) >= len(before)+len(after) && strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
}

// closer tells whether a pattern says more than another: a name does, else the longer one.
func closer(a, b string) bool {
	if x, y := strings.Contains(a, "*"), strings.Contains(b, "*"); x != y {
		return y
	}
	return len(a) > len(b) || len(a) == len(b) && a < b
}

// mapOf is the map of an identity that says most, and the name that it goes by; nil: there is
// none.
func (b *book) mapOf(i *identity) (best *mapped, as string) {
	jwt := i.proof == guard.ByJWT
	for _, m := range b.maps { // Any order: the closest one counts, and no two have the same pattern.
		pattern := m.pattern(jwt)
		if pattern == "" || best != nil && closer(best.pattern(jwt), pattern) {
			continue
		}
		if at := slices.IndexFunc(i.names, func(name string) bool { return like(pattern, name) }); at >= 0 {
			best, as = m, i.names[at]
		}
	}
	return best, as
}

// setMap works out the change for a new or another map. No two maps have the same pattern, so
// the closest one is unique.
func (b *book) setMap(m *nornv1.SetMap) (change register.AccessChange, _ *nornv1.AccessReply, _ *proto.Error) {
	name := m.GetName()
	if err := guard.CheckName(name); err != nil {
		return change, nil, proto.Invalid("map: %v", err)
	}
	if (m.GetCertificate() == "") == (m.GetJwtSubject() == "") {
		return change, nil, proto.Invalid("map %s: give either a name in certificates or the subject of a JWT", name)
	}
	next := &mapped{name: name, stored: &nornv1.StoredMap{Certificate: m.GetCertificate(), JwtSubject: m.GetJwtSubject(), Roles: m.GetRoles(), Tenant: m.GetTenant()}}
	jwt := m.GetJwtSubject() != ""
	if err := checkNames(next.pattern(jwt)); err != nil {
		return change, nil, err
	}
	if err := b.canHave("map "+name, m.GetRoles(), m.GetTenant()); err != nil {
		return change, nil, err
	}
	if b.maps[name] == nil && len(b.maps) >= maxMaps {
		return change, nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "there are %d maps, the limit", maxMaps)
	}
	for _, other := range b.maps { // Any order: there is one such, at most.
		if other.name != name && other.pattern(jwt) == next.pattern(jwt) {
			return change, nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, "map %s is for %s already; change that one", other.name, next.pattern(jwt))
		}
	}
	return b.store(mapKey+name, next.stored), &nornv1.AccessReply{}, nil
}

// removeMap works out the change that removes a map; who was let in by it ends with the next
// request.
func (b *book) removeMap(name string) (change register.AccessChange, _ *nornv1.AccessReply, _ *proto.Error) {
	if b.maps[name] == nil {
		return change, nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, "there is no map %.80q; norn access map list has all", name)
	}
	return b.drop(mapKey + name), &nornv1.AccessReply{}, nil
}

// listMaps adds all maps to a reply, by name.
func (b *book) listMaps(reply *nornv1.AccessReply) {
	for name, m := range b.maps { // Any order: sorted below.
		s := m.stored
		reply.Maps = append(reply.Maps, &nornv1.AccessMap{Name: name, Certificate: s.GetCertificate(), JwtSubject: s.GetJwtSubject(), Roles: s.GetRoles(), Tenant: s.GetTenant()})
	}
	slices.SortFunc(reply.Maps, func(x, y *nornv1.AccessMap) int { return strings.Compare(x.GetName(), y.GetName()) })
}

// isRole tells whether there is a role of a name.
func (b *book) isRole(name string) bool {
	_, is := guard.BuiltIn(name)
	return is || b.roles[name] != nil
}

// canHave refuses roles or a tenant that cannot be given.
func (b *book) canHave(who string, roles []string, tenant string) *proto.Error {
	if n := len(roles); n == 0 || n > guard.MaxRoles {
		return proto.Invalid("%s: %d roles are not from 1 to %d", who, n, guard.MaxRoles)
	}
	for _, name := range roles {
		if !b.isRole(name) {
			return proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, "there is no role %.80q; norn access role list has all", name)
		}
	}
	if tenant != "" && b.tenants[tenant] == nil {
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, "there is no tenant %.80q; norn access tenant list has all", tenant)
	}
	return b.fits(roles)
}

// given are the roles that tokens and maps have, by what people call those.
func (b *book) given() map[string][]string {
	all := make(map[string][]string, len(b.tokens)+len(b.maps))
	for id, t := range b.tokens { // Any order: each has its place.
		all["token "+id] = t.stored.GetRoles()
	}
	for name, m := range b.maps { // Any order: likewise.
		all["map "+name] = m.stored.GetRoles()
	}
	return all
}

// holders names, in their order, those for which has is true.
func holders[T any](all map[string]T, has func(T) bool) (names []string) {
	for name, x := range all { // Any order: sorted below.
		if has(x) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
