package lab

import (
	"context"
	"path/filepath"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/record"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"
)

// disks stops all nodes and looks at what they have kept: every acknowledged
// task is on each node of its partition's cohort, and no node has a task that
// nobody sent.
func (l trial) disks(ctx context.Context, events []*history.Event) error {
	s, err := l.Status(ctx, l.Members()[0])
	if err != nil {
		return err
	}
	holds := map[string]map[ring.Partition]bool{} // by node
	for _, p := range s.GetPartitions() {
		for _, name := range p.GetCohort() {
			if holds[name] == nil {
				holds[name] = map[ring.Partition]bool{}
			}
			holds[name][ring.Partition(p.GetId())] = true
		}
	}
	for _, p := range l.Members() {
		if err := p.Stop(); err != nil {
			l.Found("internal", "SIGTERM: %v", err)
		}
	}
	acked, sent := record.TasksOf(events)
	for _, p := range l.Members() {
		has, err := tasksOn(filepath.Join(p.Disk(), "facts"))
		if err != nil {
			return err
		}
		missing, strange := 0, 0
		for task := range acked { // Any order: they are counted.
			if !has[task] && holds[p.Name][ring.Of(task, cluster.Partitions)] {
				missing++
			}
		}
		for task := range has { // Any order: they are counted.
			if !sent[task] {
				strange++
			}
		}
		if missing > 0 {
			l.Found("lost", "the disk of %s lacks %d of %d acknowledged tasks", p.Name, missing, len(acked))
		}
		if strange > 0 {
			l.Found("phantom", "the disk of %s has %d tasks that nobody sent", p.Name, strange)
		}
		l.OnDisk = append(l.OnDisk, len(has))
	}
	l.Say("%d acknowledged tasks of %d; on disks: %v", len(acked), len(sent), l.OnDisk)
	return nil
}

// tasksOn reads the tasks that a store has, or remembers as collected.
func tasksOn(dir string) (map[id.ID]bool, error) {
	s, err := store.OpenPebble(store.PebbleOptions{Dir: dir})
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }() // it was only read
	tasks := map[id.ID]bool{}
	for n := range cluster.Partitions {
		for d, err := range vnode.Walk(s, ring.Partition(n), id.ID{}, func(*crdt.Enqueued) bool { return true }) {
			if err != nil {
				return nil, err
			}
			if d.Task.Enqueued != nil || d.Task.Collected() {
				tasks[d.Task.ID] = true
			}
		}
	}
	return tasks, nil
}
