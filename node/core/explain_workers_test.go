package core

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// takes is a worker that takes tasks of some queues, and runs so many.
func takes(name string, running int, queues ...string) *nornv1.Worker {
	w := &nornv1.Worker{Name: name, Slots: 2, State: nornv1.SessionState_SESSION_STATE_HEALTHY}
	for _, q := range queues {
		w.Queues = append(w.Queues, &nornv1.SessionQueue{Queue: q})
	}
	for range running {
		w.Running = append(w.Running, &nornv1.WorkerClaim{})
	}
	return w
}

func troubledWorker(name, trouble string, queues ...string) *nornv1.Worker {
	w := takes(name, 0, queues...)
	w.Trouble = trouble
	return w
}

// TestExplanationsNameWorkersOfAllNodes that serve the task's queue and cannot begin tasks,
// once, and in place of what one node alone knows.
func TestExplanationsNameWorkersOfAllNodes(t *testing.T) {
	e := &explained{}
	e.Take([]int{0}, &nornv1.ExplainReply{Queue: "mail", State: nornv1.State_STATE_READY, Reasons: []*nornv1.Reason{
		{Kind: nornv1.ReasonKind_REASON_KIND_BEHIND, Worker: "last"}, {Kind: nornv1.ReasonKind_REASON_KIND_NO_WORKER, Worker: "of one node"},
	}})
	e.Take(nil, &nornv1.WorkersReply{WaitingClaims: 1, Workers: []*nornv1.Worker{troubledWorker("a", "no room", "other", "mail"), troubledWorker("b", "no room", "other")}})
	e.Fail(nil, proto.Invalid("a node is away"))
	e.Take(nil, &nornv1.WorkersReply{Workers: []*nornv1.Worker{takes("d", 0, "mail"), troubledWorker("e", "gone", "mail")}})
	m, err := e.Answer()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range m.(*nornv1.ExplainReply).GetReasons() {
		names = append(names, r.GetWorker())
	}
	if !slices.Equal(names, []string{"a", "e", "last"}) {
		t.Errorf("it names %v", names)
	}
	lost := &explained{}
	lost.Fail([]int{0}, proto.Invalid("who knows it is away"))
	if m, err := lost.Answer(); err == nil || m != nil {
		t.Errorf("got %v, %v", m, err)
	}
}

// TestNobodyAndAllBusyAreToldApart: and who drains, was lost, rests or is silent.
func TestNobodyAndAllBusyAreToldApart(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	with := func(change func(*nornv1.Worker)) *nornv1.Worker {
		w := takes("w", 0, "mail")
		change(w)
		return w
	}
	for name, c := range map[string]struct {
		s    serving
		kind nornv1.ReasonKind // unspecified: none
		text []string
	}{
		"nobody ever":        {serving{}, nornv1.ReasonKind_REASON_KIND_NO_WORKER, []string{"no worker takes queue mail", "none is connected", "none has asked", "norn work -q mail"}},
		"nobody since":       {serving{asked: convert.Timestamp(now - int64(90*time.Second))}, nornv1.ReasonKind_REASON_KIND_NO_WORKER, []string{"1m30s ago", "2026-01-01T11:58:30Z"}},
		"somebody waits":     {serving{waiting: 1}, 0, nil},
		"room":               {serving{workers: []*nornv1.Worker{takes("a", 1, "mail"), takes("b", 2, "mail")}}, 0, nil},
		"all busy":           {serving{workers: []*nornv1.Worker{takes("a", 2, "mail"), takes("b", 2, "mail")}}, nornv1.ReasonKind_REASON_KIND_ALL_BUSY, []string{"all slots", "4 tasks run", "a 2 of 2, b 2 of 2", "more slots"}},
		"drains":             {serving{workers: []*nornv1.Worker{with(func(w *nornv1.Worker) { w.Draining = true })}}, nornv1.ReasonKind_REASON_KIND_NO_WORKER, []string{"worker w is draining"}},
		"killed":             {serving{workers: []*nornv1.Worker{with(func(w *nornv1.Worker) { w.Killed = true })}}, nornv1.ReasonKind_REASON_KIND_NO_WORKER, []string{"killed or lost"}},
		"rests":              {serving{workers: []*nornv1.Worker{with(func(w *nornv1.Worker) { w.RestingSeconds = 5 })}}, nornv1.ReasonKind_REASON_KIND_NO_WORKER, []string{"given none for 5s"}},
		"silent":             {serving{workers: []*nornv1.Worker{with(func(w *nornv1.Worker) { w.State, w.SilentSeconds = nornv1.SessionState_SESSION_STATE_UNHEALTHY, 7 })}}, nornv1.ReasonKind_REASON_KIND_NO_WORKER, []string{"silent for 7s"}},
		"busy beside drains": {serving{workers: []*nornv1.Worker{takes("a", 2, "mail"), with(func(w *nornv1.Worker) { w.Draining = true })}}, nornv1.ReasonKind_REASON_KIND_ALL_BUSY, []string{"2 tasks run (a 2 of 2)"}},
	} {
		got := c.s.reasons("mail", now)
		if c.kind == 0 {
			if len(got) > 0 {
				t.Errorf("%s: %v", name, got)
			}
			continue
		}
		if len(got) != 1 || got[0].GetKind() != c.kind {
			t.Errorf("%s: %v", name, got)
			continue
		}
		for _, want := range c.text {
			if !strings.Contains(got[0].GetText(), want) {
				t.Errorf("%s: %q is not in %q", name, want, got[0].GetText())
			}
		}
	}
	broken := serving{workers: []*nornv1.Worker{troubledWorker("x", "no room", "mail")}}
	if got := broken.reasons("mail", now); len(got) != 2 || got[0].GetKind() != nornv1.ReasonKind_REASON_KIND_NO_WORKER || got[1].GetKind() != nornv1.ReasonKind_REASON_KIND_WORKER_TROUBLED {
		t.Errorf("%v", got)
	}
	var crowd serving
	for range 3 * maxNamed {
		crowd.workers = append(crowd.workers, takes("w", 2, "mail"))
	}
	if got := crowd.reasons("mail", now); len(got) != 1 || !strings.Contains(got[0].GetText(), "and 20 more") || len(got[0].GetText()) > 500 {
		t.Errorf("%v", got)
	}
}

// TestAPauseSaysSinceWhenAndByWhom: through any node, until the queue is resumed; and nobody
// sets that by itself.
func TestAPauseSaysSinceWhenAndByWhom(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(spec("q"))[0]
	set := func(paused bool) *nornv1.Queue {
		t.Helper()
		return must[*nornv1.QueuesReply](r, &nornv1.SetQueueRequest{Name: "q", Settings: &nornv1.QueueSettings{Paused: paused, PausedBy: "ann@desk", Note: "incident 12"}, Fields: []string{"paused", "note"}}).Queues[0]
	}
	set(true)
	reasons := must[*nornv1.ExplainReply](r, &nornv1.ExplainRequest{Id: task.Bytes()}).Reasons
	if len(reasons) != 2 || !strings.HasPrefix(reasons[0].Text, "queue q is paused since 2026-01-01T00:00:00Z by ann@desk (incident 12): `norn queue resume q`") || reasons[0].Since == nil {
		t.Errorf("%v", reasons)
	}
	if reasons[1].Kind != nornv1.ReasonKind_REASON_KIND_NO_WORKER {
		t.Errorf("%v", reasons)
	}
	if q := set(false); q.Settings.PausedAt != nil || q.Settings.PausedBy != "" {
		t.Errorf("%v", q)
	}
	for _, field := range []string{"paused_by", "paused_at"} {
		if reply := r.ask(&nornv1.SetQueueRequest{Name: "q", Settings: &nornv1.QueueSettings{}, Fields: []string{field}}); reply.Err == nil {
			t.Errorf("%s was set", field)
		}
	}
}

// TestExplainAsksAllNodes: a worker that waits at another node than the one that is asked, or
// that knows the task, is one, and who asked last anywhere is told.
func TestExplainAsksAllNodes(t *testing.T) {
	r := newTrio(t)
	task := r.ids.Next(r.now.Wall)
	r.enqueue(0, task, nil)
	r.settle()
	explained := func(i int) *nornv1.Reason {
		t.Helper()
		all := ask[*nornv1.ExplainReply](r, i, &nornv1.ExplainRequest{Id: task.Bytes()}).Reasons
		if len(all) != 1 {
			t.Fatalf("%v", all)
		}
		return all[0]
	}
	for i := range r.peers {
		if reason := explained(i); reason.Kind != nornv1.ReasonKind_REASON_KIND_NO_WORKER || reason.Since != nil {
			t.Errorf("node %d: %v", i, reason)
		}
	}
	g := ask[*nornv1.ClaimReply](r, 2, &nornv1.ClaimRequest{Queues: []string{"q"}}).Grants[0]
	ask[*nornv1.WriteReply](r, 2, &nornv1.ReleaseRequest{Claims: []*nornv1.ClaimRef{{Id: task.Bytes(), Token: g.Token}}})
	for i := range r.peers {
		if reason := explained(i); reason.Since == nil || !strings.Contains(reason.Text, "last asked") {
			t.Errorf("node %d: %v", i, reason)
		}
	}
}
