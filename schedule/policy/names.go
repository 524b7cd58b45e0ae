package policy

import (
	"fmt"
	"slices"
	"strings"
)

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

func parse(what string, names []string, text string) (int, error) {
	if i := slices.Index(names, text); i >= 0 && text != "" {
		return i, nil
	}
	return 0, fmt.Errorf("%w: %s %.20q is none of %s", ErrInvalid, what, text, strings.Join(names, ", "))
}

// String is the policy as users write it.
func (o Overlap) String() string { return nameOf(overlapNames(), int(o)) }

// ParseOverlap reads allow, skip, queue-one or replace. Other text returns
// ErrInvalid.
func ParseOverlap(text string) (Overlap, error) {
	i, err := parse("overlap", overlapNames(), text)
	return Overlap(i), err
}

// String is the policy as users write it.
func (c CatchUp) String() string { return nameOf(catchUpNames(), int(c)) }

// ParseCatchUp reads latest, none or all. Other text returns ErrInvalid.
func ParseCatchUp(text string) (CatchUp, error) {
	i, err := parse("catch-up", catchUpNames(), text)
	return CatchUp(i), err
}

// String is the reason as users read it.
func (r Reason) String() string { return nameOf(reasonNames(), int(r)) }

// String is the status as users read it.
func (s Status) String() string { return nameOf(statusNames(), int(s)) }
