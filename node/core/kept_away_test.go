package core

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestWhatAWorkerHasNoHandlerForGoesToOthersAtOnce: the task keeps away from that worker alone,
// which gets what comes behind it, and is ready for all others meanwhile.
func TestWhatAWorkerHasNoHandlerForGoesToOthersAtOnce(t *testing.T) {
	r := newRig(t)
	first := r.enqueue(&nornv1.TaskSpec{Queue: "q", Kind: "other", Priority: 9})[0]
	second := r.enqueue(&nornv1.TaskSpec{Queue: "q", Kind: "send"})[0]
	claim := func(worker string) []string {
		t.Helper()
		var ids []string
		for _, g := range must[*nornv1.ClaimReply](r, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, LeaseSeconds: 30, Worker: worker}).Grants {
			ids = append(ids, g.Task.Id)
			fail := &nornv1.Failure{Id: parsed(t, g.Task).Bytes(), Token: g.Token, Error: "no handler", Uncounted: true, RetryInSeconds: 1e-9, KeepAwaySeconds: 60}
			if g.Task.Id == second.String() || worker == "able" {
				fail.KeepAwaySeconds = 0
			}
			if e := must[*nornv1.WriteReply](r, &nornv1.FailRequest{Failures: []*nornv1.Failure{fail}}).Results[0].Error; e != nil {
				t.Fatal(e)
			}
			r.pass(time.Millisecond)
		}
		return ids
	}
	is := func(where string, got []string, want string) {
		t.Helper()
		if !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %v, want %s", where, got, want)
		}
	}
	is("unable, at first", claim("unable"), first.String())
	is("unable, then", claim("unable"), second.String())
	is("able", claim("able"), first.String())
	why := must[*nornv1.ExplainReply](r, &nornv1.ExplainRequest{Id: first.Bytes()})
	if at := slices.IndexFunc(why.Reasons, func(w *nornv1.Reason) bool { return w.Kind == nornv1.ReasonKind_REASON_KIND_NO_HANDLER }); at < 0 ||
		why.Reasons[at].Worker != "unable" || !strings.Contains(why.Reasons[at].Text, `kind "other"`) {
		t.Errorf("explained by %v", why.Reasons)
	}
	must[*nornv1.WriteReply](r, &nornv1.CancelRequest{Ids: [][]byte{second.Bytes()}})
	if got := claim("unable"); got != nil {
		t.Errorf("it is granted %v again", got)
	}
	r.pass(time.Minute)
	is("unable, a minute later", claim("unable"), first.String())
	if n := r.get(first).Attempts; n != 0 {
		t.Errorf("%d attempts were used", n)
	}
}

// TestWhatIsKeptFromOneThatWaitsIsNotKeptFromTheNext: who waits first is passed over.
func TestWhatIsKeptFromOneThatWaitsIsNotKeptFromTheNext(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(&nornv1.TaskSpec{Queue: "q"})[0]
	g := r.claim("q", 1)[0]
	wait := func(conn uint64, worker string) message.Origin {
		return r.send(conn, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, Worker: worker, WaitSeconds: 30})
	}
	unable, able := wait(2, "w"), wait(3, "able")
	r.turn()
	must[*nornv1.WriteReply](r, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: g.Token, Uncounted: true, RetryInSeconds: 1e-9, KeepAwaySeconds: 60}}})
	r.pass(time.Millisecond)
	got, _ := r.replies[able].Message.(*nornv1.ClaimReply)
	if _, answered := r.replies[unable]; answered || len(got.GetGrants()) != 1 {
		t.Errorf("the one that can has %v, the other is answered: %v", got, answered)
	}
}
