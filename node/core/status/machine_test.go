package status

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/arrivals"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/intake"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/partitions"
	"github.com/norn-dev/norn/node/core/repair"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/core/transfer"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/node/core/waiting"
	"github.com/norn-dev/norn/placement"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store/memstore"
	"github.com/norn-dev/norn/vnode"
)

const (
	parts    = 4
	epoch    = 5
	capacity = 1 << 20
)

func member(n byte) register.Member {
	return register.Member{Node: string('a' + n), Incarnation: register.Incarnation{n + 1}}
}

// bench is the machine of a, one of three nodes that keep everything and vote; it leads the first
// partition, the others lead the rest, and all are in reach.
type bench struct {
	*Machine
	now clock.Time
	all []*vnode.Vnode
}

func newBench(t *testing.T) *bench {
	t.Helper()
	self, disk, seen := member(0), memstore.New(), view.New(member(0), parts)
	b := &bench{now: clock.Time{Wall: time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC).UnixNano(), Mono: int64(time.Hour)}}
	all := []register.Member{self, member(1), member(2)}
	seen.State = register.State{Revision: 7, Generation: 1, Cluster: register.Cluster{Partitions: parts, Replicas: 3}}
	for _, m := range all {
		seen.State.Nodes = append(seen.State.Nodes, register.Node{Member: m, Version: 1, Weight: 1, Status: register.Active})
	}
	for p := range seen.Cells {
		seen.Cells[p] = register.Cell{Epoch: epoch, Cohort: all, Leader: all[min(p, 2)]}
		v, err := vnode.Open(ring.Partition(p), vnode.Config{Partitions: parts}, disk, b.now)
		if err != nil {
			t.Fatal(err)
		}
		b.all = append(b.all, v)
	}
	b.all[0].Lead(epoch)
	seen.State.Cells = seen.Cells
	seen.Joined, seen.Current, seen.Majority, seen.Voters = true, true, true, all
	seen.Hear(all[1:])
	seen.Look()
	e := Env{
		Ground: &ground.Ground{Self: self, View: seen, Round: round.New(disk), Partitions: partitions.New(b.all, nil, nil), Pending: waiting.New(), Rand: rand.New(rand.NewPCG(1, 2))},

		Disk: &intake.Disk{Least: 1, Free: capacity}, Clashes: &arrivals.Clashes{},
	}
	var err error
	if e.Standing, err = standing.New(standing.Env{Ground: e.Ground}, make([]uint64, parts), disk, b.now); err != nil {
		t.Fatal(err)
	}
	for _, m := range all[1:] {
		e.Standing.Disk.Heard(m, 0)
	}
	e.Routes = router.New(router.Env{
		Ground: e.Ground,
		IDs:    id.NewGenerator(1, rand.Uint64), Standing: e.Standing,
	})
	e.Transfer = transfer.New(transfer.Env{Ground: e.Ground})
	e.Repairs = repair.New(repair.Env{Ground: e.Ground})
	b.Machine = New(e)
	b.plan(t)
	return b
}

// plan has the driver of moves see the register, with a plan of its nodes.
func (b *bench) plan(t *testing.T) {
	t.Helper()
	s := &b.View.State
	s.Revision++
	plan, err := placement.See(*s, nil).Foresee(false)
	if err != nil {
		t.Fatal(err)
	}
	s.Plan = register.Value{Version: s.Plan.Version + 1, Data: plan.AppendTo(nil)}
	b.Transfer.Driver.Step(b.now, placement.Input{State: *s, Alive: b.View.Members})
}

// changed looks at what the node can do, and tells whether that is told.
func (b *bench) changed(seen *Sight) *Available {
	a := b.Available(*seen, false)
	if a != nil {
		*seen = a.Seen
	}
	return a
}

// TestWhatOthersDoNotSayStaysAsItLooks: guarantee 1. Of three nodes one answers, and one does not,
// and there is no majority that would have to.
func TestWhatOthersDoNotSayStaysAsItLooks(t *testing.T) {
	b := newBench(t)
	b.View.Majority = false
	from := message.Origin{Conn: 1, Request: 2}
	if m, err := b.Status(b.now, &message.Request{From: from}, &nornv1.StatusRequest{}); err != nil || len(m.(*nornv1.StatusReply).Nodes) != 3 {
		t.Errorf("by itself it says %v, %v", m, err)
	}
	if !b.Gather(b.now, &message.Request{From: from, Body: &nornv1.StatusRequest{}}, &nornv1.StatusRequest{}) || len(b.Round.Ready.Early) != 2 || len(b.Round.Ready.Replies) != 0 {
		t.Fatalf("it asks %v", b.Round.Ready.Early)
	}
	asked := b.Round.Ready.Early[0]
	part := &nornv1.StatusReply{
		Nodes:      []*nornv1.NodeStatus{{Incarnation: asked.To.Incarnation.String(), Led: 77, DiskFull: "full", CopiesLeft: 5, HandoversLeft: 3}},
		Partitions: []*nornv1.PartitionStatus{{Id: 1, ClaimAvailable: true, OldestReadySeconds: 9}, {Id: 900}},
		Movement:   &nornv1.MovementStatus{Copied: 4}, Repair: &nornv1.RepairStatus{Failed: 6},
	}
	b.Routes.Answered(asked.Message.(*message.Forward).Number, asked.To, &message.Reply{Message: part})
	if len(b.Round.Ready.Replies) != 0 {
		t.Fatal("it does not wait for the other one")
	}
	b.Round.Now = b.now.Add(router.StatusTimeout)
	b.Routes.Work(b.Round.Now)
	replies := b.Round.Ready.Replies
	if len(replies) != 1 || replies[0].Err != nil || replies[0].To != from {
		t.Fatalf("it answers %v", replies)
	}
	whole := replies[0].Message.(*nornv1.StatusReply)
	for _, n := range whole.Nodes {
		led, full := uint32(1), "" // as it looks from here: who is not a leads one, or two of four
		switch n.GetIncarnation() {
		case asked.To.Incarnation.String():
			led, full = 77, "full"
		case member(2).Incarnation.String():
			led = 2
		}
		if n.GetLed() != led || n.GetDiskFull() != full || !n.GetAlive() || n.GetState() != "up" {
			t.Errorf("of node %s it says %v", n.GetName(), n)
		}
	}
	if p := whole.Partitions[1]; p.GetOldestReadySeconds() != 9 || whole.Movement.GetCopied() != 4 || whole.Movement.GetHandoversLeft() != 3 || whole.Repair.GetFailed() != 6 || whole.GetRegister().GetMajority() {
		t.Errorf("it says %v", whole)
	}
	b.View.Hear([]register.Member{member(1)})
	if b.Gather(b.now, &message.Request{From: from, Body: &nornv1.StatusRequest{}}, &nornv1.StatusRequest{}); len(b.Round.Ready.Early) != 4 {
		t.Errorf("of two others, one of them out of reach, it asks %v", b.Round.Ready.Early)
	}
	if m, _ := b.Status(b.now, &message.Request{From: from, Routed: true}, &nornv1.StatusRequest{}); len(m.(*nornv1.StatusReply).Nodes) != 1 || len(m.(*nornv1.StatusReply).Partitions) != 1 {
		t.Errorf("another node is told %v", m)
	}
}

// TestWhatANodeCanDoIsToldWhenItHasChanged: guarantee 2, and what is told.
func TestWhatANodeCanDoIsToldWhenItHasChanged(t *testing.T) {
	b := newBench(t)
	var seen Sight
	a := b.changed(&seen)
	if a == nil || !a.Enqueue || !a.Claim || a.CutOff || a.Unled != 0 || a.Short != 0 || a.Nodes != 3 || a.Down != 0 || a.Needed != 0 || a.Voter || !a.Majority || a.Copies != 3 || a.Enqueueable[0] != 1<<parts-1 || len(a.Led) != 1 || a.Led[0] != 1 {
		t.Fatalf("at first it says %+v", a)
	}
	if b.changed(&seen) != nil {
		t.Error("it says so again")
	}
	for _, c := range []struct {
		what string
		do   func()
		want func(*Available) bool
	}{
		{"a node is out of reach", func() { b.View.Hear([]register.Member{member(1)}) }, func(a *Available) bool {
			return a.Down == 1 && a.Needed == parts && a.Voter && a.Unled == 2 && a.Short == parts && a.Enqueue && a.Claim
		}},
		{"all others are", func() { b.View.Hear(nil); b.all[0].Follow(); b.Partitions.Use(0) }, func(a *Available) bool {
			return a.Down == 2 && !a.Enqueue && !a.Claim && a.CutOff && a.Unled == parts && a.Needed == parts
		}},
		{"they are back", func() { b.View.Hear([]register.Member{member(1), member(2)}); b.Partitions.Use(0).Lead(epoch) }, func(a *Available) bool {
			return a.Down == 0 && a.Needed == 0 && !a.Voter && a.Enqueue && a.Claim && a.Unled == 0
		}},
		{"it leads nothing any more", func() { b.Partitions.Use(0).Follow() }, func(a *Available) bool { return a.Unled == 1 && !a.CutOff && a.Led == nil }},
		{"the register has no majority", func() { b.View.Majority = false }, func(a *Available) bool { return !a.Majority }},
		{"the register has changed", func() { b.View.State.Revision++ }, func(a *Available) bool { return true }},
		{"another one votes", func() { b.View.Voters = []register.Member{member(0)}; b.View.VoterChanges++ }, func(a *Available) bool { return a.Voter && a.Needed == 0 }},
		{"cells have changed", func() { b.View.Cells[3].Cohort = []register.Member{member(0), member(2)}; b.View.Look() }, func(a *Available) bool { return a.Copies == 2 && a.Short == 1 && a.Needed == 1 }},
		{"it was removed", func() { b.View.Dismissed = true }, func(a *Available) bool { return a.Removed && !a.Enqueue && !a.Claim && a.Copies == 0 }},
	} {
		c.do()
		if a := b.changed(&seen); a == nil || !c.want(a) {
			t.Errorf("%s: it says %+v", c.what, a)
		}
		if b.changed(&seen) != nil {
			t.Errorf("%s: it says so again", c.what)
		}
	}
	b = newBench(t)
	if a := b.Available(Sight{}, true); a.Enqueue || a.Claim || slices.Contains(a.Enqueueable, 1) {
		t.Errorf("who stops takes requests: %+v", a)
	}
}

// TestANodeIsFilled: guarantee 3.
func TestANodeIsFilled(t *testing.T) {
	without := func(all []register.Member, m register.Member) []register.Member {
		return slices.DeleteFunc(slices.Clone(all), func(o register.Member) bool { return o == m })
	}
	voters := func(more ...register.Member) func(*bench) {
		return func(b *bench) { b.View.Voters = append([]register.Member{member(1), member(2)}, more...) }
	}
	for what, c := range map[string]struct {
		do   func(*bench)
		want bool
	}{
		"it has all that was planned":        {nil, true},
		"the register has not answered":      {func(b *bench) { b.View.Current = false }, false},
		"it has not joined":                  {func(b *bench) { b.View.Joined = false }, false},
		"it joins still":                     {func(b *bench) { b.View.State.Nodes[0].Status = register.Joining }, false},
		"it is not known":                    {func(b *bench) { b.View.State.Nodes = b.View.State.Nodes[1:] }, false},
		"a copy is missing":                  {func(b *bench) { b.View.Cells[2].Cohort = without(b.View.Cells[2].Cohort, member(0)) }, false},
		"it is to vote and does not":         {voters(), false},
		"it votes, and others are to":        {func(b *bench) { b.View.Voters = []register.Member{member(0)} }, true},
		"who was removed votes":              {func(b *bench) { voters(member(0), member(8))(b) }, false},
		"voters are being changed":           {func(b *bench) { b.View.Outgoing = b.View.Voters }, false},
		"two voters are out of reach":        {func(b *bench) { voters()(b); b.View.Hear(nil) }, true},
		"nobody says who votes":              {func(b *bench) { b.View.Voters = nil }, false},
		"it is left over when one is put in": {func(b *bench) { b.View.Voters = nil; b.View.State.Nodes = b.View.State.Nodes[:1] }, false},
	} {
		b := newBench(t)
		if c.do != nil {
			c.do(b)
		}
		if what == "it is left over when one is put in" {
			b.plan(t)
			c.want = true // it is alone, and keeps the register by itself
		}
		if a := b.Available(Sight{}, false); a.Filled != c.want {
			t.Errorf("%s: filled: %t", what, a.Filled)
		}
	}
	// A plan that counts with it is still to come; one that comes later takes nothing back.
	b := newBench(t)
	joins := register.Node{Member: member(3), Version: 1, Weight: 1, Status: register.Active}
	b.View.State.Nodes = append(b.View.State.Nodes, joins)
	b.View.State.Revision++
	b.Transfer.Driver.Step(b.now, placement.Input{State: b.View.State})
	if a := b.Available(Sight{}, false); a.Filled {
		t.Error("it is filled before there is a plan for all nodes")
	}
	if b.plan(t); !b.Available(Sight{}, false).Filled {
		t.Error("it is not filled though it keeps all that is planned")
	}
	b.View.Cells[1].Cohort = without(b.View.Cells[1].Cohort, member(0))
	voters()(b)
	b.View.Look()
	if !b.Available(Sight{}, false).Filled {
		t.Error("a copy that is moved later, or its vote that another one has, takes it back")
	}
	// Of what was planned at first each copy has to come, or be planned for somebody else.
	b = newBench(t)
	all := b.View.Cells[2].Cohort
	b.View.Cells[2].Cohort = without(all, member(0))
	b.Available(Sight{}, false)
	b.View.Cells[2].Cohort = all
	if b.View.Look(); !b.Available(Sight{}, false).Filled {
		t.Error("it is not filled when the last copy has come")
	}
}
