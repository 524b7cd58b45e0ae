package explain

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
	e := &Explained{}
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
	lost := &Explained{}
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
		s    Serving
		kind nornv1.ReasonKind // unspecified: none
		text []string
	}{
		"nobody ever":        {Serving{}, nornv1.ReasonKind_REASON_KIND_NO_WORKER, []string{"no worker takes queue mail", "none is connected", "none has asked", "norn work -q mail"}},
		"nobody since":       {Serving{Asked: convert.Timestamp(now - int64(90*time.Second))}, nornv1.ReasonKind_REASON_KIND_NO_WORKER, []string{"1m30s ago", "2026-01-01T11:58:30Z"}},
		"somebody waits":     {Serving{Waiting: 1}, 0, nil},
		"room":               {Serving{Workers: []*nornv1.Worker{takes("a", 1, "mail"), takes("b", 2, "mail")}}, 0, nil},
		"all busy":           {Serving{Workers: []*nornv1.Worker{takes("a", 2, "mail"), takes("b", 2, "mail")}}, nornv1.ReasonKind_REASON_KIND_ALL_BUSY, []string{"all slots", "4 tasks run", "a 2 of 2, b 2 of 2", "more slots"}},
		"drains":             {Serving{Workers: []*nornv1.Worker{with(func(w *nornv1.Worker) { w.Draining = true })}}, nornv1.ReasonKind_REASON_KIND_NO_WORKER, []string{"worker w is draining"}},
		"killed":             {Serving{Workers: []*nornv1.Worker{with(func(w *nornv1.Worker) { w.Killed = true })}}, nornv1.ReasonKind_REASON_KIND_NO_WORKER, []string{"killed or lost"}},
		"rests":              {Serving{Workers: []*nornv1.Worker{with(func(w *nornv1.Worker) { w.RestingSeconds = 5 })}}, nornv1.ReasonKind_REASON_KIND_NO_WORKER, []string{"given none for 5s"}},
		"silent":             {Serving{Workers: []*nornv1.Worker{with(func(w *nornv1.Worker) { w.State, w.SilentSeconds = nornv1.SessionState_SESSION_STATE_UNHEALTHY, 7 })}}, nornv1.ReasonKind_REASON_KIND_NO_WORKER, []string{"silent for 7s"}},
		"busy beside drains": {Serving{Workers: []*nornv1.Worker{takes("a", 2, "mail"), with(func(w *nornv1.Worker) { w.Draining = true })}}, nornv1.ReasonKind_REASON_KIND_ALL_BUSY, []string{"2 tasks run (a 2 of 2)"}},
	} {
		got := c.s.Reasons("mail", now)
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
	broken := Serving{Workers: []*nornv1.Worker{troubledWorker("x", "no room", "mail")}}
	if got := broken.Reasons("mail", now); len(got) != 2 || got[0].GetKind() != nornv1.ReasonKind_REASON_KIND_NO_WORKER || got[1].GetKind() != nornv1.ReasonKind_REASON_KIND_WORKER_TROUBLED {
		t.Errorf("%v", got)
	}
	var crowd Serving
	for range 3 * maxNamed {
		crowd.Workers = append(crowd.Workers, takes("w", 2, "mail"))
	}
	if got := crowd.Reasons("mail", now); len(got) != 1 || !strings.Contains(got[0].GetText(), "and 20 more") || len(got[0].GetText()) > 500 {
		t.Errorf("%v", got)
	}
}
