package sim

import (
	"fmt"
	"io"
)

// Report writes what a person needs to understand a failure: the seed, the
// promise, the last events before it, and how to see it again.
func (r *Result) Report(to io.Writer, events int) {
	from := max(0, len(r.Events)-events)
	if events <= 0 {
		from = 0
	}
	for _, e := range r.Events[from:] {
		fmt.Fprintln(to, e)
	}
	fmt.Fprintf(to, "\nseed %d, %v into it: %v\n", r.Seed, r.Virtual, r.Violation)
	for _, line := range r.Detail {
		fmt.Fprintln(to, line)
	}
	if plan := r.Events[0]; plan != nil {
		fmt.Fprintf(to, "plan: %s\n", plan.Text)
	}
	fmt.Fprintf(to, "what happened: %s\nhistory %016x, %d events\n", &r.Stats, r.Sum, len(r.Events))
	fmt.Fprintf(to, "again, with the whole history: %s\n", r.Again)
}
