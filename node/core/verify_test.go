package core

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// verify asks about all partitions.
func (r *trio) verify(i int) []*nornv1.VerifiedPartition {
	r.t.Helper()
	return ask[*nornv1.VerifyReply](r, i, &nornv1.VerifyRequest{Partitions: allPartitions(), Queues: true}).Partitions
}

func allPartitions() (all []uint32) {
	for p := range testPartitions {
		all = append(all, uint32(p))
	}
	return all
}

// only keeps those for which something holds.
func only(all []*nornv1.VerifiedPartition, holds func(*nornv1.VerifiedPartition) bool) (ids []uint32) {
	for _, p := range all {
		if holds(p) {
			ids = append(ids, p.Id)
		}
	}
	return ids
}

// work enqueues, claims, completes and cancels something.
func (r *trio) work() {
	r.t.Helper()
	r.fill()
	grants := ask[*nornv1.ClaimReply](r, 0, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 9, Worker: "w"}).Grants
	if len(grants) < 5 {
		r.t.Fatalf("%d grants", len(grants))
	}
	done := &nornv1.CompleteRequest{}
	for _, g := range grants[:2] {
		task, _ := id.Parse(g.Task.Id)
		done.Completions = append(done.Completions, &nornv1.Completion{Id: task.Bytes(), Token: g.Token, AutoSeq: true})
	}
	ask[*nornv1.WriteReply](r, 1, done)
	stop, _ := id.Parse(grants[3].Task.Id)
	ask[*nornv1.WriteReply](r, 2, &nornv1.CancelRequest{Ids: [][]byte{stop.Bytes()}})
}

// TestVerifyOfEqualReplicas: whatever leaders know of claims, what follows from
// facts is the same everywhere, and every node says so.
func TestVerifyOfEqualReplicas(t *testing.T) {
	r := newTrio(t)
	r.tell()
	r.work()
	for i := range r.peers {
		facts := uint64(0)
		for _, p := range r.verify(i) {
			if p.Differs || p.Unreachable || len(p.Replicas) != 3 {
				t.Fatalf("through node %d: %v", i+1, p)
			}
			for _, s := range p.Replicas {
				if len(s.Root) != 16 || len(s.Queues) != 0 {
					t.Fatalf("through node %d: %v", i+1, s)
				}
			}
			facts += p.Replicas[0].Facts
		}
		if facts < 53 {
			t.Errorf("node %d: %d facts", i+1, facts)
		}
	}
}

// TestVerifyFindsWhatOneReplicaLacks: facts, and counters that are wrong though
// the facts are right.
func TestVerifyFindsWhatOneReplicaLacks(t *testing.T) {
	r := newTrio(t)
	r.tell()
	r.work()
	r.cut[[2]int{0, 2}] = true // and nobody has noticed
	task := r.ids.Next(r.now.Wall)
	r.enqueue(0, task, nil)
	r.settle()
	delete(r.cut, [2]int{0, 2})
	at := uint32(ring.Of(task, testPartitions))
	for i := range r.peers {
		all := r.verify(i)
		if bad := only(all, (*nornv1.VerifiedPartition).GetDiffers); !slices.Equal(bad, []uint32{at}) {
			t.Fatalf("through node %d: %v differ, not %d", i+1, bad, at)
		}
		p := all[at]
		if p.Replicas[0].Facts != p.Replicas[2].Facts+1 || p.Replicas[0].Unfinished != p.Replicas[2].Unfinished+1 || len(p.Replicas[0].Queues) != 1 || p.Replicas[0].Queues[0].Queue != "q" {
			t.Errorf("got %v", p)
		}
	}
	r = newTrio(t)
	r.tell()
	r.work()
	other := (at + 1) % testPartitions
	v := r.peers[1].core.vnodes.Use(ring.Partition(other))
	v.Count("q")[crdt.StateReady]++
	all := r.verify(0)
	if bad := only(all, (*nornv1.VerifiedPartition).GetDiffers); !slices.Equal(bad, []uint32{other}) {
		t.Errorf("%v differ, not %d", bad, other)
	}
	for _, s := range all[other].Replicas {
		if len(s.Queues) != 1 {
			t.Errorf("which queue differs is not shown: %v", s)
		}
	}
}

// TestVerifyNamesWhoIsOutOfReach: known to be, or silent.
func TestVerifyNamesWhoIsOutOfReach(t *testing.T) {
	r := newTrio(t)
	r.tell()
	r.work()
	r.kill(2)
	from := r.send(0, &nornv1.VerifyRequest{Partitions: allPartitions()})
	r.settle()
	r.pass(6 * time.Second)
	for _, p := range r.peers[0].replies[from].Message.(*nornv1.VerifyReply).Partitions {
		if p.Differs || !p.Unreachable || p.Replicas[2].Problem == "" || p.Replicas[2].Node != "n3" || p.Replicas[1].Problem != "" {
			t.Fatalf("of a silent one: %v", p)
		}
	}
	r.tell()
	for _, p := range r.verify(0) {
		if p.Differs || !p.Unreachable || p.Replicas[2].Problem != "it is not in reach" {
			t.Fatalf("of a dead one: %v", p)
		}
	}
}

// TestVerifyOfAClusterOfOne: there is nothing to compare.
func TestVerifyOfAClusterOfOne(t *testing.T) {
	r := newGrowing(t)
	r.fill()
	for _, p := range r.verify(0) {
		if p.Differs || p.Unreachable || len(p.Replicas) != 1 || len(p.Replicas[0].Root) != 0 {
			t.Fatalf("got %v", p)
		}
	}
	for _, bad := range [][]uint32{nil, {testPartitions}, make([]uint32, 257)} {
		from := r.send(0, &nornv1.VerifyRequest{Partitions: bad})
		if got := r.peers[0].replies[from].Err; got == nil || got.Kind != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
			t.Errorf("%d partitions: %v", len(bad), got)
		}
	}
}
