package lab

import (
	"context"
	"path/filepath"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"
)

// disks stops all nodes and looks at what they have kept: every acknowledged
// task is on each node of its partition's cohort, and no node has a task that
// nobody sent.
func (l *lab) disks(ctx context.Context, events []*history.Event) error {
	s, err := l.status(ctx, l.members()[0])
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
	for _, p := range l.members() {
		if err := p.stop(); err != nil {
			l.found("internal", "SIGTERM: %v", err)
		}
	}
	acked, sent := tasksOf(events)
	for _, p := range l.members() {
		has, err := tasksOn(filepath.Join(p.disk(), "facts"))
		if err != nil {
			return err
		}
		missing, strange := 0, 0
		for task := range acked { // Any order: they are counted.
			if !has[task] && holds[p.name][ring.Of(task, partitions)] {
				missing++
			}
		}
		for task := range has { // Any order: they are counted.
			if !sent[task] {
				strange++
			}
		}
		if missing > 0 {
			l.found("lost", "the disk of %s lacks %d of %d acknowledged tasks", p.name, missing, len(acked))
		}
		if strange > 0 {
			l.found("phantom", "the disk of %s has %d tasks that nobody sent", p.name, strange)
		}
		l.onDisk = append(l.onDisk, len(has))
	}
	l.say("%d acknowledged tasks of %d; on disks: %v", len(acked), len(sent), l.onDisk)
	return nil
}

// tasksOf gives the tasks that were acknowledged, and those that were sent.
func tasksOf(events []*history.Event) (acked, sent map[id.ID]bool) {
	acked, sent = map[id.ID]bool{}, map[id.ID]bool{}
	for _, e := range events {
		if e.Func != history.Enqueue {
			continue
		}
		for i := range e.Items {
			switch item := &e.Items[i]; {
			case e.Phase == history.Invoke:
				sent[item.Task] = true
			case e.Phase == history.OK && item.Error == "" && !item.Unsure:
				acked[item.Task], sent[item.Task] = true, true // of a unique key only the answer has the ID
			}
		}
	}
	return acked, sent
}

// tasksOn reads the tasks that a store has, or remembers as collected.
func tasksOn(dir string) (map[id.ID]bool, error) {
	s, err := store.OpenPebble(store.PebbleOptions{Dir: dir})
	if err != nil {
		return nil, err
	}
	defer func() { _ = s.Close() }() // it was only read
	tasks := map[id.ID]bool{}
	for n := range partitions {
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
