package core

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// archives has finished tasks of some queues written elsewhere before they are
// collected: one archive at a time, and one that fails holds up nothing else.
type archives struct {
	k     *collector
	tag   uint64                              // of the archive under way; 0: none
	dues  []vnode.Due                         // what it is made of
	safe  []vnode.Due                         // archived, to be collected
	at    int64                               // when to go on collecting, mono ns
	again int64                               // after a failure: when to try the next one, mono ns
	from  map[ring.Partition]vnode.DuesCursor // where it goes on
}

// Bounds of one archive. It is larger than a step of the collector, because
// each is a file; in memory it takes no more than so many bytes and a task.
const (
	archiveTasks   = 4096
	archiveBytes   = 8 << 20
	archiveUpdates = 32 << 20 // of one task
	// archiveLog bounds the updates of one task in number: an archive with more of them
	// is refused, and all its tasks stay.
	archiveLog = 1 << 17
)

// archived is what an archive keeps of a task: of a long log the newest.
func archived(d *vnode.Detail) *nornv1.Task {
	w := convert.Task(d, archiveUpdates)
	w.Updates = w.Updates[max(0, len(w.Updates)-archiveLog):]
	return w
}

// look begins an archive of what is due in a partition, or tells whether there is more to
// look at.
func (a *archives) look(now clock.Time, v *vnode.Vnode) (more bool) {
	if a.tag != 0 || len(a.safe) > 0 || now.Mono < a.again {
		return false
	}
	from := a.from[v.Partition]
	all, done := vnode.Dues(v, a.k.c.round.Tx, &from, a.k.cutoff(now, v.Partition, nornv1.Retention_RETENTION_ARCHIVE), a.k.tombstones.comparedSince(v.Partition), archiveTasks)
	if a.from[v.Partition] = from; done {
		delete(a.from, v.Partition)
	}
	var dues []vnode.Due
	for _, d := range all {
		if !a.k.c.edges.needed(now, v, d.Task) {
			dues = append(dues, d)
		}
	}
	if len(dues) == 0 {
		return !done
	}
	a.k.c.tag++
	a.tag, a.dues = a.k.c.tag, dues
	partitions := len(a.k.c.view.Cells)
	a.k.c.round.Ready.Archives = append(a.k.c.round.Ready.Archives, message.Archive{Tag: a.tag, Load: func(view store.View) ([]*nornv1.Task, error) {
		var tasks []*nornv1.Task
		for size := 0; len(tasks) < len(dues) && size < archiveBytes; {
			task := dues[len(tasks)].Task
			t, err := vnode.ReadTask(view, ring.Of(task, partitions), task, vnode.ReadOptions{Log: archiveUpdates, Attempts: true})
			if err != nil {
				return nil, err
			}
			w := archived(t)
			tasks = append(tasks, w)
			size += gproto.Size(w)
		}
		return tasks, nil
	}})
	return false
}

// done hears that an archive is safe, or has failed: then its tasks stay and
// are tried again.
func (a *archives) done(now clock.Time, e message.Archived) {
	if e.Tag != a.tag {
		return
	}
	dues := a.dues
	a.tag, a.dues = 0, nil
	if e.Failed {
		a.again = now.Mono + int64(a.k.c.cfg.CollectInterval)
		return
	}
	if a.safe, a.at = dues[:min(e.Tasks, len(dues))], now.Mono; mutant.ArchivedAll.On() {
		a.safe = dues // the rest is found again
	}
}

// work collects what is safe, in steps, and then looks for more in the same
// partition.
func (a *archives) work(now clock.Time) {
	if len(a.safe) == 0 || now.Mono < a.at {
		return
	}
	n := a.k.some(a.safe, func(d vnode.Due) {
		if a.k.collect(now, d) {
			a.k.c.stats.Archived++
		}
	})
	last := a.safe[n-1].Task
	if a.safe = a.safe[n:]; len(a.safe) > 0 {
		a.at = now.Mono + int64(a.k.pause())
		return
	}
	a.safe, a.at = nil, clock.Never
	if v := a.k.c.vnode(last); v.Leading() != 0 {
		a.look(now, v)
	}
}
