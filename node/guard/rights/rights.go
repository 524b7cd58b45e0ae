package rights

import (
	"fmt"

	"github.com/norn-dev/norn/node/guard"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	gproto "google.golang.org/protobuf/proto"
)

// The keys of the register's entries: these, and a name or an ID.
const (
	RoleKey  = "role/"
	TokenKey = "token/"
)

// Role reads a role.
func Role(v register.Value) (allow []string, rules []guard.Rule) {
	var m nornv1.StoredRole
	_ = gproto.Unmarshal(v.Data, &m) // this node's own, or a newer one's
	for _, text := range m.GetAllow() {
		if rule, err := guard.ParseRule(text); err == nil {
			rules = append(rules, rule)
		}
	}
	return m.GetAllow(), rules
}

// Barred says why what somebody has made may not be launched to a queue any more; empty: it may.
// access is what the register says now: of its token as long as that is not revoked, also when it lets in
// nobody any more (it has expired, or all are suspended), and else of its roles.
func Barred(access map[string]register.Value, m *nornv1.ScheduleMaker, queue string) string {
	if m == nil {
		return ""
	}
	names, who := m.GetRoles(), m.GetName()
	if id := m.GetToken(); id != "" {
		var t nornv1.StoredToken
		v, is := access[TokenKey+id]
		if !is || gproto.Unmarshal(v.Data, &t) != nil {
			return fmt.Sprintf("token %s (ID %s), with which it was made, was revoked", who, id)
		}
		names = t.GetRoles()
	}
	var rules []guard.Rule
	for _, name := range names {
		if built, ok := guard.BuiltIn(name); ok {
			rules = append(rules, built...)
		} else if v, is := access[RoleKey+name]; is {
			_, own := Role(v)
			rules = append(rules, own...)
		}
	}
	if denied := guard.NewPrincipal(who, "", names, rules, m.GetPrefix()).Judge(guard.Schedule, queue); denied != nil {
		return "who made it has no right to it any more: " + denied.Message
	}
	return ""
}
