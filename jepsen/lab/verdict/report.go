package verdict

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
)

// Tally is what came of the operations of one function.
type Tally struct {
	Func              history.Func
	OK, Failed, Other int             // calls; Other: nobody knows
	Items, Refused    int             // parts of calls that were answered; refused parts
	Latency           []time.Duration // of calls with an answer: p50, p90, p99, longest
}

// count makes the tallies of a history.
func count(events []*history.Event) []Tally {
	begun := map[uint64]*history.Event{}
	all := map[history.Func]*Tally{}
	for _, e := range events {
		if e.Phase == history.Note {
			continue
		}
		t := all[e.Func]
		if t == nil {
			t = &Tally{Func: e.Func}
			all[e.Func] = t
		}
		asked := begun[e.Op]
		switch e.Phase {
		case history.Invoke:
			begun[e.Op] = e
			t.Other++
			continue
		case history.OK:
			t.OK++
			t.Latency = append(t.Latency, time.Duration(e.At-asked.At))
		case history.Fail:
			t.Failed++
		default:
			continue
		}
		t.Other--
		t.Items += len(e.Items)
		for i := range e.Items {
			if e.Items[i].Error != "" {
				t.Refused++
			}
		}
	}
	var out []Tally
	for _, f := range slices.Sorted(maps.Keys(all)) {
		t := all[f]
		slices.Sort(t.Latency)
		t.Latency = percentiles(t.Latency)
		out = append(out, *t)
	}
	return out
}

// percentiles gives p50, p90, p99 and the longest of sorted times.
func percentiles(sorted []time.Duration) []time.Duration {
	if len(sorted) == 0 {
		return nil
	}
	var out []time.Duration
	for _, share := range []float64{0.5, 0.9, 0.99, 1} {
		out = append(out, sorted[int(share*float64(len(sorted)-1))])
	}
	return out
}

// Markdown writes the report of a run.
func (r *Result) Markdown(w io.Writer) error {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	fault := r.Config.Fault
	if fault == "" {
		fault = "none"
	}
	say("# Laboratory: fault %s, workload %s: %s\n", fault, r.Config.Workload, r.Verdict)
	say("%d nodes (%s), seed %d, %v of faults, %.0f s in all. %d tasks acknowledged of %d sent.\n", r.Config.Nodes, r.Network, r.Config.Seed,
		r.Config.Duration, r.Took.Seconds(), r.Acked, r.Sent)
	if r.Ended {
		say("- %v: what is here was judged up to then, and is no verdict", cluster.ErrEnded)
	}
	for _, f := range r.Findings {
		say("- **wrong**: %s", f)
	}
	for _, m := range r.Missing {
		say("- missing, so that this proves nothing: %s", m)
	}
	if r.Forgiven > 0 {
		say("- %d acknowledgements of a single copy do not count: the disk of the node that gave them was wiped later", r.Forgiven)
	}
	say("- tasks on disks in the end: %v; `norn task count` before: %s\n", r.OnDisk, strings.Join(r.Counts, ", "))
	say("## Faults\n\n| from s | to s | whole after s | fault | what |\n|---|---|---|---|---|")
	for _, f := range r.Windows {
		whole := "-"
		if f.Whole > 0 {
			whole = fmt.Sprintf("%.1f", (f.Whole - f.To).Seconds())
		}
		say("| %.1f | %.1f | %s | %s | %s |", f.From.Seconds(), f.To.Seconds(), whole, f.Fault, f.What)
	}
	say("\n## Operations\n\n| what | done | refused | unknown | parts | parts refused | p50 | p90 | p99 | longest |\n|---|---|---|---|---|---|---|---|---|---|")
	for _, t := range r.Tallies {
		say("| %s | %d | %d | %d | %d | %d |%s", t.Func, t.OK, t.Failed, t.Other, t.Items, t.Refused, row(t.Latency))
	}
	for i, line := range r.Ledger {
		if i == 0 {
			say("\n## Claims\n")
		}
		say("    %s", line)
	}
	say("\n## Availability\n\nWrites that want one copy, through nodes that ran for %v and that their clients could reach.\nThose that failed while the machine had no time for the node are not among the calls.\n\n| node | calls | failed | longest | not counted | first error |\n|---|---|---|---|---|---|", cluster.Steady)
	for _, p := range r.Probes {
		say("| %s | %d | %d | %v | %d | %s |", p.Node, p.Calls, p.Failed, p.Slowest.Round(time.Millisecond), p.Starved, strings.ReplaceAll(p.Error, "|", "/"))
	}
	for i, p := range r.Peaks {
		if i == 0 {
			say("\n## Limits\n\nThe most that each node had; no more than %d MiB, %d files and connections, %d threads and %d MiB of disk are allowed.\n\n| node | memory, MiB | files and connections | threads | disk, MiB |\n|---|---|---|---|---|",
				cluster.Ceiling.Memory>>20, cluster.Ceiling.Descriptors, cluster.Ceiling.Threads, cluster.Ceiling.Disk>>20)
		}
		say("| %s | %d | %d | %d | %d |", p.Node, p.Memory>>20, p.Descriptors, p.Threads, p.Disk>>20)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func row(latency []time.Duration) string {
	if latency == nil {
		return " - | - | - | - |"
	}
	var b strings.Builder
	for _, d := range latency {
		fmt.Fprintf(&b, " %v |", d.Round(100*time.Microsecond))
	}
	return b.String()
}
