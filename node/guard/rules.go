package guard

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/norn-dev/norn/proto"
)

// Everything is the pattern that matches each name.
const Everything = "*"

// Rule allows verbs on the names that a pattern matches.
type Rule struct {
	Verbs Verbs
	// Pattern is a name, or the beginning of names with a star behind it.
	Pattern string
}

// String is VERBS:PATTERN.
func (r Rule) String() string { return r.Verbs.String() + ":" + r.Pattern }

// ParseRule reads VERBS:PATTERN. Cluster and access are about no queue: their pattern is a star.
func ParseRule(text string) (r Rule, err error) {
	verbs, pattern, ok := strings.Cut(text, ":")
	if !ok {
		return r, fmt.Errorf("%.200q is not VERB[,VERB…]:PATTERN, as enqueue:acme/* is", text)
	}
	if r.Verbs, err = ParseVerbs(verbs); err != nil {
		return Rule{}, err
	}
	if err := CheckPattern(pattern); err != nil {
		return Rule{}, err
	}
	r.Pattern = pattern
	if about := r.Verbs & (Cluster | Access); about != 0 && pattern != Everything {
		return Rule{}, fmt.Errorf("%s is about the cluster, not about a queue: its pattern is *", about)
	}
	return r, nil
}

// CheckPattern refuses what is no pattern: a queue name, one that ends with a star, or a star.
func CheckPattern(pattern string) error {
	if pattern == Everything {
		return nil
	}
	if name := strings.TrimSuffix(pattern, "*"); !proto.ValidQueue(name) {
		return fmt.Errorf("%.140q is no pattern: give a queue name, the beginning of queue names with a star behind it (acme/*), or *", pattern)
	}
	return nil
}

// matches tells whether a pattern matches a name.
func matches(pattern, name string) bool {
	if n := len(pattern) - 1; n >= 0 && pattern[n] == '*' {
		return len(name) >= n && name[:n] == pattern[:n]
	}
	return pattern == name
}

// covers tells whether a pattern matches all names that another one does.
func covers(a, b string) bool {
	stem, star := strings.CutSuffix(a, "*")
	return a == b || star && strings.HasPrefix(strings.TrimSuffix(b, "*"), stem)
}

// The limits of roles.
const (
	MaxName  = 64 // bytes in the name of a role, a token or a tenant
	MaxRules = 64 // of a role
	MaxRoles = 8  // of a principal
)

// ErrName is returned for what cannot be the name of a role, a token or a tenant.
var ErrName = errors.New("a name is 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-', and begins with a letter or a digit")

// CheckName judges the name of a role, a token or a tenant.
func CheckName(name string) error {
	if len(name) > MaxName || !proto.ValidQueue(name) || strings.ContainsAny(name, ":/") {
		return fmt.Errorf("%.80q: %w", name, ErrName)
	}
	return nil
}

// IsPrefix tells whether a text can be the prefix of a tenant: a name with a slash behind it, so
// that whose a name is follows from what it has before its first slash.
func IsPrefix(text string) bool {
	name, ok := strings.CutSuffix(text, "/")
	return ok && CheckName(name) == nil
}

// builtIn are the roles that there always are.
var builtIn = []struct {
	name  string
	verbs Verbs
}{
	{"producer", Enqueue | See},
	{"worker", Work | See | Read},
	{"viewer", See},
	{"operator", See | Read | Operate | Schedule | Control},
	{"admin", All},
	{"metrics", None},
}

// BuiltIn gives the rules of a role that there always is.
func BuiltIn(name string) (rules []Rule, ok bool) {
	for _, b := range builtIn {
		if b.name != name {
			continue
		}
		if b.verbs != None {
			rules = []Rule{{b.verbs, Everything}}
		}
		return rules, true
	}
	return nil, false
}

// BuiltInNames are the names of the roles that there always are.
func BuiltInNames() (names []string) {
	for _, b := range builtIn {
		names = append(names, b.name)
	}
	return names
}

// merged joins rules with the same pattern, in the order of the patterns.
//
// So no pattern is looked at twice, and the text of a principal's rights is the same on all
// nodes.
func merged(rules []Rule) (out []Rule) {
	for _, r := range rules {
		at, found := slices.BinarySearchFunc(out, r.Pattern, func(x Rule, p string) int { return strings.Compare(x.Pattern, p) })
		if !found {
			out = slices.Insert(out, at, Rule{Pattern: r.Pattern})
		}
		out[at].Verbs |= r.Verbs
	}
	return out
}
