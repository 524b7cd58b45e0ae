package verdict

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/faults"
	"github.com/norn-dev/norn/jepsen/lab/workloads"
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
	Config   cluster.Config
	Network  string // what joined the nodes
	Verdict  Verdict
	Findings []string // what is wrong: what was seen, and what the history tells
	Seen     []string // what the run itself has seen
	Missing  []string // what did not happen that would have had to
	Idle     []string // faults that had no effect, of what is missing
	Ended    bool     // by somebody before it was done: it is invalid, whatever was seen up to then
	Took     time.Duration
	Windows  []cluster.Window
	Calm     []cluster.Window // when nothing was wrong, and the order of grants counts
	Tallies  []Tally          // of operations, by function
	Acked    int              // acknowledged tasks
	Sent     int              // tasks
	// Forgiven are acknowledgements of a single copy whose disk was taken away.
	Forgiven int
	// Probes are the availability for writes with one copy, by node; OnDisk the
	// number of tasks on each node in the end; Counts what `norn task count` said.
	Probes []cluster.Probe
	Peaks  []cluster.Peak // by node
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

// Judged looks at what has happened. why is the error that ended the run early.
func Judged(l *cluster.Lab, w workloads.Workload, why error) (*Result, error) {
	r := &Result{
		Config: l.Cfg, Network: l.Net.Kind(), Took: time.Since(l.Rec.Began), Windows: l.Windows, Calm: l.Calms,
		Forgiven: l.LossesForgiven, OnDisk: l.OnDisk, Counts: l.Counts, Events: l.History(),
		Began: l.Rec.Began.UnixNano(), Lossy: len(l.Wipes) > 0, Claims: w.Claims, Cut: why != nil,
	}
	for _, p := range l.Nodes {
		if err := l.Alarmed(p); err != nil {
			return nil, err
		}
	}
	available(l, r)
	r.Peaks = l.Gauges.Of(l.Nodes)
	for i := range r.Peaks {
		if over := r.Peaks[i].Over(); over != "" { // I18
			l.Found("limits", "%s", over)
		}
	}
	l.Mu.Lock()
	for _, f := range l.Findings {
		r.Seen = append(r.Seen, f.Invariant+": "+f.Text)
	}
	r.Idle = l.Idle
	l.Mu.Unlock()
	r.Ended = errors.Is(why, cluster.ErrEnded) || l.Caller.Ended() // by now: what was found after it does not count
	r.judge()
	return r, nil
}

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

// available judges the probes.
func available(l *cluster.Lab, r *Result) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	for _, p := range l.Nodes {
		pr := l.Probes[p.N]
		if pr == nil {
			continue
		}
		r.Probes = append(r.Probes, *pr)
		if !pr.Fine() {
			l.Findings = append(l.Findings, cluster.Finding{Invariant: "availability", Text: fmt.Sprintf(
				"%s ran and could be reached, and refused %d of %d writes that want one copy, the first with: %s", p.Name, pr.Failed, pr.Calls, pr.Error)})
		}
	}
}

// happened notes what is missing for the run to prove anything.
func (r *Result) happened() {
	w, ok := workloads.Named(r.Config.Workload)
	if !ok {
		w.Least = workloads.LeastPerSecond
	}
	if w.Lacks != nil {
		if what := w.Lacks(&workloads.Seen{Duration: r.Config.Duration, Events: r.Events, Calm: r.Calm}); what != "" {
			r.Missing = append(r.Missing, what)
		}
	}
	if least := int(w.Least * r.Config.Duration.Seconds()); r.Acked < least {
		r.Missing = append(r.Missing, fmt.Sprintf("%d acknowledged tasks, %d are the least", r.Acked, least))
	}
	if r.Claims && w.Lacks == nil {
		done := slices.ContainsFunc(r.Tallies, func(t Tally) bool { return t.Func == history.Complete && t.OK >= int(r.Config.Duration.Seconds()) })
		held := slices.ContainsFunc(r.Tallies, func(t Tally) bool { return t.Func == history.Renew && t.OK > 0 })
		if !done || !held {
			r.Missing = append(r.Missing, "completions, a second one each, or renewals")
		}
	}
	for _, p := range r.Probes {
		if !p.Told() {
			r.Missing = append(r.Missing, fmt.Sprintf("time of the machine: %d of %d writes that want one copy failed through %s and do not count", p.Starved, p.Calls+p.Starved, p.Node))
		}
	}
	r.Missing = append(r.Missing, r.Idle...)
	chosen, _ := faults.Find(r.Config.Fault) // it was found before
	for _, f := range chosen {
		if !slices.ContainsFunc(r.Windows, func(w cluster.Window) bool { return w.Fault == f.Name && w.To > 0 }) {
			r.Missing = append(r.Missing, "the fault "+f.Name)
		}
	}
}
