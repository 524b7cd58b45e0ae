package workers

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/portion"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/waiting"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/session"

	gproto "google.golang.org/protobuf/proto"
)

const (
	// lineWait is how long a worker's lines are waited for, below what another node
	// waits for us.
	lineWait = 3 * time.Second
	// MaxQuestions bounds the questions for lines that wait for workers.
	MaxQuestions = 1000
)

// Questions are questions for the lines of tasks that workers remember. Nothing is
// repeated: whoever follows a task asks again.
type Questions struct {
	s      *Machine
	number uint64
	// Invariant: there are at most [MaxQuestions], in the order of numbers (Audit).
	Open []question // oldest first; all wait equally long, unless their clients do not
}

// question is one that waits for a worker's lines of a task.
type question struct {
	number uint64
	from   message.Origin
	claim  session.Claim
	until  int64 // mono ns
	waits  *waiting.Wait
}

// Lines asks the worker of a task, wherever its session is.
func (s *Machine) Lines(now clock.Time, r *message.Request, m *nornv1.LinesRequest) (gproto.Message, *proto.Error) {
	if err := proto.CheckLines(m); err != nil {
		return nil, err
	}
	instance, node, ok := s.Names.holder(m.GetWorker())
	switch {
	case ok && s.Dispatcher.Knows(instance):
		return s.Questions.ask(now, r, instance, m)
	case !ok || r.Routed || node == s.Self || !s.View.Up(node):
		return nil, refusal.NoWorker(m.GetWorker())
	}
	if err := s.Routes.Crowds(r.From); err != nil {
		return nil, err
	}
	s.Routes.Pass(now, r, node, m)
	return nil, nil
}

// ask asks a worker of this node.
func (l *Questions) ask(now clock.Time, r *message.Request, instance session.Instance, m *nornv1.LinesRequest) (gproto.Message, *proto.Error) {
	own := int64(0)
	for i := range l.Open {
		if l.Open[i].from.Conn == r.From.Conn && r.From.Conn < message.OwnConns { // other nodes ask for their clients
			own++
		}
	}
	if !portion.Fits(MaxQuestions, int64(len(l.Open)), own, 1) {
		return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED,
			"%d questions for lines wait for workers already, of at most %d on this node, and no connection may have more than its share", len(l.Open), MaxQuestions).Again(100 * time.Millisecond)
	}
	if l.number == 0 {
		l.number = l.s.Rand.Uint64() // answers to the process before this one match nothing
	}
	l.number++
	a := question{
		number: l.number, from: r.From, claim: session.Claim{Task: id.ID(m.GetId()), Token: m.GetToken()}, until: now.Mono + int64(lineWait),
	}
	if r.Deadline != 0 {
		a.until = min(a.until, r.Deadline)
	}
	l.s.Pending.Find(waiting.Lines, r.From).End(refusal.Cancelled()) // a client that uses a number twice
	number := a.number
	a.waits = l.s.Pending.Open(waiting.Lines, r.From, func(why *proto.Error) {
		l.Open = slices.DeleteFunc(l.Open, func(o question) bool { return o.number == number })
		if why != nil {
			l.s.Round.Refuse(r.From, why)
		}
	})
	l.Open = append(l.Open, a)
	l.s.Dispatcher.AskLines(now, instance, session.GetLogLines{Request: a.number, Claim: a.claim, After: m.GetAfter(), Limit: int(min(m.GetLimit(), proto.MaxSessionLineBytes))})
	return nil, nil
}

// answered gives the answers of workers to those who asked.
func (l *Questions) answered(all []session.LogLines) {
	for i := range all {
		a := &all[i]
		at := slices.IndexFunc(l.Open, func(o question) bool { return o.number == a.Request && o.claim == a.Claim })
		if at < 0 {
			continue
		}
		reply := &nornv1.LinesReply{First: a.First, Known: a.Known, Ended: a.Ended}
		for _, text := range a.Lines {
			reply.Lines = append(reply.Lines, []byte(text))
		}
		l.Open[at].waits.Close()
		l.s.Round.Reply(l.Open[at].from, reply)
		l.Open = slices.Delete(l.Open, at, at+1)
	}
}

// late answers those whose worker has not.
func (l *Questions) late(now clock.Time) {
	l.Open = slices.DeleteFunc(l.Open, func(o question) bool {
		if o.until > now.Mono {
			return false
		}
		o.waits.Close()
		l.s.Round.Refuse(o.from, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "the worker does not answer"))
		return true
	})
}

// next is when one has waited for long enough, mono ns.
func (l *Questions) next() int64 {
	at := int64(clock.Never)
	for i := range l.Open {
		at = min(at, l.Open[i].until)
	}
	return at
}
