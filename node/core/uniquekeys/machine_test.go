package uniquekeys

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/partitions"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store/memstore"
	"github.com/norn-dev/norn/vnode"
)

const (
	parts = 8
	epoch = 5 // in which the node of the tests leads
	eta   = time.Second
	grace = 24 * time.Hour
)

// rest is what a node says of a partition.
type rest struct {
	deposed  bool // no majority says that this node leads still
	alone    bool
	caughtUp bool
	demanded []ring.Partition
}

func (r *rest) StillLeads(ring.Partition, string) *proto.Error {
	if r.deposed {
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "who leads is not known")
	}
	return nil
}
func (r *rest) Alone(ring.Partition) bool              { return r.alone }
func (r *rest) CaughtUp(ring.Partition) bool           { return r.caughtUp }
func (r *rest) Demand(_ clock.Time, of ring.Partition) { r.demanded = append(r.demanded, of) }

// testMachine is that of a node which leads every partition in an epoch; 0: none.
func testMachine(t *testing.T, epoch uint64) (*Machine, *rest, clock.Time) {
	t.Helper()
	now := clock.Time{Wall: time.Date(2026, 11, 25, 10, 30, 0, 0, time.UTC).UnixNano(), Mono: int64(time.Hour)}
	self, disk := register.Member{Node: "a", Incarnation: register.Incarnation{1}}, memstore.New()
	all := make([]*vnode.Vnode, parts)
	for p := range all {
		v, err := vnode.Open(ring.Partition(p), vnode.Config{Partitions: parts, Tree: true, Random: rand.Float64}, disk, now)
		if err != nil {
			t.Fatal(err)
		}
		if epoch != 0 {
			v.Lead(epoch)
		}
		all[p] = v
	}
	r := &rest{caughtUp: true}
	e := Env{Ground: &ground.Ground{Self: self, Cluster: register.UUID{9}, Eta: eta, GCGrace: grace, View: view.New(self, parts), Round: round.New(disk), Partitions: partitions.New(all, nil, nil)}, Leaders: r, Proofs: r}
	var err error
	e.Standing, err = standing.New(standing.Env{Ground: e.Ground}, make([]uint64, parts), disk, now)
	if err != nil {
		t.Fatal(err)
	}
	return New(e), r, now
}

// spec is what a task of key k in queue q is.
func spec() *crdt.Enqueued {
	return &crdt.Enqueued{Queue: "q", Key: "k", Retry: crdt.Retry{MaxAttempts: 1}}
}

// nth is the ID of key k of a generation.
func (k *Machine) nthOf(generation uint64) id.ID {
	return k.Nth(id.UniqueKey(k.Cluster, "q", "k", 0, 0), "q", "k", generation)
}

// at is the vnode of the key.
func (k *Machine) at() *vnode.Vnode {
	return k.Partitions.Use(ring.Of(id.UniqueKey(k.Cluster, "q", "k", 0, 0), parts))
}

// enqueue gives the key to a new task.
func enqueue(t *testing.T, k *Machine, now clock.Time) id.ID {
	t.Helper()
	h := k.Look(now, "q", "k", 0)
	k.Bar(now, h.Past, h.Task)
	if _, err := k.at().Enqueue(k.Round.Tx, h.Task, spec(), now); err != nil || h.State != crdt.StateUnknown {
		t.Fatalf("the key is taken: %+v, %v", h, err)
	}
	k.Taken(now, &h)
	return h.Task
}

// arrive merges facts of another replica and learns of them.
func arrive(t *testing.T, k *Machine, now clock.Time, task id.ID, facts ...crdt.Fact) {
	t.Helper()
	if _, err := vnode.Merge(k.at(), k.Round.Tx, facts, now); err != nil {
		t.Fatal(err)
	}
	k.Learn(now, task, spec())
}

// dead is that a task was given up.
func dead(task id.ID) crdt.Fact { return crdt.Dead{At: 1, Reason: "no"}.Fact(task) }

// retried is that it was retried by who leads in an epoch.
func retried(task id.ID, epoch uint64) crdt.Fact {
	return crdt.Requeued{Generation: epoch << 32, At: 1}.Fact(task)
}

// TestTheTasksOfAKeyAreInOnePartition: guarantee 1, each of them under an ID of its own; with a
// window the key is remembered where its task is.
func TestTheTasksOfAKeyAreInOnePartition(t *testing.T) {
	k, _, now := testMachine(t, epoch)
	for _, key := range []string{"a", "b", "c"} {
		home, seen := k.Home(now, "q", key, 0), map[id.ID]bool{}
		for n := range uint64(20) {
			task := k.Nth(id.ID(home), "q", key, n)
			if ring.Of(task, parts) != ring.Of(id.ID(home), parts) || seen[task] || task.Kind() != id.KindKey {
				t.Errorf("key %s, generation %d: task %s is in partition %d, its key in %d", key, n, task, ring.Of(task, parts), ring.Of(id.ID(home), parts))
			}
			seen[task] = true
		}
		for _, later := range []time.Duration{0, time.Minute, time.Hour} {
			at := now.Add(later)
			if home, task := k.Home(at, "q", key, 3600), k.Look(at, "q", key, int64(time.Hour)).Task; id.ID(home) != task || later < time.Hour && task.Nanos() != convert.WindowStart(now.Wall, int64(time.Hour)) {
				t.Errorf("key %s with a window: its home is %s, its task %s", key, id.ID(home), task)
			}
		}
	}
}

// TestAKeyIsGivenAwayByWhoHasHeardAllOfIt: guarantee 2.
func TestAKeyIsGivenAwayByWhoHasHeardAllOfIt(t *testing.T) {
	for _, c := range []struct {
		what    string
		epoch   uint64
		rest    rest
		window  bool
		taken   bool
		refused bool
		demands int
	}{
		{"it leads and was compared", epoch, rest{caughtUp: true}, false, false, false, 0},
		{"it was not compared", epoch, rest{}, false, false, true, 1},
		{"it was not compared, and is alone", epoch, rest{alone: true}, false, false, false, 0},
		{"it may lead no more", epoch, rest{caughtUp: true, deposed: true}, false, false, true, 0},
		{"it may lead no more, and the key is taken", epoch, rest{caughtUp: true, deposed: true}, false, true, true, 0},
		{"it was not compared, and the key is taken", epoch, rest{}, false, true, false, 0},
		{"nobody leads", 0, rest{}, false, false, false, 0},
		{"a window says who has it", epoch, rest{deposed: true}, true, false, false, 0},
	} {
		k, r, now := testMachine(t, c.epoch)
		window := int64(0)
		if c.window {
			window = int64(time.Hour)
		}
		if c.taken {
			enqueue(t, k, now)
		}
		*r = c.rest
		h := k.Look(now, "q", "k", window)
		bad := k.Sure(now, &h)
		if (bad != nil) != c.refused || bad != nil && bad.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || len(r.demanded) != c.demands {
			t.Errorf("%s: it is refused with %v, and %v compared", c.what, bad, r.demanded)
		}
	}
}

// TestWhoHadAKeyStaysAsItEnded: guarantee 3. A retry that comes to be known when the key is given
// away undoes nothing if a leader before this one has made it, and this one gives the key back only
// where nobody has it.
func TestWhoHadAKeyStaysAsItEnded(t *testing.T) {
	for what, c := range map[string]struct {
		led   uint64 // in which epoch the key is given away; 0: by who does not lead
		other bool   // it is the one that the key is given to
		want  crdt.State
	}{
		"given away by a leader":       {epoch, false, crdt.StateDead},
		"by who has nothing to say":    {0, false, crdt.StateReady},
		"it is the one that is to run": {epoch, true, crdt.StateReady},
	} {
		for _, late := range []uint64{1, (epoch - 1) << 32} {
			k, _, now := testMachine(t, c.led)
			first := enqueue(t, k, now)
			arrive(t, k, now, first, dead(first))
			but := k.nthOf(1)
			if c.other {
				but = first
			}
			k.Bar(now, []id.ID{first}, but)
			arrive(t, k, now, first, crdt.Requeued{Generation: late, At: 1}.Fact(first))
			if got := k.State(first); got != c.want {
				t.Errorf("%s: after a late retry of generation %d it is %v, want %v", what, late, got, c.want)
			}
		}
	}
	k, r, now := testMachine(t, epoch)
	first := enqueue(t, k, now)
	arrive(t, k, now, first, dead(first))
	load := func() *crdt.Task {
		task, err := vnode.LoadTask(k.Round.Tx, k.at().Partition, first)
		if err != nil {
			t.Fatal(err)
		}
		return task
	}
	if r.caughtUp = false; k.Resume(now, load()) == nil || len(r.demanded) != 1 {
		t.Error("it is retried by who may not know whether the key is free")
	}
	if r.caughtUp = true; k.Resume(now, load()) != nil {
		t.Error("it may not be retried though the key is free")
	}
	second := enqueue(t, k, now)
	if bad := k.Resume(now, load()); bad == nil || bad.Kind != nornv1.ErrorKind_ERROR_KIND_CONFLICT {
		t.Errorf("it is retried though task %s has the key: %v", second, bad)
	}
	if arrive(t, k, now, first, retried(first, epoch-1)); k.State(first) != crdt.StateDead {
		t.Errorf("after a late retry it is %v, and task %s has the key", k.State(first), second)
	}
}

// TestOfTwoHoldersTheYoungerOneWaits: guarantee 3, where leaders changed: the older one was retried
// by this leader before the younger one became known.
func TestOfTwoHoldersTheYoungerOneWaits(t *testing.T) {
	for what, c := range map[string]struct {
		by      uint64 // in which epoch the older one was retried; 0: never
		over    bool   // it has ended
		younger crdt.State
		holds   uint64 // which generation has the key then
	}{
		"this leader has retried it": {epoch, false, crdt.StateDead, 0},
		"a leader before it has":     {epoch - 1, false, crdt.StateReady, 0},
		"nobody has":                 {0, false, crdt.StateReady, 0},
		"it has ended":               {0, true, crdt.StateReady, 1},
	} {
		k, _, now := testMachine(t, epoch)
		older, younger := enqueue(t, k, now), k.nthOf(1)
		if c.by != 0 {
			arrive(t, k, now, older, dead(older), retried(older, c.by))
		}
		if c.over {
			arrive(t, k, now, older, dead(older))
		}
		arrive(t, k, now, younger, spec().Fact(younger))
		if got := k.State(younger); got != c.younger {
			t.Errorf("%s: the younger one is %v, want %v", what, got, c.younger)
		}
		if h := k.Look(now, "q", "k", 0); h.Task != k.nthOf(c.holds) || h.State != crdt.StateReady {
			t.Errorf("%s: the key has %s, which is %v, want that of generation %d", what, h.Task, h.State, c.holds)
		}
	}
}

// TestAGenerationDoesNotGoBack: guarantee 4, when its task is collected here or elsewhere, and when
// an older one becomes known.
func TestAGenerationDoesNotGoBack(t *testing.T) {
	for what, later := range map[string]func(*Machine, clock.Time){
		"collected here":             func(k *Machine, now clock.Time) { k.Pass(now, k.nthOf(1), spec()) },
		"an older one becomes known": func(k *Machine, now clock.Time) { k.Learn(now, k.nthOf(0), spec()) },
		"an older one runs again": func(k *Machine, now clock.Time) {
			older := k.nthOf(0)
			if _, err := vnode.Merge(k.at(), k.Round.Tx, []crdt.Fact{retried(older, epoch+1)}, now); err != nil || k.State(older).Finished() {
				panic("it does not run")
			}
			k.Learn(now, older, spec())
		},
		"the same one becomes known":       func(k *Machine, now clock.Time) { k.Learn(now, k.nthOf(1), spec()) },
		"one of another key becomes known": func(k *Machine, now clock.Time) { k.Learn(now, id.UniqueKey(k.Cluster, "q", "x", 0, 7), spec()) },
	} {
		k, _, now := testMachine(t, epoch)
		first := enqueue(t, k, now)
		arrive(t, k, now, first, dead(first))
		second := enqueue(t, k, now)
		if what == "collected here" {
			arrive(t, k, now, second, dead(second))
		}
		later(k, now)
		if got := vnode.KeyGeneration(k.Round.Tx, k.at().Partition, k.nthOf(0)); got < 1 || what == "collected here" && got != 2 {
			t.Errorf("%s: generation %d", what, got)
		}
		if h := k.Look(now, "q", "k", 0); h.Task == first {
			t.Errorf("%s: the key has its first task again", what)
		}
	}
	k, _, now := testMachine(t, epoch)
	first := enqueue(t, k, now)
	stone := crdt.Tombstone{Outcome: crdt.StateDead, At: 1, Collected: 2}.Fact(first)
	if k.Buried(k.at().Partition, []crdt.Fact{dead(first)}) != nil || k.Buried(k.at().Partition, []crdt.Fact{stone}) == nil {
		t.Error("it is not seen which facts say that a task was collected")
	}
	if k.Learn(now, k.nthOf(9), spec()); vnode.KeyGeneration(k.Round.Tx, k.at().Partition, first) != 0 {
		t.Error("a task of which it knows nothing takes the key from one that runs")
	}
}

// TestWhichIDAKeyMayHave: that which it has now, or had and is known; of a window that is not far
// ahead and has not been over for long.
func TestWhichIDAKeyMayHave(t *testing.T) {
	k, _, now := testMachine(t, epoch)
	first, hour := enqueue(t, k, now), int64(time.Hour)
	windowed := func(start int64) id.ID { return id.UniqueKey(k.Cluster, "q", "k", start, 0) }
	start := convert.WindowStart(now.Wall, hour)
	for _, c := range []struct {
		what   string
		task   id.ID
		window float64
		kind   nornv1.ErrorKind
	}{
		{"the one that it has", first, 0, 0},
		{"the next one", k.nthOf(1), 0, nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW},
		{"none of a key", id.ID{1}, 0, nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT},
		{"of the present window", windowed(start), 3600, 0},
		{"not at the start of a window", windowed(start + 1), 3600, nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT},
		{"of another key", id.UniqueKey(k.Cluster, "q", "x", start, 0), 3600, nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT},
		{"of the next window", windowed(start + hour), 3600, nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW},
		{"of one that ended almost gc-grace ago", windowed(start - int64(grace)), 3600, 0},
		{"of one that ended longer ago", windowed(start - int64(grace) - hour), 3600, nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW},
	} {
		h, bad := k.Resolve(now, &nornv1.TaskSpec{Queue: "q", Key: "k", KeyWindowSeconds: c.window, Id: c.task.Bytes()})
		switch {
		case (bad != nil) != (c.kind != 0), bad != nil && bad.Kind != c.kind:
			t.Errorf("%s: %v", c.what, bad)
		case bad == nil && h.Task != c.task:
			t.Errorf("%s: it has %s", c.what, h.Task)
		}
	}
	m, bad := k.Answer(now, &nornv1.KeyRequest{Queue: "q", Key: "k"})
	if reply, ok := m.(*nornv1.KeyReply); bad != nil || !ok || id.ID(reply.Id) != first || reply.State != nornv1.State_STATE_READY {
		t.Errorf("who asks for its ID is told %v, %v", m, bad)
	}
}
