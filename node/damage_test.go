package node

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// flips is the wire between some nodes: it flips bits while it is told to.
type flips struct {
	every   atomic.Int64 // bytes, with one flipped bit each; 0: none is
	passed  atomic.Int64 // bytes
	flipped atomic.Int64 // bits
	running sync.WaitGroup
}

// to is a proxy of a node's port for nodes, at an address of its own.
func (f *flips) to(t *testing.T, target *atomic.Pointer[string]) net.Listener {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.running.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			at := target.Load()
			if at == nil {
				_ = nc.Close()
				continue
			}
			there, err := net.Dial("tcp", *at)
			if err != nil {
				_ = nc.Close()
				continue
			}
			f.running.Go(func() { f.pass(nc, there) })
			f.running.Go(func() { f.pass(there, nc) })
		}
	})
	return ln
}

func (f *flips) pass(from, to net.Conn) {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		for i := range b[:n] {
			if at, every := f.passed.Add(1), f.every.Load(); every > 0 && at%every == 0 {
				b[i] ^= 1 << (f.flipped.Add(1) % 8)
			}
		}
		if _, failed := to.Write(b[:n]); err != nil || failed != nil {
			_, _ = from.Close(), to.Close()
			return
		}
	}
}

// trio are three nodes that reach each other over such a wire.
func (f *flips) trio(t *testing.T) (nodes []*Node) {
	var ports []net.Listener
	t.Cleanup(f.running.Wait)
	for i := range 3 {
		target := &atomic.Pointer[string]{}
		ln := f.to(t, target)
		c := joinConfig(t, fmt.Sprintf("n%d", i+1))
		c.PeerAdvertise = ln.Addr().String()
		if i > 0 {
			c.Join = []string{ports[0].Addr().String()}
		}
		n := start(t, c, Options{})
		t.Cleanup(func() { stop(t, n); _ = ln.Close() }) // before the directory goes
		target.Store(new(n.PeerAddr().String()))
		nodes, ports = append(nodes, n), append(ports, ln)
	}
	for _, n := range nodes {
		full(t, n, 3)
	}
	return nodes
}

// work enqueues tasks through a node and completes some, and notes with what.
func work(t *testing.T, n *Node, level nornv1.WriteLevel, results map[string][]byte) {
	durable := &nornv1.Durability{Level: level}
	var tasks []*nornv1.TaskSpec
	for range 5 {
		tasks = append(tasks, &nornv1.TaskSpec{Queue: "q"})
	}
	through(t, n, nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: tasks, Durability: durable}, &nornv1.EnqueueReply{})
	grants := through(t, n, nornv1.Method_METHOD_CLAIM, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 5, WaitSeconds: 0.1}, &nornv1.ClaimReply{}).Grants
	done := &nornv1.CompleteRequest{Durability: durable}
	for _, g := range grants {
		results[g.Task.Id] = bytes.Repeat([]byte("of "+g.Task.Id+" "), 40)
		done.Completions = append(done.Completions, &nornv1.Completion{Id: taskID(t, g.Task.Id), Token: g.Token, AutoSeq: true, Result: results[g.Task.Id]})
	}
	if len(grants) > 0 {
		through(t, n, nornv1.Method_METHOD_COMPLETE, done, &nornv1.WriteReply{})
	}
}

// TestFlippedBitsChangeNoResult: of three nodes whose connections flip bits for a while,
// every result that is read is the one that was sent, all copies are equal, the frames are
// counted, and it takes about a reconnect until writes on all copies go on.
func TestFlippedBitsChangeNoResult(t *testing.T) {
	wire := &flips{}
	nodes, results := wire.trio(t), map[string][]byte{}
	for i := range 5 {
		work(t, nodes[i%3], nornv1.WriteLevel_WRITE_LEVEL_QUORUM, results)
	}
	wire.every.Store(1999)
	for i, until := 0, time.Now().Add(4*time.Second); time.Now().Before(until); i++ {
		work(t, nodes[i%3], nornv1.WriteLevel_WRITE_LEVEL_ONE, results)
	}
	wire.every.Store(0)
	began := time.Now()
	eventually(t, "writes have all copies again", func() bool {
		for _, n := range nodes {
			r := through(t, n, nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: "late"}}, Durability: &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ALL}}, &nornv1.EnqueueReply{}).Results[0]
			if r.Error != nil || r.Receipt.DurableCopies != 3 {
				return false
			}
		}
		return true
	})
	took := time.Since(began)
	t.Logf("%d bits flipped, %d results, writes on all copies again after %v", wire.flipped.Load(), len(results), took)
	if took > 10*time.Second { // a second on a machine with time; it was half a minute
		t.Errorf("writes have all copies again after %v", took)
	}
	damaged := uint64(0)
	for _, n := range nodes {
		damaged += n.members.network.Status().Damaged
	}
	if damaged == 0 {
		t.Errorf("%d bits flipped, and none was seen", wire.flipped.Load())
	}
	eventually(t, "all copies are equal", func() bool {
		return !slices.ContainsFunc(verified(t, nodes[0]), func(p *nornv1.VerifiedPartition) bool { return p.Differs || p.Unreachable || len(p.Replicas) != 3 })
	})
	for _, n := range nodes {
		for task, want := range results {
			got := through(t, n, nornv1.Method_METHOD_GET, &nornv1.GetRequest{Id: taskID(t, task)}, &nornv1.GetReply{}).Task
			if got.State == nornv1.State_STATE_COMPLETED && !bytes.Equal(got.Result, want) {
				t.Errorf("%s says that %s has ended with %q", n.self.Node, task, got.Result)
			}
		}
	}
}
