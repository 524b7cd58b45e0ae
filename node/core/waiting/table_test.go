package waiting

import (
	"fmt"
	"slices"
	"testing"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// table has two requests of connection 1, the first of which waits for two things, and one of 2.
func table(told *[]string) (t *Table, all []*Wait) {
	t = New()
	for _, w := range []struct {
		kind Kind
		conn uint64
		n    uint64
	}{{Copies, 1, 1}, {Log, 1, 2}, {Task, 2, 1}, {Task, 1, 1}} {
		name := fmt.Sprint(w.kind, " ", w.conn, ".", w.n)
		all = append(all, t.Open(w.kind, message.Origin{Conn: w.conn, Request: w.n, Method: uint16(w.kind)}, func(why *proto.Error) {
			kind := nornv1.ErrorKind(0)
			if why != nil {
				kind = why.Kind
			}
			*told = append(*told, fmt.Sprint(name, " ", kind))
		}))
	}
	return t, all
}

func wants(t *testing.T, told []string, kind nornv1.ErrorKind, want ...string) {
	t.Helper()
	for i := range want {
		want[i] += " " + fmt.Sprint(kind)
	}
	if !slices.Equal(told, want) {
		t.Errorf("told are %q, not %q", told, want)
	}
}

// TestACancellationEndsAllWaitsOfItsRequest: by number, whatever method is named, and no others.
func TestACancellationEndsAllWaitsOfItsRequest(t *testing.T) {
	var told []string
	table, _ := table(&told)
	table.Cancel(message.Origin{Conn: 1, Request: 1})
	wants(t, told, nornv1.ErrorKind_ERROR_KIND_CANCELLED, fmt.Sprint(Task, " 1.1"), fmt.Sprint(Copies, " 1.1"))
	if table.Cancel(message.Origin{Conn: 1, Request: 1}); len(told) != 2 || table.Count(Task) != 1 || table.Audit() != nil {
		t.Errorf("told are %q, %d wait for a task: %v", told, table.Count(Task), table.Audit())
	}
}

// TestAClosedConnectionEndsItsWaits: by kind, and nobody is told why.
func TestAClosedConnectionEndsItsWaits(t *testing.T) {
	var told []string
	table, _ := table(&told)
	table.Gone(1)
	wants(t, told, 0, fmt.Sprint(Task, " 1.1"), fmt.Sprint(Log, " 1.2"), fmt.Sprint(Copies, " 1.1"))
	if table.of[1] != nil || table.Audit() != nil {
		t.Errorf("of the connection %v is left: %v", table.of[1], table.Audit())
	}
}

// TestANodeThatStopsKeepsWhatIsOnItsWay: answers that wait for their copies leave.
func TestANodeThatStopsKeepsWhatIsOnItsWay(t *testing.T) {
	var told []string
	table, all := table(&told)
	table.Drain(proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "it stops"))
	wants(t, told, nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, fmt.Sprint(Task, " 2.1"), fmt.Sprint(Task, " 1.1"), fmt.Sprint(Log, " 1.2"))
	if !all[0].Open() {
		t.Error("what was written waits for its copies no more")
	}
}

// TestAWaitIsOverOnce: whoever closes it has it, and nothing ends it then.
func TestAWaitIsOverOnce(t *testing.T) {
	var told []string
	table, all := table(&told)
	if !all[0].Close() || all[0].Close() || (*Wait)(nil).Close() {
		t.Error("a wait is closed twice, or not at all")
	}
	all[0].End(nil)
	if table.Find(Copies, all[0].From) != nil || table.Find(Task, all[3].From) != all[3] || len(told) != 0 {
		t.Errorf("found is another one, and told are %q", told)
	}
}

// TestAnEndMayEndAnother: a request that is withdrawn withdraws what it has asked for.
func TestAnEndMayEndAnother(t *testing.T) {
	n := 0
	table := New()
	var first, second *Wait
	first = table.Open(Parts, message.Origin{Conn: 1}, func(*proto.Error) { n++; second.End(nil) })
	second = table.Open(Parts, message.Origin{Conn: 1, Request: 1}, func(*proto.Error) { n++; first.End(nil) })
	if table.Gone(1); n != 2 || table.Count(Parts) != 0 {
		t.Errorf("%d have ended, %d wait", n, table.Count(Parts))
	}
}

// TestAnAuditSeesWhatIsMiscounted: by kind, by number, and connections of nobody.
func TestAnAuditSeesWhatIsMiscounted(t *testing.T) {
	for what, spoil := range map[string]func(*Table, *Wait){
		"nothing":    func(*Table, *Wait) {},
		"count":      func(t *Table, _ *Wait) { t.counts[Log]++ },
		"number":     func(_ *Table, w *Wait) { w.From.Request = 7 },
		"table":      func(_ *Table, w *Wait) { w.in = nil },
		"connection": func(t *Table, _ *Wait) { t.of[9] = map[message.Origin][]*Wait{} },
		"request":    func(t *Table, _ *Wait) { t.of[1][message.Origin{Conn: 1, Request: 9}] = nil },
	} {
		var told []string
		table, all := table(&told)
		spoil(table, all[0])
		if err := table.Audit(); (err != nil) != (what != "nothing") {
			t.Errorf("%s: %v", what, err)
		}
		if err := table.Agrees(Task, "dispatch", 2); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if err := table.Agrees(Task, "dispatch", 1); err == nil {
			t.Errorf("%s: one more waits than a machine has, and nothing is said", what)
		}
	}
}
