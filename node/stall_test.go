package node

import (
	"sync"
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// heldUp is a disk that a test stops.
type heldUp struct {
	mu   sync.Mutex // guards gate
	gate chan struct{}
}

func (h *heldUp) slow(int) {
	h.mu.Lock()
	gate := h.gate
	h.mu.Unlock()
	if gate != nil {
		<-gate
	}
}

func (h *heldUp) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gate = make(chan struct{})
}

func (h *heldUp) goOn() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.gate != nil {
		close(h.gate)
		h.gate = nil
	}
}

// TestALeaderWhoseDiskStallsStepsDown: its process and its connections live, but
// nothing that it says is on disk. The others lead what it led, until it is back.
func TestALeaderWhoseDiskStallsStepsDown(t *testing.T) {
	t.Parallel() // it waits most of the time
	disk := &heldUp{}
	c := joinConfig(t, "n1")
	c.DiskStall = 500 * time.Millisecond
	nodes := []*Node{start(t, c, Options{slowDisk: disk.slow})}
	defer func() {
		disk.goOn()
		for _, n := range nodes {
			stop(t, n)
		}
	}()
	for _, name := range []string{"n2", "n3"} {
		nodes = append(nodes, start(t, joinConfig(t, name, nodes[0]), Options{}))
	}
	for _, n := range nodes {
		full(t, n, 3)
	}
	eventually(t, "three vote in the register", func() bool { return len(nodes[1].members.group.Load().Status().Voters) == 3 })
	eventually(t, "n1 leads", func() bool { return nodes[0].metrics.Leading.Load() > 0 })
	disk.stop()
	eventually(t, "n1 knows", func() bool { // something has to be written
		through(t, nodes[1], nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Queue: "q"}}, Durability: &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE}}, &nornv1.EnqueueReply{})
		return nodes[0].stall.is.Load()
	})
	if enqueue, claim := nodes[0].Ready(); enqueue || claim {
		t.Error("it says that it is ready")
	}
	eventually(t, "the others lead everything", func() bool {
		return nodes[1].metrics.Leading.Load()+nodes[2].metrics.Leading.Load() == int64(c.Partitions)
	})
	eventually(t, "the tasks are handed out without it", func() bool {
		return len(through(t, nodes[1], nornv1.Method_METHOD_CLAIM, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, WaitSeconds: 1}, &nornv1.ClaimReply{}).Grants) == 1
	})
	disk.goOn()
	eventually(t, "n1 is well", func() bool { _, claim := nodes[0].Ready(); return claim && !nodes[0].stall.is.Load() })
	for _, n := range nodes {
		full(t, n, 3)
	}
}

// TestANodeAloneDoesNotStepDownForItsDisk: nobody could lead instead.
func TestANodeAloneDoesNotStepDownForItsDisk(t *testing.T) {
	t.Parallel() // it waits most of the time
	disk := &heldUp{}
	c := testConfig(t)
	c.DiskStall = 20 * time.Millisecond
	n := start(t, c, Options{slowDisk: disk.slow})
	defer stop(t, n)
	p := connect(t, n)
	disk.stop()
	done := make(chan []string)
	go func() { done <- p.enqueue(&nornv1.TaskSpec{Queue: "q"}) }()
	eventually(t, "it says so", n.stall.is.Load)
	select {
	case <-done:
		t.Error("acknowledged without the disk")
	default:
	}
	disk.goOn()
	<-done
	if got := p.claim(&nornv1.ClaimRequest{Queues: []string{"q"}, WaitSeconds: 10}); len(got) != 1 {
		t.Fatalf("after the stall: %v", got)
	}
	eventually(t, "it is well again", func() bool { _, claim := n.Ready(); return claim })
}
