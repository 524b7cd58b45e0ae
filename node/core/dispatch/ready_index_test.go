package dispatch

import (
	"testing"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/vnode"
)

// A claim request came twice. One copy was granted something by another leader,
// whose claims are kept here too; the other one something by this leader, twice:
// one of the answers was heard. That the other leader's claim ends must not make
// the second answer the last one.
func TestTheEndOfAnotherLeadersClaimIsNoneOfOurs(t *testing.T) {
	d := newIndex()
	ask := message.AskKey{Session: [16]byte{1}, Request: 8}
	ours := message.GrantRef{Partition: 1, Task: id.ID{1}, Token: 9<<32 | 1, Ask: ask}
	d.remember(ours)
	dropped, heard := []message.GrantRef{ours}, []message.GrantRef{ours}
	d.answered(ask, dropped)
	d.answered(ask, heard)
	d.OnEnd(id.ID{2}, &claim.Record{Token: 16<<32 | 2, Session: ask.Session, Request: ask.Request})
	if d.unheard(dropped[0]) {
		t.Fatal("the claim is taken back, and a worker has heard of it")
	}
	if got := d.granted(&claimRequest{ask: vnode.Ask{Session: ask.Session, Request: ask.Request}}); len(got) != 1 {
		t.Fatalf("the request gets %v when it comes again, not the claim that holds", got)
	}
	d.OnEnd(ours.Task, &claim.Record{Token: ours.Token, Session: ask.Session, Request: ask.Request})
	if len(d.asked) != 0 {
		t.Fatal("what is over is remembered")
	}
}

// What was taken back before it has ended here is forgotten, and ends nothing
// else of its request.
func TestWhatWasTakenBackIsForgotten(t *testing.T) {
	d := newIndex()
	ask := message.AskKey{Session: [16]byte{1}, Request: 8}
	a, b := message.GrantRef{Task: id.ID{1}, Token: 1, Ask: ask}, message.GrantRef{Task: id.ID{2}, Token: 2, Ask: ask}
	d.remember(a)
	d.remember(b)
	b.By, a.Answer = register.Member{Node: "n2"}, 7 // as it comes back
	d.Forget(a)
	d.OnEnd(a.Task, &claim.Record{Token: a.Token, Session: ask.Session, Request: ask.Request})
	if len(d.asked) != 1 {
		t.Fatal("the other grant was forgotten too")
	}
	d.Forget(b)
	if len(d.asked) != 0 {
		t.Fatal("it is remembered for ever")
	}
}

// TestTwoRequestsOfOneNumber: one goes, and the other one can still be found.
func TestTwoRequestsOfOneNumber(t *testing.T) {
	d := newIndex()
	one, two := &claimRequest{from: message.Origin{Conn: 1, Request: 5}}, &claimRequest{from: message.Origin{Conn: 1, Request: 5}}
	d.park(one)
	d.park(two)
	if d.drop(one); d.byConn[1][5] != two {
		t.Error("the second one is lost")
	}
}

// TestWhatIsOverCountsOnce: a claim that has ended and is then taken back, and one with the same
// task that another leader has granted.
func TestWhatIsOverCountsOnce(t *testing.T) {
	d := newIndex()
	ask := message.AskKey{Session: [16]byte{1}, Request: 8}
	a, b := message.GrantRef{Task: id.ID{1}, Token: 9<<32 | 1, Ask: ask}, message.GrantRef{Task: id.ID{2}, Token: 9<<32 | 2, Ask: ask}
	d.remember(a)
	d.remember(b)
	ends := func(g message.GrantRef) {
		d.OnEnd(g.Task, &claim.Record{Token: g.Token, Session: ask.Session, Request: ask.Request})
	}
	ends(a)
	if d.Forget(a); len(d.asked) != 1 {
		t.Fatal("what is over counts twice: the other one is forgotten")
	}
	ends(message.GrantRef{Task: b.Task, Token: 8<<32 | 5})
	if len(d.asked) != 1 {
		t.Fatal("the end of another leader's claim counts")
	}
	if ends(b); len(d.asked) != 0 {
		t.Error("it is remembered for ever")
	}
}
