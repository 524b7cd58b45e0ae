package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/operator"
	"github.com/norn-dev/norn/placement"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store/memstore"
	"github.com/norn-dev/norn/vnode"
)

// newAdmins is a cluster of so many nodes with something in every partition.
func newAdmins(t testing.TB, nodes int) *trio {
	r := newGrowing(t)
	r.leads = 0
	r.fill()
	for range nodes - 1 {
		r.join()
	}
	r.run(min(nodes, 3))
	r.tell()
	return r
}

// admin asks through a node.
func (r *trio) admin(i int, m *nornv1.ClusterRequest) (*nornv1.ClusterReply, *proto.Error) {
	r.t.Helper()
	from := r.send(i, m)
	r.settle()
	reply, ok := r.peers[i].replies[from]
	if !ok {
		r.t.Fatalf("no answer to %v", m)
	}
	if reply.Err != nil {
		return nil, reply.Err
	}
	return reply.Message.(*nornv1.ClusterReply), nil
}

// does wants a change, refuses an error with some text.
func (r *trio) does(i int, m *nornv1.ClusterRequest) *nornv1.ClusterReply {
	r.t.Helper()
	reply, err := r.admin(i, m)
	if err != nil || !reply.Changed {
		r.t.Fatalf("%v: %v, %v", m, reply, err)
	}
	r.tell()
	return reply
}

func (r *trio) refuses(i int, kind nornv1.ErrorKind, text string, m *nornv1.ClusterRequest) {
	r.t.Helper()
	r.settle() // what is on its way may change something
	before := r.state().Revision
	reply, err := r.admin(i, m)
	if err == nil || err.Kind != kind || !strings.Contains(err.Message, text) {
		r.t.Errorf("%v: %v, %v, not %v with %q", m, reply, err, kind, text)
	}
	if r.state().Revision != before {
		r.t.Errorf("%v: refused, and it has changed something", m)
	}
}

func leave(node string) *nornv1.ClusterRequest {
	return &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_Leave{Leave: &nornv1.LeaveNode{Node: node}}}
}

func stay(node string) *nornv1.ClusterRequest {
	return &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_Leave{Leave: &nornv1.LeaveNode{Node: node, Stay: true}}}
}

func remove(node string, force bool) *nornv1.ClusterRequest {
	return &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_Remove{Remove: &nornv1.RemoveNode{Node: node, Force: force}}}
}

func replace(old, fresh string) *nornv1.ClusterRequest {
	return &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_Replace{Replace: &nornv1.ReplaceNode{Old: old, New: fresh}}}
}

func rebalance(fresh bool) *nornv1.ClusterRequest {
	return &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_Rebalance{Rebalance: &nornv1.Rebalance{Fresh: fresh}}}
}

func acceptLoss(nodes ...string) *nornv1.ClusterRequest {
	return &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_AcceptLoss{AcceptLoss: &nornv1.AcceptLoss{Nodes: nodes}}}
}

func dry(m *nornv1.ClusterRequest) *nornv1.ClusterRequest {
	m.DryRun = true
	return m
}

func (r *trio) status1(i int) register.NodeStatus {
	n, _ := r.state().Find(r.peers[i].self)
	return n.Status
}

const (
	isConflict = nornv1.ErrorKind_ERROR_KIND_CONFLICT
	isMissing  = nornv1.ErrorKind_ERROR_KIND_NOT_FOUND
	isInvalid  = nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT
)

// TestTheLastNodeStays: whatever it is told.
func TestTheLastNodeStays(t *testing.T) {
	r := newGrowing(t)
	r.refuses(0, isConflict, "last member", leave("n1"))
	r.refuses(0, isConflict, "last member", remove("n1", true))
	r.refuses(0, isMissing, "no node n2", leave("n2"))
	r.refuses(0, isInvalid, "name of a node", leave(""))
	r.refuses(0, isInvalid, "asks for nothing", &nornv1.ClusterRequest{})
	r = newAdmins(t, 2)
	r.does(0, leave("n1"))
	r.refuses(1, isConflict, "last member", leave("n2"))
	r.refuses(1, isConflict, "last member", remove("n2", true))
}

// TestANodeLeaves: by its name or its incarnation, through any node, and it is
// removed once the others have everything.
func TestANodeLeaves(t *testing.T) {
	r := newAdmins(t, 4)
	would := r.does(0, dry(leave("n4")))
	if would.Copies == 0 || r.status1(3) != register.Active {
		t.Fatalf("would: %v", would)
	}
	did := r.does(1, leave(r.peers[3].self.Incarnation.String()))
	if did.Copies != would.Copies || !slices.Equal(did.Nodes, []string{"n4"}) || r.status1(3) != register.Leaving {
		t.Fatalf("did: %v", did)
	}
	if again, err := r.admin(2, leave("n4")); err != nil || again.Changed || !strings.Contains(again.Notes[0], "already") {
		t.Errorf("again: %v, %v", again, err)
	}
	for range 12 { // the driver alone would take half a minute
		r.pass(time.Second)
		r.tell()
		r.settle()
	}
	if r.status1(3) != register.Removed || !vnode.Empty(r.peers[3].store, 0) {
		t.Fatalf("it is %v", r.status1(3))
	}
	if late, err := r.admin(2, leave("n4")); err != nil || late.Changed || !strings.Contains(late.Notes[0], "has left") {
		t.Errorf("late: %v, %v", late, err)
	}
	r.refuses(0, isConflict, "removed already", stay("n4"))
	r.run(3)
}

// TestANodeThatLeavesMayStay, and one more that is told how few are left.
func TestANodeThatLeavesMayStay(t *testing.T) {
	r := newAdmins(t, 3)
	if did := r.does(0, leave("n3")); len(did.Notes) != 2 || !strings.Contains(did.Notes[1], "2 copies, not 3") || did.Copies != 0 {
		t.Errorf("leaves: %v", did)
	}
	r.does(0, stay("n3"))
	if r.status1(2) != register.Active {
		t.Fatal("it does not stay")
	}
	if again, err := r.admin(0, stay("n3")); err != nil || again.Changed {
		t.Errorf("again: %v, %v", again, err)
	}
	r.run(3)
	r.kill(2)
	r.tell()
	r.refuses(0, isConflict, "not in reach", leave("n3"))
}

// TestADeadNodeIsRemoved, a living one only by force, and one without which
// partitions are stuck neither.
func TestADeadNodeIsRemoved(t *testing.T) {
	r := newAdmins(t, 5)
	r.refuses(0, isConflict, "norn cluster leave n5", remove("n5", false))
	r.kill(4)
	r.tell()
	if did := r.does(0, remove("n5", false)); did.Copies == 0 || r.status1(4) != register.Removed {
		t.Fatalf("did: %v", did)
	}
	if again, err := r.admin(0, remove("n5", false)); err != nil || again.Changed {
		t.Errorf("again: %v, %v", again, err)
	}
	r.run(3)
	r.kill(2)
	r.kill(3)
	r.tell()
	r.does(0, remove("n4", false))
	r.refuses(0, isConflict, "too few copies", remove("n3", false))
	did := r.does(0, remove("n3", true))
	if len(did.Partitions) == 0 || !strings.Contains(strings.Join(did.Notes, "\n"), "norn cluster recover") {
		t.Errorf("by force: %v", did)
	}
	if r.status1(2) != register.Removed {
		t.Error("it is not removed")
	}
}

// TestAJoiningNodeIsWithdrawn: it owns nothing, so it is out at once.
func TestAJoiningNodeIsWithdrawn(t *testing.T) {
	r := newGrowing(t)
	r.peers = append(r.peers, &peer{self: register.Member{Node: "n2", Incarnation: register.Incarnation{2}}, store: memstore.New(), replies: map[message.Origin]message.Reply{}})
	r.open(1)
	r.set(r.peers[1].self, register.Joining)
	r.tell()
	if did := r.does(0, leave("n2")); !strings.Contains(did.Notes[0], "is withdrawn") {
		t.Errorf("got %v", did)
	}
	for range 60 {
		r.pass(time.Second)
		r.tell()
		r.settle()
	}
	if s := r.status1(1); s != register.Removed {
		t.Errorf("it is %v", s)
	}
}

// TestAJoiningNodeIsRemoved: it owns nothing, so it does not resist.
func TestAJoiningNodeIsRemoved(t *testing.T) {
	r := newGrowing(t)
	r.peers = append(r.peers, &peer{self: register.Member{Node: "n2", Incarnation: register.Incarnation{2}}, store: memstore.New(), replies: map[message.Origin]message.Reply{}})
	r.open(1)
	r.set(r.peers[1].self, register.Joining)
	r.tell()
	if n := nodeOf(r.status(0), "n2"); n.GetState() != "joining" || !n.Alive {
		t.Errorf("got %v", n)
	}
	if r.does(0, remove("n2", false)); r.status1(1) != register.Removed {
		t.Errorf("it is %v", r.status1(1))
	}
}

// TestLossIsAccepted: partitions of which too few holders are left go on with
// what there is, when an operator says so.
func TestLossIsAccepted(t *testing.T) {
	r := newAdmins(t, 3)
	if none, err := r.admin(0, acceptLoss()); err != nil || none.Changed || len(none.Partitions) != 0 {
		t.Fatalf("nothing is lost: %v, %v", none, err)
	}
	r.kill(1)
	r.kill(2)
	r.tell()
	if none, err := r.admin(0, acceptLoss()); err != nil || none.Changed || !strings.Contains(none.Notes[0], "n2, n3 cannot be reached") {
		t.Fatalf("nothing was removed: %v, %v", none, err)
	}
	r.refuses(0, isConflict, "norn cluster remove n2", acceptLoss("n2"))
	r.does(0, remove("n2", false))
	r.does(0, remove("n3", true))
	r.join()
	r.tell()
	for range 60 {
		r.pass(time.Second)
		r.tell()
		r.settle()
	}
	if s := r.status(0); s.Movement.Stuck != testPartitions || s.Movement.CopiesLeft == 0 {
		t.Fatalf("it is not stuck: %v", s.Movement)
	}
	would := r.does(0, dry(acceptLoss()))
	if len(would.Partitions) != testPartitions || !slices.Equal(would.Nodes, []string{"n2", "n3"}) || r.state().Values[placement.LostValue].Version != 0 {
		t.Fatalf("would: %v", would)
	}
	did := r.does(0, acceptLoss())
	if !slices.Equal(did.Nodes, would.Nodes) || r.state().Values[placement.LostValue].Version != 1 {
		t.Fatalf("did: %v", did)
	}
	r.run(2)
	if n := ask[*nornv1.CountReply](r, 3, &nornv1.CountRequest{}).Total.Total; n != 50 {
		t.Errorf("%d tasks", n)
	}
	if again, err := r.admin(0, acceptLoss()); err != nil || again.Changed {
		t.Errorf("again: %v, %v", again, err)
	}
}

// TestADeadNodeIsReplaced: by a member that has its share, and by one that holds
// nothing yet, partition by partition.
func TestADeadNodeIsReplaced(t *testing.T) {
	r := newAdmins(t, 4)
	r.refuses(0, isInvalid, "cannot replace itself", replace("n3", "n3"))
	r.refuses(0, isMissing, "no node n9", replace("n3", "n9"))
	r.refuses(0, isConflict, "in reach", replace("n3", "n4"))
	r.kill(2)
	r.tell()
	r.refuses(0, isConflict, "not in reach", replace("n2", "n3"))
	did := r.does(0, replace("n3", "n4"))
	if r.status1(2) != register.Removed || did.Copies == 0 || !strings.Contains(strings.Join(did.Notes, "\n"), "spread over all nodes by their shares, n4 among them") {
		t.Errorf("did: %v", did)
	}
	r.run(3)
	r.refuses(0, isConflict, "is removed, not a member", replace("n2", "n3"))

	r = newAdmins(t, 3)
	r.leads = -1 // nobody plans
	r.tell()
	r.join()
	r.kill(1)
	r.tell()
	before := placement.See(*r.state(), nil)
	did = r.does(0, replace("n2", "n4"))
	after := placement.See(*r.state(), nil)
	if did.Copies != testPartitions || r.status1(1) != register.Removed {
		t.Fatalf("did: %v", did)
	}
	for p := range testPartitions {
		was, is := before.Planned(ring.Partition(p)), after.Planned(ring.Partition(p))
		if slices.Contains(is, r.peers[1].self) || !slices.Contains(is, r.peers[3].self) || len(was) != len(is) {
			t.Errorf("partition %d: %v, then %v", p, was, is)
		}
	}
	r.leads = 0
	r.run(3)
}

// TestRebalance: nothing to do where all is as planned; from nothing it moves
// much, and lasts.
func TestRebalance(t *testing.T) {
	r := newAdmins(t, 5)
	if none, err := r.admin(3, rebalance(false)); err != nil || none.Changed || none.Copies != 0 {
		t.Fatalf("nothing to do: %v, %v", none, err)
	}
	would := r.does(3, dry(rebalance(true)))
	before := r.state().Plan
	if would.Copies == 0 || len(would.Partitions) == 0 {
		t.Fatalf("would: %v", would)
	}
	did := r.does(3, rebalance(true))
	if did.Copies != would.Copies || r.state().Plan.Version != before.Version+1 {
		t.Fatalf("did: %v, plan %d", did, r.state().Plan.Version)
	}
	r.run(3)
	if v := r.state().Plan.Version; v != before.Version+1 {
		t.Errorf("the plan did not last: version %d after %d", v, before.Version)
	}
	if s := r.status(0); s.Movement.CopiesLeft+s.Movement.HandoversLeft != 0 {
		t.Errorf("left to move: %v", s.Movement)
	}
}

// TestSomebodyElseWasFirst: the change is worked out anew from what they wrote,
// and given up when that never ends.
func TestSomebodyElseWasFirst(t *testing.T) {
	for _, times := range []int{1, 3, 100} {
		r := newAdmins(t, 3)
		p, n := r.peers[0].core, 0
		from := message.Origin{Conn: 1, Request: 1 << 20}
		r.check(p.Step(r.now, &message.Request{From: from, Body: leave("n3"), Received: r.now.Mono}))
		for p != nil {
			ready, err := p.Ready(r.now)
			r.check(err)
			if len(ready.Replies) > 0 {
				reply := ready.Replies[0]
				if late := times > operator.MaxDecides; late != (reply.Err != nil) || late != (r.status1(2) == register.Active) {
					t.Errorf("%d times: %v, %v", times, reply.Err, r.status1(2))
				}
				break
			}
			for _, req := range ready.Register {
				if len(req.Nodes) > 0 && n < times {
					n++
					r.touch(r.peers[2].self)
				}
				r.register.Do(req, func(res register.Result) { r.check(p.Step(r.now, message.Registered{Result: res})) })
			}
		}
		if n != min(times, operator.MaxDecides) {
			t.Errorf("%d attempts after %d changes of others", n, times)
		}
	}
}

// TestAPlanOfSomebodyElseWasFirst: the node is removed, and the one that was to take its
// place is told to, although the plan had changed meanwhile.
func TestAPlanOfSomebodyElseWasFirst(t *testing.T) {
	r := newAdmins(t, 3)
	r.leads = -1 // nobody plans
	r.tell()
	r.join()
	r.kill(1)
	r.tell()
	p, touched := r.peers[0].core, false
	var reply *message.Reply
	r.check(p.Step(r.now, &message.Request{From: message.Origin{Conn: 1, Request: 1 << 20}, Body: replace("n2", "n4"), Received: r.now.Mono}))
	for reply == nil {
		ready, err := p.Ready(r.now)
		r.check(err)
		if len(ready.Replies) > 0 {
			reply = &ready.Replies[0]
		}
		for _, req := range ready.Register {
			if req.Plan != nil && !touched {
				touched = true
				now := r.state().Plan
				r.register.Do(register.Request{Plan: &register.PlanChange{Old: now.Version, Data: now.Data}}, func(register.Result) {})
			}
			r.register.Do(req, func(res register.Result) { r.check(p.Step(r.now, message.Registered{Result: res})) })
		}
	}
	if reply.Err != nil || !reply.Message.(*nornv1.ClusterReply).GetChanged() || !touched || r.status1(1) != register.Removed {
		t.Fatalf("%v, touched %v, n2 is %v", reply, touched, r.status1(1))
	}
	after := placement.See(*r.state(), nil)
	for p := range testPartitions {
		if is := after.Planned(ring.Partition(p)); slices.Contains(is, r.peers[1].self) || !slices.Contains(is, r.peers[3].self) {
			t.Errorf("partition %d is planned on %v", p, is)
		}
	}
}

// touch writes a node's record as it is.
func (r *trio) touch(m register.Member) {
	n, _ := r.state().Find(m)
	r.register.Do(register.Request{Nodes: []register.NodeChange{{Old: n.Version, New: n}}}, func(register.Result) {})
}

// TestWithoutTheRegister: before anything was asked for nothing has changed;
// afterwards nobody knows.
func TestWithoutTheRegister(t *testing.T) {
	for fails, want := range []nornv1.Effect{nornv1.Effect_EFFECT_NONE, nornv1.Effect_EFFECT_UNKNOWN} {
		r := newAdmins(t, 3)
		p := r.peers[0].core
		from := message.Origin{Conn: 1, Request: 1 << 20}
		r.check(p.Step(r.now, &message.Request{From: from, Body: leave("n3"), Received: r.now.Mono}))
		answered := false
		for n := 0; !answered && n < 10; n++ {
			ready, err := p.Ready(r.now)
			r.check(err)
			for _, req := range ready.Register {
				if n == fails {
					r.check(p.Step(r.now, message.Registered{Result: register.Result{Tag: req.Tag, Err: errors.New("no majority")}}))
					continue
				}
				r.register.Do(req, func(res register.Result) { r.check(p.Step(r.now, message.Registered{Result: res})) })
			}
			for _, reply := range ready.Replies {
				answered = true
				if e := reply.Err; e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || e.Effect != want || e.Guarantee == "" {
					t.Errorf("%d: %v", fails, e)
				}
			}
		}
		if !answered {
			t.Errorf("%d: no answer", fails)
		}
	}
}

// TestRepairAtOnce: what one replica lacks it has a moment later, though its
// turn would be in hours; a dead node is named.
func TestRepairAtOnce(t *testing.T) {
	r := newGrowing(t)
	r.leads, r.repair = 0, 1000*time.Hour
	r.kill(0)
	r.open(0)
	r.tell()
	r.fill()
	r.join()
	r.join()
	r.run(3)
	r.tell()
	task := r.ids.Next(r.now.Wall)
	r.enqueue(0, task, nil)
	r.post = nil // its coordinator crashes before anybody hears of it
	r.kill(0)
	r.open(0)
	r.pass(5 * time.Second) // past what is left alone for being young
	r.settle()
	r.tell()
	r.settle()
	at := uint32(ring.Of(task, testPartitions))
	if r.copies(task) != 1 {
		t.Fatalf("%d copies before", r.copies(task))
	}
	repair := &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_Repair{Repair: &nornv1.Repair{Partitions: []uint32{at}}}}
	if would, err := r.admin(1, dry(repair)); err != nil || would.Comparisons != 3 || r.status(0).Repair.Left != 0 {
		t.Fatalf("would: %v, %v", would, err)
	}
	repair.DryRun = false
	before := r.status(1).Repair
	did, err := r.admin(1, repair)
	if err != nil || did.Comparisons != 3 {
		t.Fatalf("did: %v, %v", did, err)
	}
	r.pass(time.Millisecond)
	r.settle()
	after := r.status(1).Repair
	if r.copies(task) != 3 || after.Left != 0 || after.Compared < before.Compared+3 || after.FactsMoved == before.FactsMoved {
		t.Errorf("%d copies, %v, before %v", r.copies(task), after, before)
	}
	all := &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_Repair{Repair: &nornv1.Repair{}}}
	r.kill(2)
	r.tell()
	if did, err = r.admin(0, all); err != nil || did.Comparisons != testPartitions || len(did.Notes) != 1 || !strings.Contains(did.Notes[0], "n3 is not in reach") {
		t.Errorf("with one dead: %v, %v", did, err)
	}
	for range 10 {
		r.pass(time.Second)
		r.settle()
	}
	if s := r.status(0).Repair; s.Left != 0 || s.Compared < testPartitions {
		t.Errorf("with one dead: %v", s)
	}
	r.refuses(0, isInvalid, fmt.Sprint("no partition ", testPartitions), &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_Repair{Repair: &nornv1.Repair{Partitions: []uint32{testPartitions}}}})
}
