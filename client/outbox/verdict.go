package outbox

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/norn-dev/norn/client"
)

const (
	// Pauses of a relay while nothing can be had from the database or the
	// cluster: 30 s is what people bear once it is back.
	firstPause   = 100 * time.Millisecond
	longestPause = 30 * time.Second
	// Delays of a row for which there was no room or no quorum: others may have
	// been luckier, and it should follow soon.
	firstWait   = 500 * time.Millisecond
	longestWait = 10 * time.Second
	// Delays of a row that the cluster does not want now: its queue drains, say.
	firstDelay   = time.Second
	longestDelay = 5 * time.Minute
	// clockDoubt is the age under which a row that is refused as out of the
	// cluster's window is taken to come from the future: from a clock that is
	// ahead of the cluster's.
	clockDoubt = 10 * time.Minute
)

// judge says what becomes of a task that the cluster did not take.
func judge(t *client.Task, err error, attempts int, now time.Time) refusal {
	r := refusal{id: t.ID.String(), err: err}
	is := func(targets ...error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
	switch {
	case is(client.ErrUnknown):
		// It may be there already; asking again tells.
		r.delay = backoff(attempts, firstWait, longestWait)
	case is(client.ErrInvalid, client.ErrAlreadyExists, client.ErrNotFound):
		r.aside = true
	case is(client.ErrOutOfWindow) && now.Sub(t.ID.Time()) >= clockDoubt:
		r.aside = true
	case is(client.ErrUnavailable, client.ErrOverloaded, client.ErrDiskFull, client.ErrDeadline, client.ErrCancelled, client.ErrClosed):
		r.delay = backoff(attempts, firstWait, longestWait)
	default:
		r.delay = backoff(attempts, firstDelay, longestDelay)
		r.own = is(client.ErrConflict, client.ErrOutOfWindow)
	}
	return r
}

// backoff doubles from first to longest with the number of attempts before,
// and takes up to a fifth off, so that many do not come back at once.
func backoff(attempts int, first, longest time.Duration) time.Duration {
	d := longest
	if attempts < 30 && first<<attempts < longest {
		d = first << attempts
	}
	return d - rand.N(d/5+1)
}
