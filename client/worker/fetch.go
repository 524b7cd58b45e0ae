package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

const (
	// pollWait is one long poll for tasks.
	pollWait = 20 * time.Second
	// emptyPoll is one with ExitWhenEmpty, while something may still come.
	emptyPoll = 500 * time.Millisecond
	// retrySoon is how near a retry must be for ExitWhenEmpty to wait for it.
	retrySoon = time.Minute
	// afterError is the pause after a claim that failed altogether.
	afterError = time.Second
	// regainFor bounds the attempt to learn what a given-up claim was granted.
	regainFor = 5 * time.Second
)

// fetch claims tasks while there is room, until the worker stops. The error is
// one that no retry changes.
func (w *Worker) fetch(ctx context.Context, queues []string) error {
	asking, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	go func() {
		select {
		case <-w.soft:
			cancel()
		case <-asking.Done():
		}
	}()
	ask := client.ClaimRequest{Queues: queues, Lease: w.cfg.Lease, Worker: w.cfg.Name}
	for {
		idle := len(w.held) == 0
		room := w.room()
		if room == 0 {
			return nil
		}
		ask.Max, ask.Wait = room, w.patience(idle)
		if ask.Number == 0 {
			ask.Number = w.client.NextClaim()
		}
		before := w.stamp()
		claims, err := w.client.Claim(asking, ask)
		if err == nil {
			ask.Number = 0
		}
		if len(claims) > room {
			// A server that grants more than was asked for: there is no place.
			w.giveUp(ctx, claims[room:])
			claims = claims[:room]
		}
		for _, c := range claims {
			// Handlers outlive the end of Run's context: StopNow ends theirs.
			w.queue <- w.adopt(context.WithoutCancel(ctx), c, before)
		}
		w.giveBack(room - len(claims))
		switch {
		case err == nil && len(claims) == 0 && idle && w.cfg.ExitWhenEmpty && !w.retriesDue(asking):
			return nil
		case err == nil:
		case w.isStopping():
			w.regain(ctx, ask)
			return nil
		case hopeless(err):
			w.cfg.Logger.Error("cannot claim", "error", err)
			return err
		default:
			// The same number again: what was granted to it must not get lost.
			w.cfg.Logger.Warn("cannot claim, trying again", "error", err)
			if !errors.Is(err, client.ErrUnknown) {
				ask.Number = 0
			}
			w.nap(afterError/2 + rand.N(afterError))
		}
	}
}

// patience is how long to wait for tasks.
func (w *Worker) patience(idle bool) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !w.cfg.ExitWhenEmpty:
		return pollWait
	case idle && len(w.retries) == 0:
		return 0
	}
	return emptyPoll
}

// room takes as many tokens as there are, at least one; 0 when the worker
// stops.
func (w *Worker) room() int {
	select {
	case <-w.soft:
		return 0
	default:
	}
	select {
	case w.held <- struct{}{}:
	case <-w.soft:
		return 0
	}
	for n := 1; ; n++ {
		select {
		case w.held <- struct{}{}:
		default:
			return n
		}
	}
}

func (w *Worker) giveBack(n int) {
	for range n {
		<-w.held
	}
}

func (w *Worker) isStopping() bool {
	select {
	case <-w.soft:
		return true
	default:
		return false
	}
}

// nap waits, or until the worker stops.
func (w *Worker) nap(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.soft:
	}
}

// hopeless lists the errors of a claim that no retry changes.
func hopeless(err error) bool {
	for _, e := range []error{
		client.ErrInvalid, client.ErrUnauthenticated, client.ErrPermissionDenied, client.ErrUnimplemented, client.ErrIncompatible, client.ErrClosed,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// regain asks for what a claim was granted whose answer was not waited for, and
// gives it back: otherwise it would block the tasks and cost attempts.
func (w *Worker) regain(ctx context.Context, ask client.ClaimRequest) {
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), regainFor)
	defer cancel()
	ask.Wait = 0
	claims, err := w.client.Claim(asking, ask)
	if err != nil {
		w.cfg.Logger.Warn("tasks may have been granted on the way out; their claims will lapse", "error", err)
	}
	w.giveUp(ctx, claims)
}

// giveUp gives claims back that nothing was begun with.
func (w *Worker) giveUp(ctx context.Context, claims []*client.Claim) {
	if len(claims) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), regainFor)
	defer cancel()
	refs := make([]client.Ref, len(claims))
	for i, c := range claims {
		refs[i] = c.Ref()
	}
	if _, err := w.client.Release(ctx, refs...); err != nil {
		w.cfg.Logger.Warn("claims could not be released and will lapse", "claims", len(refs), "error", err)
	}
}

// retriesDue tells whether a task that ran here will run again soon.
func (w *Worker) retriesDue(ctx context.Context) bool {
	w.mu.Lock()
	ids := make([]id.ID, 0, len(w.retries))
	for i := range w.retries {
		ids = append(ids, i)
	}
	w.mu.Unlock()
	due := false
	for _, i := range ids {
		t, err := w.client.Get(ctx, i)
		soon := err == nil && (t.GetState() == nornv1.State_STATE_READY ||
			t.GetState() == nornv1.State_STATE_SCHEDULED && time.Until(t.GetNotBefore().AsTime()) < retrySoon)
		if soon {
			due = true
			continue
		}
		w.mu.Lock()
		delete(w.retries, i)
		w.mu.Unlock()
	}
	return due
}
