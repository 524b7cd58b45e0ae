package placement

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// cluster is a register with active nodes, by letter, and cells without a
// cohort.
func cluster(partitions, replicas int, names string) register.State {
	s := register.State{
		Cluster: register.Cluster{Partitions: partitions, Replicas: replicas},
		Cells:   make([]register.Cell, partitions), Revision: 1,
	}
	for _, m := range members(names) {
		s.Nodes = append(s.Nodes, register.Node{Member: m, Version: 1, Weight: 100, Status: register.Active})
		s.Members = append(s.Members, m)
	}
	return s
}

func driver(self string) *Driver {
	return New(Config{Self: member(self), Rand: rand.New(rand.NewPCG(1, 2))})
}

func at(d time.Duration) clock.Time { return clock.Time{Mono: int64(d)} }

// ask tells a driver how things are and gives its request, nil if there is none.
func ask(d *Driver, now clock.Time, s register.State, alive string) *register.Request {
	d.Step(now, Input{State: s, Leads: true, Alive: members(alive)})
	requests, _ := d.Ready(now)
	if len(requests) == 0 {
		return nil
	}
	return &requests[0]
}

// follow applies what a driver asks for until it asks for no more.
func follow(t *testing.T, d *Driver, now clock.Time, s register.State, alive string) register.State {
	t.Helper()
	for range 10 {
		r := ask(d, now, s, alive)
		if r == nil {
			return s
		}
		s, _, _ = s.Apply(r)
	}
	t.Fatal("it asks for ever")
	return s
}

func TestCellsBegin(t *testing.T) {
	s := follow(t, driver("a"), at(0), cluster(16, 3, "abcd"), "bcd")
	plan, err := ring.DecodePlan(s.Plan.Data)
	if err != nil || plan.Replicas() != 3 || len(plan.Members()) != 4 {
		t.Fatalf("plan of %d for %v: %v", plan.Replicas(), plan.Members(), err)
	}
	for p, c := range s.Cells {
		var want []register.Member
		for _, m := range plan.Cohort(ring.Partition(p)) {
			want = append(want, fromRing(m))
		}
		if c.Epoch != 1 || c.Nonce == 0 || !slices.Equal(c.Cohort, want) || c.Leader != want[0] {
			t.Errorf("cell %d is %v, planned %v", p, c, want)
		}
	}
}

// A cluster that is being made has its first plan when the nodes are there that are expected:
// as many as replicas are waited for without end, the others while they keep coming.
func TestGathering(t *testing.T) {
	for _, c := range []struct {
		nodes, alive string
		after        time.Duration // of the last one that came
		expected     int
		want         bool
	}{
		{"abc", "abc", 0, 0, true},
		{"abc", "abc", 0, 3, true},
		{"abc", "ab", time.Hour, 3, false},
		{"ab", "ab", time.Hour, 3, false},
		{"ab", "ab", 0, 2, true},
		{"abcd", "abcd", 4 * time.Second, 5, false},
		{"abcd", "abcd", 5 * time.Second, 5, true},
		{"abcde", "abcd", 4 * time.Second, 5, false},
		{"abcde", "abcd", 5 * time.Second, 5, true},
		{"abcde", "abcde", 0, 5, true},
	} {
		d, s := driver("a"), cluster(16, 3, c.nodes)
		tell := func(now time.Duration) []register.Request {
			d.Step(at(now), Input{State: s, Leads: true, Alive: members(c.alive), Expected: c.expected})
			r, wake := d.Ready(at(now))
			if end := now + 5*time.Second; now == time.Minute && len(r) == 0 && len(c.alive) > 3 && wake != int64(end) {
				t.Errorf("%+v: it looks again at %v, not %v", c, time.Duration(wake), end)
			}
			return r
		}
		asked := tell(time.Minute)
		if c.after > 0 {
			asked = append(asked, tell(time.Minute+c.after)...)
		}
		if got := len(asked) > 0 && asked[0].Plan != nil; got != c.want {
			t.Errorf("%+v: planned: %v", c, got)
		}
	}
}

// The first node of a cluster names itself the leader; the driver asks for a
// plan and for nothing else.
func TestClusterOfOne(t *testing.T) {
	self := register.Node{Member: member("a"), Weight: 100}
	s := register.First(register.Cluster{Partitions: 16, Replicas: 3}, self)
	d := driver("a")
	r := ask(d, at(0), s, "")
	if r == nil || r.Plan == nil || len(r.Changes)+len(r.Nodes) != 0 {
		t.Fatalf("it asks for %+v", r)
	}
	s, _, _ = s.Apply(r)
	if r := ask(d, at(time.Minute), s, ""); r != nil {
		t.Errorf("then it asks for %+v", r)
	}
	if e := d.View().Enqueueable(); e.Len() != 16 {
		t.Errorf("%d partitions take tasks", e.Len())
	}
}

func TestOnlyWhoLeadsAsks(t *testing.T) {
	d := driver("a")
	s := cluster(4, 3, "ab")
	d.Step(at(0), Input{State: s, Alive: members("ab")})
	if r, wake := d.Ready(at(0)); len(r) != 0 || wake != clock.Never {
		t.Errorf("it asks for %v and wakes at %d", r, wake)
	}
	if d.View().State().Revision != 1 {
		t.Error("it has no view")
	}
	if ask(d, at(0), s, "ab") == nil {
		t.Error("it asks for nothing when it leads")
	}
}

// A request that shows nowhere is asked again after a pause; until then there
// is no other, and what has come of it in part is no end of it.
func TestLostRequest(t *testing.T) {
	d, s := driver("a"), cluster(4, 3, "abc")
	plan := ask(d, at(-3*time.Second), s, "abc")
	again := ask(d, at(0), s, "abc")
	if plan == nil || plan.Plan == nil || again == nil || again.Plan == nil {
		t.Fatalf("it asks for %+v and then for %+v", plan, again)
	}
	s, _, _ = s.Apply(again)
	first := ask(d, at(0), s, "abc")
	if first == nil || len(first.Changes) != 4 {
		t.Fatalf("it asks for %+v", first)
	}
	half := *first
	half.Changes = half.Changes[:2]
	s, _, _ = s.Apply(&half)
	d.Step(at(time.Second), Input{State: s, Leads: true, Alive: members("abc")})
	if r, wake := d.Ready(at(time.Second)); len(r) != 0 || wake != int64(3*time.Second) {
		t.Fatalf("it asks for %+v and wakes at %v", r, time.Duration(wake))
	}
	r, _ := d.Ready(at(3 * time.Second))
	if len(r) != 1 || len(r[0].Changes) != 2 {
		t.Fatalf("it asks again for %+v", r)
	}
	s, _, _ = s.Apply(&r[0])
	if r := ask(d, at(4*time.Second), s, "abc"); r != nil {
		t.Errorf("there is nothing left, and it asks for %+v", r)
	}
}

// Who begins to lead waits before it takes anybody for dead: it may have been
// the one that was cut off.
func TestTakeover(t *testing.T) {
	d := driver("a")
	s := follow(t, d, at(0), cluster(4, 3, "abc"), "abc")
	for _, from := range []time.Duration{0, time.Hour} {
		d.Step(at(from), Input{State: s, Alive: members("ac")})
		begins := from + time.Minute
		if r := ask(d, at(begins), s, "ac"); r != nil {
			t.Errorf("at once it asks for %+v", r)
		}
		_, wake := d.Ready(at(begins))
		if want := begins + 10*time.Second; wake != int64(want) {
			t.Errorf("it wakes at %v, want %v", time.Duration(wake), want)
		}
		if r := ask(d, at(begins+10*time.Second), s, "ac"); r == nil || len(r.Changes) == 0 {
			t.Error("what a dead node led stays without a leader")
		}
	}
}

// A cohort loses a member that nobody replaces when it has been together for
// long enough, and only while a majority of the others lives.
func TestShrinking(t *testing.T) {
	d, now := driver("a"), time.Duration(0)
	s := follow(t, d, at(0), cluster(1, 3, "ab"), "ab")
	cell := s.Cells[0]
	grown := register.Cell{Epoch: cell.Epoch + 1, Cohort: append(members("x"), cell.Cohort...), Leader: cell.Leader}
	set := func(status register.NodeStatus, old uint64) {
		n := register.Node{Member: member("x"), Weight: 1, Status: status}
		s, _, _ = s.Apply(&register.Request{Nodes: []register.NodeChange{{Old: old, New: n}}})
	}
	set(register.Joining, 0)
	set(register.Active, 1)
	set(register.Leaving, 2)
	now = 20 * time.Second
	s, _, _ = s.Apply(&register.Request{Changes: []register.Change{{Old: cell, New: grown}}})
	for _, c := range []struct {
		after time.Duration
		alive string
		want  string
	}{
		{0, "abx", ""},
		{9 * time.Second, "abx", ""},
		{10 * time.Second, "ax", ""}, // b is dead
		{15 * time.Second, "abx", ""},
		{24 * time.Second, "abx", ""},
		{25 * time.Second, "abx", "ab"},
	} {
		got := ""
		if r := ask(d, at(now+c.after), s, c.alive); r != nil {
			for _, m := range r.Changes[0].New.Cohort {
				got += m.Node
			}
		}
		if got == "ba" {
			got = "ab"
		}
		if got != c.want {
			t.Errorf("after %v with %s alive it asks for %q, want %q", c.after, c.alive, got, c.want)
		}
	}
}

// While the stored plan is out of date nothing is done after it, and a cell that
// has lost its cohort, which nobody asks for, is not given another.
func TestOutdatedPlan(t *testing.T) {
	s := cluster(2, 3, "abc")
	s.Plan = register.Value{Version: 1, Data: planOf(t, 2, "ab")}
	s.Cells[0] = register.Cell{Epoch: 1, Cohort: members("cab"), Leader: member("a")}
	d := driver("a")
	ask(d, at(-time.Hour), s, "abc")
	s.Revision++
	r := ask(d, at(0), s, "abc")
	if r == nil || r.Plan == nil || len(r.Changes) != 0 {
		t.Errorf("it asks for %+v", r)
	}
	s.Cells[1].Epoch = 5
	s = follow(t, driver("a"), at(0), s, "abc")
	if c := &s.Cells[1]; c.Epoch != 5 || len(c.Cohort) != 0 {
		t.Errorf("a cohort was made up: %+v", c)
	}
}

// What a driver does about one cell. Of the plan p is the preferred leader and o
// the other member; x and y are leaving, d too and dead, r is removed and seems
// to live.
func TestOneCell(t *testing.T) {
	plan, err := ring.DecodePlan(planOf(t, 1, "po"))
	if err != nil {
		t.Fatal(err)
	}
	if plan.Cohort(0)[0].Name != "p" {
		plan, _ = ring.DecodePlan(swapped(t, plan.AppendTo(nil), "p", "o"))
	}
	for _, c := range []struct{ name, cohort, leader, want, led string }{
		{"as planned", "po", "p", "", ""},
		{"the other one leads", "op", "o", "op", "p"},
		{"a leaving one leads, and the preferred is not in", "xo", "x", "xo", "o"},
		{"nobody but leaving ones", "xy", "x", "", ""},
		{"a dead one leads", "dpo", "d", "dpo", "p"},
		{"a dead one leads, and a leaving one comes first", "dxo", "d", "dxo", "o"},
		{"a dead one leads, and only a leaving one lives", "dx", "d", "dx", "x"},
		{"a dead one leads, and a removed one comes first", "dro", "d", "dro", "o"},
		{"a removed one leads", "rxo", "r", "rxo", "o"},
		{"only dead ones", "d", "d", "", ""},
		{"one too many", "xpo", "p", "po", "p"},
		{"one too many, and it leads", "xpo", "x", "po", "p"},
		{"many, and a newcomer is missing", "xyo", "o", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := cluster(1, 2, "dopryx")
			for i := range s.Nodes {
				switch n := &s.Nodes[i]; n.Node {
				case "d", "x", "y":
					n.Status = register.Leaving
				case "r":
					n.Status = register.Removed
				}
			}
			s.Plan = register.Value{Version: 1, Data: plan.AppendTo(nil)}
			s.Cells[0] = register.Cell{Epoch: 3, Cohort: members(c.cohort), Leader: member(c.leader)}
			d := driver("p")
			d.Step(at(0), Input{State: s, Leads: true, Alive: members("oprxy")})
			r := ask(d, at(time.Hour), s, "oprxy")
			var got, led string
			if r != nil && len(r.Changes) > 0 {
				got, led = names(r.Changes[0].New.Cohort), r.Changes[0].New.Leader.Node
			}
			if got != c.want || led != c.led || r != nil && r.Plan != nil {
				t.Errorf("it asks for %s led by %q, want %s led by %q", got, led, c.want, c.led)
			}
		})
	}
}

func TestOldStates(t *testing.T) {
	d, s := driver("a"), cluster(4, 3, "abc")
	s.Revision = 7
	d.Step(at(0), Input{State: s, Leads: true})
	old := s
	old.Revision = 6
	d.Step(at(0), Input{State: old, Leads: true})
	if got := d.View().State().Revision; got != 7 {
		t.Errorf("it went back to revision %d", got)
	}
	old.Generation++ // restored from a backup
	old.Plan = register.Value{Data: planOf(t, 4, "abc")}
	d.Step(at(0), Input{State: old, Leads: true})
	if len(d.View().Planned(0)) != 2 {
		t.Error("it has the plan of a life before")
	}
	if got := d.View().State().Revision; got != 6 {
		t.Errorf("it stayed at revision %d of a life before", got)
	}
}

// A plan that cannot be read is not written over, and cells go on without.
func TestUnreadablePlan(t *testing.T) {
	d := driver("a")
	s := follow(t, d, at(0), cluster(4, 2, "abc"), "abc")
	for _, data := range [][]byte{{9, 9}, planOf(t, 8, "ab")} {
		s.Plan = register.Value{Version: s.Plan.Version + 1, Data: data}
		s.Revision++
		if r := ask(d, at(0), s, "abc"); r != nil {
			t.Errorf("it asks for %+v", r)
		}
		if err := d.View().Err(); !errors.Is(err, ErrPlan) {
			t.Errorf("error %v", err)
		}
	}
	ask(d, at(0), s, "ab")
	if r := ask(d, at(10*time.Second), s, "ab"); r == nil || len(r.Changes) == 0 {
		t.Error("what a dead node led stays without a leader")
	}
}

func planOf(t *testing.T, partitions int, names string) []byte {
	t.Helper()
	var nodes []ring.Node
	for _, m := range members(names) {
		nodes = append(nodes, ring.Node{Member: toRing(m), Weight: 1})
	}
	plan, err := ring.Place(ring.Plan{}, nodes, partitions, 2)
	if err != nil {
		t.Fatal(err)
	}
	return plan.AppendTo(nil)
}

// The same nodes give no other plan, whoever leads; another weight does; and of
// nodes that take nothing there is none.
func TestPlanIsStable(t *testing.T) {
	d := driver("a")
	s := follow(t, d, at(0), cluster(32, 3, "abcd"), "abcd")
	for name, change := range map[string]func(*register.Node){
		"address": func(n *register.Node) { n.Addresses = []string{"x:1"} },
		"joining": func(n *register.Node) { n.Member, n.Status = member("e"), register.Joining },
	} {
		n, _ := s.Find(member("d"))
		old := n.Version
		if change(&n); n.Node == "e" {
			old = 0
		}
		next, res, _ := s.Apply(&register.Request{Nodes: []register.NodeChange{{Old: old, New: n}}})
		if !res.NodesWon[0] {
			t.Fatalf("%s: not changed", name)
		}
		for who, d := range map[string]*Driver{"the same": d, "another": driver("b")} {
			if r := ask(d, at(0), next, "abcd"); r != nil {
				t.Errorf("%s: %s driver asks for %+v", name, who, r)
			}
		}
	}
	other := s
	other.Plan = register.Value{Version: s.Plan.Version + 1, Data: swapped(t, s.Plan.Data, "a", "d")}
	other.Revision += 10
	if r := ask(d, at(0), other, "abcd"); r != nil {
		t.Errorf("a plan as good as its own was stored, and it asks for %+v", r)
	}
	weigh := func(weight uint32) register.State {
		n, _ := s.Find(member("d"))
		n.Weight = weight
		next, _, _ := s.Apply(&register.Request{Nodes: []register.NodeChange{{Old: n.Version, New: n}}})
		return next
	}
	if r := ask(driver("b"), at(0), weigh(1000), "abcd"); r == nil || r.Plan == nil || bytes.Equal(r.Plan.Data, s.Plan.Data) {
		t.Errorf("with another weight it asks for %+v", r)
	}
	none := weigh(0)
	for i := range none.Nodes {
		none.Nodes[i].Weight = 0
	}
	if r := ask(driver("b"), at(0), none, "abcd"); r != nil {
		t.Errorf("of nodes that take nothing it makes %+v", r)
	}
}

// swapped is a plan in which two members have changed places.
func swapped(t *testing.T, data []byte, a, b string) []byte {
	t.Helper()
	plan, err := ring.DecodePlan(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range [][2]string{{a, "tmp"}, {b, a}, {"tmp", b}} {
		if plan, err = plan.Replace(toRing(member(r[0])), toRing(member(r[1]))); err != nil {
			t.Fatal(err)
		}
	}
	if bytes.Equal(plan.AppendTo(nil), data) {
		t.Fatal("it is the same plan")
	}
	return plan.AppendTo(nil)
}

// A leaving node may go when nothing names it and somebody is left.
func TestLeave(t *testing.T) {
	leaving := func(s register.State) register.State {
		s.Nodes = slices.Clone(s.Nodes)
		s.Nodes[0].Status = register.Leaving
		return s
	}
	planned, held, none := cluster(1, 3, "ab"), cluster(1, 3, "ab"), cluster(1, 3, "a")
	planned.Plan = register.Value{Version: 1, Data: planOf(t, 1, "ab")}
	held.Cells[0] = register.Cell{Epoch: 1, Cohort: members("a")}
	for name, c := range map[string]struct {
		register.State
		want bool
	}{
		"free":                     {leaving(cluster(1, 3, "ab")), true},
		"not leaving":              {cluster(1, 3, "ab"), false},
		"planned":                  {leaving(planned), false},
		"in a cohort":              {leaving(held), false},
		"the last":                 {leaving(none), false},
		"not known to the cluster": {cluster(1, 3, "b"), false},
	} {
		change, ok := See(c.State, nil).Leave(member("a"))
		if ok != c.want {
			t.Errorf("%s: %v", name, ok)
		}
		if ok && (change.Old != 1 || change.New.Status != register.Removed || change.New.Node != "a") {
			t.Errorf("%s: %+v", name, change)
		}
	}
}

// What a register says that was restored or forced to restart: one node, and
// cells without a leader whose other members are removed. The node leads them;
// they move again once an operator has given up the others.
func TestRestored(t *testing.T) {
	s := follow(t, driver("a"), at(0), cluster(16, 3, "abc"), "abc")
	n, _ := s.Find(member("c"))
	s = s.Restored(n)
	d := driver("c")
	s = follow(t, d, at(time.Second), s, "")
	for p := range s.Cells {
		if leader, _ := Leading(&s.Cells[p]); leader.Node != "c" {
			t.Errorf("cell %d: %s leads", p, leader.Node)
		}
	}
	s = follow(t, d, at(time.Hour), s, "")
	if len(s.Cells[0].Cohort) != 3 {
		t.Errorf("nobody has given up the others, and the cohort is %s", names(s.Cells[0].Cohort))
	}
	if _, ok := Lost(s, member("c")); ok {
		t.Error("a node that is there can be given up")
	}
	r, ok := Lost(s, members("abc")...)
	if !ok {
		t.Fatal("nothing can be given up")
	}
	s, _, _ = s.Apply(&r)
	for hour := 1; hour < 4; hour++ {
		s = follow(t, d, at(time.Duration(hour)*time.Hour), s, "")
	}
	for p := range s.Cells {
		if names(s.Cells[p].Cohort) != "c" {
			t.Errorf("cell %d has %s", p, names(s.Cells[p].Cohort))
		}
	}
	if _, ok := Lost(s, members("ab")...); ok {
		t.Error("they can be given up twice")
	}
}

// lostIn gives up the first node.
func lostIn(s register.State) register.State {
	s.Nodes = slices.Clone(s.Nodes)
	s.Nodes[0].Status = register.Removed
	r, _ := Lost(s, s.Nodes[0].Member)
	s, _, _ = s.Apply(&r)
	return s
}

func TestCopiesAndProgress(t *testing.T) {
	s := cluster(3, 3, "abcde")
	s.Nodes[0].Zone, s.Nodes[1].Zone, s.Nodes[4].Zone = "y", "x", "y"
	plan, err := ring.Place(ring.Plan{}, []ring.Node{
		{Member: toRing(member("c")), Weight: 1}, {Member: toRing(member("d")), Weight: 1}, {Member: toRing(member("e")), Weight: 1},
	}, 3, 3)
	if err != nil {
		t.Fatal(err)
	}
	s.Plan = register.Value{Version: 1, Data: plan.AppendTo(nil)}
	s.Cells[0] = register.Cell{Epoch: 1, Cohort: members("abc"), Leader: member("c")}
	s.Cells[1] = register.Cell{Epoch: 1, Cohort: members("cde"), Leader: member("c")}
	s.Cells[2] = register.Cell{Epoch: 1, Cohort: members("xyc"), Leader: member("c")}
	v := See(s, members("abce"))
	c, ok := v.Copy(0, member("e"))
	if !ok || names(c.From) != "abc" || c.Need != 2 || !c.Turn || c.Living != 3 || c.Stuck() {
		t.Errorf("partition 0: %+v", c)
	}
	if c, ok := v.Copy(2, member("e")); !ok || !c.Stuck() || names(c.From) != "c" {
		t.Errorf("partition 2: %+v", c)
	}
	if _, ok := v.Copy(1, member("e")); ok {
		t.Error("it copies what it has")
	}
	if all := v.Copies(member("e")); len(all) != 2 || all[0].Partition != 2 {
		t.Errorf("in this order: %+v", all)
	}
	if given := See(lostIn(s), members("abce")); given.Copied(0, members("ab")) || !given.Copied(0, members("bc")) {
		t.Error("what was compared with a member that is given up counts")
	}
	s.Values = map[string]register.Value{LostValue: {Version: 1, Data: s.Nodes[0].Incarnation[:]}}
	if See(s, nil).Standing(member("a")).Lost {
		t.Error("a node that is there is given up")
	}
	for with, want := range map[string]bool{"": false, "a": false, "ab": true, "ac": true, "ad": false} {
		if got := v.Copied(0, members(with)); got != want {
			t.Errorf("compared with %q: %v", with, got)
		}
	}
	got := fmt.Sprintf("%d %d", v.Progress().Copies, v.Progress().Stuck)
	for _, n := range v.Progress().Nodes {
		got += fmt.Sprintf(" %s+%d-%d", n.Member.Node, n.In, n.Out)
	}
	if want := "4 1 a+0-1 b+0-1 d+2-0 e+2-0 x+0-1 y+0-1"; got != want {
		t.Errorf("progress %q, want %q", got, want)
	}
	turns := 0
	for _, n := range []string{"d", "e"} {
		if c, _ := See(s, members("abcde")).Copy(0, member(n)); c.Turn {
			turns++
		}
	}
	if turns != 1 {
		t.Errorf("it is the turn of %d at once", turns)
	}
}
