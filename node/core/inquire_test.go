package core

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/dispatch"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

func claimOf(queues ...string) *nornv1.ClaimRequest {
	return &nornv1.ClaimRequest{Queues: queues, MaxTasks: 1, LeaseSeconds: 300}
}

func asks(l letter) bool {
	m, is := l.message.(*message.QueueHeads)
	return is && slices.ContainsFunc(m.Heads, func(h message.QueueHead) bool { return h.Asks })
}

func heads(l letter) bool { _, is := l.message.(*message.QueueHeads); return is }

// TestTheFirstClaimsPassNothingOver: where nobody had asked for a queue for a while nothing
// was known of the other leaders' tasks, and requests were granted the best of the node that
// they came to: of two leaders' tasks it was the worse one in half of all cases.
func TestTheFirstClaimsPassNothingOver(t *testing.T) {
	for _, wait := range []float64{0, 10} {
		for at := range 3 {
			t.Run(fmt.Sprintf("through node %d, waiting for %v s", at+1, wait), func(t *testing.T) {
				r := newTrio(t).spread()
				claim := claimOf("q")
				claim.WaitSeconds = wait
				for range 4 {
					var order []string
					for _, p := range []ring.Partition{1, 2, 0, 2, 1} {
						order = append(order, r.put(0, p).String())
						r.now = r.now.Add(time.Millisecond)
					}
					for n, task := range order {
						grants := ask[*nornv1.ClaimReply](r, at, claim).Grants
						if len(grants) != 1 || grants[0].Task.Id != task {
							t.Errorf("request %d is granted %v, not %s", n, grants, task)
						}
						r.live(dispatch.OldNews+time.Second, time.Second, nothing) // nobody asks
					}
				}
			})
		}
	}
}

// TestManyFirstClaimsAtOnce: all that come before anything is known are granted what is best
// over all nodes, and ask each of the others once.
func TestManyFirstClaimsAtOnce(t *testing.T) {
	r := newTrio(t).spread()
	order := make(map[string]int)
	for _, p := range []ring.Partition{1, 2, 0} {
		for range 40 {
			order[r.put(0, p).String()] = len(order)
		}
	}
	var asked []message.Origin
	for range 20 {
		asked = append(asked, r.send(0, claimOf("q")))
	}
	n := 0
	for _, l := range r.post {
		if asks(l) {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d questions", n)
	}
	r.live(100*time.Millisecond, 10*time.Millisecond, nothing)
	for _, from := range asked {
		if got := r.got(0, from); len(got) != 1 || order[got[0].Task.Id] >= 40 {
			t.Errorf("granted %v, of %d", got, order[got[0].Task.Id])
		}
	}
}

// TestASilentLeaderHoldsClaimsUpOnce: what is here is granted after a moment all the same, and
// the next requests do not wait for it.
func TestASilentLeaderHoldsClaimsUpOnce(t *testing.T) {
	r := newTrio(t).spread()
	r.put(0, 1)
	for range 3 {
		r.put(0, 0)
	}
	first, second := r.send(0, claimOf("q")), r.send(0, claimOf("q"))
	r.live(dispatch.InquiryFor-10*time.Millisecond, 10*time.Millisecond, heads)
	if len(r.got(0, first))+len(r.got(0, second)) != 0 {
		t.Fatal("granted before the others can have answered")
	}
	r.live(20*time.Millisecond, 10*time.Millisecond, heads)
	if len(r.got(0, first)) != 1 || len(r.got(0, second)) != 1 {
		t.Fatal("nothing is granted while others are silent")
	}
	third := r.send(0, claimOf("q"))
	r.settleBut(heads)
	if len(r.got(0, third)) != 1 {
		t.Fatal("the next request waits for those who are silent, too")
	}
	if _, mono := r.peers[0].core.wake(); mono <= r.now.Mono {
		t.Fatal("the node is awake for nothing")
	}
}

// TestAClaimWithADeadlineIsHeldForHalfOfIt: it is to be granted what is here before its client
// has given up.
func TestAClaimWithADeadlineIsHeldForHalfOfIt(t *testing.T) {
	r := newTrio(t).spread()
	r.put(0, 1)
	r.put(0, 0)
	from := message.Origin{Conn: 1, Request: 1 << 40, Method: requestMethod(claimOf("q"))}
	r.check(r.peers[0].core.Step(r.clock(0), &message.Request{From: from, Body: claimOf("q"), Received: r.now.Mono, Deadline: r.now.Mono + int64(100*time.Millisecond)}))
	r.turn(0)
	r.live(60*time.Millisecond, 10*time.Millisecond, heads)
	if len(r.got(0, from)) != 1 {
		t.Fatal("nothing is granted")
	}
}

// TestHeldClaimsEndOnce: one that waits for what others say is answered when it is cancelled or
// the node stops, and forgotten with its connection.
func TestHeldClaimsEndOnce(t *testing.T) {
	for name, c := range map[string]struct {
		event func(from message.Origin) any
		kind  nornv1.ErrorKind
	}{
		"cancelled":       {func(from message.Origin) any { return message.Cancel{From: from} }, nornv1.ErrorKind_ERROR_KIND_CANCELLED},
		"the node stops":  {func(message.Origin) any { return message.Drain{} }, nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE},
		"its client goes": {func(from message.Origin) any { return message.Gone{Conn: from.Conn} }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrio(t).spread()
			r.put(0, 1)
			task := r.put(0, 0)
			from := r.send(0, claimOf("q"))
			r.check(r.peers[0].core.Step(r.clock(0), c.event(from)))
			r.turn(0)
			r.live(time.Second, 10*time.Millisecond, nothing)
			switch reply, ok := r.peers[0].replies[from]; {
			case ok != (c.kind != 0):
				t.Errorf("answered: %v", ok)
			case ok && (reply.Err == nil || reply.Err.Kind != c.kind):
				t.Errorf("answered with %v, %v", reply.Message, reply.Err)
			}
			if n := r.peers[0].core.dispatch.Held().Probes; n != 0 {
				t.Errorf("%d are held", n)
			}
			if got := ask[*nornv1.GetReply](r, 1, &nornv1.GetRequest{Id: task.Bytes()}).Task; got.State != nornv1.State_STATE_READY {
				t.Errorf("the task is %v", got.State)
			}
		})
	}
}

// TestHeldClaimsAreLimited: more, or one of very many queues, are served as things are known.
func TestHeldClaimsAreLimited(t *testing.T) {
	r := newTrio(t).spread()
	r.put(0, 1)
	var queues []string
	for i := range dispatch.MaxInquiries/2 + 1 {
		queues = append(queues, fmt.Sprint("p", i))
	}
	r.send(0, claimOf(queues...))
	if n := r.peers[0].core.dispatch.Held().Probes; n != 0 {
		t.Errorf("a request for %d queues is held", len(queues))
	}
	for range dispatch.MaxProbes + 10 {
		r.send(0, claimOf("q"))
	}
	if n := r.peers[0].core.dispatch.Held().Probes; n != dispatch.MaxProbes {
		t.Errorf("%d are held", n)
	}
	if proto.MaxClaimQueues < len(queues) {
		t.Error("no client may name so many")
	}
}

// TestNothingIsInquiredWithoutAChoice: a request that only one place may have something for
// goes there at once.
func TestNothingIsInquiredWithoutAChoice(t *testing.T) {
	r := newTrio(t).spread()
	from := claimOf("q")
	from.WaitSeconds = 60
	r.send(0, from) // both others say that they have nothing
	r.live(time.Second, 10*time.Millisecond, nothing)
	r.post = nil
	r.live(10*time.Second, time.Second, nothing)
	r.send(0, claimOf("q"))
	if slices.ContainsFunc(r.post, asks) {
		t.Error("who said that there is nothing is asked again")
	}
	r.settle()
	r.put(0, 0)
	r.send(0, claimOf("q"))
	if slices.ContainsFunc(r.post, asks) {
		t.Error("who said that there is nothing is asked though there is something here")
	}
}
