package core

import (
	"strings"
	"testing"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

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
