package register

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/register/wire"
)

func drawSchedules(t *rapid.T, q *Request) {
	for range rapid.IntRange(0, 3).Draw(t, "schedules") {
		q.Schedules = append(q.Schedules, ScheduleChange{
			Name:       fmt.Sprintf("s%d", rapid.IntRange(0, 4).Draw(t, "schedule")),
			Old:        rapid.Uint64Range(0, 12).Draw(t, "old"),
			Definition: rapid.SampledFrom([][]byte{nil, {}, []byte("d"), []byte("dd")}).Draw(t, "definition"),
			State:      rapid.SampledFrom([][]byte{nil, {}, []byte("s")}).Draw(t, "state"),
			Remove:     rapid.IntRange(0, 5).Draw(t, "remove") == 0,
		})
	}
	if rapid.IntRange(0, 3).Draw(t, "master") == 0 {
		q.Master = &MasterChange{Old: rapid.Uint64Range(0, 2).Draw(t, "old"), New: Mastership{Nonce: rapid.Uint64Range(0, 2).Draw(t, "nonce"), Member: drawMember(t), Zones: "2025c"}}
	}
	if q.schedules() && rapid.Bool().Draw(t, "fenced") {
		q.Nonce = rapid.Uint64Range(1, 2).Draw(t, "nonce")
	}
}

// lawfulSchedules compares with a map what a request did to schedules.
func lawfulSchedules(t *rapid.T, model map[string]*Schedule, s, next *State, q *Request, res *Result) {
	master := s.Master
	if c := q.Master; c != nil {
		won := c.Old == master.Nonce && c.New.Nonce != 0 && c.New.Nonce != c.Old
		if won != res.MasterWon {
			t.Fatalf("mastership %+v of %+v: won %v", c, master, res.MasterWon)
		}
		if won {
			master, master.Term = c.New, s.Master.Term+1
		}
	}
	if !reflect.DeepEqual(master, next.Master) {
		t.Fatalf("the mastership is %+v, not %+v", next.Master, master)
	}
	for i, c := range q.Schedules {
		old := model[c.Name]
		won := (q.Nonce == 0 || q.Nonce == master.Nonce) && (old == nil && c.Old == 0 || old != nil && old.Revision == c.Old) && (old != nil || !c.Remove)
		if won != res.SchedulesWon[i] {
			t.Fatalf("%+v of %+v: won %v", c, old, res.SchedulesWon[i])
		}
		switch {
		case !won:
		case c.Remove:
			delete(model, c.Name)
		default:
			x := &Schedule{Name: c.Name, Revision: next.Revision}
			if old != nil {
				x.Definition, x.State = old.Definition, old.State
			}
			if c.Definition != nil {
				x.Definition = c.Definition
			}
			if c.State != nil {
				x.State = c.State
			}
			model[c.Name] = x
		}
	}
	n := 0
	for x := range next.Schedules.All() {
		n++
		m := model[x.Name]
		if m == nil || m.Revision != x.Revision || !bytes.Equal(m.Definition, x.Definition) || !bytes.Equal(m.State, x.State) || next.Schedules.Get(x.Name) != x {
			t.Fatalf("%+v is there, not %+v", x, m)
		}
	}
	if n != len(model) || next.Schedules.Len() != n {
		t.Fatalf("%d schedules are there, %d counted, not %d", n, next.Schedules.Len(), len(model))
	}
	differ := slices.Collect(next.Schedules.Since(s.Schedules))
	for _, name := range differ {
		if next.Schedules.Get(name) == s.Schedules.Get(name) {
			t.Fatalf("%s did not change", name)
		}
	}
	for name := range model { // Any order: each is looked at for itself.
		if next.Schedules.Get(name) != s.Schedules.Get(name) && !slices.Contains(differ, name) {
			t.Fatalf("%s changed, and Since does not say so", name)
		}
	}
}

// many is a state with so many schedules.
func many(n int) State {
	s := First(Cluster{ID: UUID{1}, Partitions: 4, Replicas: 3}, Node{Member: Member{Node: "n1", Incarnation: Incarnation{1}}})
	for i := range n {
		s.Schedules = s.Schedules.with(fmt.Sprintf("schedule-%06d", i), &Schedule{Name: fmt.Sprintf("schedule-%06d", i), Revision: 1, Definition: make([]byte, 150), State: make([]byte, 300)})
	}
	return s
}

// TestManySchedules: a change among 20,000 copies little, a comparison looks at
// little, and the encoding and the limits hold.
func TestManySchedules(t *testing.T) {
	s := many(20_000)
	name := "schedule-012345"
	change := Request{Schedules: []ScheduleChange{{Name: name, Old: 1, State: []byte("new")}}}
	next, res, _ := s.Apply(&change)
	if !res.SchedulesWon[0] || next.Schedules.Len() != 20_000 {
		t.Fatal("the change was not made")
	}
	if got := slices.Collect(next.Schedules.Since(s.Schedules)); !slices.Equal(got, []string{name}) {
		t.Errorf("what differs: %v", got)
	}
	if n := testing.AllocsPerRun(10, func() { _, _, _ = s.Apply(&change) }); n > 40 {
		t.Errorf("a change takes %v allocations", n)
	}
	b := encoded(&next)
	r := wire.NewReader(b)
	back := ReadState(r)
	if r.End() != nil || !bytes.Equal(encoded(&back), b) || back.Schedules.bytes != next.Schedules.bytes || back.Schedules.Get(name) == nil {
		t.Error("the encoding is not read back")
	}
	all, err := json.Marshal(&next)
	var local State
	if err != nil || json.Unmarshal(all, &local) != nil || !bytes.Equal(encoded(&local), b) {
		t.Errorf("the form of Local is not read back: %v", err)
	}
}

// TestLimitsOfSchedules: what is too long or one too many is not written, and
// what is there can be made smaller and taken away.
func TestLimitsOfSchedules(t *testing.T) {
	s := many(10)
	try := func(c ScheduleChange) bool {
		_, res, _ := s.Apply(&Request{Schedules: []ScheduleChange{c}})
		return res.SchedulesWon[0]
	}
	for _, c := range []ScheduleChange{
		{Name: "x", Definition: make([]byte, MaxDefinition+1)}, {Name: "x", State: make([]byte, MaxScheduleState+1)},
		{Name: string(make([]byte, MaxName+1))}, {Name: ""}, {Name: "x", Old: 1}, {Name: "x", Remove: true}, {Name: "schedule-000001"},
	} {
		if try(c) {
			t.Errorf("%.20s with %d and %d bytes is written", c.Name, len(c.Definition), len(c.State))
		}
	}
	s.Schedules.count = MaxSchedules
	if try(ScheduleChange{Name: "x"}) || !try(ScheduleChange{Name: "schedule-000001", Old: 1, State: []byte{1}}) {
		t.Error("the limit of their number")
	}
	s.Schedules.count, s.Schedules.bytes = 10, MaxScheduleBytes
	if try(ScheduleChange{Name: "x"}) || try(ScheduleChange{Name: "schedule-000001", Old: 1, State: make([]byte, 301)}) ||
		!try(ScheduleChange{Name: "schedule-000001", Old: 1, State: []byte{1}}) || !try(ScheduleChange{Name: "schedule-000001", Old: 1, Remove: true}) {
		t.Error("the limit of their bytes")
	}
	s.Schedules.bytes = MaxScheduleBytes - ScheduleReserve
	if try(ScheduleChange{Name: "x"}) || try(ScheduleChange{Name: "schedule-000001", Old: 1, Definition: make([]byte, 8<<10)}) {
		t.Error("users take what is for the master")
	}
	if !try(ScheduleChange{Name: "schedule-000001", Old: 1, State: make([]byte, 8<<10)}) {
		t.Error("nothing more is launched when users have filled the register")
	}
	if !try(ScheduleChange{Name: "schedule-000001", Old: 1, Definition: make([]byte, 1<<10), State: make([]byte, 400)}) {
		t.Error("nothing can be paused when users have filled the register")
	}
}

// TestAStateOfBeforeIsRead: what was written before there were schedules, or names, or queues that are gone.
func TestAStateOfBeforeIsRead(t *testing.T) {
	s := First(Cluster{ID: UUID{1}, Partitions: 2, Replicas: 3}, Node{Member: Member{Node: "n1", Incarnation: Incarnation{1}}})
	b := encoded(&s)
	tail := wire.Writer{}
	appendNames(&tail, &s)
	tail.Uint(s.QueuesGone)
	names := len(tail.B)
	appendSchedules(&tail, &s)
	for version, cut := range map[byte]int{1: len(tail.B), 2: names, 3: 1} {
		r := wire.NewReader(append([]byte{version}, b[1:len(b)-cut]...))
		if back := ReadState(r); r.End() != nil || !bytes.Equal(encoded(&back), b) {
			t.Errorf("version %d: %+v", version, back)
		}
	}
}
