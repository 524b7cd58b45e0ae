package job_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/backup/job"
	"github.com/norn-dev/norn/crdt"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// overwhelmed is a cluster that answers no request of more than so many bytes.
type overwhelmed struct {
	*canned
	most int

	mu       sync.Mutex // guards all below
	late     int        // requests that were not answered
	shortest time.Duration
	longest  time.Duration // that an answer was waited for
}

func (o *overwhelmed) Restore(ctx context.Context, partition int, tasks []byte) (*nornv1.RestoreReply, error) {
	until, _ := ctx.Deadline()
	wait := time.Until(until)
	o.mu.Lock()
	o.longest = max(o.longest, wait)
	if o.shortest == 0 || wait < o.shortest {
		o.shortest = wait
	}
	if len(tasks) <= o.most {
		o.mu.Unlock()
		return o.canned.Restore(ctx, partition, tasks)
	}
	o.late++
	o.mu.Unlock()
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestARequestThatTimesOutIsRepeatedAsSmallerOnes: a restore into a cluster that is too slow for large requests sent the same
// again and again. It gives way, waits longer, within limits, and each task comes once.
func TestARequestThatTimesOutIsRepeatedAsSmallerOnes(t *testing.T) {
	const wait = 50 * time.Millisecond
	defer job.AnswersWithin(wait)()
	const tasks = 6000
	from, dir := newCanned(8, tasks, 2500), place(t, t.TempDir())
	m := from.saved(t, dir)
	to := &overwhelmed{canned: newCanned(4, 0, 0), most: 400 << 10}
	report, err := job.Restore(t.Context(), job.RestoreOptions{From: dir, Manifest: m, To: to})
	if err != nil || report.Tasks != tasks {
		t.Fatalf("restored %+v: %v", report, err)
	}
	var sum crdt.Sum
	all := to.row(t)
	for i := range all {
		sum = sum.Add(backup.SumOf(&all[i]))
	}
	if len(all) != tasks || backup.Root(sum) != m.Root {
		t.Errorf("%d tasks with root %s of %d with root %s", len(all), backup.Root(sum), tasks, m.Root)
	}
	if to.late == 0 || to.late > 40 {
		t.Errorf("%d requests were not answered", to.late)
	}
	if to.longest <= wait || to.longest > 4*wait || to.shortest > wait {
		t.Errorf("answers were waited for %s to %s, at first %s", to.shortest, to.longest, wait)
	}
}
