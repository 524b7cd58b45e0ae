package core

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/workers"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/session"
)

// hand is a worker of a trio: the machine of the other side, on a stream of its own.
type hand struct {
	r       *trio
	m       *session.Worker
	self    session.Identity
	node    int
	conn    uint64
	open    []message.Origin
	running map[session.Claim]*nornv1.Grant
	starts  []session.Claim // in order
	stops   []session.Stop
	acks    []session.StatusAck
	deaf    func(session.Message) bool // it does not get these
	gone    bool                       // it does nothing any more
	calls   int                        // requests that it has made
	by      string                     // its principal
}

// newHand makes a worker that is with a node.
func (r *trio) newHand(name string, node, slots int, more ...func(*session.WorkerConfig)) *hand {
	r.t.Helper()
	r.next++
	h := &hand{r: r, node: node, running: make(map[session.Claim]*nornv1.Grant), by: r.hands}
	h.self = session.Identity{Name: name, Instance: session.Instance{byte(r.next), 1}, Machine: "m", Started: r.now.Wall}
	cfg := session.WorkerConfig{Identity: h.self, Capacity: session.Capacity{Slots: slots, Queues: []session.QueueSlots{{Queue: "q"}}}, Stop: time.Second}
	for _, f := range more {
		f(&cfg)
	}
	var err error
	h.m, err = session.NewWorker(cfg)
	r.check(err)
	h.turn(node)
	return h
}

// turn has the worker turn to a node.
func (h *hand) turn(node int) {
	h.r.next++
	h.node, h.conn, h.open = node, 1000+h.r.next, nil
	h.m.Turn(h.r.now)
	h.work()
}

// work exchanges frames with the node, as far as it answers.
func (h *hand) work() {
	h.r.t.Helper()
	for range 100 {
		if !h.exchange() {
			return
		}
	}
	h.r.t.Fatal("the worker never comes to rest")
}

// exchange sends what the worker has to say and takes what has come.
func (h *hand) exchange() (more bool) {
	r := h.r
	if h.gone {
		return false
	}
	h.m.Tick(r.now)
	ready := h.m.Ready()
	h.stops = append(h.stops, ready.Stop...)
	for _, s := range ready.Start {
		more = true
		if s.Check > 0 {
			h.m.CheckPassed(r.now, s.Check)
			continue
		}
		h.running[s.Claim], h.starts = s.Grant, append(h.starts, s.Claim)
	}
	h.acks = append(h.acks, ready.Acked...)
	p := r.peers[h.node]
	if p.down {
		return more
	}
	if len(ready.Send) > 0 || len(h.open) == 0 {
		r.next++
		from := message.Origin{Conn: h.conn, Request: r.next}
		h.open, h.calls = append(h.open, from), h.calls+1
		body := session.Bundle(h.self.Instance, h.m.Info().Association, h.m.Stamp(r.now), ready.Send, 5*time.Minute)
		r.check(p.core.Step(r.now, &message.Request{From: from, Body: body, Received: r.now.Mono, By: h.by}))
		r.turn(h.node)
		r.settle()
	}
	h.open = slices.DeleteFunc(h.open, func(from message.Origin) bool {
		reply, ok := p.replies[from]
		if !ok {
			return false
		}
		more = true
		if reply.Err != nil {
			r.t.Fatalf("the node refuses: %v", reply.Err)
		}
		all, err := session.UnbundleReply(h.self.Instance, reply.Message.(*nornv1.SessionReply))
		r.check(err)
		for _, m := range all {
			if h.deaf == nil || !h.deaf(m) {
				h.m.Step(r.now, m)
			}
		}
		return true
	})
	return more
}

// end reports the end of a task.
func (h *hand) end(c session.Claim, kind session.EndKind) {
	h.r.t.Helper()
	if !h.m.Ended(h.r.now, c, session.End{Kind: kind, AutoSeq: true}) {
		h.r.t.Fatalf("%v does not run", c)
	}
	delete(h.running, c)
	h.work()
}

// days lets time pass in steps until something is so.
func (r *trio) days(most, step time.Duration, so func() bool, hands ...*hand) time.Duration {
	r.t.Helper()
	for began := r.now; ; {
		for _, h := range hands {
			h.work()
		}
		if so() {
			return time.Duration(r.now.Mono - began.Mono)
		}
		if r.now.Mono-began.Mono > int64(most) {
			r.t.Fatalf("it is not so after %v", most)
		}
		r.live(step, step, nothing)
	}
}

// workers lists the sessions.
func (r *trio) workers(i int) []*nornv1.Worker {
	r.t.Helper()
	return ask[*nornv1.WorkersReply](r, i, &nornv1.WorkersRequest{}).GetWorkers()
}

// TestSessionThroughNodes: a worker is handed tasks that other nodes lead, holds them
// while its node dies, goes on with another one that knows of them, and completes
// them there. Nothing runs twice.
func TestSessionThroughNodes(t *testing.T) {
	r := newTrio(t)
	h := r.newHand("w", 0, 3)
	r.stock(1, 2)
	r.days(10*time.Second, 100*time.Millisecond, func() bool { return len(h.running) == 2 }, h)
	if all := r.workers(2); len(all) != 1 || all[0].GetNode() != "n1" || len(all[0].GetRunning()) != 2 || all[0].GetState() != nornv1.SessionState_SESSION_STATE_HEALTHY {
		t.Fatalf("the workers are %v", all)
	}
	first := slices.Clone(h.starts)
	r.kill(0)
	r.tell()
	h.turn(1)
	r.elect()
	r.stock(2, 1)
	took := r.days(20*time.Second, 50*time.Millisecond, func() bool { return len(h.running) == 3 }, h)
	t.Logf("a new task came %v after the death", took)
	if all := r.workers(2); len(all) != 1 || all[0].GetNode() != "n2" || len(all[0].GetRunning()) != 3 || all[0].GetUnsure() != 0 {
		t.Errorf("the workers are %v", all)
	}
	// Everybody has heard of the set of sessions as it is now.
	r.days(20*time.Second, time.Second, func() bool {
		all := ask[*nornv1.WorkersReply](r, 2, &nornv1.WorkersRequest{})
		return len(all.GetWorkers()) == 1 && all.GetSet().GetVersion() > 0 && all.GetWorkers()[0].GetSet().GetVersion() == all.GetSet().GetVersion() &&
			all.GetWorkers()[0].GetSet().GetHash() == all.GetSet().GetHash()
	}, h)
	for _, c := range first {
		h.end(c, session.EndCompleted)
	}
	r.days(10*time.Second, 100*time.Millisecond, func() bool { return len(h.acks) == 2 }, h)
	for _, c := range first {
		if s := r.stateOf(1, c.Task); s != nornv1.State_STATE_COMPLETED {
			t.Errorf("task %v is %v", c, s)
		}
	}
	if len(h.starts) != 3 || len(h.stops) != 0 {
		t.Errorf("%d starts, stops %v", len(h.starts), h.stops)
	}
}

// TestSessionGivesBack: what a worker gives back as it stops runs on another one, which is
// with another node, within the time of a few messages.
func TestSessionGivesBack(t *testing.T) {
	r := newTrio(t)
	a := r.newHand("a", 0, 2)
	r.stock(1, 2)
	r.days(10*time.Second, 100*time.Millisecond, func() bool { return len(a.running) == 2 }, a)
	b := r.newHand("b", 1, 2)
	r.days(10*time.Second, 100*time.Millisecond, func() bool { return b.m.Info().State == session.Healthy }, a, b)
	a.m.Drain(r.now)
	for _, c := range slices.Clone(a.starts) {
		a.end(c, session.EndReleased)
	}
	took := r.days(10*time.Second, 10*time.Millisecond, func() bool { return len(b.running) == 2 && a.m.Info().Left }, a, b)
	if t.Logf("both run elsewhere after %v", took); took > 100*time.Millisecond {
		t.Errorf("both run elsewhere after %v", took)
	}
	for _, c := range b.starts {
		got := ask[*nornv1.GetReply](r, 2, &nornv1.GetRequest{Id: c.Task.Bytes()}).Task
		if got.GetAttempts() != 0 || len(got.GetClaims()) != 2 || got.GetClaims()[0].GetOutcome() != nornv1.ClaimOutcome_CLAIM_OUTCOME_RELEASED {
			t.Errorf("the task is %v", got)
		}
	}
}

// TestSessionLostPush: a task that was granted and never reached the worker, because
// its node died with it, runs as soon as the next node has asked, not after its lease.
func TestSessionLostPush(t *testing.T) {
	r := newTrio(t)
	h := r.newHand("w", 0, 1)
	r.days(10*time.Second, 100*time.Millisecond, func() bool { return h.m.Info().State == session.Healthy }, h)
	h.deaf = func(m session.Message) bool {
		t, push := m.Body.(*session.RunTask)
		return push && t.Check == 0
	}
	task := r.stock(1, 1)[0]
	r.live(100*time.Millisecond, 50*time.Millisecond, nothing)
	h.exchange()
	if s := r.stateOf(1, task); s != nornv1.State_STATE_CLAIMED {
		t.Fatalf("the task is %v", s)
	}
	r.kill(0)
	r.tell()
	h.deaf = nil
	h.turn(1)
	r.elect()
	took := r.days(10*time.Second, 50*time.Millisecond, func() bool { return len(h.running) == 1 }, h)
	if t.Logf("it ran %v after the elections", took); took > time.Second {
		t.Errorf("it ran after %v", took)
	}
	if len(h.starts) != 1 || h.starts[0].Task != task {
		t.Errorf("started %v", h.starts)
	}
}

// TestSessionHandOver: a worker that turns to another node while both live goes on
// there; what the first node pushed last and the worker never saw is settled between
// the two at once.
func TestSessionHandOver(t *testing.T) {
	r := newTrio(t)
	h := r.newHand("w", 0, 2)
	r.days(10*time.Second, 100*time.Millisecond, func() bool { return h.m.Info().State == session.Healthy }, h)
	r.stock(1, 1)
	r.days(10*time.Second, 100*time.Millisecond, func() bool { return len(h.running) == 1 }, h)
	h.deaf = func(m session.Message) bool {
		t, push := m.Body.(*session.RunTask)
		return push && t.Check == 0
	}
	r.stock(2, 1)
	r.live(100*time.Millisecond, 50*time.Millisecond, nothing)
	h.exchange()
	h.deaf = nil
	r.check(r.peers[0].core.Step(r.now, message.Gone{Conn: h.conn}))
	r.turn(0)
	h.turn(1)
	took := r.days(10*time.Second, 50*time.Millisecond, func() bool { return len(h.running) == 2 }, h)
	if t.Logf("both run %v after the hand-over", took); took > time.Second {
		t.Errorf("both run after %v", took)
	}
	if len(h.starts) != 2 {
		t.Errorf("started %v", h.starts)
	}
}

// TestSessionOneName: a name has one holder in the cluster, whichever nodes its
// claimants are with, until that one has left or is lost.
func TestSessionOneName(t *testing.T) {
	r := newTrio(t)
	a := r.newHand("w", 0, 1)
	r.days(10*time.Second, 100*time.Millisecond, func() bool { return a.m.Info().State == session.Healthy }, a)
	b := r.newHand("w", 1, 1)
	r.stock(2, 1)
	r.days(10*time.Second, 200*time.Millisecond, func() bool { return len(a.running) == 1 }, a, b)
	r.days(20*time.Second, 500*time.Millisecond, func() bool { return b.m.Info().Refused == session.RefusedName }, a, b)
	if b.m.Info().Joined || len(b.running) > 0 {
		t.Errorf("two have the name: %+v", b.m.Info())
	}
	a.end(a.starts[0], session.EndCompleted)
	a.m.Drain(r.now)
	r.days(10*time.Second, 500*time.Millisecond, func() bool { return a.m.Info().Left }, a, b)
	r.days(10*time.Second, 500*time.Millisecond, func() bool { return b.m.Info().State == session.Healthy }, a, b)
}

// TestSessionLost: the tasks of a worker that is silent for too long fail, which is
// kept, and are put off for at least the time that its handlers had to stop and the
// margin; a completion that arrives all the same counts. Its name is free, and a ghost
// that returns is told to die.
func TestSessionLost(t *testing.T) {
	r := newTrio(t)
	h := r.newHand("w", 0, 2, func(c *session.WorkerConfig) { c.Capacity.Lease = time.Hour })
	tasks := r.stock(1, 2)
	r.days(10*time.Second, 100*time.Millisecond, func() bool { return len(h.running) == 2 }, h)
	h.gone = true
	took := r.days(2*time.Minute, 500*time.Millisecond, func() bool { return r.stateOf(1, tasks[0]) == nornv1.State_STATE_SCHEDULED })
	t.Logf("lost after %v", took)
	got := ask[*nornv1.GetReply](r, 1, &nornv1.GetRequest{Id: tasks[0].Bytes()}).Task
	if wait := got.GetNotBefore().AsTime().UnixNano() - r.now.Wall; wait < int64(time.Second+workers.LostMargin-time.Second) || got.GetAttempts() != 1 || got.GetClaims()[0].GetOutcome() != nornv1.ClaimOutcome_CLAIM_OUTCOME_FAILED {
		t.Errorf("it runs again in %v: %v", time.Duration(wait), got)
	}
	// Every node of it may crash: it is kept.
	for i := range r.peers {
		r.kill(i)
	}
	for i := range r.peers {
		r.open(i)
	}
	r.elect()
	if s := r.stateOf(1, tasks[0]); s != nornv1.State_STATE_SCHEDULED {
		t.Errorf("after a crash it is %v", s)
	}
	// The ghost has finished one of them.
	h.gone = false
	h.turn(2)
	if h.m.Info().State != session.MustDie {
		t.Errorf("the ghost is %+v", h.m.Info())
	}
	h.end(h.starts[0], session.EndCompleted)
	r.days(10*time.Second, 500*time.Millisecond, func() bool { return r.stateOf(0, h.starts[0].Task) == nornv1.State_STATE_COMPLETED }, h)
	h.end(h.starts[1], session.EndFailed)
	r.days(10*time.Second, 500*time.Millisecond, func() bool { return h.m.Info().Left }, h)
	if len(h.acks) != 2 || h.acks[0].Lost || h.acks[1].State != nornv1.State_STATE_SCHEDULED {
		t.Errorf("acknowledged %+v", h.acks)
	}
	next := r.newHand("w", 2, 1)
	r.days(10*time.Second, 500*time.Millisecond, func() bool { return next.m.Info().Joined }, next)
}

// lines asks for the lines of a claim through a node, while the worker does its part.
func (h *hand) lines(through int, m *nornv1.LinesRequest) (*nornv1.LinesReply, *proto.Error) {
	r := h.r
	r.t.Helper()
	from := r.send(through, m)
	var reply message.Reply
	r.days(10*time.Second, 50*time.Millisecond, func() (there bool) {
		reply, there = r.peers[through].replies[from]
		return there
	}, h)
	if reply.Err != nil {
		return nil, reply.Err
	}
	return reply.Message.(*nornv1.LinesReply), nil
}

// TestSessionLines: the lines that a worker remembers of a task are told through any
// node, while the task runs and after, by whichever node the worker is with, also when
// the one before is dead.
func TestSessionLines(t *testing.T) {
	r := newTrio(t)
	h := r.newHand("w", 0, 1, func(c *session.WorkerConfig) { c.Capacity.Lease = time.Hour })
	r.stock(1, 1)
	r.days(10*time.Second, 100*time.Millisecond, func() bool { return len(h.running) == 1 }, h)
	c := h.starts[0]
	ask := &nornv1.LinesRequest{Worker: "w", Id: c.Task.Bytes(), Token: c.Token}
	said := func(when string, through int, after uint64, want ...string) {
		t.Helper()
		ask.After = after
		got, err := h.lines(through, ask)
		if err != nil {
			t.Fatalf("%s, through n%d: %v", when, through+1, err)
		}
		var texts []string
		for _, l := range got.GetLines() {
			texts = append(texts, string(l))
		}
		if !got.GetKnown() || !slices.Equal(texts, want) || len(want) > 0 && got.GetFirst() != after+1 {
			t.Errorf("%s, through n%d: %v", when, through+1, got)
		}
	}
	r.tell()
	said("before it has said anything", 2, 0)
	h.m.Log(r.now, c, "one")
	h.m.Log(r.now, c, "two")
	for through := range r.peers {
		said("while it runs", through, 0, "one", "two")
	}
	said("after the first", 1, 1, "two")
	r.kill(0)
	r.tell()
	h.turn(1)
	r.elect()
	r.days(20*time.Second, 100*time.Millisecond, func() bool { return h.m.Info().State == session.Healthy }, h)
	r.tell()
	h.m.Log(r.now, c, "three")
	said("after its node's death", 2, 0, "one", "two", "three")
	said("after its node's death", 1, 2, "three")
	h.end(c, session.EndCompleted)
	r.days(10*time.Second, 100*time.Millisecond, func() bool { return len(h.acks) == 1 }, h)
	said("when it has ended", 2, 2, "three")
	ask.Token++
	if got, err := h.lines(2, ask); err != nil || got.GetKnown() {
		t.Errorf("of a claim that it never had: %v, %v", got, err)
	}
	if _, err := h.lines(2, &nornv1.LinesRequest{Worker: "nobody", Id: c.Task.Bytes(), Token: 1}); err == nil || err.Kind != nornv1.ErrorKind_ERROR_KIND_NOT_FOUND {
		t.Errorf("of nobody: %v", err)
	}
	if _, err := h.lines(2, &nornv1.LinesRequest{Worker: "w", Id: c.Task.Bytes()}); err == nil || err.Kind != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
		t.Errorf("of no claim: %v", err)
	}
	h.gone = true
	if _, err := h.lines(2, ask); err == nil || err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
		t.Errorf("of a silent worker: %v", err)
	}
	if n := len(r.peers[1].core.sessions.Questions.Open); n != 0 {
		t.Errorf("%d questions are left", n)
	}
}

// TestSessionLinesAreBounded: questions for lines that nobody answers are refused past
// a limit, and go with the connections of those who asked.
func TestSessionLinesAreBounded(t *testing.T) {
	r := newTrio(t)
	h := r.newHand("w", 0, 1)
	r.days(10*time.Second, 100*time.Millisecond, func() bool { return h.m.Info().State == session.Healthy }, h)
	h.gone = true
	ask := &nornv1.LinesRequest{Worker: "w", Id: make([]byte, id.Size), Token: 1}
	var last message.Origin
	for range workers.MaxQuestions + 1 {
		last = r.send(0, ask)
	}
	if reply, ok := r.peers[0].replies[last]; !ok || reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_OVERLOADED {
		t.Errorf("one too many: %+v", reply)
	}
	r.check(r.peers[0].core.Step(r.now, message.Gone{Conn: last.Conn}))
	if n := len(r.peers[0].core.sessions.Questions.Open); n != 0 {
		t.Errorf("%d questions of a closed connection are left", n)
	}
}

// TestSessionLostGrace: what a lost worker ran is put off for as long as its handlers
// may go on, not only for as long as it gives them before it is lost.
func TestSessionLostGrace(t *testing.T) {
	r := newTrio(t)
	const grace = 3 * time.Minute
	h := r.newHand("w", 0, 1, func(c *session.WorkerConfig) { c.Capacity.Lease, c.Grace = time.Hour, grace })
	task := r.stock(1, 1)[0]
	r.days(10*time.Second, 100*time.Millisecond, func() bool { return len(h.running) == 1 }, h)
	h.gone = true
	r.days(2*time.Minute, 500*time.Millisecond, func() bool { return r.stateOf(1, task) == nornv1.State_STATE_SCHEDULED })
	got := ask[*nornv1.GetReply](r, 1, &nornv1.GetRequest{Id: task.Bytes()}).Task
	if wait := time.Duration(got.GetNotBefore().AsTime().UnixNano() - r.now.Wall); wait < grace+workers.LostMargin-time.Second {
		t.Errorf("it runs again in %v", wait)
	}
}

// TestSessionCancelled: the worker of a task that somebody cancels through any node
// hears of it at once.
func TestSessionCancelled(t *testing.T) {
	r := newTrio(t)
	h := r.newHand("w", 0, 1, func(c *session.WorkerConfig) { c.Capacity.Lease = time.Hour })
	task := r.stock(1, 1)[0]
	r.days(10*time.Second, 100*time.Millisecond, func() bool { return len(h.running) == 1 }, h)
	r.send((r.leader(r.part(task))+1)%3, &nornv1.CancelRequest{Ids: [][]byte{task.Bytes()}})
	took := r.days(10*time.Second, 10*time.Millisecond, func() bool { return len(h.stops) == 1 }, h)
	if h.stops[0].Cause != session.CauseCancelled || took > 200*time.Millisecond {
		t.Errorf("%+v after %v", h.stops[0], took)
	}
}

// TestSessionDies: an operator's word reaches a worker through any node, and a drained
// one keeps what it runs.
func TestSessionDies(t *testing.T) {
	r := newTrio(t)
	h := r.newHand("w", 0, 1)
	r.stock(1, 1)
	r.days(10*time.Second, 100*time.Millisecond, func() bool { return len(h.running) == 1 }, h)
	r.tell()
	if got := ask[*nornv1.WorkersReply](r, 2, &nornv1.SetWorkerRequest{Name: "w", Action: nornv1.WorkerAction_WORKER_ACTION_DRAIN}).GetWorkers(); len(got) != 1 || !got[0].GetDraining() {
		t.Errorf("drained: %v", got)
	}
	r.days(time.Second, 100*time.Millisecond, func() bool { return h.m.Info().Draining && len(h.stops) == 0 }, h)
	ask[*nornv1.WorkersReply](r, 1, &nornv1.SetWorkerRequest{Name: "w", Action: nornv1.WorkerAction_WORKER_ACTION_KILL, Reason: "old"})
	r.days(time.Second, 100*time.Millisecond, func() bool { return h.m.Info().Final && len(h.stops) == 1 }, h)
	h.end(h.starts[0], session.EndReleased)
	r.days(time.Second, 100*time.Millisecond, func() bool { return h.m.Info().Left }, h)
	if all := r.workers(1); len(all) != 0 {
		t.Errorf("the workers are %v", all)
	}
}

func (r *trio) part(task id.ID) ring.Partition { return ring.Of(task, testPartitions) }

// TestSessionTurnover: workers that come under ever new names and die without a word
// keep nobody out, and their names are forgotten.
func TestSessionTurnover(t *testing.T) {
	r := newTrio(t)
	r.leads = 1
	for i := range 40 {
		h := r.newHand(string(rune('a'+i%26))+string(rune('a'+i/26)), i%3, 1)
		r.days(10*time.Second, 50*time.Millisecond, func() bool { return h.m.Info().Joined }, h)
		r.check(r.peers[h.node].core.Step(r.now, message.Gone{Conn: h.conn}))
	}
	next := r.newHand("next", 0, 1)
	took := r.days(10*time.Second, 50*time.Millisecond, func() bool { return next.m.Info().State == session.Healthy }, next)
	if n := len(r.state().Names); took > 2*time.Second || n != 41 {
		t.Errorf("it joined after %v; %d names", took, n)
	}
	r.days(time.Hour, 4*time.Second, func() bool { return len(r.state().Names) == 1 }, next)
	if next.m.Info().State != session.Healthy {
		t.Errorf("the living one is %+v", next.m.Info())
	}
}

// TestMoreThanFitsIntoAStreamComesLater: tasks so large that not all that a worker has
// slots for fit into its stream come one after the other. What did not fit was given
// back and asked for again in the same moment, without end: the node stood still.
func TestMoreThanFitsIntoAStreamComesLater(t *testing.T) {
	const tasks = 3 * workers.MaxStreamBytes >> 20 / 2
	r := newTrio(t)
	for range tasks {
		s := spec("q")
		s.Payload = make([]byte, 1<<20)
		r.send(0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}})
		r.settle()
	}
	h := r.newHand("w", 0, tasks)
	r.days(30*time.Second, 100*time.Millisecond, func() bool { return len(h.running) == tasks }, h)
	if len(h.starts) != tasks {
		t.Errorf("%d starts of %d tasks", len(h.starts), tasks)
	}
}
