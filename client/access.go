package client

import (
	"context"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Access reads and changes who may do what: see [Cluster.Access].
type Access struct{ c *Client }

// Access gives what a client can do with roles and tokens. All but WhoAmI need the verb access.
func (k Cluster) Access() Access { return Access(k) }

// WhoAmI tells whom the node that answers takes this client for, and what it may do.
func (a Access) WhoAmI(ctx context.Context) (*nornv1.WhoAmIReply, error) {
	m := &nornv1.WhoAmIReply{}
	return m, a.c.read(ctx, "whoami", nornv1.Method_METHOD_WHO_AM_I, 0, &nornv1.WhoAmIRequest{}, m)
}

// List reads all roles, tokens, maps and tenants, without secrets.
func (a Access) List(ctx context.Context) (*nornv1.AccessReply, error) {
	return a.ask(ctx, "list roles and tokens", &nornv1.AccessRequest{Action: &nornv1.AccessRequest_List{List: &nornv1.ListAccess{}}})
}

// SetRole makes a role of rules VERB[,VERB…]:PATTERN, or gives it other ones. It gives the
// revision of the change.
func (a Access) SetRole(ctx context.Context, name string, allow ...string) (uint64, error) {
	m, err := a.change(ctx, "set role", &nornv1.AccessRequest{Action: &nornv1.AccessRequest_SetRole{SetRole: &nornv1.SetRole{Name: name, Allow: allow}}})
	return m.GetRevision(), err
}

// RemoveRole takes a role away that no token has any more.
func (a Access) RemoveRole(ctx context.Context, name string) (uint64, error) {
	m, err := a.change(ctx, "remove role", &nornv1.AccessRequest{Action: &nornv1.AccessRequest_RemoveRole{RemoveRole: &nornv1.RemoveRole{Name: name}}})
	return m.GetRevision(), err
}

// TokenOptions are what a token is made with.
type TokenOptions struct {
	// Name is for people.
	Name string
	// Roles are what it may do together.
	Roles []string
	// TTL is for how long it lets in; 0: without an end.
	TTL time.Duration
	// From are the addresses from which it lets in, IP or IP/BITS; none: from everywhere.
	From []string
	// Tenant is the name of the tenant that it is of; empty: of none.
	Tenant string
}

// CreateToken makes a token, and gives it: it is shown once. Where the outcome is unknown there
// may be a token that nobody has; list tokens, and revoke it.
func (a Access) CreateToken(ctx context.Context, o TokenOptions) (token string, revision uint64, err error) {
	m, err := a.change(ctx, "create token", &nornv1.AccessRequest{Action: &nornv1.AccessRequest_CreateToken{CreateToken: &nornv1.CreateToken{
		Name: o.Name, Roles: o.Roles, TtlSeconds: o.TTL.Seconds(), From: o.From, Tenant: o.Tenant,
	}}})
	return m.GetSecret(), m.GetRevision(), err
}

// RenewToken moves the end of a token; 0: it has none from now on.
func (a Access) RenewToken(ctx context.Context, id string, ttl time.Duration) (uint64, error) {
	m, err := a.change(ctx, "renew token", &nornv1.AccessRequest{Action: &nornv1.AccessRequest_RenewToken{RenewToken: &nornv1.RenewToken{Id: id, TtlSeconds: ttl.Seconds()}}})
	return m.GetRevision(), err
}

// RevokeToken ends a token for good. What is open with it is closed, at each node as soon as
// that hears of it: it does once [Access.WhoAmI] of that node gives the revision, or a later one.
func (a Access) RevokeToken(ctx context.Context, id string) (uint64, error) {
	m, err := a.change(ctx, "revoke token", &nornv1.AccessRequest{Action: &nornv1.AccessRequest_RevokeToken{RevokeToken: &nornv1.RevokeToken{Id: id}}})
	return m.GetRevision(), err
}

// EnableTokens lets the tokens in again that a restore has suspended.
func (a Access) EnableTokens(ctx context.Context) (uint64, error) {
	m, err := a.change(ctx, "enable tokens", &nornv1.AccessRequest{Action: &nornv1.AccessRequest_EnableTokens{EnableTokens: &nornv1.EnableTokens{}}})
	return m.GetRevision(), err
}

// MapOptions say to whom a map gives roles.
type MapOptions struct {
	// Certificate is what a name in the certificate of a client is like, JWTSubject what the
	// subject of a JWT is like: one of both. One star stands for any text.
	Certificate, JWTSubject string
	// Roles are what they may do together.
	Roles []string
	// Tenant is the name of the tenant that they are of; empty: of none.
	Tenant string
}

// SetMap gives roles to those who show a certificate or a JWT. Of several maps that fit, the one
// with the longest pattern counts.
func (a Access) SetMap(ctx context.Context, name string, o MapOptions) (uint64, error) {
	m, err := a.change(ctx, "set map", &nornv1.AccessRequest{Action: &nornv1.AccessRequest_SetMap{SetMap: &nornv1.SetMap{
		Name: name, Certificate: o.Certificate, JwtSubject: o.JWTSubject, Roles: o.Roles, Tenant: o.Tenant,
	}}})
	return m.GetRevision(), err
}

// RemoveMap takes a map away, and ends what is open of those whom it let in.
func (a Access) RemoveMap(ctx context.Context, name string) (uint64, error) {
	m, err := a.change(ctx, "remove map", &nornv1.AccessRequest{Action: &nornv1.AccessRequest_RemoveMap{RemoveMap: &nornv1.RemoveMap{Name: name}}})
	return m.GetRevision(), err
}

// SetTenant makes a tenant, or gives it other limits: all of them, one that is 0 is none. The
// prefix never changes; empty: the name with a slash.
func (a Access) SetTenant(ctx context.Context, name, prefix string, limits *nornv1.TenantLimits) (uint64, error) {
	m, err := a.change(ctx, "set tenant", &nornv1.AccessRequest{Action: &nornv1.AccessRequest_SetTenant{SetTenant: &nornv1.SetTenant{Name: name, Prefix: prefix, Limits: limits}}})
	return m.GetRevision(), err
}

// RemoveTenant takes a tenant away that no token and no map has any more. Its queues stay.
func (a Access) RemoveTenant(ctx context.Context, name string) (uint64, error) {
	m, err := a.change(ctx, "remove tenant", &nornv1.AccessRequest{Action: &nornv1.AccessRequest_RemoveTenant{RemoveTenant: &nornv1.RemoveTenant{Name: name}}})
	return m.GetRevision(), err
}

// Check tells whether the token of an ID or a name (empty: this client) may do something with a
// queue (empty: with any), and if not, why.
func (a Access) Check(ctx context.Context, id, verb, queue string) (allowed bool, reason string, err error) {
	m, err := a.ask(ctx, "check access", &nornv1.AccessRequest{Action: &nornv1.AccessRequest_Check{Check: &nornv1.CheckAccess{Id: id, Verb: verb, Queue: queue}}})
	return m.GetAllowed(), m.GetReason(), err
}

// Audit reads the lines of the audit log that the node that answers remembers, objects in JSON,
// after the one with a number. last is the number of the newest one.
func (a Access) Audit(ctx context.Context, after uint64) (lines []string, last uint64, err error) {
	m, err := a.ask(ctx, "read audit log", &nornv1.AccessRequest{Action: &nornv1.AccessRequest_Audit{Audit: &nornv1.ReadAudit{After: after}}})
	return m.GetLines(), m.GetLast(), err
}

func (a Access) ask(ctx context.Context, op string, ask *nornv1.AccessRequest) (*nornv1.AccessReply, error) {
	m := &nornv1.AccessReply{}
	return m, a.c.read(ctx, op, nornv1.Method_METHOD_ACCESS, 0, ask, m)
}

func (a Access) change(ctx context.Context, op string, ask *nornv1.AccessRequest) (*nornv1.AccessReply, error) {
	m := &nornv1.AccessReply{}
	return m, a.c.do(ctx, &request{
		op: op, method: uint16(nornv1.Method_METHOD_ACCESS), body: message{m: ask}, write: true,
		decode: func(flags uint16, b []byte) error { return decodeInto(flags, b, m) },
	})
}
