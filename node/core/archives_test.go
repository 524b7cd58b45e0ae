package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
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
			if task := r.ids.Next(r.now.Wall); ring.Of(task, testPartitions) == p {
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

// TestRetentionChangedWhileAnArchiveIsWritten: what holds for a queue when an archive is safe
// decides what goes, not what held when it was begun.
func TestRetentionChangedWhileAnArchiveIsWritten(t *testing.T) {
	for what, c := range map[string]struct {
		to    *nornv1.QueueSettings
		field string
		stays bool
	}{
		"nothing": {&nornv1.QueueSettings{Note: "n"}, "note", false},
		"keep":    {&nornv1.QueueSettings{Retention: nornv1.Retention_RETENTION_KEEP}, "retention", true},
		"delete":  {&nornv1.QueueSettings{Retention: nornv1.Retention_RETENTION_DELETE}, "retention", false},
		"longer":  {&nornv1.QueueSettings{RetentionSeconds: 1e6}, "retention_seconds", true},
	} {
		r := newCollecting(t)
		r.set("a", &nornv1.QueueSettings{Retention: nornv1.Retention_RETENTION_ARCHIVE, RetentionSeconds: 3600}, "retention", "retention_seconds")
		r.enqueue(spec("a"))
		task := r.finish("a")
		r.now = r.now.Add(2 * time.Hour)
		k := r.core.retention
		v := r.core.vnode(task)
		k.Archive(r.now, v)
		tag := k.Archiving.Tag
		if tag == 0 {
			t.Fatal("nothing is archived")
		}
		r.core.round.Ready.Archives = nil // it is being written
		r.set("a", c.to, c.field)
		r.step(message.Archived{Tag: tag, Tasks: 1})
		r.turn()
		r.pass(time.Second)
		if got := r.get(task).Queue == "a"; got != c.stays {
			t.Errorf("%s changed meanwhile: the task stays: %t, want %t", what, got, c.stays)
		}
	}
}
