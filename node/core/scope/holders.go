package scope

import (
	"maps"

	"github.com/norn-dev/norn/node/guard"
)

// Holders are those who have a scope, by what they are known by.
type Holders[K comparable] struct {
	// Now is the scope of those for whom [By] calls.
	Now *guard.Scope

	of map[K]*guard.Scope
}

// Hold notes what somebody may see and do; nil: everything. Those that are not known any more
// are forgotten.
func (h *Holders[K]) Hold(who K, s *guard.Scope, known func(K) bool) {
	if had, is := h.of[who]; had == s || s == nil && !is {
		return
	}
	maps.DeleteFunc(h.of, func(who K, _ *guard.Scope) bool { return !known(who) })
	if h.of == nil {
		h.of = make(map[K]*guard.Scope)
	}
	if h.of[who] = s; s == nil {
		delete(h.of, who)
	}
}

// By calls fn for the holders of each scope, with what belongs to them.
func By[K comparable, T any](h *Holders[K], all []T, of func(*T) K, fn func([]T)) {
	for len(all) > 0 {
		h.Now = h.of[of(&all[0])]
		var same, rest []T
		for i := range all {
			if h.of[of(&all[i])] == h.Now {
				same = append(same, all[i])
			} else {
				rest = append(rest, all[i])
			}
		}
		fn(same)
		h.Now, all = nil, rest
	}
}
