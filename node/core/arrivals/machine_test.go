package arrivals

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/dependency"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/partitions"
	"github.com/norn-dev/norn/node/core/queues"
	"github.com/norn-dev/norn/node/core/quota"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/node/core/retention"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/core/transfer"
	"github.com/norn-dev/norn/node/core/uniquekeys"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store/memstore"
	"github.com/norn-dev/norn/vnode"
)

const (
	parts = 2
	epoch = 5
	grace = 24 * time.Hour
)

func member(n byte) register.Member {
	return register.Member{Node: "n", Incarnation: register.Incarnation{n}}
}

// judge judges for who keeps facts aside.
type judge struct {
	transfer.Tombstones
	by *retention.Tombstones
}

func (j judge) Below(now clock.Time, p ring.Partition, facts []crdt.Fact) bool {
	return j.by.Below(now, p, facts)
}

// bench is the machine of one of three members of all cohorts, who has begun to serve.
type bench struct {
	*Machine
	now  clock.Time
	disk *standing.Disk
	acks *replication.Acks
	ids  *id.Generator
}

func newBench(t *testing.T) *bench {
	t.Helper()
	self, disk, seen := member(0), memstore.New(), view.New(member(0), parts)
	b := &bench{now: clock.Time{Wall: time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC).UnixNano(), Mono: int64(time.Hour)}, ids: id.NewGenerator(7, rand.Uint64)}
	for p := range seen.Cells {
		seen.Cells[p] = register.Cell{Epoch: epoch, Cohort: []register.Member{self, member(1), member(2)}, Leader: member(1)}
	}
	seen.Current, seen.Joined = true, true
	seen.Look()
	e := Env{Ground: &ground.Ground{Self: self, GCGrace: grace, View: seen, Round: round.New(disk), Tenants: quota.New(), Rand: rand.New(rand.NewPCG(1, 2))}}
	acceptors, err := leadership.OpenAcceptors(&leadership.Env{Ground: e.Ground}, parts, disk)
	if err != nil {
		t.Fatal(err)
	}
	e.Replication = replication.New(replication.Env{Ground: e.Ground, Acceptors: acceptors})
	all := make([]*vnode.Vnode, parts)
	for p := range all {
		if all[p], err = vnode.Open(ring.Partition(p), vnode.Config{Partitions: parts, Tree: true, Random: rand.Float64, OnStored: e.Replication.Writes.Stored}, disk, b.now); err != nil {
			t.Fatal(err)
		}
	}
	e.Partitions = partitions.New(all, nil, nil)
	stands, err := standing.New(standing.Env{Ground: e.Ground}, make([]uint64, parts), disk, b.now)
	if err != nil {
		t.Fatal(err)
	}
	stands.Disk.Heard(member(1), 0)
	e.Tombstones = retention.New(retention.Env{Ground: e.Ground}, b.now).Tombstones
	e.Transfer = transfer.New(transfer.Env{Ground: e.Ground, Tombstones: judge{by: e.Tombstones}})
	e.Keys = uniquekeys.New(uniquekeys.Env{Ground: e.Ground, Standing: stands})
	e.Queues = queues.New(queues.Env{Ground: e.Ground})
	e.Dependency = dependency.New(dependency.Env{Ground: e.Ground}, 1)
	e.Replication.Partitions, e.Replication.Standing, e.Replication.Transfer = e.Partitions, stands, e.Transfer
	b.Machine, b.disk, b.acks = New(e), stands.Disk, e.Replication.Acks
	return b
}

// task draws one of a partition that is so old.
func (b *bench) task(p ring.Partition, age time.Duration) id.ID {
	wall := b.now.Wall - int64(age)
	task := b.ids.Hashed(wall, ring.HashIn(b.ids.Next(wall), p, parts))
	return task
}

// spec is what a task of queue q is.
func spec() crdt.Enqueued {
	return crdt.Enqueued{Queue: "q", Retry: crdt.Retry{MaxAttempts: 1}}
}

// known tells which of some tasks are.
func (b *bench) known(tasks ...id.ID) (n int) {
	for _, task := range tasks {
		if vnode.Known(b.Round.Tx, ring.Of(task, parts), task) {
			n++
		}
	}
	return n
}

// sent gives what was sent of a kind, once all that was written is on disk.
func sent[M any](b *bench) (all []M) {
	for _, s := range b.Round.Ready.Send {
		if m, ok := s.Message.(M); ok && s.After == 0 {
			all = append(all, m)
		}
	}
	return all
}

// TestWhatIsNotKeptIsRefused: guarantees 1 and 2, partition by partition.
func TestWhatIsNotKeptIsRefused(t *testing.T) {
	b := newBench(t)
	here, too, there := b.task(0, 0), b.task(0, 0), b.task(1, 0)
	fact := func(task id.ID) crdt.Fact { return spec().Fact(task) }
	broken := crdt.NewFact(too, crdt.Key{Kind: crdt.KindEnqueued}, []byte{1})
	for _, c := range []struct {
		what    string
		do      func(*bench)
		parts   []message.PartFacts
		refused []ring.Partition
		kept    int // of the three tasks
	}{
		{"all belongs here", nil, []message.PartFacts{{Facts: []crdt.Fact{fact(here)}}, {Partition: 1, Facts: []crdt.Fact{fact(there)}}}, nil, 2},
		{"in no order", nil, []message.PartFacts{{Facts: []crdt.Fact{fact(too), fact(here), fact(too)}}}, nil, 2},
		{"one partition is being deleted", func(b *bench) { b.View.Dropping[1] = true }, []message.PartFacts{{Facts: []crdt.Fact{fact(here)}}, {Partition: 1, Facts: []crdt.Fact{fact(there)}}}, []ring.Partition{1}, 1},
		{"there is no such partition", nil, []message.PartFacts{{Partition: 9, Facts: []crdt.Fact{fact(here)}}}, []ring.Partition{9}, 0},
		{"one task belongs elsewhere", nil, []message.PartFacts{{Facts: []crdt.Fact{fact(here), fact(there), fact(too)}}}, []ring.Partition{0}, 2},
		{"one fact is malformed", nil, []message.PartFacts{{Facts: []crdt.Fact{fact(here), broken}}}, []ring.Partition{0}, 1},
		{"this disk has lost something", func(b *bench) { b.disk.Found("a test says so", false) }, []message.PartFacts{{Facts: []crdt.Fact{fact(here)}}}, []ring.Partition{0}, 1},
		{"a probe of who is no member", func(b *bench) { b.View.Dismissed = true }, []message.PartFacts{{}}, []ring.Partition{0}, 0},
		{"a probe of a member", nil, []message.PartFacts{{}}, nil, 0},
	} {
		b := newBench(t)
		if c.do != nil {
			c.do(b)
		}
		for i := range c.parts {
			c.parts[i].Epoch = epoch
		}
		b.Take(b.now, member(1), &message.Facts{Write: 77, Parts: c.parts})
		answers := sent[*message.FactsTaken](b)
		if len(answers) != 1 || answers[0].Write != 77 || len(answers[0].Refused) != len(c.refused) || len(c.refused) == 1 && answers[0].Refused[0] != c.refused[0] {
			t.Fatalf("%s: it answers %+v, and should refuse %v", c.what, answers, c.refused)
		}
		if kept := b.known(here, too, there); kept != c.kept {
			t.Errorf("%s: %d tasks are kept, not %d", c.what, kept, c.kept)
		}
		if len(b.Round.Ready.Early) != 0 {
			t.Errorf("%s: it says %v before it is on disk", c.what, b.Round.Ready.Early)
		}
	}
}

// TestWhatIsHereIsAnsweredAllTheSame, and what comes from a coordinator is not sent on; whose disk
// nobody goes by yet answers later.
func TestWhatIsHereIsAnsweredAllTheSame(t *testing.T) {
	b := newBench(t)
	m := &message.Facts{Write: 1, Parts: []message.PartFacts{{Epoch: epoch, Facts: []crdt.Fact{spec().Fact(b.task(0, 0))}}}}
	for n := range 2 {
		got, void, all := b.Keep(b.now, member(1), &m.Parts[0], false)
		if got != (Kept{1 - n, 1}) || len(void) != 0 || !all {
			t.Errorf("%d times before: %+v, void %v, all %t", n, got, void, all)
		}
	}
	b.Take(b.now, member(1), m)
	if b.Replication.Writes.Work(b.now); len(sent[*message.FactsTaken](b)) != 1 || len(b.Replication.Writes.Open) != 0 {
		t.Errorf("it answers %v, and sends %d writes on", sent[*message.FactsTaken](b), len(b.Replication.Writes.Open))
	}
	late := newBench(t)
	clear(late.disk.ConfirmedBy)
	late.disk.Changed()
	if late.Take(late.now, member(1), m); len(sent[*message.FactsTaken](late)) != 0 || len(late.acks.List) != 1 {
		t.Errorf("it answers %v though its copy may not count, and %d answers wait", sent[*message.FactsTaken](late), len(late.acks.List))
	}
	late.disk.Heard(member(1), 0)
	late.acks.Look = true
	if late.acks.Work(late.now); len(sent[*message.FactsTaken](late)) != 1 {
		t.Error("it does not answer once its copy counts")
	}
}

// TestWhatMayHaveBeenCollectedIsNotKept: guarantee 3.
func TestWhatMayHaveBeenCollectedIsNotKept(t *testing.T) {
	for _, c := range []struct {
		what                     string
		from                     byte
		age                      time.Duration
		stone, aside             bool
		more                     bool // it was tried, too, of which no tombstone tells
		kept, told, left, refuse bool // a tombstone is told; facts are left with the sender
	}{
		{"a new one", 1, 0, false, false, true, true, false, false, false},
		{"an old one of a member", 1, 2 * grace, false, false, true, true, false, false, false},
		{"an old one from outside", 9, 2 * grace, false, false, true, false, false, true, true},
		{"a new one from outside", 9, 0, false, false, true, true, false, false, false},
		{"one that was collected", 1, 0, true, false, true, true, true, false, true},
		{"one that was collected, from outside", 9, 2 * grace, true, false, true, true, true, false, true},
		{"one that was collected, whose tombstone says it all", 1, 0, true, false, false, true, false, false, false},
		{"an old one that was kept aside", 9, 2 * grace, false, true, true, false, false, false, false},
		{"a new one that was kept aside", 9, 0, false, true, true, true, false, false, false},
		{"one that was collected and kept aside", 9, 0, true, true, true, true, false, false, false},
	} {
		b := newBench(t)
		task, stone := b.task(0, c.age), crdt.Tombstone{Outcome: crdt.StateDead, At: 1, Collected: 2}
		if c.stone {
			b.Keep(b.now, member(1), &message.PartFacts{Facts: []crdt.Fact{stone.Fact(task)}}, false)
		}
		facts := []crdt.Fact{spec().Fact(task)}
		if c.more {
			facts = append(facts, crdt.Failed{Token: epoch<<32 + 1, At: 1, Error: "no"}.Fact(task))
		}
		b.Take(b.now, member(c.from), &message.Facts{Write: 1, Aside: c.aside, Parts: []message.PartFacts{{Epoch: epoch, Facts: facts}}})
		told, left, answers := sent[*message.Facts](b), sent[*message.QuarantineFacts](b), sent[*message.FactsTaken](b)
		if b.known(task) == 1 != c.kept || len(told) == 1 != c.told || len(left) == 1 != c.left || len(answers) != 1 || len(answers[0].Refused) == 1 != c.refuse {
			t.Errorf("%s: known: %d; a tombstone is told: %v; left with its sender: %v; answered with %v", c.what, b.known(task), told, left, answers)
		}
		if c.told && len(told) == 1 && (len(told[0].Parts[0].Facts) != 1 || told[0].Parts[0].Facts[0].Key.Kind != crdt.KindTombstone) {
			t.Errorf("%s: it tells %v", c.what, told[0].Parts)
		}
		if got := b.Stale == 1; got != c.left || vnode.IsAside(b.Partitions.See(0), b.Round.Tx, task) != (c.aside && !c.kept) {
			t.Errorf("%s: %d are counted; kept aside: %t", c.what, b.Stale, vnode.IsAside(b.Partitions.See(0), b.Round.Tx, task))
		}
	}
}

// TestWhatIsNewIsMadeKnown: guarantee 4, whether a task comes alone, with what became of it, or
// piece by piece.
func TestWhatIsNewIsMadeKnown(t *testing.T) {
	for what, piecemeal := range map[string]bool{"at once": false, "piece by piece": true} {
		b := newBench(t)
		keep := func(facts ...crdt.Fact) {
			t.Helper()
			p := ring.Of(facts[0].Task, parts)
			for n := range facts {
				if some := facts[n : n+1]; piecemeal {
					b.Keep(b.now, member(1), &message.PartFacts{Partition: p, Facts: some}, false)
				}
			}
			if _, _, all := b.Keep(b.now, member(1), &message.PartFacts{Partition: p, Facts: facts}, false); !all {
				t.Fatalf("%s: not all of %v is kept", what, facts)
			}
		}
		done := func(task id.ID) crdt.Fact { return crdt.Completed{Token: epoch<<32 + 1, At: 1}.Fact(task) }
		// A queue.
		task := b.task(0, 0)
		if keep(spec().Fact(task), done(task)); !b.Queues.Knows("q") {
			t.Errorf("%s: its queue is not known", what)
		}
		b.Queues.Unuse("q")
		if keep(spec().Fact(b.task(0, 0))); !b.Queues.Knows("q") {
			t.Errorf("%s: a queue that has a task again is not known", what)
		}
		// A dependency, which holds a task until it is known to be free.
		first := b.task(0, 0)
		after, held := b.task(1, 0), spec()
		held.Dependencies = []id.ID{first}
		if keep(held.Fact(after)); !b.Partitions.See(0).Edges.Any(b.Round.Tx, first) || len(vnode.Blockers(b.Round.Tx, 1, after)) != 1 {
			t.Errorf("%s: a task is not linked with its dependency", what)
		}
		if keep(crdt.Unblocked{At: 1}.Fact(after)); len(vnode.Blockers(b.Round.Tx, 1, after)) != 0 {
			t.Errorf("%s: a task that was let go is held back", what)
		}
		// A unique key: its second task has come here, and then was collected elsewhere.
		of := func(n uint64) id.ID {
			return b.Keys.Nth(id.UniqueKey([16]byte{}, "q", "k", 0, 0), "q", "k", n)
		}
		home, keyed := ring.Of(of(0), parts), spec()
		keyed.Key = "k"
		generation := func() uint64 { return vnode.KeyGeneration(b.Round.Tx, home, of(0)) }
		if keep(keyed.Fact(of(1)), crdt.Dead{At: 1, Reason: "no"}.Fact(of(1))); generation() != 1 {
			t.Errorf("%s: the key is in generation %d, and its task is of 1", what, generation())
		}
		if keep(crdt.Tombstone{Outcome: crdt.StateDead, At: 1, Collected: 2}.Fact(of(1))); generation() != 2 {
			t.Errorf("%s: the key is in generation %d, and its task of 1 was collected", what, generation())
		}
		// Two specs under one ID.
		other := spec()
		other.Priority = 3
		if keep(other.Fact(task)); b.Clashes.N == 0 || b.Clashes.Last != task {
			t.Errorf("%s: %+v are counted as clashes", what, b.Clashes)
		}
	}
}

// TestARetriedTaskHoldsItsKeyAgain: also where only the retry is new.
func TestARetriedTaskHoldsItsKeyAgain(t *testing.T) {
	b := newBench(t)
	task := id.UniqueKey([16]byte{}, "q", "k", 0, 0)
	keyed, p := spec(), ring.Of(task, parts)
	keyed.Key = "k"
	keep := func(facts ...crdt.Fact) {
		b.Keep(b.now, member(1), &message.PartFacts{Partition: p, Facts: facts}, false)
	}
	keep(keyed.Fact(task), crdt.Dead{At: 1, Reason: "no"}.Fact(task))
	if h := b.Keys.Look(b.now, "q", "k", 0); h.Task == task {
		t.Fatal("a dead task holds its key")
	}
	vnode.SetKey(b.Round.Tx, p, vnode.Key{First: task, Generation: 1, Current: task, Changed: 1}) // it was about to be given away
	keep(crdt.Requeued{Generation: 1, At: 2}.Fact(task))
	if h := b.Keys.Look(b.now, "q", "k", 0); h.Task != task || h.State != crdt.StateReady {
		t.Errorf("the key has task %s, which is %v", h.Task, h.State)
	}
}
