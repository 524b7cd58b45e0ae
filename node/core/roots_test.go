package core

import (
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/repair/roots"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// ofRepair tells whether a message is about comparing replicas.
func ofRepair(m any) bool {
	name := reflect.TypeOf(m).Elem().Name()
	return name == "Repair" || name == "RepairCompleted" || strings.Contains(name, "Roots")
}

// TestAnIdleClusterComparesInFewMessages: what comparisons cost while nothing happens does not
// follow the partitions, and it is the same for all of three nodes. Each pair was compared
// alone, from a list that was made and sorted for each start, and of two nodes the one
// whose name comes first began all.
func TestAnIdleClusterComparesInFewMessages(t *testing.T) {
	const nodes, partitions, seconds = 3, 1024, 60
	l := newLarge(t, nodes, partitions)
	l.run(time.Minute)
	sent := make([]int, nodes)
	l.said = func(from, _ int, m any) {
		if ofRepair(m) {
			sent[from]++
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l.run(seconds * time.Second)
	runtime.ReadMemStats(&after)
	garbage := float64(after.TotalAlloc-before.TotalAlloc) / (nodes * seconds)
	t.Logf("messages of each node in %d s: %v; %.0f bytes of garbage a second and node", seconds, sent, garbage)
	for i, n := range sent {
		if n > 3*seconds {
			t.Errorf("node %d sends %d messages of repair in %d s", i, n, seconds)
		}
		if n < sent[0]/2 || n > 2*sent[0]+10 {
			t.Errorf("node %d sends %d, the first one %d", i, n, sent[0])
		}
	}
	if garbage > 200<<10 {
		t.Errorf("%.0f bytes of garbage a second and node", garbage)
	}
}

// TestWhoBeginsIsSpread: of each two nodes either begins about half of what they share, and
// never both or neither.
func TestWhoBeginsIsSpread(t *testing.T) {
	const nodes, partitions = 3, 1024
	l := newLarge(t, nodes, partitions)
	l.run(2 * time.Second) // trees are built
	for i, c := range l.cores {
		if n := c.repairs.Roots.First; n < partitions*9/10 || n > partitions*11/10 {
			t.Errorf("node %d begins %d comparisons of %d", i, n, nodes*partitions)
		}
		for _, o := range l.cores[i+1:] {
			for p := range ring.Partition(partitions) {
				if roots.Begins(p, c.cfg.Self, o.cfg.Self) == roots.Begins(p, o.cfg.Self, c.cfg.Self) {
					t.Fatalf("partition %d: both or neither begins", p)
				}
			}
		}
	}
}

// TestWhatOneNodeMissedIsFoundAmongManyPartitions: after an interval, whoever begins.
func TestWhatOneNodeMissedIsFoundAmongManyPartitions(t *testing.T) {
	const interval = 10 * time.Second
	r := newRepairingTrio(t, interval)
	r.lead(0)
	r.linger(3 * interval)
	for p := range ring.Partition(testPartitions) {
		for lacks := range 3 {
			task, s := r.in(p), spec("q")
			s.Id = task.Bytes()
			r.send((lacks+1)%3, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}, Durability: &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE}})
			missed := func(l letter) bool { _, is := l.message.(*message.Facts); return is && l.to == lacks }
			r.settleBut(missed)
			r.live(interval+3*time.Second, 100*time.Millisecond, missed)
			if n := r.copies(task); n != 3 {
				t.Errorf("partition %d, node %d missed it: %d copies after an interval", p, lacks, n)
			}
		}
	}
}

// TestAnUntouchedPartitionIsComparedAgain: within seven intervals; in between nobody asks.
func TestAnUntouchedPartitionIsComparedAgain(t *testing.T) {
	const interval = 10 * time.Second
	r := newRepairingTrio(t, interval)
	var tasks []id.ID
	for p := range ring.Partition(testPartitions) {
		tasks = append(tasks, r.put(0, p))
	}
	r.linger(3 * interval)
	asked := func() (n int) {
		for _, p := range r.peers {
			for _, e := range p.core.repairs.Roots.All() {
				if at, ok := e.Agreed(); ok && at > r.now.Mono-int64(7*interval) {
					n++
				}
			}
		}
		return n
	}
	r.linger(14 * interval)
	if n := asked(); n != 3*2*testPartitions {
		t.Errorf("%d of %d partitions and peers were compared in the last seven intervals", n, 3*2*testPartitions)
	}
	before := r.peers[0].core.repairs.Roots.Equal + r.peers[1].core.repairs.Roots.Equal + r.peers[2].core.repairs.Roots.Equal
	r.linger(12 * interval)
	after := r.peers[0].core.repairs.Roots.Equal + r.peers[1].core.repairs.Roots.Equal + r.peers[2].core.repairs.Roots.Equal
	if n := after - before; n > 3*3*testPartitions {
		t.Errorf("%d comparisons in 12 intervals of %d that nothing happens to", n, 3*testPartitions)
	}
	for _, task := range tasks {
		if r.copies(task) != 3 {
			t.Error("a task has gone")
		}
	}
}

// TestWhoDoesNotKnowTheQuestionIsComparedWith: one partition after the other, as before.
func TestWhoDoesNotKnowTheQuestionIsComparedWith(t *testing.T) {
	const interval = 10 * time.Second
	r := newRepairingTrio(t, interval)
	r.lead(0)
	unknown := func(l letter) bool { _, is := l.message.(*message.Roots); return is }
	for p := range ring.Partition(testPartitions) {
		task, s := r.in(p), spec("q")
		s.Id = task.Bytes()
		r.send(0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}, Durability: &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE}})
		missed := func(l letter) bool { _, is := l.message.(*message.Facts); return is || unknown(l) }
		r.settleBut(missed)
		r.live(3*interval, 100*time.Millisecond, missed)
		if n := r.copies(task); n != 3 {
			t.Errorf("partition %d: %d copies", p, n)
		}
	}
}
