package tasks

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

const (
	// linesEvery is how often workers are asked for new lines.
	linesEvery = 500 * time.Millisecond
	// linesPatience is how long one is waited for: it may be away, or between two nodes.
	linesPatience = 4 * time.Second
)

// withLines gives the updates of a task, and after each page of them what the workers
// of its claims remember.
func withLines(ctx context.Context, c *client.Client, task id.ID, follow bool) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		var o client.LogOptions
		read := make(map[uint64]*lineReader) // by token
		for {
			m, err := c.Log(ctx, task, o)
			if err != nil {
				yield(entry{}, err)
				return
			}
			for _, u := range m.GetUpdates() {
				if !yield(entry{Update: u}, nil) {
					return
				}
			}
			left := o.Next(m, linesEvery)
			if m.GetMore() {
				continue
			}
			// Its end was read before these lines are: the last of them are there.
			t, err := c.Get(ctx, task)
			if err != nil {
				yield(entry{}, err)
				return
			}
			for _, claim := range t.GetClaims() {
				l := read[claim.GetToken()]
				if l == nil {
					l = &lineReader{task: task, token: claim.GetToken(), worker: claim.GetWorker()}
					read[l.token] = l
				}
				if l.done || l.worker == "" {
					continue
				}
				if !l.next(ctx, c, yield) {
					return
				}
				l.done = claim.GetOutcome() != nornv1.ClaimOutcome_CLAIM_OUTCOME_ACTIVE
			}
			if !left || !follow && !client.Finished(m.GetState()) {
				return
			}
		}
	}
}

// lineReader is what was read of the lines of one claim.
type lineReader struct {
	task   id.ID
	token  uint64
	worker string
	seen   uint64 // number of the newest line
	done   bool   // the claim is over, and its worker was asked after that
}

// next gives the new lines, false when no more are wanted.
func (l *lineReader) next(ctx context.Context, c *client.Client, yield func(entry, error) bool) bool {
	for {
		ask, cancel := context.WithTimeout(ctx, linesPatience)
		m, err := c.Workers().Lines(ask, l.worker, client.Ref{ID: l.task, Token: l.token}, client.LineOptions{After: l.seen})
		cancel()
		switch {
		case ctx.Err() != nil:
			return yield(entry{}, ctx.Err()) && false
		case errors.Is(err, client.ErrNotFound), errors.Is(err, client.ErrUnavailable), errors.Is(err, client.ErrDeadline):
			return true // it has no session now, or is gone for good
		case err != nil:
			return yield(entry{}, err) && false
		case len(m.GetLines()) == 0:
			return true
		}
		for i, text := range m.GetLines() {
			l.seen = m.GetFirst() + uint64(i)
			if !yield(entry{&nornv1.Update{Token: l.token, Data: text}, l.seen}, nil) {
				return false
			}
		}
	}
}
