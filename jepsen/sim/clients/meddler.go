package clients

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/node/guard"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/jepsen/sim/convert"
	"github.com/norn-dev/norn/jepsen/sim/world"
)

// meddler tries what it has no right to: a stranger, who may do everything on one queue, on tasks
// of the others; a peer, who may work on all of them, on claims of other principals. What came of
// it is held to a check.Rights; everything else is held to the promises as if nobody had tried.
type meddler struct {
	*Caller
	may []string // the queues of a stranger; nil: a peer
}

// nowhere is a queue without tasks.
const nowhere = "nowhere"

func newMeddler(s *People, stranger bool) *meddler {
	m := &meddler{Caller: s.NewCaller()}
	m.by = "peer"
	if stranger {
		m.by, m.may = "stranger", []string{nowhere}
		if len(s.Plan.Queues) > 1 {
			m.may = slices.Clone(s.Plan.Queues[:1])
		}
		m.scope = guard.NewPrincipal(m.by, guard.ByToken, nil, []guard.Rule{{Verbs: guard.All &^ (guard.Cluster | guard.Access), Pattern: m.may[0]}}, "").Scope()
	}
	m.After(s.About(s.Plan.Work.Think), m.act)
	return m
}

func (m *meddler) act() {
	s := m.S
	if s.Healing {
		return
	}
	defer m.After(s.About(s.Plan.Work.Think), m.act)
	j := s.Board.Some(&s.World)
	switch token := uint64(0); {
	case j == nil:
	case m.may == nil:
		if token = s.Tokens[j.ID]; token != 0 {
			m.try(spoiling(j.ID, token)[s.Rnd.IntN(3)])
		}
	case slices.Contains(m.may, j.Queue) || s.Chance(0.2):
		m.try(world.Pick(&s.World, []gproto.Message{&nornv1.ListRequest{Limit: 20}, &nornv1.CountRequest{}, &nornv1.GetRequest{Id: j.ID.Bytes()}}))
	default:
		id := j.ID.Bytes()
		all := append(spoiling(j.ID, max(1, s.Tokens[j.ID])),
			&nornv1.GetRequest{Id: id}, &nornv1.LogRequest{Id: id}, &nornv1.ExplainRequest{Id: id}, &nornv1.CancelRequest{Ids: [][]byte{id}}, &nornv1.RetryRequest{Ids: [][]byte{id}},
			&nornv1.UpdateRequest{Id: id, Token: max(1, s.Tokens[j.ID]), Data: []byte("forged")},
			&nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: id, Token: max(1, s.Tokens[j.ID]), AutoSeq: true, Result: []byte("forged")}}})
		m.try(world.Pick(&s.World, all))
	}
}

// tellClaim has meddlers know the newest claim of a task.
func tellClaim(s *People, task id.ID, token uint64) {
	if s.Tokens != nil {
		s.Tokens[task] = token
	}
}

// spoiling are the requests that end a claim otherwise than by a completion, or keep it.
func spoiling(task id.ID, token uint64) []gproto.Message {
	ref := []*nornv1.ClaimRef{{Id: task.Bytes(), Token: token}}
	return []gproto.Message{
		&nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: token, Error: "forged"}}},
		&nornv1.ReleaseRequest{Claims: ref}, &nornv1.RenewRequest{Claims: ref},
	}
}

// try sends a request, and writes down that it was tried and what came of it.
func (m *meddler) try(request gproto.Message) {
	s := m.S
	m.roam()
	plain := convert.Invocation(request)
	asked := *plain
	asked.Func, asked.Text, asked.By, asked.Queues, asked.Process = history.Try, string(plain.Func), m.by, m.may, m.process
	s.Invoke(&asked)
	plain.Op = asked.Op
	k := &call{asked: plain, stamp: s.Now}
	m.Send(request, nil, 3*time.Second, func(a *Answer) {
		e := &history.Event{Op: asked.Op, Process: m.process, Phase: history.Info}
		switch {
		case a.Message != nil:
			e = m.ending(k, a.Message)
		case a.Refused != nil:
			e.Phase, e.Error, e.Text = history.Fail, convert.Kind(a.Refused.Kind), a.Refused.Message
		}
		e.Func = history.Try
		s.Record(e)
	})
}
