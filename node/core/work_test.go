package core

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func completionOf(task id.ID, token uint64) []*nornv1.Completion {
	return []*nornv1.Completion{{Id: task.Bytes(), Token: token, AutoSeq: true}}
}

// TestWorkEndsAndGrants: on one node and from any of three, the answer has what became of
// each item, and the next task.
func TestWorkEndsAndGrants(t *testing.T) {
	r := newRig(t)
	all := r.enqueue(spec("q"), spec("q"), spec("q"), spec("q"))
	g := r.claim("q", 3)
	m := must[*nornv1.WorkReply](r, &nornv1.WorkRequest{
		Completions: completionOf(parse(t, g[0].Task.Id), g[0].Token),
		Failures:    []*nornv1.Failure{{Id: parse(t, g[1].Task.Id).Bytes(), Token: g[1].Token, Error: "no", Discard: true}},
		Releases:    refOf(parse(t, g[2].Task.Id), g[2].Token), Claim: claimUpTo(1),
	})
	if len(m.Completions) != 1 || m.Completions[0].Receipt == nil || len(m.Failures) != 1 || m.Failures[0].State != nornv1.State_STATE_DEAD ||
		len(m.Releases) != 1 || m.Releases[0].Receipt == nil || m.ClaimError != nil {
		t.Fatalf("the answer: %v", m)
	}
	// What is released in the same request is ready again by then.
	if got := m.Claim.GetGrants(); len(got) != 1 || got[0].Task.Id != all[2].String() {
		t.Errorf("granted: %v", got)
	}
	r.audit()

	for through := range 3 {
		r := newTrio(t)
		first, second := r.put(0, 1), r.put(0, 2)
		grants := ask[*nornv1.ClaimReply](r, through, claimUpTo(1)).Grants
		if len(grants) != 1 {
			t.Fatalf("through %d: granted %v", through, grants)
		}
		next := second
		if grants[0].Task.Id == second.String() {
			next = first
		}
		m := ask[*nornv1.WorkReply](r, through, &nornv1.WorkRequest{Completions: completionOf(parse(t, grants[0].Task.Id), grants[0].Token), Claim: claimUpTo(1)})
		if m.Completions[0].GetReceipt().GetDurableCopies() < 2 || len(m.Claim.GetGrants()) != 1 || m.Claim.Grants[0].Task.Id != next.String() {
			t.Errorf("through %d: %v", through, m)
		}
		if n := r.holders(next, m.Claim.Grants[0].Token); n < 2 {
			t.Errorf("through %d: %d nodes hold the claim", through, n)
		}
		m = ask[*nornv1.WorkReply](r, through, &nornv1.WorkRequest{Completions: completionOf(next, m.Claim.Grants[0].Token), Claim: claimUpTo(1)})
		if m.Claim == nil || len(m.Claim.Grants) != 0 || m.ClaimError != nil {
			t.Errorf("through %d, nothing is left: %v", through, m)
		}
	}
}

// TestWorkGoesInOneRound: the copies of what is ended and the claims that are granted leave
// together, before anybody has answered.
func TestWorkGoesInOneRound(t *testing.T) {
	r := newTrio(t)
	for range 3 {
		r.put(0, 1)
	}
	i := r.leader(1)
	g := ask[*nornv1.ClaimReply](r, i, claimUpTo(1)).Grants[0]
	r.send(i, &nornv1.WorkRequest{Completions: completionOf(parse(t, g.Task.Id), g.Token), Claim: claimUpTo(1)})
	facts, claims := 0, 0
	for _, l := range r.post {
		if isFacts(l) {
			facts++
		}
		if isClaims(l) {
			claims++
		}
	}
	if facts != 2 || claims != 2 {
		t.Errorf("%d messages with facts and %d with claims to two others", facts, claims)
	}
}

// TestWorkAsksWhereThereIsSomething: its claim is not asked for at leaders that have just said that
// they have nothing, as each of those is two frames, and nineteen of twenty are asked in vain. News may
// be lost: a second later they are asked all the same.
func TestWorkAsksWhereThereIsSomething(t *testing.T) {
	r := newTrio(t)
	const p = 1
	for range 3 {
		r.put(0, p)
	}
	through := (r.leader(p) + 1) % 3
	grants := ask[*nornv1.ClaimReply](r, through, claimUpTo(3)).Grants
	if len(grants) != 3 || len(ask[*nornv1.ClaimReply](r, through, claimUpTo(1)).Grants) != 0 {
		t.Fatalf("granted %v", grants)
	}
	work := func(n int) (got int, forwards int) {
		g := grants[n]
		from := r.send(through, &nornv1.WorkRequest{Completions: completionOf(parse(t, g.Task.Id), g.Token), Claim: claimUpTo(1)})
		r.settleBut(func(l letter) bool {
			if f, is := l.message.(*message.Forward); is && f.Method == uint16(nornv1.Method_METHOD_CLAIM) {
				forwards++
			}
			return false
		})
		return len(r.peers[through].replies[from].Message.(*nornv1.WorkReply).GetClaim().GetGrants()), forwards
	}
	if got, forwards := work(0); got != 0 || forwards != 0 {
		t.Errorf("nothing is there: granted %d, asked for at %d", got, forwards)
	}
	from := r.enqueue(0, r.at(p), nil)
	r.settleBut(func(l letter) bool { _, news := l.message.(*message.QueueHeads); return news })
	if r.result(0, from).GetReceipt() == nil {
		t.Fatal("not enqueued")
	}
	if got, forwards := work(1); got != 0 || forwards != 0 {
		t.Errorf("the news was lost: granted %d, asked for at %d", got, forwards)
	}
	r.live(time.Second, 100*time.Millisecond, func(l letter) bool { _, news := l.message.(*message.QueueHeads); return news })
	if got, _ := work(2); got != 1 {
		t.Errorf("a second later: granted %d", got)
	}
}

// TestWorkIsNotHeldByItsClaim: what is ended is acknowledged though no majority takes the
// claim; no task is lost by that.
func TestWorkIsNotHeldByItsClaim(t *testing.T) {
	r := newTrio(t)
	for range 2 {
		r.put(0, 1)
	}
	i := r.leader(1)
	g := ask[*nornv1.ClaimReply](r, i, claimUpTo(1)).Grants[0]
	from := r.send(i, &nornv1.WorkRequest{Completions: completionOf(parse(t, g.Task.Id), g.Token), Claim: claimUpTo(1)})
	r.live(lease.Timeout+500*time.Millisecond, 50*time.Millisecond, isClaims)
	reply, ok := r.peers[i].replies[from]
	if !ok || reply.Err != nil {
		t.Fatalf("answered %v: %v", ok, reply.Err)
	}
	m := reply.Message.(*nornv1.WorkReply)
	if m.Completions[0].GetReceipt() == nil || len(m.Claim.GetGrants()) > 0 || m.ClaimError.GetKind() != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
		t.Errorf("the answer: %v", m)
	}
	r.live(5*time.Second, 50*time.Millisecond, nothing)
	if again := ask[*nornv1.ClaimReply](r, i, claimUpTo(2)).Grants; len(again) != 1 {
		t.Errorf("the other task is not handed out: %v", again)
	}
}

// TestWorkOfAConnectionThatCloses: what it was granted on the way is free at once.
func TestWorkOfAConnectionThatCloses(t *testing.T) {
	r := newTrio(t)
	for range 2 {
		r.put(0, 1)
	}
	i := r.leader(1)
	g := ask[*nornv1.ClaimReply](r, i, claimUpTo(1)).Grants[0]
	from := r.send(i, &nornv1.WorkRequest{Completions: completionOf(parse(t, g.Task.Id), g.Token), Claim: claimUpTo(1)})
	r.check(r.peers[i].core.Step(r.now, message.Gone{Conn: from.Conn}))
	r.turn(i)
	r.live(time.Second, 50*time.Millisecond, nothing)
	if s := r.stateOf(i, parse(t, g.Task.Id)); s != nornv1.State_STATE_COMPLETED {
		t.Errorf("what it has ended is %v", s)
	}
	if again := ask[*nornv1.ClaimReply](r, (i+1)%3, claimUpTo(2)).Grants; len(again) != 1 {
		t.Errorf("what it was granted is not free: %v", again)
	}
}

// TestBadWork is refused as a whole, before anything happens; a part that breaks a rule of
// its own bears the error alone.
func TestBadWork(t *testing.T) {
	r := newRig(t)
	r.enqueue(spec("q"), spec("q"))
	g := r.claim("q", 1)[0]
	done := completionOf(parse(t, g.Task.Id), g.Token)
	waits := claimUpTo(1)
	waits.WaitSeconds = 1
	for want, m := range map[string]*nornv1.WorkRequest{
		"ends no task":    {},
		"ask for tasks":   {Claim: claimUpTo(1)},
		"wait with claim": {Completions: done, Claim: waits},
		"limit of 10000":  {Completions: make([]*nornv1.Completion, proto.MaxBatchTasks), Releases: refOf(parse(t, g.Task.Id), g.Token)},
	} {
		if reply := r.ask(m); reply.Err == nil || !strings.Contains(reply.Err.Message, want) {
			t.Errorf("%s: %v", want, reply.Err)
		}
	}
	if got := r.get(parse(t, g.Task.Id)); got.State != nornv1.State_STATE_CLAIMED {
		t.Errorf("a refused request has had an effect: %v", got.State)
	}
	m := must[*nornv1.WorkReply](r, &nornv1.WorkRequest{Completions: done, Claim: &nornv1.ClaimRequest{Queues: []string{"not a queue"}}})
	if m.Completions[0].GetReceipt() == nil || m.ClaimError.GetKind() != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
		t.Errorf("a bad claim beside a good completion: %v", m)
	}
	m = must[*nornv1.WorkReply](r, &nornv1.WorkRequest{Completions: completionOf(id.ID{}, 1), Claim: claimUpTo(1)})
	if m.Completions[0].GetError() == nil || len(m.Claim.GetGrants()) != 1 {
		t.Errorf("a bad completion beside a good claim: %v", m)
	}
}
