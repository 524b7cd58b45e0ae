package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

func withKey(key string, priority int32) *nornv1.EnqueueRequest {
	s := spec("q")
	s.Key, s.Priority = key, priority
	return &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}}
}

// agree has all leaders hear from the others what they know of unique keys.
func (r *trio) agree() {
	for _, o := range r.peers {
		for p := range ring.Partition(testPartitions) {
			if !o.down && o.core.vnodes.See(p).Leading() != 0 {
				o.core.repairs.Demand(r.now, p)
			}
		}
	}
	r.live(time.Second, 50*time.Millisecond, nothing)
}

// TestAUniqueKeyIsFreeAgainOnAnyNode: of five nodes none keeps everything. Through
// each of them a key is taken while its task is unfinished, and free after it.
func TestAUniqueKeyIsFreeAgainOnAnyNode(t *testing.T) {
	r := newCluster(t, 5, 0)
	r.agree()
	for _, key := range []string{"a", "b", "c"} {
		home, seen := ring.Partition(0), map[string]bool{}
		for i := range 2 * len(r.peers) {
			first := ask[*nornv1.EnqueueReply](r, i%5, withKey(key, 0)).Results[0]
			again := ask[*nornv1.EnqueueReply](r, (i+2)%5, withKey(key, 0)).Results[0]
			task := first.GetReceipt().GetId()
			if task == "" || first.Receipt.Existed || seen[task] || !again.GetReceipt().GetExisted() || again.Receipt.Id != task {
				t.Fatalf("key %s, time %d: %v, then %v", key, i, first, again)
			}
			seen[task] = true
			if p := ring.Of(parse(t, task), testPartitions); i == 0 {
				home = p
			} else if p != home {
				t.Fatalf("task %s is in partition %d, the one before in %d", task, p, home)
			}
			grants := ask[*nornv1.ClaimReply](r, (i+3)%5, claimUpTo(1)).Grants
			if len(grants) != 1 || grants[0].Task.Id != task {
				t.Fatalf("granted: %v, want %s", grants, task)
			}
			done := &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: parse(t, task).Bytes(), Token: grants[0].Token}}}
			if res := ask[*nornv1.WriteReply](r, (i+4)%5, done).Results[0]; res.Error != nil {
				t.Fatal(res.Error)
			}
		}
	}
	r.audit()
}

// TestTwoSpecsForOneKeyAtOnce: the simulator of clusters, seed 318. Two clients
// take a key for different tasks at the same moment through different nodes that
// both keep its partition: one of them is told.
func TestTwoSpecsForOneKeyAtOnce(t *testing.T) {
	r := newTrio(t)
	r.agree()
	for n := range 3 {
		key := string(rune('a' + n))
		one, two := r.send(n, withKey(key, 1)), r.send((n+1)%3, withKey(key, 2))
		r.settle()
		a, b := r.result(n, one), r.result((n+1)%3, two)
		if a == nil || b == nil || (a.Error == nil) == (b.Error == nil) {
			t.Fatalf("key %s: %v and %v", key, a, b)
		}
		lost := a
		if a.Error == nil {
			lost = b
		}
		if lost.Error.Kind != nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS || len(lost.StoredDigest) == 0 {
			t.Fatalf("key %s: the loser is told %v", key, lost)
		}
	}
	r.audit()
}

// TestNamesOfAKey: they differ, and all are in one partition, whatever the key.
func TestNamesOfAKey(t *testing.T) {
	c := newRig(t).core
	seen := map[id.ID]bool{}
	for _, key := range []string{"", "a", "b"} {
		first := id.UniqueKey([16]byte(c.cfg.Cluster.ID), "q", key, 0, 0)
		for generation := range uint64(200) {
			task := c.keys.Nth(first, "q", key, generation)
			if seen[task] || task.Kind() != id.KindKey || ring.Of(task, len(c.view.Cells)) != ring.Of(first, len(c.view.Cells)) {
				t.Fatalf("generation %d of key %q is %s", generation, key, task)
			}
			seen[task] = true
		}
	}
}
