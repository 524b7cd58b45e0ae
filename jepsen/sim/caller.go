package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// caller is the connection side of a client process: it sends requests, gives
// up after a while, and writes down what came of them.
type caller struct {
	s       *sim
	process int
	clock   local
	conn    *conn
	last    uint64 // number of the last request
	open    map[uint64]*call
	gone    bool         // the process has died
	pin     *node        // the only one it talks to; nil: any
	by      string       // its principal; empty: nobody has to show who it is
	scope   *guard.Scope // what that may do; nil: everything
}

// call is a request under way.
type call struct {
	asked *history.Event // nil: what becomes of it is no event
	stamp int64          // true time of sending
	weak  bool           // an acknowledgement of it may be lost with a disk
	done  func(*answer)
}

// answer is what came of a call.
type answer struct {
	message gproto.Message // nil unless it went well
	end     *history.Event // nil when nothing was sent
	refused *proto.Error
	unknown bool // it may have happened
}

// fine tells whether the call was answered, and not with a refusal.
func (a *answer) fine() bool { return a.message != nil }

func (s *sim) newCaller() *caller {
	s.process++
	return &caller{
		s: s, process: s.process, open: map[uint64]*call{},
		clock: local{began: s.now, first: 1 + s.rnd.Int64N(1e12), drift: s.drift(), off: int64(s.between(-200*time.Millisecond, 200*time.Millisecond))},
	}
}

// do sends a request. done hears of its end, once, unless the process dies.
func (c *caller) do(m gproto.Message, patience time.Duration, done func(*answer)) {
	if c.gone {
		return
	}
	c.roam()
	asked := invocation(m)
	asked.Weak = one(m) || alone(m)
	c.send(m, asked, patience, done)
}

// send sends a request; one that is not asked leaves nothing in the history.
func (c *caller) send(m gproto.Message, asked *history.Event, patience time.Duration, done func(*answer)) {
	s := c.s
	if c.conn == nil {
		if c.conn = s.dial(c); c.conn == nil {
			c.after(s.delay()+10*time.Millisecond, func() { done(&answer{}) })
			return
		}
		c.conn.toNode = s.now + 2*int64(s.delay())
	}
	c.last++
	number, method := c.last, methodOf(m)
	k := &call{asked: asked, stamp: s.now, weak: s.weak(m), done: done}
	if asked != nil {
		asked.Process, asked.By = c.process, c.by
		s.invoke(asked)
	}
	c.open[number] = k
	r := &message.Request{From: message.Origin{Conn: c.conn.id, Request: number, Method: uint16(method)}, Body: m, By: c.by, Scope: c.scope}
	if s.chance(0.3) {
		r.Deadline = int64(patience)
	}
	if c.scope == nil && s.chance(s.plan.net.again) && repeatable(m) {
		s.ghost(gproto.Clone(m), c.by)
	}
	conn := c.conn
	conn.request(r, urgent(method))
	c.after(patience, func() {
		if c.open[number] != k {
			return
		}
		delete(c.open, number)
		switch s.rnd.IntN(3) {
		case 0:
			conn.cancel(number, uint16(method))
		case 1:
			if c.conn == conn {
				c.hangUp()
			}
		}
		c.finish(k, &answer{unknown: true}, "timeout")
	})
}

// roam leaves a node that nothing is under way to: what one node has said must
// hold at the others.
func (c *caller) roam() {
	if c.s.fleet != nil && c.conn != nil && len(c.open) == 0 && c.s.chance(0.2) {
		c.leave()
	}
}

// leave has the next request go to any node, if none is under way.
func (c *caller) leave() {
	if c.pin == nil && c.conn != nil && len(c.open) == 0 {
		c.conn.close()
		c.conn = nil
	}
}

// after makes fn happen unless the process has died by then.
func (c *caller) after(d time.Duration, fn func()) {
	c.s.after(d, func() {
		if !c.gone {
			fn()
		}
	})
}

// answered takes in a reply.
func (c *caller) answered(reply message.Reply) {
	k := c.open[reply.To.Request]
	if k == nil || c.gone {
		return // given up long ago
	}
	delete(c.open, reply.To.Request)
	a := &answer{message: reply.Message, refused: reply.Err}
	if k.asked == nil {
		k.done(a)
		return
	}
	c.ended(k, a)
}

// ended writes down what a call was answered.
func (c *caller) ended(k *call, a *answer) {
	if a.refused != nil {
		a.message = nil
		a.unknown = a.refused.Effect != nornv1.Effect_EFFECT_NONE
		c.finish(k, a, "")
		return
	}
	a.end = c.ending(k, a.message)
	c.s.record(a.end)
	if c.s.fleet != nil && c.s.fleet.witness != nil {
		c.s.fleet.witness.acknowledged(k, a.end)
	}
	k.done(a)
}

// finish ends a call that has no good answer.
func (c *caller) finish(k *call, a *answer, text string) {
	if k.asked == nil {
		k.done(a)
		return
	}
	e := &history.Event{Op: k.asked.Op, Process: c.process, Func: k.asked.Func, Phase: history.Fail, Text: text}
	if a.unknown {
		e.Phase = history.Info
	}
	if a.refused != nil {
		e.Error, e.Text = kind(a.refused.Kind), a.refused.Message
		c.s.refused(k.asked, e.Error)
		if reading(e.Func) && a.refused.Kind == nornv1.ErrorKind_ERROR_KIND_NOT_FOUND {
			e.Phase, e.Error, e.Text = history.OK, "", ""
			e.Items = []history.Item{{Task: k.asked.Items[0].Task, State: history.Absent}}
		}
	}
	a.end = e
	c.s.record(e)
	k.done(a)
}

// reading tells whether "not found" is what a request has read.
func reading(f history.Func) bool {
	return f == history.Get || f == history.Explain || f == history.Log
}

// lost hears that a connection has broken: nothing on it will be answered.
func (c *caller) lost(conn *conn) {
	if c.conn != conn || c.gone {
		return
	}
	c.hangUp()
}

// hangUp closes the connection; what is under way on it has an unknown end.
func (c *caller) hangUp() {
	if c.conn == nil {
		return
	}
	c.conn.close()
	c.conn = nil
	for _, number := range slices.Sorted(maps.Keys(c.open)) {
		if k := c.open[number]; k != nil {
			delete(c.open, number)
			c.finish(k, &answer{unknown: true}, "connection lost")
		}
	}
}

// die ends the process without a word. Its connection may stay half open.
func (c *caller) die() {
	c.gone = true
	if c.conn != nil {
		if c.s.chance(0.5) {
			c.conn.close()
		} else {
			c.conn.cut()
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
