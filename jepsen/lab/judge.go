package lab

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// Verdict is what is to be thought of a run.
type Verdict string

// Verdicts.
const (
	Passed   Verdict = "passed"
	Violated Verdict = "VIOLATED"
	Invalid  Verdict = "INVALID" // too little happened to prove anything, or somebody has ended the run
)

// Result is a run that was done.
type Result struct {
	Config   Config
	Network  string // what joined the nodes
	Verdict  Verdict
	Findings []string // what is wrong: what was seen, and what the history tells
	Seen     []string // what the run itself has seen
	Missing  []string // what did not happen that would have had to
	Idle     []string // faults that had no effect, of what is missing
	Ended    bool     // by somebody before it was done: it is invalid, whatever was seen up to then
	Took     time.Duration
	Windows  []Window
	Calm     []Window // when nothing was wrong, and the order of grants counts
	Tallies  []Tally  // of operations, by function
	Acked    int      // acknowledged tasks
	Sent     int      // tasks
	// Forgiven are acknowledgements of a single copy whose disk was taken away.
	Forgiven int
	// Probes are the availability for writes with one copy, by node; OnDisk the
	// number of tasks on each node in the end; Counts what `norn task count` said.
	Probes []Probe
	Peaks  []Peak // by node
	OnDisk []int
	Counts []string
	Events []*history.Event `json:"-"`
	// Began is the wall clock's ns at time 0; Lossy says that disks were taken
	// away, Claims that workers worked, Cut that the run ended before everything
	// was read.
	Began              int64
	Lossy, Claims, Cut bool
	// Ledger says what is to be thought of claims; without elections it is no
	// finding.
	Ledger []string

	broken []id.ID // tasks whose claims are wrong
}

// leastPerSecond is the least rate of acknowledged tasks for a run to prove
// anything.
const leastPerSecond = 20

// leastAvailable is the least share of writes with one copy that must succeed
// through a node that runs and that its clients reach (I15).
const leastAvailable = 0.99

// mostStarved is the largest share of those writes that may fail and not count, because the
// machine had no time for the node or its client: of ten times as many as may fail nobody
// can say that they are available.
const mostStarved = 0.1

// judge looks at what has happened. why is the error that ended the run early.
func (l *lab) judge(w Workload, why error) (*Result, error) {
	r := &Result{
		Config: l.cfg, Network: l.net.kind(), Took: time.Since(l.rec.began), Windows: l.windows, Calm: l.calms,
		Forgiven: l.lossesForgiven, OnDisk: l.onDisk, Counts: l.counts, Events: l.history(),
		Began: l.rec.began.UnixNano(), Lossy: len(l.wipes) > 0, Claims: w.claims, Cut: why != nil,
	}
	for _, p := range l.nodes {
		if err := l.alarmed(p); err != nil {
			return nil, err
		}
	}
	l.available(r)
	r.Peaks = l.gauges.of(l.nodes)
	for i := range r.Peaks {
		if over := r.Peaks[i].over(); over != "" { // I18
			l.found("limits", "%s", over)
		}
	}
	l.mu.Lock()
	for _, f := range l.findings {
		r.Seen = append(r.Seen, f.invariant+": "+f.text)
	}
	r.Idle = l.idle
	l.mu.Unlock()
	r.Ended = errors.Is(why, errEnded) || l.caller.ended() // by now: what was found after it does not count
	r.judge()
	return r, nil
}

// clockSkew is how far the wall clock of a node may be from that of this
// process: they have the same one.
const clockSkew = 10 * time.Millisecond

// ledger judges claims a second time, as a whole.
func (r *Result) ledger() {
	book := r.book()
	if r.Calm != nil {
		ranks := book.Ranks()
		r.Ledger = append(r.Ledger, fmt.Sprintf("%d grants passed over better tasks of the queue: half of them over %d at most, 99 %% over %d, all over %d", ranks.Grants, ranks.P50, ranks.P99, ranks.Max))
	}
	for _, judged := range book.Judge() {
		r.Ledger = append(r.Ledger, judged.String())
		for i := range judged.Violations {
			r.breaks(judged.Violations[i].Task)
		}
		switch {
		case r.Config.Unfenced:
		case judged.Broken > 0:
			r.Findings = append(r.Findings, judged.String())
		case judged.Unknown > 0:
			r.Missing = append(r.Missing, "an answer: "+judged.String())
		}
	}
}

// fine tells whether the node was as available as it has to be. Of a few calls a few may
// fail: they are too few to tell a hundredth.
func (p *Probe) fine() bool {
	most := float64(p.Calls) * (1 - leastAvailable)
	if p.Calls < 100 {
		most = max(2, float64(p.Calls)/10)
	}
	return float64(p.Failed) <= most
}

// told tells whether enough of the writes count to say how available the node was.
func (p *Probe) told() bool {
	return float64(p.Starved) <= max(2, float64(p.Calls+p.Starved)*mostStarved)
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
		if !pr.fine() {
			l.findings = append(l.findings, finding{"availability", fmt.Sprintf(
				"%s ran and could be reached, and refused %d of %d writes that want one copy, the first with: %s", p.name, pr.Failed, pr.Calls, pr.Error)})
		}
	}
}

// happened notes what is missing for the run to prove anything.
func (r *Result) happened() {
	w, ok := workload(r.Config.Workload)
	if !ok {
		w.least = leastPerSecond
	}
	if w.lacks != nil {
		if what := w.lacks(r); what != "" {
			r.Missing = append(r.Missing, what)
		}
	}
	if least := int(w.least * r.Config.Duration.Seconds()); r.Acked < least {
		r.Missing = append(r.Missing, fmt.Sprintf("%d acknowledged tasks, %d are the least", r.Acked, least))
	}
	if r.Claims && w.lacks == nil {
		done := slices.ContainsFunc(r.Tallies, func(t Tally) bool { return t.Func == history.Complete && t.OK >= int(r.Config.Duration.Seconds()) })
		held := slices.ContainsFunc(r.Tallies, func(t Tally) bool { return t.Func == history.Renew && t.OK > 0 })
		if !done || !held {
			r.Missing = append(r.Missing, "completions, a second one each, or renewals")
		}
	}
	for _, p := range r.Probes {
		if !p.told() {
			r.Missing = append(r.Missing, fmt.Sprintf("time of the machine: %d of %d writes that want one copy failed through %s and do not count", p.Starved, p.Calls+p.Starved, p.Node))
		}
	}
	r.Missing = append(r.Missing, r.Idle...)
	faults, _ := find(r.Config.Fault) // it was found before
	for _, f := range faults {
		if !slices.ContainsFunc(r.Windows, func(w Window) bool { return w.Fault == f.Name && w.To > 0 }) {
			r.Missing = append(r.Missing, "the fault "+f.Name)
		}
	}
}
