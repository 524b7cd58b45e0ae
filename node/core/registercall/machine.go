package registercall

import (
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	gproto "google.golang.org/protobuf/proto"
)

// Again is the pause after the register has failed.
const Again = 100 * time.Millisecond

// Then hears an answer of the register.
type Then = func(clock.Time, register.Result)

// Env is what a node's requests to the register go by.
type Env struct {
	*ground.Ground
	// Standing is that of the node; it may come later, before anything is asked for.
	Standing *standing.Machine
}

// request is one that is not answered yet.
type request struct {
	then                 Then   // hears the answer; nil: nobody
	generation, revision uint64 // of the register here when it was asked
}

// Machine asks the register.
type Machine struct {
	Env

	tag     uint64             // of the last request
	pending map[uint64]request // by tag
	at      int64              // when to ask again, mono ns; 0: no need
}

// New has asked for nothing yet.
func New(env Env) *Machine { return &Machine{Env: env, pending: make(map[uint64]request)} }

// Number is that of the next request, or of anything else that needs one of its own.
func (m *Machine) Number() uint64 {
	m.tag++
	return m.tag
}

// Ask sends a request to the register: a read when there are no changes.
func (m *Machine) Ask(changes []register.Change) { m.Send(register.Request{Changes: changes}, nil) }

// Send sends a request to the register; then, which may be nil, hears the answer. It hears
// nothing of an answer that this node does not take over.
func (m *Machine) Send(r register.Request, then Then) {
	r.Tag = m.await(then)
	m.Round.Ready.Register = append(m.Round.Ready.Register, r)
}

// await has the answer to a request heard that is sent now, and gives its number.
func (m *Machine) await(then Then) (tag uint64) {
	tag = m.Number()
	e := request{then: then, generation: m.View.State.Generation, revision: m.View.State.Revision}
	if b := &m.Standing.Rollback; standing.Earlier(e.generation, e.revision, b.Generation, b.Revision) {
		e.generation, e.revision = b.Generation, b.Revision // of before this start
	}
	m.pending[tag] = e
	return tag
}

// Commit sends changes once all is on disk that was written up to now.
func (m *Machine) Commit(changes []register.Change, then Then) {
	m.Round.Ready.Commit = append(m.Round.Ready.Commit, register.Request{Tag: m.await(then), Changes: changes})
}

// Consult sends a request to the register and answers a client with what comes of it, or that
// the register does not answer, which may have had an effect.
func (m *Machine) Consult(
	from message.Origin, r register.Request, unavailable func(error, nornv1.Effect) *proto.Error, effect nornv1.Effect,
	then func(clock.Time, *register.Result) (gproto.Message, *proto.Error),
) (gproto.Message, *proto.Error) {
	m.Send(r, func(now clock.Time, res register.Result) {
		if res.Err != nil {
			m.Round.Refuse(from, unavailable(res.Err, effect))
			return
		}
		reply, err := then(now, &res)
		m.Round.Done(from, reply, err)
	})
	return nil, nil
}

// Answered takes the register's answer. learn takes its state over, and tells whether it did.
func (m *Machine) Answered(now clock.Time, r register.Result, learn func(clock.Time, *register.State) bool) {
	e, ok := m.pending[r.Tag]
	if !ok {
		return
	}
	delete(m.pending, r.Tag)
	if r.Err != nil {
		m.at = now.Mono + int64(Again) // unknown is not failed: read what came of it
	} else {
		m.Standing.Rollback.Judge(e.generation, e.revision, &r.State)
		if !learn(now, &r.State) {
			if !m.View.Current {
				m.at = now.Mono + int64(Again)
			}
			return
		}
		m.View.Current = true
	}
	if e.then != nil {
		e.then(now, r)
	}
}

// Work asks again, where that is due.
func (m *Machine) Work(now clock.Time) {
	if m.at != 0 && m.at <= now.Mono {
		m.at = 0
		m.Ask(nil)
	}
}

// Due is when to ask again, mono ns.
func (m *Machine) Due() int64 {
	if m.at != 0 {
		return m.at
	}
	return int64(clock.Never)
}
