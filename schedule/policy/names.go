package policy

import "fmt"

func overlapNames() []string { return []string{"allow", "skip", "queue-one", "replace"} }
func catchUpNames() []string { return []string{"latest", "none", "all"} }
func reasonNames() []string {
	return []string{"", "missed", "too late", "overlap", "paused", "edited", "in doubt", "limit"}
}
func statusNames() []string {
	return []string{"", "open", "running", "completed", "failed", "cancelled", "not enqueued", "unknown"}
}

func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprint(i)
}

// String is the policy as users write it.
func (o Overlap) String() string { return nameOf(overlapNames(), int(o)) }

// String is the policy as users write it.
func (c CatchUp) String() string { return nameOf(catchUpNames(), int(c)) }

// String is the reason as users read it.
func (r Reason) String() string { return nameOf(reasonNames(), int(r)) }

// String is the status as users read it.
func (s Status) String() string { return nameOf(statusNames(), int(s)) }
