package vnode

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/memstore"

	"pgregory.net/rapid"
)

// replica is one vnode of several with the same partition.
type replica struct {
	mem *memstore.Mem
	tx  *store.Overlay
	v   *Vnode
}

// cohort is the vnodes of one partition, of which the first leads.
type cohort struct {
	t     *rapid.T
	now   clock.Time
	ids   *id.Generator
	all   []*replica
	tasks []id.ID
}

func newCohort(t *rapid.T, n int) *cohort {
	c := &cohort{t: t, now: clock.Time{Wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano(), Mono: 1}}
	c.ids = id.NewGenerator(1, rand.New(rand.NewPCG(1, 2)).Uint64)
	for range n {
		c.all = append(c.all, &replica{mem: memstore.New()})
	}
	for _, r := range c.all {
		c.open(r)
	}
	c.all[0].v.Lead(1)
	return c
}

func (c *cohort) open(r *replica) {
	v, err := Open(0, Config{Partitions: 64, Buffer: time.Second, HeadSize: 2, Tree: true, Random: func() float64 { return 0 }}, r.mem, c.now)
	c.check(err)
	r.v, r.tx = v, store.NewOverlay(r.mem)
}

func (c *cohort) check(err error) {
	if err != nil {
		c.t.Fatal(err)
	}
}

func (r *replica) flush() {
	r.v.Flush(r.tx)
	b := r.tx.Take()
	r.mem.Apply(b)
	r.tx.Release(b)
}

// facts are those of a task, by key.
func (r *replica) facts(task id.ID) (facts []crdt.Fact) {
	r.flush()
	prefix := appendTask(nil, tableFacts, 0, task)
	for key, value := range r.mem.Scan(prefix, after(prefix)) {
		f, err := intactFact(key, bytes.Clone(value))
		if err != nil {
			panic(err)
		}
		facts = append(facts, f)
	}
	return facts
}

func (c *cohort) spec() crdt.Enqueued {
	s := crdt.Enqueued{
		Queue:    rapid.SampledFrom([]string{"a", "b"}).Draw(c.t, "queue"),
		Priority: int32(rapid.IntRange(0, 2).Draw(c.t, "priority")),
		Retry:    crdt.Retry{MaxAttempts: 2, Initial: time.Second, Max: time.Minute, Multiplier: 2000},
	}
	if rapid.IntRange(0, 4).Draw(c.t, "delayed") == 0 {
		s.NotBefore = c.now.Wall + int64(3*time.Second)
	}
	return s
}

func (c *cohort) some(label string) *replica { return rapid.SampledFrom(c.all).Draw(c.t, label) }

func (c *cohort) task() (id.ID, bool) {
	if len(c.tasks) == 0 {
		return id.ID{}, false
	}
	return rapid.SampledFrom(c.tasks).Draw(c.t, "task"), true
}

// enqueue puts a task in at one replica; sometimes another one takes another
// spec under the same ID.
func (c *cohort) enqueue() {
	task := c.ids.Next(c.now.Wall)
	c.tasks = append(c.tasks, task)
	for range rapid.IntRange(1, 2).Draw(c.t, "sides") {
		spec := c.spec()
		r := c.some("at")
		if _, err := r.v.Enqueue(r.tx, task, &spec, c.now); err != nil && !errors.Is(err, ErrConflict) {
			c.t.Fatal(err)
		}
	}
}

// say adds a fact that any node may write.
func (c *cohort) say() {
	task, ok := c.task()
	if !ok {
		return
	}
	token := uint64(1<<32 + rapid.IntRange(1, 4).Draw(c.t, "token"))
	at := c.now.Wall
	f := rapid.SampledFrom([]crdt.Fact{
		crdt.Update{Token: token, Seq: 0, Data: []byte(fmt.Sprint(len(c.tasks) % 3)), At: at}.Fact(task),
		crdt.Completed{Token: token, Seq: 0, At: at}.Fact(task),
		crdt.Cancelled{At: at, Reason: "no"}.Fact(task),
	}).Draw(c.t, "fact")
	r := c.some("at")
	_, err := r.v.Add(r.tx, f, c.now)
	c.check(err)
}

// lead does what only the leader does.
func (c *cohort) lead() {
	r := c.all[0]
	d, err := r.v.Grant(r.tx, rapid.SampledFrom([]string{"a", "b"}).Draw(c.t, "queue"), Ask{Worker: "w", Lease: 2 * time.Second}, c.now)
	if errors.Is(err, ErrNothing) {
		return
	}
	c.check(err)
	token := d.Claims[len(d.Claims)-1].Token
	switch rapid.IntRange(0, 4).Draw(c.t, "then") {
	case 0:
		_, _, err = r.v.Fail(r.tx, d.Task.ID, Failure{Token: token, Error: "e", Counted: true, Discard: token%2 == 0}, c.now)
	case 1:
		_, err = r.v.Release(r.tx, d.Task.ID, token, c.now)
	}
	c.check(err)
}

// pass lets time pass at the leader: leases lapse, delays end.
func (c *cohort) pass() {
	c.now.Wall += int64(2 * time.Second)
	c.now.Mono += int64(2 * time.Second)
	c.check(c.all[0].v.Tick(c.all[0].tx, c.now))
}

// requeue brings a dead task back.
func (c *cohort) requeue() {
	task, ok := c.task()
	if !ok {
		return
	}
	r := c.all[0]
	_, err := r.v.Decide(r.tx, task, c.now, func(t *crdt.Task) (crdt.Fact, bool) {
		if t.Outcome() != crdt.StateDead {
			return crdt.Fact{}, false
		}
		return crdt.Requeued{Generation: t.Generation() + 1, At: c.now.Wall, AfterToken: RetryAfter(r.v, task)}.Fact(task), true
	})
	c.check(err)
}

// collect deletes a finished task at the leader.
func (c *cohort) collect() {
	r := c.all[0]
	dues, _ := Dues(r.v, r.tx, &DuesCursor{}, func(crdt.State, string) int64 { return c.now.Wall }, c.now.Mono, 1)
	for _, d := range dues {
		_, err := r.v.Collect(r.tx, d, c.now, func(*crdt.Task) int64 { return c.now.Wall })
		c.check(err)
	}
}

// send gives one replica some of another's facts of a task, in any order and
// some twice.
func (c *cohort) send() {
	task, ok := c.task()
	if !ok {
		return
	}
	from, to := c.some("from"), c.some("to")
	facts := rapid.Permutation(from.facts(task)).Draw(c.t, "facts")
	if len(facts) == 0 {
		return
	}
	facts = append(facts[:rapid.IntRange(1, len(facts)).Draw(c.t, "n")], facts[0])
	_, err := Merge(to.v, to.tx, facts, c.now)
	c.check(err)
}

// converge has everybody tell everybody else everything.
func (c *cohort) converge() {
	for range 2 {
		for _, from := range c.all {
			for _, to := range c.all {
				for _, task := range c.tasks {
					_, err := Merge(to.v, to.tx, from.facts(task), c.now)
					c.check(err)
				}
			}
		}
	}
}

// same checks that all replicas hold the same facts and count the same tasks.
func (c *cohort) same() {
	for _, task := range c.tasks {
		want := fmt.Sprint(c.all[0].facts(task))
		for i, r := range c.all {
			if got := fmt.Sprint(r.facts(task)); got != want {
				c.t.Fatalf("replica %d has other facts of %s:\n%s\n%s", i, task, got, want)
			}
		}
	}
	root := Root(c.all[0].v, c.all[0].mem)
	for i, r := range c.all {
		if got := Root(r.v, r.mem); got != root || len(c.tasks) > 0 && len(c.all[0].facts(c.tasks[0])) > 0 && got.Count == 0 {
			c.t.Fatalf("replica %d has root %v, the first one %v", i, got, root)
		}
	}
	count := func(r *replica) string {
		var all []string
		r.v.Queues(func(name string, n *Counts) { all = append(all, fmt.Sprint(name, *n)) })
		return fmt.Sprint(all)
	}
	want := count(c.all[0])
	for i, r := range c.all {
		if got := count(r); got != want {
			c.t.Fatalf("replica %d counts %s, the first one %s", i, got, want)
		}
	}
}

func (c *cohort) audit() {
	for i, r := range c.all {
		r.flush()
		if err := Audit(r.mem, 0); err != nil {
			c.t.Fatalf("replica %d: %v", i, err)
		}
	}
}

// TestReplicasConverge: whatever was written where and arrived in which order,
// replicas that have told each other everything hold the same facts, their
// indexes and counters follow from them, and they place every task alike.
func TestReplicasConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCohort(t, 3)
		did := map[string]func(*rapid.T){}
		for name, f := range map[string]func(){
			"enqueue": c.enqueue, "enqueue more": c.enqueue, "say": c.say, "lead": c.lead, "lead more": c.lead,
			"pass": c.pass, "requeue": c.requeue, "collect": c.collect, "send": c.send, "send more": c.send, "": c.audit,
		} {
			did[name] = func(rt *rapid.T) { c.t = rt; f() }
		}
		t.Repeat(did)
		c.t = t
		c.converge()
		// The claims that are left are the leader's alone: they lapse first.
		for range 4 {
			c.pass()
		}
		c.converge()
		for _, r := range c.all {
			r.v.Lead(2)
			for range 2 {
				c.check(r.v.Tick(r.tx, c.now))
			}
		}
		c.converge()
		c.audit()
		c.same()
	})
}

// TestMergeRefusesWhatIsNoFact: nothing changes when anything in it is wrong.
func TestMergeRefusesWhatIsNoFact(t *testing.T) {
	r := newRig(t)
	task, other := r.ids.Next(r.now.Wall), r.ids.Next(r.now.Wall)
	good := crdt.Cancelled{At: 1, Reason: "no"}.Fact(task)
	bad := good
	bad.Body = append(bytes.Clone(bad.Body), 0)
	for _, facts := range [][]crdt.Fact{{good, bad}, {good, crdt.Cancelled{At: 1}.Fact(other)}} {
		if _, err := Merge(r.v, r.tx, facts, r.now); !errors.Is(err, crdt.ErrMalformed) {
			t.Fatalf("got %v", err)
		}
	}
	r.flush()
	for key := range r.mem.Scan(appendPrefix(nil, tableFacts, 0), nil) {
		t.Fatalf("%x was stored", key)
	}
	if m, err := Merge(r.v, r.tx, nil, r.now); err != nil || m != (Merged{}) {
		t.Fatalf("nothing gives %v, %v", m, err)
	}
}

// TestFactsOfAnotherReplicaEndClaims: what another leader has said of a claim
// ends it here; that it has expired only once it has lapsed here too.
func TestFactsOfAnotherReplicaEndClaims(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(crdt.Enqueued{Priority: 1})
	token, at := r.grant().Claims[0].Token, r.now.Wall
	m, err := Merge(r.v, r.tx, []crdt.Fact{crdt.Expired{Token: token, At: at}.Fact(task)}, r.now)
	if err != nil || m.Stored != 1 {
		t.Fatalf("%+v, %v", m, err)
	}
	r.audit()
	d, err := ReadTask(r.mem, 0, task, ReadOptions{})
	if err != nil || d.State != crdt.StateClaimed {
		t.Fatalf("a fast clock elsewhere breaks a lease: %v: %v %v", err, d.State, d.Claims)
	}
	r.v.Follow()
	if _, mono := r.v.NextWake(); mono != r.now.Add(15*time.Second).Mono {
		t.Fatalf("the claim is looked at again at %d, now is %d", mono, r.now.Mono)
	}
	for _, d := range []time.Duration{15*time.Second - 1, 1} {
		if r.v.Claimed() != 1 {
			t.Fatal("the claim has ended before it has lapsed")
		}
		r.now = r.now.Add(d)
		if err := r.v.Tick(r.tx, r.now); err != nil {
			t.Fatal(err)
		}
	}
	r.audit()
	d, err = ReadTask(r.mem, 0, task, ReadOptions{})
	if err != nil || d.State != crdt.StateReady || d.Claims[0].Outcome != claim.Expired {
		t.Fatalf("%v: %v %v", err, d.State, d.Claims)
	}
	if m, err = Merge(r.v, r.tx, []crdt.Fact{crdt.Expired{Token: token, At: at}.Fact(task)}, r.now); err != nil || m.Known != 1 || m.Stored != 0 {
		t.Fatalf("again: %+v, %v", m, err)
	}
}

// TestAWinningSpecMovesAClaimedTask: two sides took different specs under one
// ID, and the loser was claimed here already.
func TestAWinningSpecMovesAClaimedTask(t *testing.T) {
	r := newRig(t)
	loser := crdt.Enqueued{Queue: "q", Retry: crdt.Retry{MaxAttempts: 2}}
	winner := crdt.Enqueued{Queue: "p", Retry: crdt.Retry{MaxAttempts: 2}}
	task := r.ids.Next(r.now.Wall)
	if crdt.Wins(loser.Fact(task).Body, winner.Fact(task).Body) {
		loser, winner = winner, loser
	}
	if _, err := r.v.Enqueue(r.tx, task, &loser, r.now); err != nil {
		t.Fatal(err)
	}
	d, err := r.v.Grant(r.tx, loser.Queue, Ask{Worker: "w", Lease: 10 * time.Second}, r.now)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := Merge(r.v, r.tx, []crdt.Fact{winner.Fact(task)}, r.now); err != nil || m != (Merged{Stored: 1, Clashes: 1}) {
		t.Fatalf("%+v, %v", m, err)
	}
	r.audit()
	if _, err := r.v.Add(r.tx, crdt.Completed{Token: d.Claims[0].Token, At: r.now.Wall}.Fact(task), r.now); err != nil {
		t.Fatal(err)
	}
	r.audit()
	if n := r.v.Count(winner.Queue); n == nil || n[crdt.StateCompleted] != 1 || r.v.Count(loser.Queue) != nil {
		t.Fatalf("queues count %v and %v", n, r.v.Count(loser.Queue))
	}
}

// TestATombstoneEndsClaims: a replica that missed how a task ended learns that
// it was collected.
func TestATombstoneEndsClaims(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(crdt.Enqueued{Priority: 1})
	token := r.grant().Claims[0].Token
	facts := []crdt.Fact{
		crdt.Completed{Token: token, At: r.now.Wall}.Fact(task),
		crdt.Tombstone{Outcome: crdt.StateCompleted, At: r.now.Wall, Collected: r.now.Wall}.Fact(task),
	}
	if m, err := Merge(r.v, r.tx, facts, r.now); err != nil || m != (Merged{Stored: 1, Refused: 1}) {
		t.Fatalf("%+v, %v", m, err)
	}
	r.audit()
	if r.v.Claimed() != 0 || r.v.Count("q") != nil {
		t.Fatalf("%d claims, counters %v", r.v.Claimed(), r.v.Count("q"))
	}
	if m, err := Merge(r.v, r.tx, facts[:1], r.now); err != nil || m != (Merged{Refused: 1}) {
		t.Fatalf("back from the dead: %+v, %v", m, err)
	}
	r.goes(task, r.now.Wall)
}

// goes lets a tombstone go, but not before its time.
func (r *rig) goes(task id.ID, collected int64) {
	r.t.Helper()
	if gone, err := Forget(r.v, r.tx, task, collected-1); gone || err != nil {
		r.t.Fatalf("a tombstone goes too early: %v, %v", gone, err)
	}
	if due, _ := Graves(r.v, r.tx, &GravesCursor{}, collected-1, r.now.Mono, 10); len(due) > 0 {
		r.t.Fatalf("due too early: %v", due)
	}
	if due, done := Graves(r.v, r.tx, &GravesCursor{}, collected, r.now.Mono+1<<arrivalStep, 10); !done || len(due) != 1 || due[0] != task {
		r.t.Fatalf("due are %v", due)
	}
	if due, _ := Graves(r.v, r.tx, &GravesCursor{}, collected, r.now.Mono-1, 10); len(due) > 0 {
		r.t.Fatalf("%v has only just come", due)
	}
	if gone, err := Forget(r.v, r.tx, task, collected); !gone || err != nil {
		r.t.Fatalf("a tombstone does not go: %v, %v", gone, err)
	}
	r.audit()
	if gone, err := Forget(r.v, r.tx, task, collected); gone || err != nil {
		r.t.Fatalf("it goes twice: %v, %v", gone, err)
	}
}

// TestOfTwoTombstonesOneStays: two leaders have collected a task. The index
// follows the one that stays, and nothing but a tombstone is let go.
func TestOfTwoTombstonesOneStays(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(crdt.Enqueued{Priority: 1})
	at := r.now.Wall
	if gone, err := Forget(r.v, r.tx, task, at+1); gone || err != nil {
		t.Fatalf("a live task went: %v, %v", gone, err)
	}
	late := crdt.Tombstone{Outcome: crdt.StateCompleted, At: at, Collected: at + 20}.Fact(task)
	early := crdt.Tombstone{Outcome: crdt.StateCompleted, At: at, Collected: at + 10}.Fact(task)
	for _, c := range []struct {
		fact crdt.Fact
		want Merged
	}{{late, Merged{Stored: 1}}, {late, Merged{Known: 1}}, {early, Merged{Stored: 1}}, {late, Merged{Known: 1}}} {
		if m, err := Merge(r.v, r.tx, []crdt.Fact{c.fact}, r.now); err != nil || m != c.want {
			t.Fatalf("%+v, %v; want %+v", m, err, c.want)
		}
		r.audit()
	}
	r.goes(task, at+10)
	// Both in one message, and a restart in between: what was here before this
	// process is older than whatever it does.
	if m, err := Merge(r.v, r.tx, []crdt.Fact{late, early}, r.now); err != nil || m.Stored == 0 {
		t.Fatalf("%+v, %v", m, err)
	}
	r.audit()
	v, err := Open(0, *r.v.cfg, r.mem, clock.Time{Wall: r.now.Wall + 1, Mono: 1})
	if err != nil {
		t.Fatal(err)
	}
	if due, _ := Graves(v, r.mem, &GravesCursor{}, at+10, -1, 10); len(due) != 1 {
		t.Fatalf("due after a restart: %v", due)
	}
}

// TestATombstoneTakesNoAcknowledgedEndBack: a replica was told, and has
// acknowledged, that a task is cancelled or completed, which was dead where it was
// collected meanwhile. In whichever order it hears of both, and with whom it
// speaks then, the stronger end stays (track record, simulator of clusters, seed
// 10,197).
func TestATombstoneTakesNoAcknowledgedEndBack(t *testing.T) {
	at := int64(0)
	ends := map[crdt.State]crdt.Fact{}
	for name, before := range map[string]bool{"the end first": true, "the tombstone first": false} {
		for _, ended := range []crdt.State{crdt.StateCompleted, crdt.StateCancelled} {
			a, b := newRig(t), newRig(t)
			task := a.enqueue(crdt.Enqueued{})
			at = a.now.Wall
			ends[crdt.StateCompleted] = crdt.Completed{Token: 7, At: at + 5}.Fact(task)
			ends[crdt.StateCancelled] = crdt.Cancelled{At: at + 5, Reason: "no"}.Fact(task)
			dead := crdt.Tombstone{Outcome: crdt.StateDead, At: at, Collected: at + 9}.Fact(task)
			order := []crdt.Fact{dead, ends[ended]}
			if before {
				slices.Reverse(order)
			}
			for _, f := range order {
				a.put(f)
			}
			b.put(dead)
			want := crdt.Tombstone{Outcome: ended, At: at + 5, Collected: at + 9}.Fact(task)
			b.put(want)
			b.put(dead) // it does not come back
			for who, r := range map[string]*rig{"who knew": a, "who was told": b} {
				r.audit()
				got, err := r.v.shelf.get(r.tx, task, want.Key)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want.Body) {
					stone, err := crdt.DecodeTombstone(got)
					t.Errorf("%s, %v, %s: %+v, %v", name, ended, who, stone, err)
				}
			}
		}
	}
}

// put merges a fact.
func (r *rig) put(f crdt.Fact) {
	r.t.Helper()
	if _, err := Merge(r.v, r.tx, []crdt.Fact{f}, r.now); err != nil {
		r.t.Fatal(err)
	}
}

// TestAnEnqueueAloneIsMergedAsItIs enqueued: where nothing else is known of its task it is not decoded, and stands where it
// would stand.
func TestAnEnqueueAloneIsMergedAsItIs(t *testing.T) {
	one, two := newRig(t), newRig(t)
	at := one.now.Wall
	for i, e := range []crdt.Enqueued{
		{Payload: []byte("p")},
		{Priority: -3},
		{Priority: 7, Payload: make([]byte, 2*maxBody), Headers: []crdt.Header{{Key: "a", Value: "bcd"}}},
		{Admission: at - int64(time.Minute)},
		{NotBefore: at + int64(time.Hour), Admission: at},
		{NotBefore: at - 1},
		{Dependencies: []id.ID{{1}}},
	} {
		e.Queue, e.Retry = "q", crdt.Retry{MaxAttempts: 1 + uint32(i)}
		f := e.Fact(one.ids.Next(at))
		if _, err := one.v.Enqueue(one.tx, f.Task, &e, one.now); err != nil {
			t.Fatal(err)
		}
		m, err := Merge(two.v, two.tx, []crdt.Fact{f}, two.now)
		if err != nil || m.Stored != 1 || (m.Spec == nil) != (i > 0 && len(e.Dependencies) == 0) || (m.Queue == "q") != (m.Spec == nil) {
			t.Fatalf("enqueue %d: %+v, %v", i, m, err)
		}
	}
	one.audit()
	two.audit()
	var want []string
	for key, value := range one.mem.Scan(nil, nil) {
		want = append(want, fmt.Sprintf("%x=%x", key, value))
	}
	for key, value := range two.mem.Scan(nil, nil) {
		if len(want) == 0 || want[0] != fmt.Sprintf("%x=%x", key, value) {
			t.Fatalf("there is %x=%x, want %.1s", key, value, want)
		}
		want = want[1:]
	}
	if len(want) > 0 {
		t.Errorf("%d are missing, of them %s", len(want), want[0])
	}
}
