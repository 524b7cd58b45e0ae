package core

import (
	"runtime"
	"slices"
	"testing"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/query"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"

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

// pages lists tasks page by page, and says how many were looked at.
func (r *rig) pages(m *nornv1.ListRequest) (ids []string, looked int) {
	r.t.Helper()
	for {
		reply := must[*nornv1.ListReply](r, m)
		for _, task := range reply.GetTasks() {
			ids = append(ids, task.GetId())
		}
		looked += int(reply.GetLookedAt())
		if m.Cursor = reply.GetNextCursor(); len(m.Cursor) == 0 {
			return ids, looked
		}
	}
}

// fewAmongMany makes tasks in each state, of some queues, among many others: more than the indexes are asked for in one
// partition. It gives all of them.
func (r *rig) fewAmongMany() (all []*nornv1.Task) {
	r.t.Helper()
	var many, first []*nornv1.TaskSpec
	for len(many) < 900 || len(first) < 600 {
		s := spec("many")
		s.Id = r.ids.Next(r.now.Wall).Bytes()
		if ring.Of(id.ID(s.Id), testPartitions) == 0 && len(first) < 600 {
			first = append(first, s)
		} else if len(many) < 900 {
			many = append(many, s)
		}
	}
	r.enqueue(many...)
	for range 3 {
		r.enqueue(spec("few"), spec("other"))
		r.die("few")
		r.finish("other")
		later := spec("few")
		later.DelaySeconds = 60
		r.enqueue(spec("few"), spec("other"), later)
	}
	held := r.claim("few", 2)
	must[*nornv1.WriteReply](r, &nornv1.ReleaseRequest{Claims: []*nornv1.ClaimRef{{Id: parsed(r.t, held[0].Task).Bytes(), Token: held[0].Token}}})
	failed := r.claim("other", 1)[0]
	must[*nornv1.WriteReply](r, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: parsed(r.t, failed.Task).Bytes(), Token: failed.Token}}})
	r.claim("other", 1)
	r.enqueue(after("few", onFailCancel, r.enqueue(spec("many"))...))
	r.cancel(r.enqueue(first...)...) // more than the index is asked for in one partition
	r.cancel(r.enqueue(spec("few"), spec("other"), spec("other"))...)

	all = must[*nornv1.ListReply](r, &nornv1.ListRequest{Limit: proto.MaxListPage}).Tasks
	for {
		more := must[*nornv1.ListReply](r, &nornv1.ListRequest{Limit: proto.MaxListPage, Cursor: query.TaskCursor.Seal(parsed(r.t, all[len(all)-1]).Bytes())}).Tasks
		if all = append(all, more...); len(more) == 0 {
			return all
		}
	}
}

// TestAListOfAFewLooksAtThoseOnly: what is in a state, or in a queue, that few tasks are in is found by the indexes,
// however many other tasks there are: with 10⁶ of them a list of the dead ones took 0.8 s for each of many empty
// pages. It finds what a walk through all tasks does, page by page, also where one partition has many.
func TestAListOfAFewLooksAtThoseOnly(t *testing.T) {
	r := newRig(t)
	all := r.fewAmongMany()
	states := make(map[string]int)
	for _, queue := range []string{"", "few", "other", "many", "none"} {
		for bits := range 1 << 7 {
			var asked []nornv1.State
			for s := range 7 {
				if bits>>s&1 == 1 {
					asked = append(asked, nornv1.State(s+1))
				}
			}
			var want []string
			for _, task := range all {
				if (queue == "" || task.Queue == queue) && (bits == 0 || slices.Contains(asked, task.State)) {
					want = append(want, task.Id)
					states[task.State.String()]++
				}
			}
			limit := []uint32{0, 7, 1000}[bits%3]
			got, looked := r.pages(&nornv1.ListRequest{Queue: queue, States: asked, Limit: limit, IdsOnly: bits%2 == 0})
			if !slices.Equal(got, want) {
				t.Fatalf("queue %q, %v, %d a page: %d tasks, want %d", queue, asked, limit, len(got), len(want))
			}
			few := bits != 0 && len(want) < 100 && !slices.Contains(asked, nornv1.State_STATE_WAITING) // those are found by a walk
			if few && len(want) < int(limit) && looked > len(want)+20 {
				t.Errorf("queue %q, %v: %d tasks were looked at for %d", queue, asked, looked, len(want))
			}
		}
	}
	if len(states) != 7 {
		t.Errorf("the tasks are in %d states: %v", len(states), states)
	}
	// A queue without tasks is no reason to look at those of others.
	if got, looked := r.pages(&nornv1.ListRequest{Queue: "none"}); len(got)+looked > 0 {
		t.Errorf("of a queue without tasks %d were found, %d looked at", len(got), looked)
	}
}
