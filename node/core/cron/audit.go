package cron

import (
	"fmt"
	"slices"
)

// Audit looks at what the machine keeps in two places, see [Machine] and [item]. It returns the
// first that does not agree. It is for tests: it takes time in proportion to all schedules.
func Audit(m *Machine) error {
	under, known := underWay(m), 0
	for _, it := range m.items { // Any order: each is looked at for itself.
		if it.there {
			known++
		}
		if err := auditItem(m, it, under[it]); err != nil {
			return fmt.Errorf("cron: schedule %q: %w", it.name, err)
		}
	}
	if known != m.known {
		return fmt.Errorf("cron: %d schedules are counted, there are %d", m.known, known)
	}
	for task, r := range m.watch.of { // Any order: likewise.
		switch {
		case m.items[r.it.name] != r.it || !slices.Contains(r.it.doing().tasks, task):
			return fmt.Errorf("cron: task %s is watched for a schedule %q that does not run it", task, r.it.name)
		case !slices.Contains(m.watch.ring, task):
			return fmt.Errorf("cron: task %s is watched and never asked about", task)
		}
	}
	return nil
}

// underWay is in which phase each schedule is that some batch has.
func underWay(m *Machine) map[*item][]phase {
	all := make(map[*item][]phase)
	add := func(p phase, items []*item) {
		for _, it := range items {
			all[it] = append(all[it], p)
		}
	}
	add(committing, m.changes)
	add(launching, m.toLaunch)
	for _, batches := range []struct {
		phase phase
		of    map[uint64]*work
	}{{committing, m.commits}, {cancelling, m.cancels}, {finding, m.finds}, {launching, m.launches}} {
		for _, w := range batches.of { // Any order: a schedule is in one of them.
			add(batches.phase, w.items)
		}
	}
	return all
}

func auditItem(m *Machine, it *item, under []phase) error {
	_, wakes := it.entry.Wake()
	switch {
	case m.items[it.name] != it:
		return fmt.Errorf("it is kept under another name")
	case it.phase == idle && len(under) > 0, it.phase != idle && !slices.Equal(under, []phase{it.phase}):
		return fmt.Errorf("it is in phase %d, and batches have it in %d", it.phase, under)
	case it.phase == idle && it.rec != nil && it.table != nil && !wakes:
		return fmt.Errorf("nothing is under way of it, and it never wakes")
	}
	for _, task := range it.doing().tasks {
		if m.watch.of[task].it != it {
			return fmt.Errorf("its task %s is not watched", task)
		}
	}
	return nil
}
