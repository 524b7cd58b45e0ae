package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// fillingUp is a disk that a test fills.
type fillingUp struct{ free atomic.Uint64 }

func (f *fillingUp) bytes(string) (uint64, error) { return f.free.Load(), nil }

// enqueueAs enqueues a task at a level, with a key of its own, and gives the answer.
func enqueueAs(t *testing.T, n *Node, level nornv1.WriteLevel, key string) *nornv1.EnqueueResult {
	t.Helper()
	return through(t, n, nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{
		Tasks: []*nornv1.TaskSpec{{Queue: "q", Key: key}}, Durability: &nornv1.Durability{Level: level},
	}, &nornv1.EnqueueReply{}).Results[0]
}

// crowdedTrio are three nodes; the disk of the third one fills up.
type crowdedTrio struct {
	t      *testing.T
	nodes  []*Node
	c3     *config.Config
	disk   fillingUp
	failed chan error // how the third one ends
	acked  uint64
}

func newCrowdedTrio(t *testing.T) *crowdedTrio {
	r := &crowdedTrio{t: t, failed: make(chan error, 1)}
	r.disk.free.Store(math.MaxUint64)
	r.nodes = append(r.nodes, start(t, joinConfig(t, "n1"), Options{}))
	r.nodes = append(r.nodes, start(t, joinConfig(t, "n2", r.nodes[0]), Options{}))
	r.c3 = joinConfig(t, "n3", r.nodes[0])
	r.c3.DiskCheckInterval = 10 * time.Millisecond
	r.nodes = append(r.nodes, start(t, r.c3, Options{FreeBytes: r.disk.bytes, Fatal: func(err error) {
		select {
		case r.failed <- err:
		default: // only the first one counts
		}
	}}))
	for _, n := range r.nodes {
		full(t, n, 3)
	}
	eventually(t, "three vote in the register", func() bool { return len(r.nodes[0].members.group.Load().Status().Voters) == 3 })
	eventually(t, "n3 leads", func() bool { return r.nodes[2].metrics.Leading.Load() > 0 })
	return r
}

// refuses waits until the third node takes no enqueues, and gives what it says.
func (r *crowdedTrio) refuses() (refused *proto.Error) {
	r.t.Helper()
	// Not connect, which waits until it takes enqueues: it may have seen already that its disk is full.
	client, _, err := dial(r.t, r.nodes[2], &nornv1.Hello{MinVersion: 1, MaxVersion: 1})
	if err != nil {
		r.t.Fatal(err)
	}
	eventually(r.t, "n3 refuses enqueues", func() bool {
		reply := &nornv1.EnqueueReply{}
		err := client.call(nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: "q"}}}, reply)
		if err == nil && reply.Results[0].Error == nil {
			r.acked++
		}
		return errors.As(err, &refused)
	})
	return refused
}

// enqueue adds tasks through the first two nodes, which all must take; a leader that is
// new has to hear first whether a key is free.
func (r *crowdedTrio) enqueue(n int, level nornv1.WriteLevel, key func(i int) string, copies uint32) {
	r.t.Helper()
	for i := range n {
		var res *nornv1.EnqueueResult
		eventually(r.t, "the leader has heard of keys", func() bool {
			res = enqueueAs(r.t, r.nodes[i%2], level, key(i))
			return res.Error.GetGuarantee() != "unique keys" || res.Error.Effect != nornv1.Effect_EFFECT_NONE
		})
		if res.Error != nil || res.Receipt.DurableCopies < copies {
			r.t.Fatalf("through %s, key %q: %v", r.nodes[i%2].self.Node, key(i), res)
		}
		r.acked++
	}
}

// ends waits until the third node ends by itself, and gives why.
func (r *crowdedTrio) ends() error {
	r.t.Helper()
	why := <-r.failed
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	if err := r.nodes[2].Stop(ctx); err != nil {
		r.t.Fatal(err)
	}
	if err := r.nodes[2].dir.close(); err != nil {
		r.t.Fatal(err)
	}
	return why
}

// equal waits until all replicas are, and counts through each node.
func (r *crowdedTrio) equal() {
	r.t.Helper()
	var all []uint32
	for p := range r.c3.Partitions {
		all = append(all, uint32(p))
	}
	eventually(r.t, "all replicas are equal", func() bool {
		reply := through(r.t, r.nodes[2], nornv1.Method_METHOD_VERIFY, &nornv1.VerifyRequest{Partitions: all}, &nornv1.VerifyReply{})
		return len(reply.Partitions) == len(all) && !slices.ContainsFunc(reply.Partitions, func(p *nornv1.VerifiedPartition) bool {
			return p.Differs || p.Unreachable || len(p.Replicas) != 3
		})
	})
	for _, n := range r.nodes {
		if got := through(r.t, n, nornv1.Method_METHOD_COUNT, &nornv1.CountRequest{}, &nornv1.CountReply{}).Total.Total; got != r.acked {
			r.t.Errorf("%s counts %d tasks of %d", n.self.Node, got, r.acked)
		}
	}
}

// TestAFullDiskInACluster: of three nodes the disk of one fills up. It refuses new
// tasks and says why, keeps copies of those that others take, also where it leads,
// and takes completions. At the last bytes it ends, saying so; the others go on,
// and with room again it has everything.
func TestAFullDiskInACluster(t *testing.T) {
	t.Parallel() // it waits most of the time
	r := newCrowdedTrio(t)
	defer func() {
		for _, n := range r.nodes {
			stop(t, n)
		}
	}()
	r.disk.free.Store(uint64(r.c3.DiskReserve) - 1)
	if refused := r.refuses(); refused.Kind != nornv1.ErrorKind_ERROR_KIND_DISK_FULL || !strings.Contains(refused.Message, "the disk of node n3 is nearly full") {
		t.Errorf("n3 says %v", refused)
	}
	if enqueue, claim := r.nodes[2].Ready(); enqueue || !claim { // so that a balancer sends enqueues elsewhere
		t.Errorf("n3 is ready to enqueue: %t, to claim: %t", enqueue, claim)
	}
	none := func(int) string { return "" }
	r.enqueue(20, nornv1.WriteLevel_WRITE_LEVEL_ALL, none, 3)
	r.enqueue(20, nornv1.WriteLevel_WRITE_LEVEL_ALL, func(i int) string { return fmt.Sprint("k", i) }, 3) // leaders give keys away: n3 is one
	n3 := r.nodes[2]
	g := through(t, n3, nornv1.Method_METHOD_CLAIM, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, WaitSeconds: 50}, &nornv1.ClaimReply{}).Grants[0]
	done := &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: taskID(t, g.Task.Id), Token: g.Token, AutoSeq: true}}}
	if res := through(t, n3, nornv1.Method_METHOD_COMPLETE, done, &nornv1.WriteReply{}).Results[0]; res.Error != nil {
		t.Errorf("a completion through the full node: %v", res)
	}

	r.disk.free.Store(uint64(r.c3.DiskStop) - 1)
	if err := r.ends(); !errors.Is(err, ErrDiskFull) || !strings.Contains(err.Error(), "free space and start again") {
		t.Errorf("it ends with %v", err)
	}
	r.enqueue(10, nornv1.WriteLevel_WRITE_LEVEL_QUORUM, none, 2)

	r.nodes[2] = start(t, r.c3, Options{})
	full(t, r.nodes[2], 3)
	r.equal()
}
