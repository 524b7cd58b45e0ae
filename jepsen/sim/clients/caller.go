package clients

import (
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/jepsen/sim/convert"
	"github.com/norn-dev/norn/jepsen/sim/nodes"
	"github.com/norn-dev/norn/jepsen/sim/run"
	"github.com/norn-dev/norn/jepsen/sim/world"
)

// Caller is the connection side of a client process: it sends requests, gives
// up after a while, and writes down what came of them.
type Caller struct {
	S       *People
	process int
	Clock   world.Local
	conn    *nodes.Conn
	last    uint64 // number of the last request
	open    map[uint64]*call
	gone    bool         // the process has died
	Pin     *nodes.Node  // the only one it talks to; nil: any
	by      string       // its principal; empty: nobody has to show who it is
	scope   *guard.Scope // what that may do; nil: everything
}

// call is a request under way.
type call struct {
	asked *history.Event // nil: what becomes of it is no event
	stamp int64          // true time of sending
	weak  bool           // an acknowledgement of it may be lost with a disk
	done  func(*Answer)
}

// Answer is what came of a call.
type Answer struct {
	Message gproto.Message // nil unless it went well
	End     *history.Event // nil when nothing was sent
	Refused *proto.Error
	Unknown bool // it may have happened
}

// Fine tells whether the call was answered, and not with a refusal.
func (a *Answer) Fine() bool { return a.Message != nil }

// NewCaller makes a client process that has sent nothing yet.
func (s *People) NewCaller() *Caller {
	s.process++
	return &Caller{
		S: s, process: s.process, open: map[uint64]*call{},
		Clock: world.Local{Began: s.Now, First: 1 + s.Rnd.Int64N(1e12), Drift: s.Drift(), Off: int64(s.Between(-200*time.Millisecond, 200*time.Millisecond))},
	}
}

// Do sends a request. done hears of its end, once, unless the process dies.
func (c *Caller) Do(m gproto.Message, patience time.Duration, done func(*Answer)) {
	if c.gone {
		return
	}
	c.roam()
	asked := convert.Invocation(m)
	asked.Weak = run.One(m) || run.Alone(m)
	c.Send(m, asked, patience, done)
}

// Send sends a request; one that is not asked leaves nothing in the history.
func (c *Caller) Send(m gproto.Message, asked *history.Event, patience time.Duration, done func(*Answer)) {
	s := c.S
	if c.conn == nil {
		if c.conn = s.Dial(c, c.Pin); c.conn == nil {
			c.After(s.Delay()+10*time.Millisecond, func() { done(&Answer{}) })
			return
		}
		c.conn.ToNode = s.Now + 2*int64(s.Delay())
	}
	c.last++
	number, method := c.last, convert.MethodOf(m)
	k := &call{asked: asked, stamp: s.Now, weak: s.Weak(m), done: done}
	if asked != nil {
		asked.Process, asked.By = c.process, c.by
		s.Invoke(asked)
	}
	c.open[number] = k
	r := &message.Request{From: message.Origin{Conn: c.conn.ID, Request: number, Method: uint16(method)}, Body: m, By: c.by, Scope: c.scope}
	if s.Chance(0.3) {
		r.Deadline = int64(patience)
	}
	if c.scope == nil && s.Chance(s.Plan.Net.Again) && repeatable(m) {
		s.Ghost(gproto.Clone(m), c.by)
	}
	conn := c.conn
	conn.Request(r, convert.Urgent(method))
	c.After(patience, func() {
		if c.open[number] != k {
			return
		}
		delete(c.open, number)
		switch s.Rnd.IntN(3) {
		case 0:
			conn.Cancel(number, uint16(method))
		case 1:
			if c.conn == conn {
				c.HangUp()
			}
		}
		c.finish(k, &Answer{Unknown: true}, "timeout")
	})
}

// roam leaves a node that nothing is under way to: what one node has said must
// hold at the others.
func (c *Caller) roam() {
	if c.S.Fleet != nil && c.conn != nil && len(c.open) == 0 && c.S.Chance(0.2) {
		c.Leave()
	}
}

// Leave has the next request go to any node, if none is under way.
func (c *Caller) Leave() {
	if c.Pin == nil && c.conn != nil && len(c.open) == 0 {
		c.conn.Close()
		c.conn = nil
	}
}

// After makes fn happen unless the process has died by then.
func (c *Caller) After(d time.Duration, fn func()) {
	c.S.After(d, func() {
		if !c.gone {
			fn()
		}
	})
}

// Answered takes in a reply.
func (c *Caller) Answered(conn *nodes.Conn, reply message.Reply) {
	k := c.open[reply.To.Request]
	if k == nil || c.gone || c.conn != conn {
		return // given up long ago
	}
	delete(c.open, reply.To.Request)
	a := &Answer{Message: reply.Message, Refused: reply.Err}
	if k.asked == nil {
		k.done(a)
		return
	}
	c.ended(k, a)
}

// ended writes down what a call was answered.
func (c *Caller) ended(k *call, a *Answer) {
	if a.Refused != nil {
		a.Message = nil
		a.Unknown = a.Refused.Effect != nornv1.Effect_EFFECT_NONE
		c.finish(k, a, "")
		return
	}
	a.End = c.ending(k, a.Message)
	c.S.Record(a.End)
	if c.S.Fleet != nil && c.S.Fleet.Witness != nil {
		c.S.Fleet.Witness.Acknowledged(k.asked, a.End)
	}
	k.done(a)
}

// finish ends a call that has no good answer.
func (c *Caller) finish(k *call, a *Answer, text string) {
	if k.asked == nil {
		k.done(a)
		return
	}
	e := &history.Event{Op: k.asked.Op, Process: c.process, Func: k.asked.Func, Phase: history.Fail, Text: text}
	if a.Unknown {
		e.Phase = history.Info
	}
	if a.Refused != nil {
		e.Error, e.Text = convert.Kind(a.Refused.Kind), a.Refused.Message
		c.S.Refused(k.asked, e.Error)
		if reading(e.Func) && a.Refused.Kind == nornv1.ErrorKind_ERROR_KIND_NOT_FOUND {
			e.Phase, e.Error, e.Text = history.OK, "", ""
			e.Items = []history.Item{{Task: k.asked.Items[0].Task, State: history.Absent}}
		}
	}
	a.End = e
	c.S.Record(e)
	k.done(a)
}

// reading tells whether "not found" is what a request has read.
func reading(f history.Func) bool {
	return f == history.Get || f == history.Explain || f == history.Log
}

// Lost hears that a connection has broken: nothing on it will be answered.
func (c *Caller) Lost(conn *nodes.Conn) {
	if c.conn != conn || c.gone {
		return
	}
	c.HangUp()
}

// HangUp closes the connection; what is under way on it has an unknown end.
func (c *Caller) HangUp() {
	if c.conn == nil {
		return
	}
	c.conn.Close()
	c.conn = nil
	for _, number := range slices.Sorted(maps.Keys(c.open)) {
		if k := c.open[number]; k != nil {
			delete(c.open, number)
			c.finish(k, &Answer{Unknown: true}, "connection lost")
		}
	}
}

// die ends the process without a word. Its connection may stay half open.
func (c *Caller) die() {
	c.gone = true
	if c.conn != nil {
		if c.S.Chance(0.5) {
			c.conn.Close()
		} else {
			c.conn.Cut()
		}
		c.conn = nil
	}
}

// repeatable tells whether a request may come a second time at any moment
// without anybody being wrong.
func repeatable(m gproto.Message) bool {
	switch m := m.(type) {
	case *nornv1.SetQueueRequest:
		return m.GetIfVersion() != 0
	case *nornv1.GetRequest, *nornv1.ListRequest, *nornv1.CountRequest, *nornv1.LogRequest, *nornv1.ExplainRequest, *nornv1.QueuesRequest, *nornv1.KeyRequest, *nornv1.SessionRequest:
		return false // it would show nothing
	}
	return true
}

// ending is the end of an operation that was answered.
//
// Long because: it is one table, a case per answer.
func (c *Caller) ending(k *call, m gproto.Message) *history.Event {
	e := &history.Event{Op: k.asked.Op, Process: c.process, Func: k.asked.Func, Phase: history.OK, Session: k.asked.Session, Request: k.asked.Request}
	switch m := m.(type) {
	case *nornv1.EnqueueReply:
		for n, r := range m.GetResults() {
			e.Items = append(e.Items, c.result(k, n, r.GetReceipt(), r.GetError(), 0))
		}
	case *nornv1.WriteReply:
		for n, r := range m.GetResults() {
			e.Items = append(e.Items, c.result(k, n, r.GetReceipt(), r.GetError(), r.GetState()))
		}
	case *nornv1.RenewReply:
		for n, r := range m.GetResults() {
			i := c.result(k, n, nil, r.GetError(), r.GetState())
			i.Token = r.GetClaim().GetToken()
			if r.GetError() == nil {
				i.Until = c.believe(k, 0, r.GetLeaseSeconds())
			}
			e.Items = append(e.Items, i)
		}
	case *nornv1.ClaimReply:
		for _, g := range m.GetGrants() {
			i := convert.Seen(g.GetTask())
			i.Token, i.Start, i.Data = g.GetToken(), g.GetStart().AsTime().UnixNano(), history.Digest(g.GetCheckpoint())
			i.Until = c.believe(k, m.GetWaitedSeconds(), g.GetLeaseSeconds())
			e.Items = append(e.Items, i)
		}
	case *nornv1.GetReply:
		e.Items = []history.Item{convert.Seen(m.GetTask())}
	case *nornv1.ExplainReply:
		i := history.Item{Task: convert.Parse(m.GetId()), State: convert.State(m.GetState())}
		for _, r := range m.GetReasons() {
			i.Reasons = append(i.Reasons, strings.ToLower(strings.TrimPrefix(r.GetKind().String(), "REASON_KIND_")))
		}
		e.Items = []history.Item{i}
	case *nornv1.LogReply:
		e.More = m.GetMore()
		e.Items = []history.Item{{Task: k.asked.Items[0].Task, State: convert.State(m.GetState()), Log: convert.Entries(m.GetUpdates())}}
	case *nornv1.ListReply:
		e.More, e.Cursor = len(m.GetNextCursor()) > 0, hex.EncodeToString(m.GetNextCursor())
		for _, t := range m.GetTasks() {
			e.Items = append(e.Items, convert.Seen(t))
		}
	case *nornv1.CountReply:
		e.Tallies = append(e.Tallies, convert.Tally(m.GetTotal()))
		for _, q := range m.GetQueues() {
			e.Tallies = append(e.Tallies, convert.Tally(q))
		}
	case *nornv1.KeyReply:
		e.Items = []history.Item{{Task: convert.IDOf(m.GetId()), State: convert.State(m.GetState())}}
	case *nornv1.QueuesReply:
		if k.asked.Change != nil && len(m.GetQueues()) == 1 {
			q := m.GetQueues()[0]
			e.Change = &history.Change{Queue: q.GetName(), Paused: q.GetSettings().GetPaused(), Draining: q.GetSettings().GetDraining(), Version: q.GetVersion()}
		}
	}
	return e
}

// result is one item of the answer to a batch.
func (c *Caller) result(k *call, n int, receipt *nornv1.Receipt, err *nornv1.Error, s nornv1.State) history.Item {
	i := history.Item{State: convert.State(s), Existed: receipt.GetExisted()}
	if n < len(k.asked.Items) {
		i.Task = k.asked.Items[n].Task
	}
	if receipt != nil {
		i.Task = convert.Parse(receipt.GetId())
	}
	i.Unsure = k.weak
	if err != nil {
		i.Error, i.Text = convert.Kind(err.GetKind()), err.GetMessage()
		i.Unsure = err.GetEffect() != nornv1.Effect_EFFECT_NONE
		c.S.Refused(k.asked, i.Error)
	}
	return i
}

// believe is the true time up to which a worker believes in a lease that
// answers a call: the rule of package clock, on the worker's own clock.
func (c *Caller) believe(k *call, waited, lease float64) int64 {
	w, l := proto.Seconds(waited), proto.Seconds(lease)
	if mutant.DeadlineReceipt.On() {
		return c.Clock.WhenMono(clock.WorkerDeadline(c.Clock.Mono(c.S.Now), 0, l, clock.Margin(l, time.Millisecond)))
	}
	return c.Clock.WhenMono(clock.WorkerDeadline(c.Clock.Mono(k.stamp), w, l, clock.Margin(l, time.Millisecond)))
}
