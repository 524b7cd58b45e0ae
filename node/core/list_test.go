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
	if len(all) != 2 || !gproto.Equal(all[0], r.get(task)) {
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
