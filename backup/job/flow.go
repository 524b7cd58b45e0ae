package job

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/client"
)

const (
	// leastBytes is how much is in a request of a restore at least, when answers do not come in time.
	leastBytes = 128 << 10
	// soonAnswers is after how many answers in a row that came soon a request may be larger again.
	soonAnswers = 8
)

var (
	// restoreTime is how long an answer is waited for, longestTime how long when answers do not come in time.
	restoreTime, longestTime = 15 * time.Second, 2 * time.Minute
	// restorePause is the pause before a request is repeated.
	restorePause = time.Second
)

// flow is how much goes into a request, and how long its answer is waited for. Requests that are not answered in time are
// repeated: were they as large, and waited for no longer, a cluster that is slow would only get slower.
type flow struct {
	mu    sync.Mutex // guards all below
	bytes int
	wait  time.Duration
	soon  int // answers in a row
}

func newFlow() *flow { return &flow{bytes: requestBytes, wait: restoreTime} }

// next is what the next request may have, and how long to wait for its answer.
func (f *flow) next() (bytes int, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes, f.wait
}

// late notes that so many bytes were not answered within a time. Of several that were sent at the same size one counts.
func (f *flow) late(bytes int, wait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bytes, f.soon = max(min(f.bytes, bytes/2), leastBytes), 0
	f.wait = min(max(f.wait, 2*wait), longestTime)
}

// answered notes that so many bytes were answered.
func (f *flow) answered(bytes int, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if bytes < f.bytes/2 || took > f.wait/4 {
		f.soon = 0
		return
	}
	if f.soon++; f.soon >= soonAnswers {
		f.bytes, f.wait, f.soon = min(f.bytes+f.bytes/4, requestBytes), max(f.wait-f.wait/4, restoreTime), 0
	}
}

// unanswered tells whether an error says that the cluster did not do in time what it was asked, or has too much to do.
func unanswered(err error) bool {
	for _, one := range []error{context.DeadlineExceeded, client.ErrDeadline, client.ErrUnknown, client.ErrOverloaded, client.ErrNoQuorum} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}

// cut gives the first of some tasks, of about so many bytes and one at least, and the rest.
func cut(tasks []byte, most int) (first, rest []byte, err error) {
	if len(tasks) <= most+most/8 {
		return tasks, nil, nil
	}
	for rest = tasks; len(rest) > 0 && len(tasks)-len(rest) < most; {
		if _, rest, err = backup.NextRecord(rest); err != nil {
			return nil, nil, err
		}
	}
	at := len(tasks) - len(rest)
	return tasks[:at:at], rest, nil
}
