package schedule

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrSpec is returned when text is not a specification; the error is a
// [*SpecError] that says where.
var ErrSpec = errors.New("schedule: malformed specification")

// ErrZone is returned when a name is not one of a time zone of the tz database.
var ErrZone = errors.New("schedule: unknown time zone")

// SpecError is what is wrong with a specification, and where.
type SpecError struct {
	// Text is the specification.
	Text string
	// Field is the name of the field, "" when it is about the whole.
	Field string
	// Column is where the mistake begins, in characters from 1, and Width how
	// many characters it takes.
	Column, Width int
	// Reason says what is wrong and what would be right.
	Reason string
	// Cause is ErrZone when it is about the time zone, else nil.
	Cause error
}

// Error is one line: field, column and reason.
func (e *SpecError) Error() string {
	where := fmt.Sprintf("column %d", e.Column)
	if e.Field != "" {
		where = e.Field + " field, " + where
	}
	return "schedule: " + where + ": " + e.Reason
}

// Unwrap is ErrSpec, and the cause when there is one.
func (e *SpecError) Unwrap() []error {
	if e.Cause == nil {
		return []error{ErrSpec}
	}
	return []error{ErrSpec, e.Cause}
}

// Pointer is the specification and, on a second line, marks below the mistake.
func (e *SpecError) Pointer() string {
	// A tab would move the marks; other control characters are no text to show.
	line := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, e.Text)
	return line + "\n" + strings.Repeat(" ", e.Column-1) + strings.Repeat("^", max(e.Width, 1))
}

// fault makes a SpecError about text[from:to], in bytes.
func fault(text, field string, from, to int, format string, args ...any) *SpecError {
	from = min(from, len(text))
	to = max(min(to, len(text)), from)
	return &SpecError{
		Text: text, Field: field, Reason: fmt.Sprintf(format, args...),
		Column: utf8.RuneCountInString(text[:from]) + 1, Width: max(1, utf8.RuneCountInString(text[from:to])),
	}
}

// maxNear is the longest text that a nearest name is looked for: the cost of
// a comparison is the product of the lengths.
const maxNear = 64

// nearest is the known name that takes the fewest changes to type, and a
// hint about it; "" when nothing is near. Letters of either case are alike.
func nearest(name string, known []string) string {
	if len(name) > maxNear {
		return ""
	}
	best, fewest := "", max(1, len(name)/3)+1
	for _, k := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(k)); d < fewest {
			best, fewest = k, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// distance is the number of insertions, deletions, replacements and swaps of
// neighbouring bytes between two texts (optimal string alignment), by three
// rows of the table.
func distance(a, b string) int {
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			change := row[j]
			if a[i] != b[j] {
				change++
			}
			next[j+1] = min(change, next[j]+1, row[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}
