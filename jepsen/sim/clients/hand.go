package clients

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/sim/convert"
	"github.com/norn-dev/norn/jepsen/sim/nodes"
	"github.com/norn-dev/norn/jepsen/sim/run"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/session"
)

// Times of workers with a session.
const (
	handStop = 500 * time.Millisecond // its handlers need so much to end
	handWait = 2 * time.Second        // a node may keep its requests for so long
)

// Hand is a worker with a session: the machine of package session on a stream to
// some node, which hands it tasks as it has room. One instance is one process.
type Hand struct {
	*Caller
	self   session.Identity
	m      *session.Worker
	On     *nodes.Conn // the connection of the present stream
	open   int         // requests on it
	wake   int64
	Runs   map[session.Claim]bool
	asks   []*history.Event        // for a task each, oldest first; a grant answers one
	told   map[session.Claim]int64 // when it sent what the leader of a grant was asked after, its mono ns
	beats  map[beat]*history.Event
	ends   map[session.Claim]*history.Event
	number uint64
	joined uint64      // the association in which it last had its name
	at     *nodes.Node // where that was
	Moving bool        // its handlers go on until it has its name again
	since  int64       // true time at which it turned to this node
	born   int64       // and at which it began
}

// beat names what a heartbeat asks of one claim.
type beat struct {
	stamp int64
	claim session.Claim
}

// newHand begins a worker. On a machine there is one at a time.
func (s *People) newHand(name, machine string) *Hand {
	h := &Hand{
		Caller: s.NewCaller(), wake: run.Never, Runs: map[session.Claim]bool{},
		beats: map[beat]*history.Event{}, ends: map[session.Claim]*history.Event{}, told: map[session.Claim]int64{},
	}
	h.born = s.Now
	if s.Rights != nil {
		h.by = machine
	}
	h.self = session.Identity{Name: name, Machine: machine, Started: h.Clock.Wall(s.Now)}
	if s.Chance(0.5) {
		h.self.Lock = "lock" // whoever has it next knows that this one is dead
	}
	binary.BigEndian.PutUint64(h.self.Instance[:], s.Rnd.Uint64()|1)
	capacity := session.Capacity{Slots: 1 + s.Rnd.IntN(3), Lease: s.Plan.Lease}
	for _, q := range s.Plan.Queues {
		capacity.Queues = append(capacity.Queues, session.QueueSlots{Queue: q})
	}
	var err error
	if h.m, err = session.NewWorker(session.WorkerConfig{Identity: h.self, Capacity: capacity, Stop: handStop}); err != nil {
		s.Broken("a worker cannot begin: %v", err)
		return h
	}
	for range capacity.Takes() {
		h.ask()
	}
	h.After(s.About(100*time.Millisecond), h.Work)
	h.roams()
	return h
}

// event begins an operation in the history.
func (h *Hand) event(e *history.Event) *history.Event {
	e.Phase, e.Process, e.By = history.Invoke, h.process, h.by
	h.S.Invoke(e)
	return e
}

// ended ends one with a single item.
func (h *Hand) ended(asked *history.Event, i history.Item) {
	e := &history.Event{
		Op: asked.Op, Process: h.process, Func: asked.Func, Phase: history.OK,
		Session: asked.Session, Request: asked.Request, Items: []history.Item{i},
	}
	if e.Func == history.Claim {
		// A leader's answer may get lost. Asked anew it gives the same grant, whose token
		// was given out long before the request that the grant seems to answer.
		e.Since = h.born
	}
	h.S.Record(e)
}

// ask notes that there is room for one more task. A node may grant for it from now
// on.
func (h *Hand) ask() {
	h.number++
	h.asks = append(h.asks, h.event(&history.Event{
		Func: history.Claim, Queues: slices.Clone(h.S.Plan.Queues), Max: 1, Lease: int64(h.S.Plan.Lease),
		Session: history.Digest(h.self.Instance[:]), Request: h.number,
	}))
}

// roams has it turn to another node now and then.
func (h *Hand) roams() {
	h.After(h.S.About(15*time.Second), func() {
		h.HangUp()
		h.Work()
		h.roams()
	})
}

// Work lets the machine go on, and has a stream for it.
func (h *Hand) Work() {
	if h.gone || h.m == nil {
		return
	}
	s, now := h.S, h.Clock.Time(h.S.Now)
	h.m.Tick(now)
	info := h.m.Info()
	if info.State == session.MustDie && len(h.Runs) == 0 || info.Left {
		h.perish()
		return
	}
	if h.On != nil && h.conn == h.On && s.Now-h.since > int64(4*time.Second) && now.Mono-info.Heard > int64(4*time.Second) {
		h.HangUp() // nobody answers there
	}
	if h.conn == nil {
		h.conn = s.Dial(h.Caller, h.Pin)
	}
	if h.conn != h.On {
		h.On, h.open = h.conn, 0
		if h.On != nil {
			h.since = s.Now
			h.m.Turn(now)
		}
	}
	h.carry()
	h.settled()
	if h.On == nil {
		h.rouse(s.Now + int64(s.About(200*time.Millisecond)))
	}
}

// rouse has it look around at a true time.
func (h *Hand) rouse(at int64) {
	if at >= h.wake && h.wake > h.S.Now {
		return
	}
	h.wake = max(at, h.S.Now+int64(time.Millisecond))
	due := h.wake
	h.S.At(due, func() {
		if h.wake == due {
			h.wake = run.Never
			h.Work()
		}
	})
}

// carry does what the machine wants.
func (h *Hand) carry() {
	var out []session.Message
	for more := true; more; {
		now := h.Clock.Time(h.S.Now)
		ready := h.m.Ready()
		more = false
		for _, stop := range ready.Stop {
			h.After(h.S.Between(0, handStop/2), func() { h.end(stop.Claim, session.EndReleased) })
		}
		for i := range ready.Start {
			more = true
			if check := ready.Start[i].Check; check > 0 {
				h.m.CheckPassed(now, check)
				continue
			}
			h.start(&ready.Start[i])
		}
		for _, ack := range ready.Acked {
			if e := h.ends[ack.Claim]; e != nil {
				delete(h.ends, ack.Claim)
				h.ended(e, history.Item{Task: ack.Claim.Task, Unsure: ack.Lost})
			}
		}
		for _, m := range ready.Send {
			out = h.leave(out, m)
		}
		if ready.WakeAt != run.Never {
			h.rouse(h.Clock.WhenMono(ready.WakeAt))
		}
	}
	if h.On != nil && (len(out) > 0 || h.open == 0) {
		h.post(out)
	}
}

// leave adds a message to those that are sent: it may get lost, come twice or
// come later.
func (h *Hand) leave(out []session.Message, m session.Message) []session.Message {
	if b, ok := m.Body.(*session.Heartbeat); ok {
		for _, c := range b.Claims {
			h.beats[beat{m.Stamp, c}] = h.event(&history.Event{Func: history.Renew, Items: []history.Item{{Task: c.Task, Token: c.Token}}})
		}
	}
	for range h.times(func() {
		if h.On != nil && m.Association == h.m.Info().Association {
			h.post([]session.Message{m})
		}
	}) {
		out = append(out, m)
	}
	return out
}

// times draws how often a message arrives now; it may also come later.
func (h *Hand) times(later func()) int {
	s := h.S
	if s.Healing || !s.Chance(0.15) {
		return 1
	}
	switch s.Rnd.IntN(3) {
	case 0:
		return 2
	case 1:
		h.After(s.Between(0, 3*time.Second), later)
	}
	return 0
}

// post sends messages to the node. Its answer brings what it has to say.
func (h *Hand) post(all []session.Message) {
	on, now := h.On, h.Clock.Time(h.S.Now)
	h.open++
	body := session.Bundle(h.self.Instance, h.m.Info().Association, h.m.Stamp(now), all, handWait)
	h.Send(body, nil, handWait+4*time.Second, func(a *Answer) {
		if h.On == on {
			h.open--
		}
		reply, ok := a.Message.(*nornv1.SessionReply)
		if !ok {
			h.rouse(h.S.Now + int64(h.S.About(200*time.Millisecond)))
			return
		}
		messages, err := session.UnbundleReply(h.self.Instance, reply)
		if err != nil {
			h.S.Broken("a worker cannot read an answer: %v", err)
			return
		}
		for _, m := range messages {
			for range h.times(func() { h.take(m); h.Work() }) {
				h.take(m)
			}
		}
		h.Work()
	})
}

// take gives a message of the node to the machine.
func (h *Hand) take(m session.Message) {
	now := h.Clock.Time(h.S.Now)
	if b, ok := m.Body.(*session.RunTask); ok && b.Check == 0 {
		h.told[b.Claim] = b.Echo
	}
	h.m.Step(now, m)
	b, ok := m.Body.(*session.Renewed)
	if !ok {
		return
	}
	for _, r := range b.Items {
		k := beat{b.Echo, r.Claim}
		e := h.beats[k]
		until, holds := h.m.Holds(now, r.Claim)
		if e == nil || r.Lost != session.CauseNone || !holds {
			continue
		}
		delete(h.beats, k)
		h.S.Stats[stats.Renewals]++
		h.ended(e, history.Item{Task: r.Claim.Task, Token: r.Claim.Token, Until: h.believes(until)})
	}
}

// believes is the true time up to which a handler may run that is told to stop at
// a time of the worker's clock.
func (h *Hand) believes(deadline int64) int64 {
	return h.Clock.WhenMono(deadline) + int64(handStop)
}

// answered takes the request that a grant answers: the newest one that was there when
// its leader was asked. Grants may overtake each other on their way to the worker. The
// oldest request would not do: where a grant comes late, those after it have used up
// all that were there in time, and it would seem to be given when one that is younger
// than it was asked. It is nil when there was no room for the grant.
func (h *Hand) answered(c session.Claim) *history.Event {
	stamp := h.told[c]
	delete(h.told, c)
	for i, asked := range slices.Backward(h.asks) {
		if h.Clock.Mono(asked.At) <= stamp {
			h.asks = slices.Delete(h.asks, i, i+1)
			return asked
		}
	}
	return nil
}

// start begins a task.
func (h *Hand) start(st *session.Start) {
	s, g := h.S, st.Grant
	asked := h.answered(st.Claim)
	if asked == nil {
		s.Violation(run.Workers, "worker %s is handed more tasks than it has room for", h.self.Name)
		return
	}
	i := convert.Seen(g.GetTask())
	i.Token, i.Start, i.Data = g.GetToken(), g.GetStart().AsTime().UnixNano(), history.Digest(g.GetCheckpoint())
	i.Until = h.believes(st.Deadline)
	s.Stats[stats.Grants]++
	s.Stats[stats.Pushed]++
	h.Runs[st.Claim] = true
	h.ended(asked, i)
	h.ask()
	s.Board.Claimed(i.Task)
	tellClaim(s, i.Task, i.Token)
	c, effort := st.Claim, min(s.About(s.Plan.Lease/2), 2*s.Plan.Lease)
	if s.Healing {
		effort = s.About(50 * time.Millisecond)
	}
	h.After(effort, func() { h.finish(c) })
}

// finish does what a handler does in the end.
func (h *Hand) finish(c session.Claim) {
	s := h.S
	if _, holds := h.m.Holds(h.Clock.Time(s.Now), c); !holds || !h.Runs[c] {
		return // it was told to stop, or is about to be
	}
	if h.Moving && !s.Healing {
		h.After(200*time.Millisecond, func() { h.finish(c) })
		return
	}
	switch {
	case s.Chance(s.Plan.Work.Dies / 2):
		s.Stats[stats.Deaths]++
		h.perish()
	case s.Chance(s.Plan.Work.Fails):
		h.end(c, session.EndFailed)
	case !s.Healing && s.Chance(0.1):
		h.end(c, session.EndReleased)
	default:
		h.end(c, session.EndCompleted)
	}
}

// end reports how a task ended.
func (h *Hand) end(c session.Claim, kind session.EndKind) {
	end := session.End{Kind: kind}
	item := history.Item{Task: c.Task, Token: c.Token}
	e := &history.Event{}
	switch kind {
	case session.EndCompleted:
		end.AutoSeq, end.Result = true, DoneBy(c.Task, c.Token, h.self.Name)
		e.Func, item.Auto, item.Data = history.Complete, true, history.Digest(end.Result)
	case session.EndFailed:
		end.Error = "it went wrong"
		e.Func = history.FailTask
	default:
		e.Func = history.Release
	}
	if !h.Runs[c] {
		return
	}
	delete(h.Runs, c)
	if e.Items = []history.Item{item}; h.m.Ended(h.Clock.Time(h.S.Now), c, end) {
		h.ends[c] = h.event(e)
		if kind == session.EndCompleted {
			h.S.Stats[stats.Completions]++
		}
	}
	h.Work()
}

// settled sees whether it has got its name: then nobody else has it, and whoever
// had it runs nothing any more.
func (h *Hand) settled() {
	info := h.m.Info()
	if !info.Joined || info.State == session.MustDie || info.Association == h.joined {
		return
	}
	s := h.S
	if h.joined == 0 {
		s.Stats[stats.Sessions]++
	} else if len(h.Runs) > 0 && h.On != nil && h.On.Node != h.at {
		s.Stats[stats.HandOvers]++
	}
	h.joined, h.Moving = info.Association, false
	if h.On != nil {
		h.at = h.On.Node
	}
	for _, o := range s.Hands {
		if o == h || o.gone || o.self.Name != h.self.Name || o.joined == 0 {
			continue
		}
		o.m.Tick(o.Clock.Time(s.Now))
		if other := o.m.Info(); other.State != session.MustDie && !other.Left {
			s.Violation(run.Workers, "instances %s and %s have the name %s at one time: %v and %v", h.self.Instance, o.self.Instance, h.self.Name, info.State, other.State)
		}
	}
}

// perish is the end of the process: another one takes its place later.
func (h *Hand) perish() {
	s := h.S
	h.die()
	s.Record(&history.Event{Phase: history.Note, Func: history.Died, Process: h.process})
	if i := slices.Index(s.Hands, h); i >= 0 {
		s.Hands = slices.Delete(s.Hands, i, i+1)
	}
	s.After(s.About(2*time.Second), func() {
		if !s.Stopping {
			s.Hands = append(s.Hands, s.newHand(h.self.Name, h.self.Machine))
		}
	})
}

// fits tells whether its session is as it must be when nothing goes wrong: a node
// has it, or another instance has its name.
func (h *Hand) fits() string {
	info, now := h.m.Info(), h.Clock.Mono(h.S.Now)
	switch other := slices.ContainsFunc(h.S.Hands, func(o *Hand) bool { return o != h && o.self.Name == h.self.Name && o.joined > 0 }); {
	case now-info.Heard > int64(8*time.Second):
		return fmt.Sprintf("no node has answered worker %s for %v", h.self.Name, time.Duration(now-info.Heard))
	case info.Refused == session.RefusedName && other:
		return ""
	case info.State != session.Healthy || !info.Joined:
		return fmt.Sprintf("worker %s is %v, joined %t, refused %v (%s)", h.self.Name, info.State, info.Joined, info.Refused, info.Text)
	}
	return ""
}
