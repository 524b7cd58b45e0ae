package core

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/portion"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/session"

	gproto "google.golang.org/protobuf/proto"
)

const (
	// lineWait is how long a worker's lines are waited for, below what another node
	// waits for us.
	lineWait = 3 * time.Second
	// maxLineAsks bounds the questions for lines that wait for workers.
	maxLineAsks = 1000
)

// lineAsks are questions for the lines of tasks that workers remember. Nothing is
// repeated: whoever follows a task asks again.
type lineAsks struct {
	s      *sessions
	number uint64
	open   []lineAsk // oldest first; all wait equally long, unless their clients do not
}

type lineAsk struct {
	number uint64
	from   message.Origin
	claim  session.Claim
	until  int64 // mono ns
}

// lines asks the worker of a task, wherever its session is.
func (w workers) lines(now clock.Time, r *message.Request, m *nornv1.LinesRequest) (gproto.Message, *proto.Error) {
	if err := proto.CheckLines(m); err != nil {
		return nil, err
	}
	instance, node, ok := w.names.holder(m.GetWorker())
	switch {
	case ok && w.d.Knows(instance):
		return w.asked.ask(now, r, instance, m)
	case !ok || r.Routed || node == w.c.cfg.Self || !w.c.view.Up(node):
		return nil, refusal.NoWorker(m.GetWorker())
	case crowds(w.c.routes, r.From):
		return nil, refusal.Crowded(maxGathers)
	}
	g := w.c.routes.gather(now, r, &whole{}, 0)
	w.c.routes.forward(now, g, node, nil, m, nil)
	w.c.routes.finish(g)
	return nil, nil
}

// ask asks a worker of this node.
func (l *lineAsks) ask(now clock.Time, r *message.Request, instance session.Instance, m *nornv1.LinesRequest) (gproto.Message, *proto.Error) {
	own := int64(0)
	for i := range l.open {
		if l.open[i].from.Conn == r.From.Conn && r.From.Conn < message.OwnConns { // other nodes ask for their clients
			own++
		}
	}
	if !portion.Fits(maxLineAsks, int64(len(l.open)), own, 1) {
		return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED,
			"%d questions for lines wait for workers already, of at most %d on this node, and no connection may have more than its share", len(l.open), maxLineAsks).Again(100 * time.Millisecond)
	}
	if l.number == 0 {
		l.number = l.s.c.cfg.Rand.Uint64() // answers to the process before this one match nothing
	}
	l.number++
	a := lineAsk{
		number: l.number, from: r.From, claim: session.Claim{Task: id.ID(m.GetId()), Token: m.GetToken()}, until: now.Mono + int64(lineWait),
	}
	if r.Deadline != 0 {
		a.until = min(a.until, r.Deadline)
	}
	l.cancel(r.From) // a client that uses a number twice
	l.open = append(l.open, a)
	l.s.d.AskLines(now, instance, session.GetLogLines{Request: a.number, Claim: a.claim, After: m.GetAfter(), Limit: int(min(m.GetLimit(), proto.MaxSessionLineBytes))})
	return nil, nil
}

// answered gives the answers of workers to those who asked.
func (l *lineAsks) answered(all []session.LogLines) {
	for i := range all {
		a := &all[i]
		at := slices.IndexFunc(l.open, func(o lineAsk) bool { return o.number == a.Request && o.claim == a.Claim })
		if at < 0 {
			continue
		}
		reply := &nornv1.LinesReply{First: a.First, Known: a.Known, Ended: a.Ended}
		for _, text := range a.Lines {
			reply.Lines = append(reply.Lines, []byte(text))
		}
		l.s.c.round.Reply(l.open[at].from, reply)
		l.open = slices.Delete(l.open, at, at+1)
	}
}

// late answers those whose worker has not.
func (l *lineAsks) late(now clock.Time) {
	l.open = slices.DeleteFunc(l.open, func(o lineAsk) bool {
		if o.until > now.Mono {
			return false
		}
		l.s.c.round.Refuse(o.from, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "the worker does not answer"))
		return true
	})
}

// next is when one has waited for long enough, mono ns.
func (l *lineAsks) next() int64 {
	at := int64(clock.Never)
	for i := range l.open {
		at = min(at, l.open[i].until)
	}
	return at
}

// gone forgets the questions of a closed connection.
func (l *lineAsks) gone(conn uint64) {
	l.open = slices.DeleteFunc(l.open, func(o lineAsk) bool { return o.from.Conn == conn })
}

// cancel answers a question that its client gave up.
func (l *lineAsks) cancel(from message.Origin) {
	l.open = slices.DeleteFunc(l.open, func(o lineAsk) bool {
		is := message.NumberOf(o.from) == message.NumberOf(from)
		if is {
			l.s.c.round.Refuse(o.from, refusal.Cancelled())
		}
		return is
	})
}

// drain sends those who wait to other nodes.
func (l *lineAsks) drain(why *proto.Error) {
	for _, o := range l.open {
		l.s.c.round.Refuse(o.from, why)
	}
	l.open = nil
}
