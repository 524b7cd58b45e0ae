package retention

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// Archiving is how far the archive has come: finished tasks of some queues are written
// elsewhere before they are collected, one archive at a time, and one that fails holds up
// nothing else.
type Archiving struct {
	from map[ring.Partition]vnode.DuesCursor // where it goes on

	// Tag is of the archive under way; 0: none. Dues are what it is made of.
	// Invariant: at most one archive is under way, and while it is Safe is empty: what the
	// archive has is collected before the next one begins (Audit).
	Tag  uint64
	Dues []vnode.Due
	// Safe are archived, to be collected.
	// Invariant: nothing is collected from here that is not in an archive that is on its disk.
	Safe []vnode.Due
	// At is when to go on collecting, Again when to try the next archive after one that has
	// failed, mono ns.
	At, Again int64
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

// Archive begins an archive of what is due in a partition, or tells whether there is more to
// Look at.
//
// The tasks are read in another goroutine from a snapshot, at most [archiveBytes] of them; the
// answer says how many it took. Whatever it left out is due again.
func (m *Machine) Archive(now clock.Time, v *vnode.Vnode) (more bool) {
	a := &m.Archiving
	if a.Tag != 0 || len(a.Safe) > 0 || now.Mono < a.Again {
		return false
	}
	from := a.from[v.Partition]
	all, done := vnode.Dues(v, m.Round.Tx, &from, m.Cutoff(now, v.Partition, nornv1.Retention_RETENTION_ARCHIVE), m.Tombstones.ComparedSince(v.Partition), archiveTasks)
	if a.from[v.Partition] = from; done {
		delete(a.from, v.Partition)
	}
	var dues []vnode.Due
	for _, d := range all {
		if !m.References.Needed(now, v, d.Task) {
			dues = append(dues, d)
		}
	}
	if len(dues) == 0 {
		return !done
	}
	a.Tag, a.Dues = m.Number(), dues
	partitions := len(m.View.Cells)
	m.Round.Ready.Archives = append(m.Round.Ready.Archives, message.Archive{Tag: a.Tag, Load: func(view store.View) ([]*nornv1.Task, error) {
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

// ArchiveDone hears that an archive is safe, or has failed: then its tasks stay and
// are tried again.
func (m *Machine) ArchiveDone(now clock.Time, e message.Archived) {
	a := &m.Archiving
	if e.Tag != a.Tag {
		return
	}
	dues := a.Dues
	a.Tag, a.Dues = 0, nil
	if e.Failed {
		a.Again = now.Mono + int64(m.Interval)
		return
	}
	if a.Safe, a.At = dues[:min(e.Tasks, len(dues))], now.Mono; m.Policy.ArchivedAll {
		a.Safe = dues // the rest is found again
	}
}

// WorkArchived collects what is safe, in steps, and then looks for more in the same
// partition.
func (m *Machine) WorkArchived(now clock.Time) {
	a := &m.Archiving
	if len(a.Safe) == 0 || now.Mono < a.At {
		return
	}
	n := m.some(a.Safe, func(d vnode.Due) {
		if m.collect(now, d) {
			m.Archived++
		}
	})
	last := a.Safe[n-1].Task
	if a.Safe = a.Safe[n:]; len(a.Safe) > 0 {
		a.At = now.Mono + int64(m.pause())
		return
	}
	a.Safe, a.At = nil, clock.Never
	if v := m.vnode(last); v.Leading() != 0 {
		m.Archive(now, v)
	}
}
