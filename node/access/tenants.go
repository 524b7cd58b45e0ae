package access

import (
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	gproto "google.golang.org/protobuf/proto"
)

// tenant is a prefix of names with limits.
type tenant struct {
	prefix string
	limits *nornv1.TenantLimits
	uses   *uses
}

// uses are what a tenant has on this node.
type uses struct {
	// Invariant: connections counts the callers between [Desk.Arrive] and [Desk.Leave]: uses
	// outlives its tenant's changes, so that a new limit counts those that are open.
	connections atomic.Int64

	mu   sync.Mutex // guards what follows
	left float64    // requests that may come now
	at   int64      // as of then, mono ns
}

// admit takes one connection, unless there are as many as may be.
func (u *uses) admit(limit uint64) (full bool) {
	if n := u.connections.Add(1); limit > 0 && uint64(n) > limit {
		u.connections.Add(-1)
		return true
	}
	return false
}

// pace takes one request of so many a second, of which those of one second may come at once.
// after is when the next may come; 0: it may.
//
// It is a token bucket with a depth of one second.
func (u *uses) pace(rate float64, now int64) (after time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.left = min(u.left+float64(now-u.at)/float64(time.Second)*rate, max(rate, 1))
	if u.at = now; u.left < 1 {
		return max(time.Duration((1-u.left)/rate*float64(time.Second)), time.Millisecond)
	}
	u.left--
	return 0
}

// readTenant reads a tenant; nil: it cannot be read. What one has on this node outlives its changes.
func readTenant(_ string, v register.Value, before *tenant) *tenant {
	var m nornv1.StoredTenant
	if gproto.Unmarshal(v.Data, &m) != nil || !guard.IsPrefix(m.GetPrefix()) {
		return nil
	}
	t := &tenant{prefix: m.GetPrefix(), limits: m.GetLimits(), uses: &uses{left: math.MaxInt32}}
	if before != nil {
		t.uses = before.uses
	}
	return t
}

// setTenant works out the change for a new or another tenant. Its prefix never changes, because
// its queues are called by it.
func (b *book) setTenant(m *nornv1.SetTenant) (change register.AccessChange, _ *nornv1.AccessReply, _ *proto.Error) {
	name, prefix, limits := m.GetName(), m.GetPrefix(), m.GetLimits()
	if err := guard.CheckName(name); err != nil {
		return change, nil, proto.Invalid("tenant: %v", err)
	}
	old := b.tenants[name]
	switch {
	case prefix == "" && old != nil:
		prefix = old.prefix
	case prefix == "":
		prefix = name + "/"
	}
	switch {
	case !guard.IsPrefix(prefix):
		return change, nil, proto.Invalid("tenant %s: %.80q is no prefix of a tenant; it is a name with a slash behind it, as %s/", name, prefix, name)
	case old != nil && old.prefix != prefix:
		return change, nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, "the prefix of tenant %s is %s and never changes: its queues have their names", name, old.prefix)
	case old == nil && len(b.tenants) >= maxTenants:
		return change, nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "there are %d tenants, the limit", maxTenants)
	case !(limits.GetRate() >= 0 && limits.GetRate() <= math.MaxInt32):
		return change, nil, proto.Invalid("tenant %s: a rate of %v requests a second cannot be", name, limits.GetRate())
	}
	if by := holders(b.tenants, func(t *tenant) bool { return t.prefix == prefix && t != old }); len(by) > 0 {
		return change, nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, "tenant %s has the prefix %s already", by[0], prefix)
	}
	return b.store(tenantKey+name, &nornv1.StoredTenant{Prefix: prefix, Limits: limits}), &nornv1.AccessReply{}, nil
}

// removeTenant works out the change that removes a tenant. Its queues and tasks stay; tokens
// and maps of it are refused first.
func (b *book) removeTenant(name string) (change register.AccessChange, _ *nornv1.AccessReply, _ *proto.Error) {
	if b.tenants[name] == nil {
		return change, nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, "there is no tenant %.80q; norn access tenant list has all", name)
	}
	by := holders(b.tokens, func(t *token) bool { return t.stored.GetTenant() == name })
	by = append(by, holders(b.maps, func(m *mapped) bool { return m.stored.GetTenant() == name })...)
	if len(by) > 0 {
		return change, nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, "%d tokens and maps are of tenant %s (%s); revoke and remove them first", len(by), name, strings.Join(by[:min(len(by), 5)], ", "))
	}
	return b.drop(tenantKey + name), &nornv1.AccessReply{}, nil
}

// listTenants adds all tenants to a reply, by name.
func (b *book) listTenants(reply *nornv1.AccessReply) {
	for name, t := range b.tenants { // Any order: sorted below.
		reply.Tenants = append(reply.Tenants, &nornv1.AccessTenant{Name: name, Prefix: t.prefix, Limits: t.limits})
	}
	slices.SortFunc(reply.Tenants, func(x, y *nornv1.AccessTenant) int { return strings.Compare(x.GetName(), y.GetName()) })
}

// Arrive takes a connection of a caller, unless its tenant has as many as it may. [Desk.Leave] ends it.
func (d *Desk) Arrive(c *Caller) *proto.Error {
	if d == nil || c.Tenant == "" {
		return nil
	}
	t := d.book.Load().tenants[c.Tenant]
	if t == nil {
		return nil
	}
	limit := t.limits.GetConnections()
	if t.uses.admit(limit) {
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "tenant %s has %d connections to this node, its limit (max-connections) is %d", c.Tenant, t.uses.connections.Load(), limit).Again(time.Second)
	}
	c.arrived = t.uses
	return nil
}

// Leave ends the connection of a caller; nil: nobody has said who it is.
func (d *Desk) Leave(c *Caller) {
	if c != nil && c.arrived != nil {
		c.arrived.connections.Add(-1)
		c.arrived = nil
	}
}

// pace refuses what is over the rate of a tenant. What keeps or frees work is not held up: a
// lease would end.
func (b *book) pace(p *guard.Principal, m nornv1.Method, now int64) *proto.Error {
	t := b.tenants[p.Tenant]
	if t == nil || !(t.limits.GetRate() > 0) {
		return nil
	}
	switch m {
	case nornv1.Method_METHOD_RENEW, nornv1.Method_METHOD_UPDATE, nornv1.Method_METHOD_COMPLETE, nornv1.Method_METHOD_FAIL, nornv1.Method_METHOD_RELEASE, nornv1.Method_METHOD_SESSION:
		return nil
	}
	if after := t.uses.pace(t.limits.GetRate(), now); after > 0 {
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "tenant %s sends more than %v requests a second to this node, its limit (rate)", p.Tenant, t.limits.GetRate()).Again(after)
	}
	return nil
}
