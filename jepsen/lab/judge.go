package lab

import (
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/history"
)

// Verdict is what is to be thought of a run.
type Verdict string

// Verdicts.
const (
	Passed   Verdict = "passed"
	Violated Verdict = "VIOLATED"
	Invalid  Verdict = "INVALID" // too little happened to prove anything
)

// Result is a run that was done.
type Result struct {
	Config   Config
	Network  string // what joined the nodes
	Verdict  Verdict
	Findings []string // what is wrong
	Missing  []string // what did not happen that would have had to
	Took     time.Duration
	Windows  []Window
	Tallies  []Tally // of operations, by function
	Acked    int     // acknowledged tasks
	Sent     int     // tasks
	// Forgiven are acknowledgements of a single copy whose disk was taken away.
	Forgiven int
	// Probes are the availability for writes with one copy, by node; OnDisk the
	// number of tasks on each node in the end; Counts what `norn task count` said.
	Probes []Probe
	OnDisk []int
	Counts []string
	Events []*history.Event
	// Ledger says what is to be thought of claims; without elections it is no
	// finding.
	Ledger []string
}

// leastPerSecond is the least rate of acknowledged tasks for a run to prove
// anything.
const leastPerSecond = 20

// leastAvailable is the least share of writes with one copy that must succeed
// through a node that runs and that its clients reach (I15).
const leastAvailable = 0.99

// judge looks at what has happened. why is the error that ended the run early.
func (l *lab) judge(w Workload, why error) (*Result, error) {
	r := &Result{
		Config: l.cfg, Network: l.net.kind(), Verdict: Passed, Took: time.Since(l.rec.began), Windows: l.windows,
		Forgiven: l.lossesForgiven, OnDisk: l.onDisk, Counts: l.counts, Events: l.history(),
	}
	for _, p := range l.nodes {
		if err := l.alarmed(p); err != nil {
			return nil, err
		}
	}
	l.available(r)
	l.mu.Lock()
	for _, f := range l.findings {
		r.Findings = append(r.Findings, f.invariant+": "+f.text)
	}
	l.mu.Unlock()
	c := check.New(check.Options{Partitions: partitions, Unfenced: !l.cfg.Fenced, Elected: l.cfg.Fenced, Lossy: len(l.wipes) > 0})
	var v *check.Violation
	for _, e := range r.Events {
		if v = c.Event(e); v != nil {
			break
		}
	}
	if v == nil && why == nil {
		v = c.Finish()
	}
	if v != nil {
		r.Findings = append(r.Findings, fmt.Sprintf("%v (at %.3f s)", v, float64(v.At)/1e9))
	}
	if w.claims {
		l.ledger(r)
	}
	acked, sent := tasksOf(r.Events)
	r.Acked, r.Sent = len(acked), len(sent)
	r.Tallies = count(r.Events)
	l.happened(r, w)
	switch {
	case len(r.Findings) > 0:
		r.Verdict = Violated
	case len(r.Missing) > 0:
		r.Verdict = Invalid
	}
	return r, nil
}

// clockSkew is how far the wall clock of a node may be from that of this
// process: they have the same one.
const clockSkew = 10 * time.Millisecond

// ledger judges claims a second time, as a whole.
func (l *lab) ledger(r *Result) {
	book := check.NewLedger(check.LedgerOptions{Partitions: partitions, Wall: l.rec.began.UnixNano(), Skew: int64(clockSkew)})
	for _, e := range r.Events {
		book.Add(e)
	}
	for _, judged := range book.Judge() {
		r.Ledger = append(r.Ledger, judged.String())
		if l.cfg.Fenced && judged.Broken > 0 {
			r.Findings = append(r.Findings, judged.String())
		}
	}
}

// available judges the probes.
func (l *lab) available(r *Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.nodes {
		pr := l.probes[p.n]
		if pr == nil {
			continue
		}
		r.Probes = append(r.Probes, *pr)
		if pr.Calls >= 100 && float64(pr.Failed) > float64(pr.Calls)*(1-leastAvailable) {
			l.findings = append(l.findings, finding{"availability", fmt.Sprintf(
				"%s ran and could be reached, and refused %d of %d writes that want one copy, the first with: %s", p.name, pr.Failed, pr.Calls, pr.Error)})
		}
	}
}

// happened notes what is missing for the run to prove anything.
func (l *lab) happened(r *Result, w Workload) {
	if least := int(leastPerSecond * l.cfg.Duration.Seconds()); r.Acked < least {
		r.Missing = append(r.Missing, fmt.Sprintf("%d acknowledged tasks, %d are the least", r.Acked, least))
	}
	if w.claims {
		done := slices.ContainsFunc(r.Tallies, func(t Tally) bool { return t.Func == history.Complete && t.OK >= int(l.cfg.Duration.Seconds()) })
		held := slices.ContainsFunc(r.Tallies, func(t Tally) bool { return t.Func == history.Renew && t.OK > 0 })
		if !done || !held {
			r.Missing = append(r.Missing, "completions, a second one each, or renewals")
		}
	}
	faults, _ := find(l.cfg.Fault) // it was found before
	for _, f := range faults {
		if !slices.ContainsFunc(r.Windows, func(w Window) bool { return w.Fault == f.Name && w.To > 0 }) {
			r.Missing = append(r.Missing, "the fault "+f.Name)
		}
	}
}
