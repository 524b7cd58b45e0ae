package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/dispatch"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// asking is a claim request of a client process that tells which of its requests
// got no answer.
func asking(number uint64, unanswered ...uint64) *nornv1.ClaimRequest {
	m := claimUpTo(1)
	m.Session, m.RequestNo, m.Unanswered = []byte("0123456789abcdef"), number, unanswered
	return m
}

// got gives the tasks of an answer, none while there is none.
func (r *trio) got(i int, from message.Origin) (all []*nornv1.Grant) {
	all, _ = r.granted(i, from)
	return all
}

// TestAGrantThatDiedWithItsNodeIsFreedAtOnce: whoever granted it, and whoever was
// to pass it on, its client asks again through another node and has the task at
// once, under a higher token, or as soon as there is a leader; not after the lease.
func TestAGrantThatDiedWithItsNodeIsFreedAtOnce(t *testing.T) {
	for _, where := range []string{"its leader dies", "the node between dies", "its leader is elected anew first", "its worker only lost the connection"} {
		r := newTrio(t)
		task, leader := r.put(0, 1), r.leader(1)
		dead, via := leader, (leader+1)%3
		if where == "the node between dies" {
			dead, via = (leader+1)%3, (leader+2)%3
		}
		lost := r.send(dead, asking(7))
		r.settle()
		first := r.got(dead, lost) // which nobody hears of
		if len(first) != 1 {
			t.Fatalf("%s: granted %v", where, first)
		}
		switch where {
		case "its leader is elected anew first":
			r.kill(dead)
			r.elect()
		case "its worker only lost the connection":
			r.check(r.peers[dead].core.Step(r.now, message.Gone{Conn: 1}))
		default:
			r.kill(dead)
		}
		began := r.now.Mono
		m := asking(8, 7)
		m.WaitSeconds = 20
		again := r.send(via, m)
		r.settle()
		if where == "its leader dies" {
			r.elect()
		}
		for range 100 {
			if len(r.got(via, again)) > 0 {
				break
			}
			if reply, is := r.peers[via].replies[again]; is && reply.Err != nil { // it went to who has died: the client repeats it, and names it
				m = asking(m.RequestNo+1, 7, m.RequestNo)
				m.WaitSeconds = 20
				again = r.send(via, m)
			}
			r.live(50*time.Millisecond, 50*time.Millisecond, nothing)
		}
		grants := r.got(via, again)
		if took := time.Duration(r.now.Mono - began); len(grants) != 1 || parse(t, grants[0].Task.Id) != task || grants[0].Token <= first[0].Token || took > 2*time.Second {
			t.Fatalf("%s: after %v it has %v; it had token %d before", where, took, grants, first[0].Token)
		}
		if n := grants[0].Task.Attempts; n > 1 {
			t.Errorf("%s: a grant that nobody has heard of is counted as an attempt: %d", where, n)
		}
		r.audit()
	}
}

// TestALateCopyOfARequestGivenUp: of the request itself it is granted nothing, and
// one that gives up others takes nothing away that was granted since.
func TestALateCopyOfARequestGivenUp(t *testing.T) {
	r := newTrio(t)
	r.put(0, 1)
	leader := r.leader(1)
	for i := range r.peers {
		r.send(i, asking(7))
		r.settle()
		held := ask[*nornv1.ClaimReply](r, (i+1)%3, asking(9, 7, 8)).Grants
		if len(held) != 1 {
			t.Fatalf("the third attempt is granted %v", held)
		}
		for j := range r.peers {
			for _, late := range []*nornv1.ClaimRequest{asking(7), asking(8, 7)} {
				from := r.send(j, late)
				r.settle()
				if reply := r.peers[j].replies[from]; reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_CANCELLED {
					t.Fatalf("a late copy of request %d is answered with %v", late.RequestNo, reply)
				}
			}
		}
		r.live(2*time.Second, 100*time.Millisecond, nothing)
		// Also when nobody remembers any more.
		for _, p := range r.peers {
			p.core.dispatch.DropAbandoned()
		}
		for j := range r.peers {
			if grants := ask[*nornv1.ClaimReply](r, j, asking(8, 7)).Grants; len(grants) != 0 {
				t.Fatalf("a late copy of the second attempt has %v, which the third one has", grants)
			}
		}
		res := ask[*nornv1.RenewReply](r, leader, &nornv1.RenewRequest{Claims: refOf(parse(t, held[0].Task.Id), held[0].Token)}).Results[0]
		if res.Error != nil {
			t.Fatalf("the third attempt's claim is lost: %v", res.Error)
		}
		ask[*nornv1.WriteReply](r, leader, &nornv1.ReleaseRequest{Claims: refOf(parse(t, held[0].Task.Id), held[0].Token)})
		for _, p := range r.peers {
			p.core.dispatch.DropAbandoned()
		}
	}
	r.audit()
}

// TestOnlyWhatIsNamedIsFreed: neither another request's claims nor another
// client's, nor those pushed to a worker's session.
func TestOnlyWhatIsNamedIsFreed(t *testing.T) {
	r := newTrio(t)
	for p := range ring.Partition(4) {
		r.put(0, p)
	}
	mine := ask[*nornv1.ClaimReply](r, 0, asking(7)).Grants[0]
	other := asking(7)
	other.Session = []byte("another process.")
	theirs := ask[*nornv1.ClaimReply](r, 1, other).Grants[0]
	ask[*nornv1.ClaimReply](r, 2, asking(9, 8, 6))
	word := &message.AbandonClaims{Asks: []message.AskKey{{Request: 7}, {Session: [16]byte([]byte("0123456789abcdef")), Request: convert.PushedAsk}}}
	for i := range r.peers {
		r.say((i+1)%3, i, word)
		if n := r.peers[i].core.dispatch.Held().Abandoned; n != 2 {
			t.Errorf("node %d knows %d, not the two requests that were named", i+1, n)
		}
	}
	r.settle()
	for _, g := range []*nornv1.Grant{mine, theirs} {
		res := ask[*nornv1.RenewReply](r, 0, &nornv1.RenewRequest{Claims: refOf(parse(t, g.Task.Id), g.Token)}).Results[0]
		if res.Error != nil {
			t.Errorf("a claim is gone: %v", res.Error)
		}
	}
}

// TestAMinoritysGrantOfARequestGivenUp: the leader does not know the claim, which a
// leader before it has brought to one member only; it hears of it when that member
// refuses another one, and has it released.
func TestAMinoritysGrantOfARequestGivenUp(t *testing.T) {
	r := newTrio(t)
	task, leader := r.put(0, 1), r.leader(1)
	keeps, epoch := (leader+1)%3, r.state().Cells[1].Epoch
	m := asking(7)
	h := vnode.Held{Task: task, Record: claim.Record{
		Token: epoch<<32 | 99, Session: [16]byte(m.Session), Request: m.RequestNo, Start: r.now.Wall, End: r.now.Add(leaseTime).Wall, Lease: leaseTime, Worker: "w",
	}}
	r.say(leader, keeps, &message.Claims{Round: 1, Parts: []message.PartClaims{{Partition: 1, Epoch: epoch, Claims: vnode.AppendHeld(nil, []vnode.Held{h})}}})
	r.settle()
	if n := r.holders(task, h.Record.Token); n != 1 {
		t.Fatalf("%d hold the claim", n)
	}
	first := asking(8, 7)
	first.Queues = nil
	ask[*nornv1.ClaimReply](r, leader, first)
	grants := ask[*nornv1.ClaimReply](r, leader, asking(9)).Grants
	if len(grants) != 1 || parse(t, grants[0].Task.Id) != task {
		t.Fatalf("granted %v", grants)
	}
	if n := r.holders(task, h.Record.Token); n != 0 {
		t.Fatalf("%d hold the claim that nobody has heard of", n)
	}
	r.audit()
}

// TestARequestMayOnlyGiveUp: without queues it is granted nothing, and what it
// names is free.
func TestARequestMayOnlyGiveUp(t *testing.T) {
	r := newTrio(t)
	task := r.put(0, 1)
	ask[*nornv1.ClaimReply](r, 0, asking(7))
	m := asking(8, 7)
	m.Queues = nil
	if grants := ask[*nornv1.ClaimReply](r, 1, m).Grants; len(grants) != 0 {
		t.Fatalf("granted %v", grants)
	}
	r.settle()
	if grants := ask[*nornv1.ClaimReply](r, 2, claimUpTo(1)).Grants; len(grants) != 1 || parse(t, grants[0].Task.Id) != task {
		t.Fatalf("another one is granted %v", grants)
	}
}

// TestWhoWaitsForARequestGivenUpIsSentAway: a copy that waits, here or on its way
// to another node, is granted nothing when a task comes.
func TestWhoWaitsForARequestGivenUpIsSentAway(t *testing.T) {
	r := newTrio(t)
	for i := range r.peers {
		m := asking(uint64(10 * i))
		m.WaitSeconds = 20
		from := r.send(i, m)
		r.settle()
		only := asking(uint64(10*i+1), uint64(10*i))
		only.Queues = nil
		ask[*nornv1.ClaimReply](r, (i+1)%3, only)
		if reply := r.peers[i].replies[from]; reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_CANCELLED {
			t.Errorf("node %d: %v", i+1, reply)
		}
	}
}

// TestWhatIsSaidOfUnansweredRequestsIsBounded, per request and per node, and
// forgotten after a while.
func TestWhatIsSaidOfUnansweredRequestsIsBounded(t *testing.T) {
	r := newTrio(t)
	many := make([]uint64, proto.MaxUnanswered+1)
	nameless := asking(8, 7)
	nameless.Session = nil
	for _, m := range []*nornv1.ClaimRequest{asking(8, many...), asking(8, 8), asking(8, convert.PushedAsk), nameless} {
		from := r.send(0, m)
		if reply := r.peers[0].replies[from]; reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
			t.Errorf("%d unanswered ones: %v", len(m.Unanswered), reply)
		}
	}
	ask[*nornv1.ClaimReply](r, 0, asking(8, 7))
	told := 0
	r.live(2*dispatch.ToldFor, 100*time.Millisecond, func(l letter) bool {
		if _, ok := l.message.(*message.AbandonClaims); ok {
			told++
		}
		return false
	})
	if told < 4 || told > 2*int(dispatch.ToldFor/dispatch.ToldEvery)+2 {
		t.Errorf("the others were told %d times", told)
	}
	r.live(dispatch.AbandonedFor, time.Second, nothing)
	for i, p := range r.peers {
		if u := p.core.dispatch.Held(); u.Abandoned+u.Told != 0 {
			t.Errorf("node %d remembers %d, %d for ever", i+1, u.Abandoned, u.Told)
		}
	}
}

// TestANodeThatStartsAnewFreesWhatItGranted: alone, too, at the first word.
func TestANodeThatStartsAnewFreesWhatItGranted(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(spec("q"))[0]
	if n := len(must[*nornv1.ClaimReply](r, asking(7)).Grants); n != 1 {
		t.Fatalf("%d grants", n)
	}
	r.crash(0)
	if grants := must[*nornv1.ClaimReply](r, asking(8, 7)).Grants; len(grants) != 1 || parse(t, grants[0].Task.Id) != task {
		t.Fatalf("after a restart: %v", grants)
	}
	r.audit()
}

// TestAGrantThatDiedOnItsWayIsNotPassedOverInSilence: a leader has granted it and died
// before the node that had asked could hear of it. That node went on looking elsewhere
// and answered the request in the end, with nothing or another task: its client had no
// reason to name it, and the task waited for its lease.
func TestAGrantThatDiedOnItsWayIsNotPassedOverInSilence(t *testing.T) {
	for _, wait := range []float64{0, 20} {
		r := newTrio(t)
		task, leader := r.put(0, 1), r.leader(1)
		via := (leader + 1) % 3
		m := asking(7)
		m.WaitSeconds = wait
		from := r.send(via, m)
		for k := 0; k < len(r.post); {
			if _, is := r.post[k].message.(*message.Forwarded); is {
				k++
				continue
			}
			r.deliver(k)
		}
		if len(r.post) != 1 || r.post[0].from != leader {
			t.Fatalf("wait %v: on its way are %d answers", wait, len(r.post))
		}
		r.post = nil
		r.kill(leader)
		r.elect()
		reply, ok := r.peers[via].replies[from]
		if !ok || reply.Err == nil || reply.Err.Effect != nornv1.Effect_EFFECT_UNKNOWN || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
			t.Fatalf("wait %v: answered %t: %v, %v", wait, ok, reply.Message, reply.Err)
		}
		again := r.send(via, asking(8, 7))
		r.live(time.Second, 50*time.Millisecond, nothing)
		if grants := r.got(via, again); len(grants) != 1 || parse(t, grants[0].Task.Id) != task {
			t.Errorf("wait %v: the next request gets %v", wait, grants)
		}
		r.audit()
	}
}

// TestANodeThatIsSlowToAnswerIsAskedAgain: its answer was lost, it is up, and the same
// request gets there what it was granted: its client hears of no failure.
func TestANodeThatIsSlowToAnswerIsAskedAgain(t *testing.T) {
	r := newTrio(t)
	task, leader := r.put(0, 1), r.leader(1)
	via, lost := (leader+1)%3, 0
	m := asking(7)
	m.WaitSeconds = 20
	from := r.send(via, m)
	r.live(2*router.ForwardTimeout, 100*time.Millisecond, func(l letter) bool {
		_, is := l.message.(*message.Forwarded)
		if is {
			lost++
		}
		return is && lost == 1
	})
	if grants := r.got(via, from); lost < 2 || len(grants) != 1 || parse(t, grants[0].Task.Id) != task {
		t.Fatalf("after %d answers: %v", lost, grants)
	}
	r.audit()
}

// TestWhoWasCutOffTellsOfWhatWasGivenUp: a client has told a node of a request without an
// answer that could tell nobody, for longer than it goes on trying. What the request was
// granted by another one is free when they hear each other again.
func TestWhoWasCutOffTellsOfWhatWasGivenUp(t *testing.T) {
	r := newTrio(t)
	r.put(0, 1)
	leader := r.leader(1)
	via := (leader + 1) % 3
	lost := r.send(via, asking(7))
	r.settleBut(func(l letter) bool { _, is := l.message.(*message.Forwarded); return is })
	for i := range r.peers {
		r.cut[[2]int{via, i}], r.cut[[2]int{i, via}] = true, true
	}
	r.live(time.Second, 50*time.Millisecond, nothing)
	if reply, is := r.peers[via].replies[lost]; !is || reply.Err == nil || reply.Err.Effect != nornv1.Effect_EFFECT_UNKNOWN {
		t.Fatalf("the answer that got lost: %t, %+v", is, reply)
	}
	r.send(via, asking(8, 7)) // and never again
	r.live(2*dispatch.ToldFor, 100*time.Millisecond, nothing)
	if r.peers[leader].core.vnodes.See(1).Claimed() != 1 {
		t.Fatal("it is free already")
	}
	clear(r.cut)
	r.live(time.Second, 100*time.Millisecond, nothing)
	if r.peers[leader].core.vnodes.See(1).Claimed() != 0 {
		t.Error("it is still claimed a second after the networks are whole")
	}
}
