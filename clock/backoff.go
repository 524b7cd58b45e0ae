package clock

import "time"

// Backoff is the pauses between tries: each is twice as long as the one before.
type Backoff struct{ First, Most time.Duration }

// Pause is the one after a try, with how many failed before it.
func (b Backoff) Pause(failed int) time.Duration { return min(b.First<<min(failed, 20), b.Most) }
