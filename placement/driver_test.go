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
	s, _, _ = s.Apply(ask(d, at(0), s, "abc")) // the plan
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
	d.Step(at(0), Input{State: old, Leads: true})
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

func TestCopiesAndProgress(t *testing.T) {
	s := cluster(3, 3, "abcde")
	s.Nodes[0].Zone, s.Nodes[1].Zone, s.Nodes[4].Zone = "x", "y", "y"
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
	if !ok || names(c.From) != "bac" || c.Need != 2 || !c.Turn || c.Living != 3 || c.Stuck() {
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
