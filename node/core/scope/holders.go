package scope

import (
	"maps"

	"github.com/norn-dev/norn/node/guard"
)

// Holder is somebody whose requests another one makes.
type Holder struct {
	// Scope is what it may see and do; nil: everything.
	Scope *guard.Scope
	// By is who it is; empty: nobody has to show that.
	By string
}

// Holders are those who have a scope or a name, by what they are known by.
type Holders[K comparable] struct {
	// Now is the one for whom [By] or [For] calls.
	Now Holder

	of   map[K]Holder
	most int // how many there may be before those that are not known are looked for
}

// leastHeld is how many are kept without a look at who is known still.
const leastHeld = 64

// Hold notes who somebody is and what it may see and do. Those that are not known any more
// are forgotten, not at once.
func (h *Holders[K]) Hold(who K, is Holder, known func(K) bool) {
	if h.of[who] == is {
		return
	}
	if h.of == nil {
		h.of, h.most = make(map[K]Holder), leastHeld
	}
	if len(h.of) >= h.most { // before the new one is noted, who is mostly not known yet
		maps.DeleteFunc(h.of, func(who K, _ Holder) bool { return !known(who) })
		h.most = max(leastHeld, 2*len(h.of))
	}
	if h.of[who] = is; is == (Holder{}) {
		delete(h.of, who)
	}
}

// Of gives who somebody is.
func (h *Holders[K]) Of(who K) Holder { return h.of[who] }

// For calls fn for somebody.
func For[K comparable](h *Holders[K], is Holder, fn func()) {
	h.Now = is
	fn()
	h.Now = Holder{}
}

// By calls fn for the holders of each scope and name, with what belongs to them.
func By[K comparable, T any](h *Holders[K], all []T, of func(*T) K, fn func([]T)) {
	for len(all) > 0 {
		first := h.of[of(&all[0])]
		var same, rest []T
		for i := range all {
			if h.of[of(&all[i])] == first {
				same = append(same, all[i])
			} else {
				rest = append(rest, all[i])
			}
		}
		For(h, first, func() { fn(same) })
		all = rest
	}
}
