package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// TestArchivesGoOnBehindWhatIsNeeded: many finished tasks stay because something
// depends on them; what comes after them is archived all the same.
func TestArchivesGoOnBehindWhatIsNeeded(t *testing.T) {
	r := newCollecting(t)
	for _, q := range []string{"a", "b"} {
		r.set(q, &nornv1.QueueSettings{Retention: nornv1.Retention_RETENTION_ARCHIVE, RetentionSeconds: 60}, "retention", "retention_seconds")
	}
	in := func(p ring.Partition) id.ID {
		for {
			if task := r.ids.Next(r.now.Wall); ring.Of(task, partitions) == p {
				return task
			}
		}
	}
	var needed []id.ID
	for range 5 {
		var some []*nornv1.TaskSpec
		for range 1000 {
			s := spec("a")
			s.Id = in(0).Bytes()
			some = append(some, s)
		}
		deps := r.enqueue(some...)
		needed = append(needed, deps...)
		r.enqueue(after("w", onFailWait, append(deps[:999:999], r.ids.Next(r.now.Wall))...))
	}
	last := spec("b")
	last.Id = in(0).Bytes()
	idle := r.enqueue(last)[0]
	for range 5 {
		var done []*nornv1.Completion
		for _, g := range r.claim("a", 1000) {
			done = append(done, &nornv1.Completion{Id: parse(t, g.Task.Id).Bytes(), Token: g.Token})
		}
		must[*nornv1.WriteReply](r, &nornv1.CompleteRequest{Completions: done})
	}
	r.finish("b")
	r.pass(3 * time.Hour)
	if got := r.get(idle); got.Queue != "" || len(r.archives) == 0 {
		t.Errorf("a task of queue b that nothing depends on is not archived within three hours (archived: %d), %d needed", len(r.archives), len(needed))
	}
}
