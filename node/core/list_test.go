package core

import (
	"runtime"
	"testing"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// TestALargeTaskIsListedInFull: its payload, updates and result, as when it is read.
func TestALargeTaskIsListedInFull(t *testing.T) {
	r := newRig(t)
	s := spec("q")
	s.Payload = make([]byte, 1<<20)
	task := r.enqueue(s, spec("q"))[0]
	token := uint64(1 << 32)
	for n := range uint64(5) {
		must[*nornv1.WriteReply](r, &nornv1.UpdateRequest{Id: task.Bytes(), Token: token, Seq: n, Data: make([]byte, 5000)})
	}
	must[*nornv1.WriteReply](r, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: token, Seq: 5, Result: make([]byte, 90_000)}}})
	all := must[*nornv1.ListReply](r, &nornv1.ListRequest{}).Tasks
	want := r.get(task)
	want.AttemptLog = nil // read with one task only
	if len(all) != 2 || !gproto.Equal(all[0], want) {
		t.Errorf("listed %.200v", all)
	}
	ids := must[*nornv1.ListReply](r, &nornv1.ListRequest{IdsOnly: true, States: []nornv1.State{nornv1.State_STATE_COMPLETED}}).Tasks
	if want := (&nornv1.Task{Id: task.String(), Queue: "q", State: nornv1.State_STATE_COMPLETED}); len(ids) != 1 || !gproto.Equal(ids[0], want) {
		t.Errorf("listed %.200v", ids)
	}
}

// TestAListHoldsNoPayloads of the tasks that it only looks at: one of each partition is
// in memory at once, which are 4 GiB where 4,096 of them have tasks of 1 MiB.
func TestAListHoldsNoPayloads(t *testing.T) {
	r := newRig(t)
	const n = 32
	for range n {
		s := spec("q")
		s.Payload = make([]byte, proto.MaxPayload)
		r.enqueue(s)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if all := must[*nornv1.ListReply](r, &nornv1.ListRequest{IdsOnly: true}).Tasks; len(all) != n {
		t.Fatalf("%d tasks", len(all))
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > n*proto.MaxPayload/8 {
		t.Errorf("a list of the IDs of %d tasks allocates %d KiB", n, took>>10)
	}
}

// TestWhoFollowsALongLogReadsItOnce: with each update all of it was read, so that a
// follower of a task with many lines kept the node's readers busy, and the memory.
func TestWhoFollowsALongLogReadsItOnce(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(spec("q"))[0]
	const token, n = 1 << 32, 200
	for seq := range uint64(n) {
		must[*nornv1.WriteReply](r, &nornv1.UpdateRequest{Id: task.Bytes(), Token: token, Seq: seq, Data: make([]byte, 64<<10)})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for seq := uint64(n - 3); seq < n; seq++ {
		m := must[*nornv1.LogReply](r, &nornv1.LogRequest{Id: task.Bytes(), After: true, AfterToken: token, AfterSeq: seq})
		if len(m.Updates) != int(n-1-seq) || m.More {
			t.Errorf("after %d come %d updates, more: %v", seq, len(m.Updates), m.More)
		}
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 4<<20 {
		t.Errorf("three updates at the end of a log are read with %d KiB", took>>10)
	}
}
