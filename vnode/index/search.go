package index

import (
	"fmt"
	"slices"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode/record"
	"github.com/norn-dev/norn/vnode/tally"
)

// Find gives by the indexes all tasks of a partition after one ID that are in some states, of one queue or, where
// it is empty, of all, in no order; others may be among them. ok is false where the indexes have more than most
// entries to be looked at, or do not tell: then a walk finds them. It returns record.ErrDamaged when a counter cannot be read.
func Find(view store.View, p ring.Partition, queue string, states []crdt.State, last id.ID, most int) (tasks []id.ID, ok bool, err error) {
	s := search{view: view, p: p, queue: queue, last: last, left: most}
	if ok, err = s.counted(states); !ok || err != nil {
		return nil, false, err
	}
	for _, state := range s.states {
		if !s.of(state) {
			return nil, false, nil
		}
	}
	return s.tasks, true, nil
}

// search looks for tasks by their states.
//
// Invariant: left is what may still be looked at, over all indexes: a request for one page
// costs at most that many reads, however the tasks are spread. tasks may have more than those
// asked for (of the scheduled index those of other queues, of claims those of any): the caller
// reads each task and judges it.
type search struct {
	view   store.View
	p      ring.Partition
	queue  string
	last   id.ID
	left   int          // entries that may be looked at still
	states []crdt.State // those that the counters have
	tasks  []id.ID
}

// counted takes the states that some task is in, as far as the counters say. It is false where there are
// too many of them, or too many queues to know, or where some wait: whatever holds a task back is in an index, and
// that is not written in one step with its state.
func (s *search) counted(states []crdt.State) (ok bool, err error) {
	if s.queue == "" && !slices.Contains(states, crdt.StateWaiting) { // the other indexes have their tasks side by side
		s.states = states
		return true, nil
	}
	var sum tally.Counts
	if s.queue != "" {
		if value, has := s.view.Get(AppendQueue(nil, Queues, s.p, s.queue)); has {
			sum, _, _, err = record.Queue(value)
		}
	} else {
		sum, ok, err = s.all()
		if !ok {
			return false, err
		}
	}
	if err != nil {
		return false, fmt.Errorf("partition %d, counters of queues: %w", s.p, err)
	}
	n := 0
	for _, state := range states {
		if sum[state] > uint64(s.left) {
			return false, nil
		}
		if n += int(sum[state]); sum[state] > 0 {
			s.states = append(s.states, state)
		}
	}
	return n <= s.left && !slices.Contains(s.states, crdt.StateWaiting), nil
}

// all adds up the counters of all queues; ok is false where there are too many.
func (s *search) all() (sum tally.Counts, ok bool, err error) {
	prefix := AppendPrefix(nil, Queues, s.p)
	for _, value := range s.view.Scan(prefix, After(prefix)) {
		counts, _, _, err := record.Queue(value)
		if s.left--; err != nil || s.left < 0 {
			return sum, false, err
		}
		sum.Add(&counts)
	}
	return sum, true, nil
}

// of adds the tasks in one state; false: there are too many entries.
func (s *search) of(state crdt.State) bool {
	switch state {
	case crdt.StateReady:
		prefix := AppendPrefix(nil, Ready, s.p)
		if s.queue != "" {
			prefix = AppendQueue(nil, Ready, s.p, s.queue)
		}
		return s.scan(prefix, prefix, func(key []byte) id.ID { return (*claim.Rank)(key[len(key)-claim.RankSize:]).Task() })
	case crdt.StateScheduled:
		prefix := AppendPrefix(nil, Scheduled, s.p)
		return s.scan(prefix, prefix, func(key []byte) id.ID { return id.ID(key[len(key)-id.Size:]) })
	case crdt.StateClaimed:
		prefix := AppendPrefix(nil, Active, s.p)
		from := After(append(AppendPrefix(nil, Active, s.p), s.last[:]...))
		return s.scan(from, prefix, func(key []byte) id.ID { return id.ID(key[PrefixSize:]) })
	}
	prefix := append(AppendPrefix(nil, Finished, s.p), byte(state))
	if s.queue != "" {
		prefix = AppendFinishedRun(nil, s.p, state, s.queue)
	}
	return s.scan(prefix, prefix, func(key []byte) id.ID { return id.ID(key[len(key)-id.Size:]) })
}

// scan adds the tasks of the entries of an index from one key on that begin with a prefix.
func (s *search) scan(from, prefix []byte, task func(key []byte) id.ID) bool {
	for key := range s.view.Scan(from, After(prefix)) {
		if s.left--; s.left < 0 {
			return false
		}
		if t := task(key); t.Compare(s.last) > 0 {
			s.tasks = append(s.tasks, t)
		}
	}
	return true
}
