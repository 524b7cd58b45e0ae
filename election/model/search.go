package model

// Limits end a search that does not exhaust its configuration.
type Limits struct {
	// States is the largest number of distinct states, 0 for no limit. About 25
	// bytes are kept for each, and 250 for each of the current depth.
	States int
	// Only ignores violations of other invariants than these; 0 is all.
	Only Invariant
	// Progress, if not nil, is told after each depth.
	Progress func(depth, states int)
}

// Result is what a search found.
type Result struct {
	// States counts the distinct ones (one of each symmetry class) and Steps
	// the transitions looked at; Depth is the number of steps of the longest
	// shortest way, or of the counterexample.
	States, Steps, Depth int
	// Exhausted says that every reachable state was visited.
	Exhausted bool
	// Broke is what the counterexample breaks, 0 without one.
	Broke Invariant
	// Trace is the counterexample.
	Trace []string
}

// Explore visits every reachable state of cfg with the omissions of omit, in
// breadth. It stops at the first violation: the trace is a shortest one. It
// returns an error that is ErrConfig when cfg is bad.
func Explore(cfg *Config, omit Omission, lim Limits) (Result, error) {
	if err := cfg.check(); err != nil {
		return Result{}, err
	}
	f := &search{lim: lim, perms: symmetries(cfg), seen: newVisited()}
	f.m = machine{rules: newRules(cfg, omit), visit: f.visit}
	for n := range cfg.Nodes {
		if cfg.Cohorts[0]>>n&1 != 0 {
			s := f.m.initial(n)
			f.add(&s, none)
		}
	}
	f.run()
	return f.res, nil
}

// none is the parent of an initial state.
const none = ^uint32(0)

type search struct {
	m     machine
	lim   Limits
	perms []perm
	seen  *visited
	level queue // states of this depth, and of the next
	next  queue
	from  uint32 // number of the state being expanded
	res   Result
	stop  bool
}

// entry is a state to expand, and its number in the order of discovery. It is
// the first one found of its class, so that traces keep the names of nodes.
type entry struct {
	s  state
	id uint32
}

// queue holds entries in blocks, which go back to be filled again as soon as
// they have been emptied: the states of a depth are most of a search's memory.
type queue struct {
	full [][]entry
	free [][]entry
}

const block = 1024

func (q *queue) add(s *state, id uint32) {
	last := len(q.full) - 1
	if last < 0 || len(q.full[last]) == block {
		b := make([]entry, 0, block)
		if n := len(q.free); n > 0 {
			b, q.free = q.free[n-1], q.free[:n-1]
		}
		q.full, last = append(q.full, b), last+1
	}
	q.full[last] = append(q.full[last], entry{*s, id})
}

// each empties q; its blocks go to next.
func (q *queue) each(next *queue, do func(*entry) bool) {
	for i, b := range q.full {
		for j := range b {
			if !do(&b[j]) {
				return
			}
		}
		next.free = append(next.free, b[:0])
		q.full[i] = nil
	}
}

func (f *search) add(s *state, from uint32) {
	fp := fingerprint(s, f.perms)
	if id, fresh := f.seen.add(fp, from); fresh {
		f.next.add(s, id)
	}
}

func (f *search) visit(next *state, by step, broke Invariant) {
	f.res.Steps++
	if f.stop {
		return
	}
	if f.lim.Only != 0 {
		broke &= f.lim.Only
	}
	if broke != 0 {
		f.stop = true
		f.res.Broke = broke
		last := *next
		f.res.Trace = f.trace(f.seen.way(f.from), by, &last, broke)
		return
	}
	f.add(next, f.from)
}

func (f *search) run() {
	for len(f.next.full) > 0 && !f.stop {
		f.level.full, f.next.full = f.next.full, nil
		f.level.each(&f.next, func(e *entry) bool {
			f.from = e.id
			f.m.expand(&e.s)
			return !f.stop
		})
		if len(f.next.full) > 0 || f.stop {
			f.res.Depth++
		}
		f.res.States = len(f.seen.fp)
		if f.lim.Progress != nil {
			f.lim.Progress(f.res.Depth, f.res.States)
		}
		if f.lim.States != 0 && f.res.States > f.lim.States {
			return
		}
	}
	f.res.Exhausted = !f.stop
}

// visited is the set of fingerprints, with the way to each.
type visited struct {
	slots  []uint64 // open addressing, 0 is empty
	fp     []uint64 // in the order of discovery
	parent []uint32
}

func newVisited() *visited { return &visited{slots: make([]uint64, 1<<16)} }

// add says whether fp is new, and its number if it is. 64 bits for 10^8 states
// let two of them collide with a chance of 1 in 3,700.
func (v *visited) add(fp uint64, parent uint32) (uint32, bool) {
	if len(v.fp)*3 > len(v.slots)*2 {
		v.grow()
	}
	if !v.put(fp) {
		return 0, false
	}
	v.fp, v.parent = append(v.fp, fp), append(v.parent, parent)
	return uint32(len(v.fp) - 1), true
}

func (v *visited) put(fp uint64) bool {
	for i := fp & uint64(len(v.slots)-1); ; i = (i + 1) & uint64(len(v.slots)-1) {
		switch v.slots[i] {
		case fp:
			return false
		case 0:
			v.slots[i] = fp
			return true
		}
	}
}

func (v *visited) grow() {
	v.slots = make([]uint64, 2*len(v.slots))
	for _, fp := range v.fp {
		v.put(fp)
	}
}

// way lists the fingerprints that lead to state id, from the beginning.
func (v *visited) way(id uint32) (out []uint64) {
	for ; id != none; id = v.parent[id] {
		out = append(out, v.fp[id])
	}
	return out
}
