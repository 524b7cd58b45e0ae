package model

// Walk takes random walks through cfg, each of at most length steps, until one
// breaks an invariant: for configurations too large to be exhausted. Every
// choice comes from seed. States of the result counts the states seen, with
// repetitions. It returns an error that is ErrConfig when cfg is bad.
func Walk(cfg *Config, omit Omission, seed uint64, walks, length int) (Result, error) {
	if err := cfg.check(); err != nil {
		return Result{}, err
	}
	w := walker{seed: seed}
	w.m = machine{rules: newRules(cfg, omit), visit: w.visit}
	for range walks {
		if w.walk(length); w.res.Broke != 0 {
			break
		}
	}
	return w.res, nil
}

type walker struct {
	m    machine
	seed uint64
	at   state
	pick state // one of the successors
	told string
	n    uint64 // weight of the successors so far
	tell bool
	res  Result
}

// random is splitmix64 (Steele, Lea and Flood, 2014).
func (w *walker) random() uint64 {
	w.seed += 0x9e3779b97f4a7c15
	z := w.seed
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// weight is how likely a step is: elections that begin all at once, and claims
// that end at once, end most walks before anything has happened.
func weight(k kind) uint64 {
	switch k {
	case kStart, kOver:
		return 1
	case kDrop, kRelease:
		return 4
	}
	return 16
}

// visit keeps one of the successors by weight, one that breaks always.
func (w *walker) visit(next *state, by step, broke Invariant) {
	w.res.Steps++
	mine := weight(by.kind)
	w.n += mine
	if w.res.Broke != 0 || broke == 0 && w.random()%w.n >= mine {
		return
	}
	w.res.Broke = broke
	w.pick = *next
	if w.tell {
		w.told = w.m.rules.tell(&w.at, next, by)
	}
}

// walk goes one way; a way that breaks something is gone again, to tell it.
func (w *walker) walk(length int) {
	from := w.seed
	w.follow(length)
	if w.res.Broke != 0 {
		again := walker{seed: from, tell: true}
		again.m = machine{rules: w.m.rules, visit: again.visit}
		again.follow(length)
		w.res.Trace = again.res.Trace
	}
}

func (w *walker) follow(length int) {
	var leaders []int
	for n := range w.m.cfg.Nodes {
		if w.m.cfg.Cohorts[0]>>n&1 != 0 {
			leaders = append(leaders, n)
		}
	}
	w.at = w.m.initial(leaders[w.random()%uint64(len(leaders))])
	for d := 1; d <= length && w.res.Broke == 0; d++ {
		w.n = 0
		w.m.expand(&w.at)
		if w.n == 0 {
			return
		}
		w.at = w.pick
		w.res.States++
		w.res.Depth = max(w.res.Depth, d)
		if w.tell {
			w.res.Trace = append(w.res.Trace, w.told)
		}
		if w.tell && w.res.Broke != 0 {
			w.res.Trace[len(w.res.Trace)-1] += "   <- breaks " + w.res.Broke.String()
			w.res.Trace = append(w.res.Trace, "then: "+w.m.describe(&w.at))
		}
	}
}
