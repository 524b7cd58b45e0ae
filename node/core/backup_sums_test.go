package core

import (
	"iter"
	"slices"
	"testing"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/dump"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// TestSumsOfRuns: after a backup of each partition the sums of its ranges are what they were
// then, through each node; what changed after it, also at one replica alone, is in a range
// whose sum is another one, or is not known.
//
// Long because: it is one story.
func TestSumsOfRuns(t *testing.T) {
	r := newTrio(t)
	r.tell()
	r.work()
	var task id.ID
	for range 50 {
		task = r.ids.Next(r.now.Wall)
		r.enqueue(0, task, nil)
	}
	r.settle()
	same, changed := 0, map[ring.Partition]bool{}
	ranges := make([][]backup.Range, testPartitions)
	for p := range ring.Partition(testPartitions) {
		ranger := backup.NewRanger(id.ID{})
		tasks, _ := r.backedUp(1, p)
		for i := range tasks {
			seen, err := backup.See(&tasks[i])
			if err != nil {
				t.Fatal(err)
			}
			ranger.Saw(&seen)
		}
		ranges[p] = ranger.Ranges()
	}
	look := func(i int, p ring.Partition) []backup.Span {
		m := ask[*nornv1.BackupReply](r, i, &nornv1.BackupRequest{Partition: uint32(p), Bounds: backup.Bounds(ranges[p])})
		spans, err := backup.Changed(ranges[p], m.Sums)
		if err != nil {
			t.Fatal(err)
		}
		return spans
	}
	for p := range ring.Partition(testPartitions) {
		if len(look(int(p)%3, p)) == 0 {
			same++
		}
	}
	if same == 0 {
		t.Error("no partition is what it was")
	}
	r.cut[[2]int{0, 1}], r.cut[[2]int{0, 2}] = true, true // what comes now stays at the first node
	more := map[ring.Partition]id.ID{}
	for range 40 {
		next := r.ids.Next(r.now.Wall)
		r.enqueue(0, next, nil)
		more[ring.Of(next, testPartitions)] = next
	}
	r.settle()
	delete(r.cut, [2]int{0, 1})
	delete(r.cut, [2]int{0, 2})
	for p, next := range more {
		if spans := look(0, p); backup.InSpans(spans, next) {
			changed[p] = true
		}
	}
	if len(changed) == 0 {
		t.Error("what came to one replica alone is in no span that has changed")
	}
	for p, next := range more {
		all, _ := r.backedUp(0, p)
		for i := range all {
			if all[i].ID == next && !changed[p] {
				t.Errorf("task %s is in a backup now, and in no span that has changed", next)
			}
		}
	}
	from := r.send(0, &nornv1.BackupRequest{Bounds: make([]byte, 40)})
	r.settle()
	if e := r.peers[0].replies[from].Err; e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
		t.Errorf("bounds that do not ascend: %v", e)
	}
}

// TestARunFromOneReplica: who sums up a partition is named, and gives by itself what it holds; what
// only that one has keeps the sums from being alike. One that is not of the cohort is refused.
func TestARunFromOneReplica(t *testing.T) {
	r := newTrio(t)
	r.tell()
	r.work()
	for range 50 {
		r.enqueue(0, r.ids.Next(r.now.Wall), nil)
		r.now.Wall += 1e9
	}
	r.settle()
	zero := make([]byte, id.Size)
	alike := 0
	for p := range uint32(testPartitions) {
		m := ask[*nornv1.BackupReply](r, 1, &nornv1.BackupRequest{Partition: p, Bounds: zero})
		if len(m.Nodes) != 2 || m.Nodes[0] != dump.Name(r.peers[1].core.cfg.Self) {
			t.Fatalf("partition %d was summed up by %q", p, m.Nodes)
		}
		if backup.Alike(make([]backup.Range, 1), m.Sums)[0] {
			alike++
		}
		bounds := ask[*nornv1.BackupReply](r, 1, &nornv1.BackupRequest{Partition: p, Divide: 2, Only: m.Nodes[0]}).Bounds
		if all, err := backup.DecodeBounds(bounds); err != nil || len(all) == 0 {
			t.Errorf("partition %d is divided at %v: %v", p, all, err)
		}
	}
	if alike == 0 {
		t.Error("no partition is alike at two replicas")
	}
	r.cut[[2]int{0, 1}], r.cut[[2]int{0, 2}] = true, true // what comes now stays at the first node
	task := r.ids.Next(r.now.Wall)
	r.enqueue(0, task, nil)
	r.settle()
	delete(r.cut, [2]int{0, 1})
	delete(r.cut, [2]int{0, 2})
	p := uint32(ring.Of(task, testPartitions))
	for i := range 2 {
		m := ask[*nornv1.BackupReply](r, 2, &nornv1.BackupRequest{Partition: p, Only: dump.Name(r.peers[i].core.cfg.Self)})
		page, err := backup.DecodePage(m.Tasks, m.Next)
		has := slices.ContainsFunc(page.Tasks, func(o backup.Task) bool { return o.ID == task })
		if err != nil || m.Replicas != 1 || has != (i == 0) {
			t.Errorf("node %d by itself: %d replicas, has the task: %v, %v", i, m.Replicas, has, err)
		}
	}
	from := r.send(0, &nornv1.BackupRequest{Only: "nobody/00"})
	r.settle()
	if e := r.peers[0].replies[from].Err; e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
		t.Errorf("of a stranger alone: %v", e)
	}
}

// counting is a view of which it is counted how many keys are read in rows.
type counting struct {
	store.View
	keys int
}

func (c *counting) Scan(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		for key, value := range c.View.Scan(lower, upper) {
			if c.keys++; !yield(key, value) {
				return
			}
		}
	}
}

// TestSumsAreNotOverTheFacts: replicas write what their trees have not written yet before those are summed up, so
// that a backup costs what has changed, also right after many tasks came.
func TestSumsAreNotOverTheFacts(t *testing.T) {
	r := newTrio(t)
	r.tell()
	for range 400 { // in one second: too few leaves for the trees to be written
		r.enqueue(0, r.ids.Next(r.now.Wall), nil)
	}
	r.settle()
	for p := range uint32(testPartitions) {
		m := &nornv1.BackupRequest{Partition: p, Bounds: make([]byte, id.Size)}
		want := ask[*nornv1.BackupReply](r, 1, m)
		view := &counting{View: r.peers[1].store}
		got, err := dump.Read(view, ring.Partition(p), m)
		if err != nil || !slices.Equal(got.Sums, want.Sums) {
			t.Fatalf("partition %d: %x, not %x: %v", p, got.GetSums(), want.Sums, err)
		}
		if _, facts := backup.SumAt(got.Sums, 0); facts < 20 || view.keys > 10 {
			t.Errorf("partition %d: %d keys are read for the sum over %d facts", p, view.keys, facts)
		}
	}
}
