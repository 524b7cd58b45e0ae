package access

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// The limits of what the register keeps.
const (
	maxTokens  = 10_000
	maxCustom  = 1_000 // roles beside the built-in ones
	maxMaps    = 1_000
	maxTenants = 1_000
	maxScope   = 1 << 10                   // bytes of the rules of a principal: they go along with its requests
	maxLife    = 10 * 365 * 24 * time.Hour // of a token
	maxFrom    = 16
	maxTries   = 8
	changeWait = 10 * time.Second
)

// Register is what a desk needs of the register.
type Register interface {
	Do(r register.Request, done func(register.Result))
}

// Serve has the desk keep roles and tokens in a register.
func (d *Desk) Serve(r Register) {
	if d != nil {
		d.register.Store(&r)
	}
}

// do carries out one request to the register.
func (d *Desk) do(ctx context.Context, r register.Request) (*register.State, []bool, *proto.Error) {
	effect := nornv1.Effect_EFFECT_UNKNOWN
	if r.Reads() {
		effect = nornv1.Effect_EFFECT_NONE
	}
	unavailable := func(why any) *proto.Error {
		e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "roles and tokens cannot be read or changed: the register does not answer, most likely for the want of a majority (%v); what they allowed before goes on", why)
		e.Effect, e.RetryAfter, e.Guarantee = effect, time.Second, "a majority of the register"
		return e
	}
	to := d.register.Load()
	if to == nil {
		return nil, nil, unavailable("this node is not in a cluster yet")
	}
	ctx, cancel := context.WithTimeout(ctx, changeWait)
	defer cancel()
	done := make(chan register.Result, 1)
	(*to).Do(r, func(res register.Result) { done <- res })
	select {
	case res := <-done:
		if res.Err != nil {
			return nil, nil, unavailable(res.Err)
		}
		return &res.State, res.AccessWon, nil
	case <-ctx.Done():
		return nil, nil, unavailable(ctx.Err())
	}
}

// change works out a change from what the register says, and writes it if nobody was faster.
//
// It is optimistic: read, work out, write against the versions that were read, [maxTries]
// times. What another operator changes meanwhile is never overwritten. Errors: UNAVAILABLE
// without a majority of the register, with unknown effect if it was asked to write; CONFLICT if
// others were faster each time.
func (d *Desk) change(ctx context.Context, c *Caller, m *nornv1.AccessRequest) (*nornv1.AccessReply, *proto.Error) {
	for range maxTries {
		s, _, err := d.do(ctx, register.Request{})
		if err != nil {
			return nil, err
		}
		change, reply, err := plan((&book{}).read(s), c, m, time.Now())
		if err != nil {
			return nil, err
		}
		after, won, err := d.do(ctx, register.Request{Access: []register.AccessChange{change}})
		if err != nil {
			return nil, err
		}
		if slices.Equal(won, []bool{true}) {
			d.Learn(after)
			reply.Revision = after.AccessAt
			return reply, nil
		}
	}
	return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, "others change roles and tokens at the same time, %d tries were in vain; try again", maxTries)
}

// plan works out one change of a state.
//
// It does nothing else: the same state and request give the same change, but for the secret of
// a new token.
func plan(b *book, c *Caller, m *nornv1.AccessRequest, now time.Time) (register.AccessChange, *nornv1.AccessReply, *proto.Error) {
	switch a := m.GetAction().(type) {
	case *nornv1.AccessRequest_SetRole:
		return b.setRole(a.SetRole)
	case *nornv1.AccessRequest_RemoveRole:
		return b.removeRole(a.RemoveRole.GetName())
	case *nornv1.AccessRequest_CreateToken:
		return b.createToken(a.CreateToken, c, now)
	case *nornv1.AccessRequest_RenewToken:
		return b.renewToken(a.RenewToken, now)
	case *nornv1.AccessRequest_RevokeToken:
		t := b.tokens[a.RevokeToken.GetId()]
		if t == nil {
			return register.AccessChange{}, nil, noToken(a.RevokeToken.GetId())
		}
		return b.drop(tokenKey + t.id), &nornv1.AccessReply{}, nil
	case *nornv1.AccessRequest_SetMap:
		return b.setMap(a.SetMap)
	case *nornv1.AccessRequest_RemoveMap:
		return b.removeMap(a.RemoveMap.GetName())
	case *nornv1.AccessRequest_SetTenant:
		return b.setTenant(a.SetTenant)
	case *nornv1.AccessRequest_RemoveTenant:
		return b.removeTenant(a.RemoveTenant.GetName())
	case *nornv1.AccessRequest_EnableTokens:
		if !b.suspended {
			return register.AccessChange{}, nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, "the tokens are not suspended")
		}
		return b.drop(register.SuspendedKey), &nornv1.AccessReply{}, nil
	}
	return register.AccessChange{}, nil, proto.Invalid("the request has no action that this server knows")
}

// noToken is the error for an ID that no token has.
func noToken(id string) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, "there is no token with the ID %.40q; norn access token list has all", id)
}

// stored makes a change of what is kept under a key.
func stored(key string, old uint64, m gproto.Message) register.AccessChange {
	data, err := gproto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err) // its texts were checked
	}
	return register.AccessChange{Key: key, Old: old, Data: data}
}

// store makes a change of what this book has under a key, which may be nothing.
func (b *book) store(key string, m gproto.Message) register.AccessChange {
	return stored(key, b.kept[key].Version, m)
}

// drop makes the change that takes it away.
func (b *book) drop(key string) register.AccessChange {
	return register.AccessChange{Key: key, Old: b.kept[key].Version}
}

// setRole works out the change for a new or another role. It is refused if it would make any
// token or map with that role exceed [maxScope].
func (b *book) setRole(m *nornv1.SetRole) (change register.AccessChange, _ *nornv1.AccessReply, _ *proto.Error) {
	name := m.GetName()
	if err := guard.CheckName(name); err != nil {
		return change, nil, proto.Invalid("role: %v", err)
	}
	if _, is := guard.BuiltIn(name); is {
		return change, nil, proto.Invalid("role %s is built in; give yours another name", name)
	}
	next := &role{}
	for _, text := range m.GetAllow() {
		rule, err := guard.ParseRule(text)
		if err != nil {
			return change, nil, proto.Invalid("role %s: %v", name, err)
		}
		next.allow, next.rules = append(next.allow, rule.String()), append(next.rules, rule)
	}
	old := b.roles[name]
	switch {
	case len(next.rules) == 0 || len(next.rules) > guard.MaxRules:
		return change, nil, proto.Invalid("role %s: %d rules are not from 1 to %d", name, len(next.rules), guard.MaxRules)
	case old == nil && len(b.roles) >= maxCustom:
		return change, nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "there are %d roles, the limit", maxCustom)
	}
	b.roles[name] = next // b is this change's own
	if err := b.fits([]string{name}); err != nil {
		return change, nil, err
	}
	for _, roles := range b.given() { // Any order: each is judged alone.
		if !slices.Contains(roles, name) {
			continue
		}
		if err := b.fits(roles); err != nil {
			return change, nil, err
		}
	}
	return b.store(roleKey+name, &nornv1.StoredRole{Allow: next.allow}), &nornv1.AccessReply{}, nil
}

// fits refuses roles that are too long together: they go along with requests.
func (b *book) fits(names []string) *proto.Error {
	size := 0
	for _, r := range b.rulesOf(names) {
		size += len(r.Pattern) + 4
	}
	if size > maxScope {
		return proto.Invalid("the rules of %s are %d bytes long, over %d; use prefixes instead of single names", strings.Join(names, ", "), size, maxScope)
	}
	return nil
}

// removeRole works out the change that removes a role; one that tokens or maps have stays.
func (b *book) removeRole(name string) (change register.AccessChange, _ *nornv1.AccessReply, _ *proto.Error) {
	r := b.roles[name]
	if r == nil {
		return change, nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, "there is no role %.80q of yours; norn access role list has all", name)
	}
	if by := holders(b.given(), func(roles []string) bool { return slices.Contains(roles, name) }); len(by) > 0 {
		return change, nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, "%d tokens and maps have role %s (%s); revoke them first, or give the role other rules", len(by), name, strings.Join(by[:min(len(by), 5)], ", "))
	}
	return b.drop(roleKey + name), &nornv1.AccessReply{}, nil
}

// createToken draws a token and works out the change that stores its hash. The reply has the
// secret: it is told once, and nobody can find it out again.
func (b *book) createToken(m *nornv1.CreateToken, c *Caller, now time.Time) (change register.AccessChange, _ *nornv1.AccessReply, _ *proto.Error) {
	if err := guard.CheckName(m.GetName()); err != nil {
		return change, nil, proto.Invalid("token: %v", err)
	}
	switch {
	case slices.Contains([]string{rootName, anonymousName, selfName}, m.GetName()):
		return change, nil, proto.Invalid("token: the name %s is taken by who shows a token of auth-token-file, by who shows none, or by the nodes; give it another", m.GetName())
	case len(m.GetFrom()) > maxFrom:
		return change, nil, proto.Invalid("token %s: %d addresses are over %d", m.GetName(), len(m.GetFrom()), maxFrom)
	case len(b.tokens) >= maxTokens:
		return change, nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "there are %d tokens, the limit; revoke some", maxTokens)
	}
	if err := b.canHave("token "+m.GetName(), m.GetRoles(), m.GetTenant()); err != nil {
		return change, nil, err
	}
	for _, text := range m.GetFrom() {
		if _, err := parseFrom(text); err != nil {
			return change, nil, proto.Invalid("token %s: %.60q is neither an address nor a network (10.0.0.0/8)", m.GetName(), text)
		}
	}
	end, err := endOf(m.GetTtlSeconds(), now)
	if err != nil {
		return change, nil, err
	}
	secret := make([]byte, 36) // 4 of them are its ID
	_, _ = rand.Read(secret)   // it never fails
	id, text := hex.EncodeToString(secret[:4]), base64.RawURLEncoding.EncodeToString(secret[4:])
	sum := sha256.Sum256([]byte(text))
	s := &nornv1.StoredToken{Name: m.GetName(), Hash: sum[:], Roles: m.GetRoles(), Created: timestamppb.New(now), Creator: c.Name, Expires: end, From: m.GetFrom(), Tenant: m.GetTenant()}
	if s.Tenant != "" {
		s.Hash, s.TenantHash = nil, sum[:]
	}
	return stored(tokenKey+id, 0, s), &nornv1.AccessReply{Secret: tokenPrefix + id + "_" + text}, nil
}

// renewToken works out the change that gives a token another end. Its secret stays.
func (b *book) renewToken(m *nornv1.RenewToken, now time.Time) (change register.AccessChange, _ *nornv1.AccessReply, _ *proto.Error) {
	t := b.tokens[m.GetId()]
	if t == nil {
		return change, nil, noToken(m.GetId())
	}
	end, err := endOf(m.GetTtlSeconds(), now)
	if err != nil {
		return change, nil, err
	}
	next := gproto.CloneOf(t.stored)
	next.Expires = end
	return b.store(tokenKey+t.id, next), &nornv1.AccessReply{}, nil
}

// endOf is when a token ends; nil: never.
func endOf(seconds float64, now time.Time) (*timestamppb.Timestamp, *proto.Error) {
	life := proto.Seconds(seconds)
	switch {
	case seconds == 0:
		return nil, nil
	case !(seconds > 0) || life > maxLife:
		return nil, proto.Invalid("ttl_seconds of %v is not between 0 and ten years", seconds)
	}
	return timestamppb.New(now.Add(max(life, time.Second))), nil
}

// list is all roles, tokens, maps and tenants.
func (b *book) list() *nornv1.AccessReply {
	reply := &nornv1.AccessReply{Revision: b.at, Suspended: b.suspended}
	for _, name := range guard.BuiltInNames() {
		rules, _ := guard.BuiltIn(name)
		r := &nornv1.AccessRole{Name: name, BuiltIn: true}
		for _, rule := range rules {
			r.Allow = append(r.Allow, rule.String())
		}
		reply.Roles = append(reply.Roles, r)
	}
	for name, r := range b.roles { // Any order: sorted below.
		reply.Roles = append(reply.Roles, &nornv1.AccessRole{Name: name, Allow: r.allow})
	}
	slices.SortStableFunc(reply.Roles[len(guard.BuiltInNames()):], func(x, y *nornv1.AccessRole) int { return strings.Compare(x.GetName(), y.GetName()) })
	for _, t := range b.tokens { // Any order: sorted below.
		s := t.stored
		shown := &nornv1.AccessToken{Id: t.id, Name: s.GetName(), Roles: s.GetRoles(), Created: s.GetCreated(), Creator: s.GetCreator(), Expires: s.GetExpires(), From: s.GetFrom(), Tenant: s.GetTenant()}
		if at := t.used.Load(); at != 0 {
			shown.LastUsed = timestamppb.New(time.Unix(0, at))
		}
		reply.Tokens = append(reply.Tokens, shown)
	}
	slices.SortFunc(reply.Tokens, func(x, y *nornv1.AccessToken) int {
		return cmp.Or(strings.Compare(x.GetName(), y.GetName()), strings.Compare(x.GetId(), y.GetId()))
	})
	b.listMaps(reply)
	b.listTenants(reply)
	return reply
}
