package lease

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/partitions"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store/memstore"
	"github.com/norn-dev/norn/vnode"
)

// nobody is the rest of a node that has nothing.
type nobody struct{ Others }

func (nobody) Confirmed(ring.Partition) {}

func member(n byte) register.Member {
	return register.Member{Node: "n", Incarnation: register.Incarnation{n}}
}

// newTestMachine is that of one of three members of the cohort of its one partition, which leads
// in an epoch; 0: it does not.
func newTestMachine(t *testing.T, epoch uint64) *Machine {
	t.Helper()
	disk := memstore.New()
	v, err := vnode.Open(0, vnode.Config{Partitions: 1}, disk, clock.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if epoch != 0 {
		v.Lead(epoch)
	}
	seen := view.New(member(0), 1)
	seen.Cells[0] = register.Cell{Epoch: epoch, Cohort: []register.Member{member(0), member(1), member(2)}, Leader: member(0)}
	seen.Look()
	w := round.New(disk)
	acceptors, err := leadership.OpenAcceptors(&leadership.Env{Ground: &ground.Ground{Self: member(0), View: seen, Round: w}}, 1, disk)
	if err != nil {
		t.Fatal(err)
	}
	return New(Env{Ground: &ground.Ground{Self: member(0), View: seen, Round: w, Partitions: partitions.New([]*vnode.Vnode{v}, nil, nil)}, Acceptors: acceptors, Others: nobody{}})
}

// TestWhatIsToBeFreedIsBounded: more than that waits for its lease, and none is noted twice.
func TestWhatIsToBeFreedIsBounded(t *testing.T) {
	f := &reclaims{has: make(map[message.GrantRef]*reclaim)}
	now, g := clock.Time{Mono: 1}, message.GrantRef{Token: 5}
	f.unheard(now, g)
	f.unheard(now, g)
	if len(f.all) != 1 || f.next() == clock.Never {
		t.Fatalf("%d of one", len(f.all))
	}
	f.all = make([]*reclaim, maxReclaims)
	delete(f.has, g)
	f.unheard(now, g)
	if len(f.all) != maxReclaims {
		t.Fatalf("%d are to be freed", len(f.all))
	}
}

// TestThousandsOfReleasesAreHeardAtOnce: as when a node is back that had been cut off in
// the middle of its work, in one message.
func TestThousandsOfReleasesAreHeardAtOnce(t *testing.T) {
	m := newTestMachine(t, 0)
	f, now := &m.reclaims, clock.Time{Mono: 1}
	all := make([]Proposal, maxReclaims)
	for i := range all {
		all[i].held.Task, all[i].held.Record.Token = id.ID{byte(i), byte(i >> 8)}, 5
		f.releaseFailed(now, &all[i])
	}
	if m.Reclaims() != maxReclaims {
		t.Fatalf("%d are noted", m.Reclaims())
	}
	began := time.Now()
	for i := range all {
		f.ended(0, all[i].held.Task, 5)
	}
	if took := time.Since(began); took > 300*time.Millisecond { // a few ms; 1.3 s when each was looked for among all
		t.Errorf("took %v", took)
	}
	if m.Send(now.Add(ReclaimAgain)); m.Reclaims() > 0 {
		t.Errorf("%d are left", m.Reclaims())
	}
}

// TestReleasesAreToldSoOften: a leader that never shows that it has heard of one is left alone.
func TestReleasesAreToldSoOften(t *testing.T) {
	m := newTestMachine(t, 0)
	for told, over := range map[int]bool{0: false, maxReclaimTold - 1: false, maxReclaimTold: true} {
		o := &reclaim{GrantRef: message.GrantRef{Token: 5}, released: true, epoch: 1 << 20, told: told}
		if got := m.over(clock.Time{}, o); got != over {
			t.Errorf("told %d times: over %v", told, got)
		}
	}
}

// TestAMajorityIsAskedAnew: whether this node leads, by each who wants to know from then on, by
// what was asked in this epoch, and when it leads no more nothing is known.
func TestAMajorityIsAskedAnew(t *testing.T) {
	const epoch = 7
	m := newTestMachine(t, epoch)
	now := clock.Time{Mono: int64(time.Second)}
	m.env.Round.Now = now
	m.Confirm(0)
	m.confirmed(&batchPart{epoch: epoch - 1, confirmsAt: now.Mono})
	if m.ConfirmedSince(0, now.Mono) || m.AskDue() != now.Mono {
		t.Error("what was asked in an epoch before counts")
	}
	m.confirmed(&batchPart{epoch: epoch, confirmsAt: now.Mono})
	if !m.ConfirmedSince(0, now.Mono) || m.ConfirmedSince(0, now.Mono+1) || m.AskDue() != clock.Never {
		t.Error("what was asked in this epoch does not count, or is asked again")
	}
	if m.Stop(0); m.ConfirmedSince(0, now.Mono) {
		t.Error("it leads no more, and is sure of it")
	}
}

// TestAMemberAnswersOnce: what it has taken it does not take back, when the same is asked twice.
func TestAMemberAnswersOnce(t *testing.T) {
	const epoch = 7
	m := newTestMachine(t, epoch)
	part := &batchPart{epoch: epoch, cohort: m.env.View.Cells[0].Cohort, pledges: []*Proposal{{epoch: epoch}}}
	part.await(m.env.Self)
	m.count(clock.Time{}, member(1), part, &message.PartTaken{})
	m.count(clock.Time{}, member(1), part, &message.PartTaken{Refused: []message.Refusal{{Verdict: vnode.Finished}}})
	if len(part.acks) != 1 || len(part.refused) != 0 || !part.pledges[0].Committed() {
		t.Errorf("%d have taken it, and refused is %v", len(part.acks), part.refused)
	}
}
