package mutants

import (
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/node/core/message"
	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/jepsen/sim/nodes"
)

// OfSchedules are clusters that break one promise about schedules each, now and
// then.
func OfSchedules() []nodes.Mutant {
	launch := func(m *message.Send) (*message.Forward, *nornv1.LaunchRequest) {
		f, ok := m.Message.(*message.Forward)
		if !ok {
			return nil, nil
		}
		l, _ := f.Body.(*nornv1.LaunchRequest)
		return f, l
	}
	return []nodes.Mutant{
		{Name: "launches under an ID of its own", Breaks: []string{check.CronDoubled}, Send: func(n *nodes.Node, m *message.Send) bool {
			if f, l := launch(m); l != nil && n.S.Chance(0.1) {
				other := *f
				twin := gproto.CloneOf(l)
				for _, t := range twin.GetTasks() {
					t.Id[19] ^= 1
				}
				other.Number, other.Body = f.Number^1<<62, twin
				n.S.Fleet.Send(n, &message.Send{To: m.To, Message: &other})
			}
			return true
		}},
		{Name: "says it has enqueued launches that it has dropped", Breaks: []string{check.CronMissed}, Event: func(n *nodes.Node, e any) bool {
			m, ok := e.(*message.FromPeer)
			if !ok {
				return true
			}
			f, l := launch(&message.Send{Message: m.Message})
			if l == nil || !n.S.Chance(0.1) {
				return true
			}
			reply := &nornv1.EnqueueReply{}
			for range l.GetTasks() {
				reply.Results = append(reply.Results, &nornv1.EnqueueResult{Receipt: &nornv1.Receipt{}})
			}
			n.S.Fleet.Send(n, &message.Send{To: m.From, Message: &message.Forwarded{Number: f.Number, Method: f.Method, Message: reply}})
			return false
		}},
		{Name: "launches late", Breaks: []string{check.CronLate, check.CronMissed}, Clock: func(n *nodes.Node, now clock.Time) clock.Time {
			if n.S.Healing && n.Clock.Off == 0 { // all of them: a clock that is off alone leads nothing
				n.Clock.Off = -int64(8 * time.Second)
				return n.Clock.Time(n.S.Now)
			}
			return now
		}},
	}
}
