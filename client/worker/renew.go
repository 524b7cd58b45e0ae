package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/norn-dev/norn/client"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// renewals renews all claims in one go every third of a lease, a little earlier
// at random so that workers do not march in step. Where that is not known to have
// worked for all of them it is done again soon: after as long again it would be too late.
func (w *Worker) renewals(ctx context.Context) {
	every := w.cfg.Lease / 3
	for pause := every; ; {
		t := time.NewTimer(pause - rand.N(pause/10+1))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		began := time.Now()
		if pause = min(every/10, time.Second); w.renew(ctx, every*3/4) { // twice that, and the pause, is less than what a grace leaves
			pause = max(0, every-time.Since(began))
		}
	}
}

// renew renews every claim that still counts, and tells whether it is known of each
// what has become of it. It takes no longer than most: one claim that cannot be renewed
// keeps back what there is to know of the others until then.
func (w *Worker) renew(ctx context.Context, most time.Duration) (known bool) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	jobs := w.current()
	source, ours := w.from().(renewer)
	if len(jobs) == 0 || !ours {
		return true
	}
	refs := make([]client.Ref, len(jobs))
	for i, j := range jobs {
		refs[i] = j.task.claim.Ref()
	}
	results, before, err := source.renew(ctx, refs)
	if err != nil {
		w.tel.renewed("failed", len(refs))
		w.cfg.Logger.Warn("claims could not be renewed", "claims", len(refs), "error", err)
		return false
	}
	count := map[string]int{}
	for i, r := range results {
		result := "lost"
		switch {
		case r.Err == nil:
			result = "ok"
			jobs[i].extend(r.Deadline, before)
		case r.State == nornv1.State_STATE_CANCELLED, errors.Is(r.Err, client.ErrCancelled) && ctx.Err() == nil:
			result = "cancelled"
			jobs[i].lose(ErrCancelled)
		case errors.Is(r.Err, client.ErrClaimLost), errors.Is(r.Err, client.ErrNotFound):
			jobs[i].lose(ErrClaimLost)
		default:
			result = "failed"
			w.cfg.Logger.Warn("a claim could not be renewed", "task", refs[i].ID, "error", r.Err)
		}
		count[result]++
	}
	for result, n := range count { // Any order: each has its own counter
		w.tel.renewed(result, n)
	}
	return count["failed"] == 0
}

// current lists the jobs whose claims may still hold.
func (w *Worker) current() []*job {
	w.mu.Lock()
	defer w.mu.Unlock()
	jobs := make([]*job, 0, len(w.jobs))
	for j := range w.jobs { // Any order: each has its own result
		if j.claim.Err() == nil {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// watch looks at the boot and wall clocks, which timers do not go by.
func (w *Worker) watch(ctx context.Context) {
	t := time.NewTicker(min(max(w.cfg.Lease/20, 50*time.Millisecond), time.Second))
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		for _, j := range w.current() {
			j.left()
		}
	}
}

// keeping is what a session says of the claims that run here.
type keeping struct{ w *Worker }

func (k keeping) job(c client.Ref) *job {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	return k.w.byClaim[c]
}

// extend moves the end of a claim.
func (k keeping) extend(c client.Ref, deadline time.Time, before stamp) {
	if j := k.job(c); j != nil {
		j.extend(deadline, before)
	}
}

// stop ends a task: at once where its claim is over, otherwise with time for a last
// checkpoint.
func (k keeping) stop(c client.Ref, cause error) bool {
	j := k.job(c)
	switch {
	case j == nil:
		return false
	case errors.Is(cause, ErrShutdown):
		j.end(cause)
	default:
		j.lose(cause)
	}
	return true
}

// held lists the claims that may still hold.
func (k keeping) held() []client.Ref {
	jobs := k.w.current()
	refs := make([]client.Ref, len(jobs))
	for i, j := range jobs {
		refs[i] = j.task.claim.Ref()
	}
	return refs
}

// kill ends all that runs: Run may be waiting for that only, because the worker was drained
// or told to stop before. Who has nothing left has finished as it was told.
func (k keeping) kill() {
	k.w.mu.Lock()
	k.w.ousted = k.w.ousted || len(k.w.jobs) > 0
	k.w.mu.Unlock()
	k.w.StopNow()
}

// counted hears what became of renewals.
func (k keeping) counted(result string, n int) { k.w.tel.renewed(result, n) }
