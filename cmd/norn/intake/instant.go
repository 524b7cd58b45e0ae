package intake

import (
	"fmt"
	"time"
)

// Instant reads a time before which a task does not start: RFC 3339, from 1970 to 2262,
// as the servers take it.
func Instant(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	switch {
	case err != nil:
		return t, fmt.Errorf("%q is not a time such as 2030-01-31T15:04:05Z", text)
	case t.Year() < 1970 || t.Year() > 2262:
		return t, fmt.Errorf("%q is not a time between 1970 and 2262", text)
	}
	return t, nil
}
