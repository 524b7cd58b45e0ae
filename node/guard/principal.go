package guard

import (
	"math"
	"strings"

	"github.com/norn-dev/norn/proto"
)

// The ways in which somebody proves who it is.
const (
	ByNothing     = "none"
	ByTokenFile   = "token-file"
	ByToken       = "token"
	ByCertificate = "certificate"
	ByJWT         = "jwt"
)

// Scope is what somebody may do with queues, where a request does not name all of those that it
// is about. A nil Scope is without a limit.
type Scope struct {
	// Name is whose scope it is.
	Name string
	// Rules are sorted by pattern, each pattern once.
	Rules []Rule
	// Prefix is that of the tenant: names outside of it do not exist. Empty: there is none.
	Prefix string
}

// Within tells whether a name is below the prefix of the tenant.
func (s *Scope) Within(name string) bool {
	return s == nil || strings.HasPrefix(name, s.Prefix)
}

// Tenant is the prefix of the tenant that it is of; empty: of none.
func (s *Scope) Tenant() string {
	if s == nil {
		return ""
	}
	return s.Prefix
}

// May tells whether all of some verbs are allowed on a name.
//
// The verbs may come from several rules together. It costs a walk over the rules, of which
// there are few.
func (s *Scope) May(v Verbs, name string) bool {
	if s == nil {
		return true
	}
	if !s.Within(name) {
		return false
	}
	for i := range s.Rules {
		if r := &s.Rules[i]; r.Verbs&v != 0 && matches(r.Pattern, name) {
			if v &^= r.Verbs; v == 0 {
				return true
			}
		}
	}
	return v == 0
}

// Principal is who sends requests. It does not change.
type Principal struct {
	// Name is that of a token, the subject of a certificate, root or anonymous.
	Name string
	// Tenant is the name of its tenant; empty: it is of none.
	Tenant string
	// ID tells tokens of one name apart; empty: it is no token.
	ID string
	// Roles are the names of its roles, for people.
	Roles []string
	// Proof is how it has shown who it is.
	Proof string
	// Expires is until when it is let in, wall ns.
	Expires int64

	scope Scope
	// Invariant: whole has the verbs that hold for each name of the cluster, and is empty for
	// whoever has a tenant: who has all that a request needs there is not judged any further.
	some, whole Verbs // allowed on something, and on everything
}

// NewPrincipal makes one of its rules, which may hold the same pattern more than once. prefix
// is that of its tenant.
func NewPrincipal(name, proof string, roles []string, rules []Rule, prefix string) *Principal {
	p := &Principal{Name: name, Roles: roles, Proof: proof, Expires: math.MaxInt64, scope: Scope{Name: name, Rules: merged(rules), Prefix: prefix}}
	for i := range p.scope.Rules {
		r := &p.scope.Rules[i]
		p.some |= r.Verbs
		if r.Pattern == Everything && prefix == "" {
			p.whole |= r.Verbs
		}
	}
	if prefix != "" {
		p.some &^= Cluster | Access
	}
	return p
}

// Root is who may do everything: who has a token of the file, or anybody where nobody is asked.
func Root(name, proof string) *Principal {
	return NewPrincipal(name, proof, []string{"admin"}, []Rule{{All, Everything}}, "")
}

// Prefix is what the names that exist for the principal begin with.
func (p *Principal) Prefix() string { return p.scope.Prefix }

// May tells whether a verb is allowed on something.
func (p *Principal) May(v Verbs) bool { return p.some&v == v }

// Scope is what the principal may do; nil: everything.
func (p *Principal) Scope() *Scope {
	if p.whole == All {
		return nil
	}
	return &p.scope
}

// Allowed is what the principal may do, for people.
func (p *Principal) Allowed() string {
	if len(p.scope.Rules) == 0 {
		return "nothing"
	}
	var all []string
	for _, r := range p.scope.Rules {
		all = append(all, strings.ReplaceAll(r.Verbs.String(), ",", "/")+" "+r.Pattern)
	}
	text := strings.Join(all, ", ")
	if p.scope.Prefix != "" {
		text += ", within " + p.scope.Prefix
	}
	return text
}

// Has tells whether the principal may do all that another one may.
//
// It is conservative: it may say no where several rules together would do. Then what waits is
// asked again.
func (p *Principal) Has(o *Principal) bool {
	if p == o {
		return true
	}
	if p.scope.Prefix != "" && p.scope.Prefix != o.scope.Prefix || o.some&(Cluster|Access)&^p.some != 0 {
		return false
	}
	for _, r := range o.scope.Rules {
		left := r.Verbs
		for _, own := range p.scope.Rules {
			if covers(own.Pattern, r.Pattern) {
				left &^= own.Verbs
			}
		}
		if left != 0 {
			return false
		}
	}
	return true
}

// Rules are what the principal may do, as text.
func (p *Principal) Rules() (all []string) {
	for _, r := range p.scope.Rules {
		all = append(all, r.String())
	}
	return all
}

// Judge refuses verbs on a queue, or on anything where it is empty; nil: they are allowed.
func (p *Principal) Judge(v Verbs, queue string) *proto.Error {
	switch {
	case queue == "" && !p.May(v):
		return p.denied(v, "anything")
	case queue != "" && !p.scope.May(v, queue):
		return p.denied(v, aQueue+queue)
	}
	return nil
}

// String names the principal with its roles.
func (p *Principal) String() string {
	if len(p.Roles) == 0 {
		return p.Name + " (no role)"
	}
	return p.Name + " (role " + strings.Join(p.Roles, ", ") + ")"
}
