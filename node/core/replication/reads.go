package replication

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/portion"
	"github.com/norn-dev/norn/node/core/call"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/query"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

const (
	// ReadTimeout is how long replicas are waited for.
	ReadTimeout = 2 * time.Second
	// FetchBytes bounds the updates in one answer, the completions and the failures. All
	// else of the task is in it: who reads goes by what a majority says of how a task ended.
	FetchBytes = 8 << 20
	// MaxFetches bounds the reads that wait for replicas.
	MaxFetches = 1 << 14
)

// Reads are reads of several replicas (design 5). The facts of the others are
// merged here, the read then sees the union; who lacks something is sent it.
type Reads struct {
	m      *Machine
	Number uint64
	// Invariant: each of Open is in byTime, and no other one.
	Open           map[uint64]*Fetch
	byTime         call.ByTime[*Fetch]
	TooFewAnswered bool // of the request that is being handled, see [message.Request]
}

// held is how many reads of a connection wait: they are looked at only when there are many.
func (f *Reads) held(conn uint64) (n int64) {
	if len(f.Open) < MaxFetches/4 || conn >= message.OwnConns {
		return 0
	}
	for _, q := range f.Open { // Any order: they are counted.
		if q.from.Conn == conn {
			n++
		}
	}
	return n
}

// Fetch is a read of several replicas, or what waits for what they know.
type Fetch struct {
	call.Deadline
	call.Quorum
	from message.Origin
	task id.ID
	need int // replicas, this one counted
	// Invariant: each has been counted in Quorum once; [Quorum.Take] is false for a second
	// answer, which would let one member stand for two.
	answered []*answeredFetch
	read     message.Read
	enough   func() bool                       // nothing more is to be seen; else all are asked
	about    *unheard                          // the request that waits for it; nil: none
	then     func(now clock.Time, enough bool) // goes on instead of the read, when enough have answered or too few; nil: nothing does
}

// answeredFetch is what one member has answered: the keys of its facts, by which read repair
// finds what it lacks.
type answeredFetch struct {
	from  register.Member
	facts map[crdt.Key]bool
	first map[crdt.Kind]crdt.Key // the lowest key of each kind
}

// lacks tells whether who has answered surely has nothing under a key: of old updates,
// completions and failures the answer does not say.
func (a *answeredFetch) lacks(k crdt.Key) bool {
	old := k.Kind == crdt.KindUpdate || k.Kind == crdt.KindCompleted || k.Kind == crdt.KindFailed
	return !a.facts[k] && !(old && k.Compare(a.first[k.Kind]) < 0)
}

// Get reads a task from as many replicas as the request asks for. It tells
// whether it takes the request: one replica is read by the caller.
//
// need is the number of members that the consistency level of the request means in this cohort.
// With one member the caller reads by itself. Errors: INVALID for a level that the cluster can
// never give, UNAVAILABLE for one that the cohort cannot give now, OVERLOADED past [MaxFetches]
// reads.
func (f *Reads) Get(now clock.Time, r *message.Request, m *nornv1.GetRequest) (takes bool, err *proto.Error) {
	task, bad := convert.ReadID(m.GetId())
	if bad != nil {
		return false, nil
	}
	p := ring.Of(task, len(f.m.View.Cells))
	cohort := f.m.View.Cells[p].Cohort
	l := m.GetConsistency()
	if l.GetLevel() < 0 || l.GetLevel() > nornv1.ReadLevel_READ_LEVEL_COUNT {
		return true, proto.Invalid("consistency has the unknown level %d", l.GetLevel())
	}
	if bad := convert.CheckConsistency(l); bad != nil {
		return true, bad
	}
	many := nornv1.WriteLevel(l.GetLevel())
	need := level(&nornv1.Durability{Level: many, Copies: l.GetReplicas()}, max(1, len(cohort)))
	switch {
	case len(cohort) == 1 && f.m.Writes.unsure(many):
		return true, refusal.RegisterUnheard("replicas read")
	case need < 1:
		return true, proto.Invalid("a read needs at least one replica")
	case f.m.View.Joined && need > max(1, len(cohort), f.m.Transfer.Replicas()): // no node that joins or comes back changes that
		return true, proto.Invalid("%d replicas were to be asked, and the cluster keeps %d of each task; ask for fewer", need, max(1, len(cohort), f.m.Transfer.Replicas()))
	case need > max(1, len(cohort)):
		return true, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE,
			"%d replicas were to be asked, the cohort has %d members; ask for fewer", need, len(cohort)).Keeping("replicas read").ForGood()
	case f.m.Writes.Alone(p) || need == 1 && !l.GetAtLeast() || !slices.Contains(cohort, f.m.Self):
		return false, nil
	case !portion.Fits(MaxFetches, int64(len(f.Open)), f.held(r.From.Conn), 1):
		return true, refusal.Crowded(router.MaxWaiting)
	}
	read, bad := query.NewGet(r, m, len(f.m.View.Cells))
	if bad != nil {
		return true, bad
	}
	f.begin(now, r, p, &Fetch{Quorum: call.NewQuorum(&f.m.View.Cells[p], f.m.Self), from: r.From, task: task, need: need, read: read, enough: func() bool {
		return !l.GetAtLeast() || f.sees(p, task, l)
	}})
	return true, nil
}

// sees tells whether what is here reaches what the client has seen before.
func (f *Reads) sees(p ring.Partition, task id.ID, l *nornv1.Consistency) bool {
	t, err := vnode.LoadTask(f.m.Round.Tx, p, task)
	return f.m.Round.Check(err) && query.Seen(f.m.Round.Tx, p, t, l)
}

// Room tells whether one more read may be under way.
func (f *Reads) Room() bool { return len(f.Open) < MaxFetches }

// Majority merges what a majority knows of a task, and says whether enough have answered.
func (f *Reads) Majority(now clock.Time, task id.ID, then func(now clock.Time, enough bool)) {
	p := ring.Of(task, len(f.m.View.Cells))
	cell := &f.m.View.Cells[p]
	f.begin(now, &message.Request{}, p, &Fetch{
		Quorum: call.NewQuorum(cell, f.m.Self), task: task, need: quorum.Majority(len(cell.Cohort)), enough: func() bool { return true },
		then: then,
	})
}

// begin sends a read to the cohort and counts this node where its own copy counts. It runs at
// most until [ReadTimeout] or the deadline of its request.
func (f *Reads) begin(now clock.Time, r *message.Request, p ring.Partition, q *Fetch) {
	if f.Number == 0 {
		f.Number = f.m.Rand.Uint64()
		f.Open = make(map[uint64]*Fetch)
	}
	f.Number++
	q.Number, q.Until = f.Number, now.Mono+int64(ReadTimeout)
	if r.Deadline != 0 {
		q.Until = min(q.Until, r.Deadline)
	}
	f.ask(q, q.Left)
	if !f.m.Acceptors.Blind(p, q.Epoch) && f.m.Standing.Disk.Counts(p, q.Epoch) {
		q.Add(f.m.Self)
		if fence, ok := f.m.Acceptors.Fence(p, q.Epoch); ok {
			f.ask(q, q.Fence(&fence, f.m.Self))
		}
	}
	f.Open[q.Number] = q
	f.byTime.Add(q)
	f.settle(q)
}

// ask sends a read to members. Who does not answer is not asked again within it: the client's
// retry does that.
func (f *Reads) ask(q *Fetch, who []register.Member) {
	for _, m := range who {
		f.m.Round.Send(m, &message.Fetch{Number: q.Number, Epoch: q.Epoch, Task: q.task})
	}
}

// Asked gives what this replica has. Who does not keep the task, not any longer or,
// though voted for, not yet, says nothing, and neither does who may have forgotten
// something: the others are asked too.
func (f *Reads) Asked(from register.Member, m *message.Fetch) {
	p, a := ring.Of(m.Task, len(f.m.View.Cells)), f.m.Acceptors
	if f.m.View.Deleting(p) || f.m.View.Elsewhere(p) && !a.Proposed(p) || a.Blind(p, m.Epoch) || !f.m.Standing.Disk.Counts(p, m.Epoch) {
		return
	}
	facts, err := vnode.Newest(f.m.Round.Tx, p, m.Task, FetchBytes)
	if !f.m.Round.Check(err) {
		return
	}
	fence, _ := a.Fence(p, m.Epoch)
	f.m.Round.Send(from, &message.Fetched{Number: m.Number, Facts: facts, Cohorts: fence.Cohorts})
}

// Fetched merges what a replica has.
func (f *Reads) Fetched(now clock.Time, from register.Member, m *message.Fetched) {
	q := f.Open[m.Number]
	if q == nil {
		return // late
	}
	if slices.ContainsFunc(m.Facts, func(x crdt.Fact) bool { return x.Task != q.task }) || !q.Take(from) {
		return
	}
	q.Add(from)
	f.ask(q, q.Fence(&message.Fence{Cohorts: m.Cohorts}, f.m.Self))
	a := &answeredFetch{from: from, facts: make(map[crdt.Key]bool, len(m.Facts)), first: make(map[crdt.Kind]crdt.Key)}
	for i := range m.Facts {
		k := m.Facts[i].Key
		a.facts[k] = true
		if first, ok := a.first[k.Kind]; !ok || k.Compare(first) < 0 {
			a.first[k.Kind] = k
		}
	}
	q.answered = append(q.answered, a)
	f.m.Node.Keep(now, from, &message.PartFacts{Partition: ring.Of(q.task, len(f.m.View.Cells)), Facts: m.Facts})
	f.settle(q)
}

// settle reads once enough has been heard.
func (f *Reads) settle(q *Fetch) {
	if !q.Reached(q.need) || len(q.Left) > 0 && !q.enough() {
		return
	}
	f.serve(q)
}

// serve reads what has been merged here, unless this node keeps the partition no
// longer: what is left of it, while it is deleted, says of no task that it is unknown.
func (f *Reads) serve(q *Fetch) {
	f.drop(q)
	if q.then != nil {
		q.then(f.m.Round.Now, true)
		return
	}
	if p := ring.Of(q.task, len(f.m.View.Cells)); f.m.View.Elsewhere(p) {
		e := f.m.Transfer.Gone(p)
		e.Guarantee = "replicas read"
		f.m.Round.Refuse(q.from, e)
		return
	}
	f.repair(q)
	f.m.Round.Ready.Reads = append(f.m.Round.Ready.Reads, q.read)
}

// drop ends a read, whatever has come of it.
func (f *Reads) drop(q *Fetch) {
	delete(f.Open, q.Number)
	f.byTime.Remove(q)
}

// repair sends those who have answered what they lack.
func (f *Reads) repair(q *Fetch) {
	p := ring.Of(q.task, len(f.m.View.Cells))
	facts, err := vnode.Newest(f.m.Round.Tx, p, q.task, FetchBytes)
	if !f.m.Round.Check(err) {
		return
	}
	for _, a := range q.answered {
		var lacks []crdt.Fact
		for _, x := range facts {
			if a.lacks(x.Key) {
				lacks = append(lacks, x)
			}
		}
		if len(lacks) > 0 {
			f.m.Round.Send(a.from, &message.Facts{Parts: []message.PartFacts{{Partition: p, Epoch: f.m.View.Cells[p].Epoch, Facts: lacks}}})
		}
	}
}

// Due is when the first has waited for too long, mono ns.
func (f *Reads) Due() int64 { return f.byTime.Next() }

// Work gives up what has waited too long: with enough replicas that show enough it is
// read, else it is refused. Who has not answered may have what a client has seen, so that
// nobody may say then that the task is unknown, which is final.
func (f *Reads) Work(now clock.Time) {
	for len(f.byTime) > 0 && f.byTime[0].Until <= now.Mono {
		q := f.byTime[0]
		enough := q.Reached(q.need)
		if enough && q.enough() {
			f.serve(q)
			continue
		}
		f.drop(q)
		if q.then != nil {
			q.then(now, false)
			continue
		}
		e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "%d of %d replicas of task %s have answered, %d were to be asked; try again, or ask for one (-r one)",
			q.Count(), len(q.Cohort), q.task, q.need).Keeping("replicas read").Again(100 * time.Millisecond)
		if enough {
			e = proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "task %s was not seen as far as it had been: %d of %d replicas have answered; try again, or through another node",
				q.task, q.Count(), len(q.Cohort)).Keeping(refusal.MonotonicRead).Again(100 * time.Millisecond)
		}
		f.m.Round.Refuse(q.from, e)
	}
}
