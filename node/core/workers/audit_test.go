package workers

import (
	"testing"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/waiting"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/session"
)

// TestAnAuditSeesWhoWouldWaitForEver: workers whose requests, streams, names and renewals are not
// where they are looked for.
func TestAnAuditSeesWhoWouldWaitForEver(t *testing.T) {
	i := session.Instance{1}
	for what, spoil := range map[string]func(*Machine, *Stream){
		"nothing":   func(*Machine, *Stream) {},
		"request":   func(m *Machine, _ *Stream) { m.Pending.Gone(7) },
		"flag":      func(m *Machine, _ *Stream) { m.dirty = nil },
		"entry":     func(_ *Machine, st *Stream) { st.dirty = false },
		"bytes":     func(_ *Machine, st *Stream) { st.bytes++ },
		"stream":    func(_ *Machine, st *Stream) { st.Open[0].stream = &Stream{} },
		"holder":    func(m *Machine, _ *Stream) { m.Names.of[i] = "w" },
		"claims":    func(m *Machine, _ *Stream) { m.Asks.renewals.claims++ },
		"questions": func(m *Machine, _ *Stream) { m.Questions.Open = []question{{number: 2}, {number: 1}} },
		"look":      func(m *Machine, _ *Stream) { m.Known.at = m.Known.looks[i].at + 1 },
	} {
		m, _, now := testMachine(t)
		st := m.stream(now, 7, i, 1)
		h := &Held{from: message.Origin{Conn: 7, Request: 1}, stream: st}
		h.waits, st.Open = m.Pending.Open(waiting.Work, h.from, func(*proto.Error) {}), append(st.Open, h)
		m.waits.Add(h)
		m.touch(st)
		m.Known.look(now, i, 1)
		spoil(m, st)
		if err := m.Audit(); (err != nil) != (what != "nothing") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
