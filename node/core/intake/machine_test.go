package intake

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/arrivals"
	"github.com/norn-dev/norn/node/core/dependency"
	"github.com/norn-dev/norn/node/core/dispatch"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/partitions"
	"github.com/norn-dev/norn/node/core/query"
	"github.com/norn-dev/norn/node/core/queues"
	"github.com/norn-dev/norn/node/core/quota"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/node/core/retention"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/node/core/settle"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/core/transfer"
	"github.com/norn-dev/norn/node/core/uniquekeys"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/node/core/waiting"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store/memstore"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

const (
	epoch = 5 // in which the node of the tests leads
	eta   = time.Second
	grace = 24 * time.Hour
)

const (
	conflict    = nornv1.ErrorKind_ERROR_KIND_CONFLICT
	full        = nornv1.ErrorKind_ERROR_KIND_DISK_FULL
	invalid     = nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT
	notFound    = nornv1.ErrorKind_ERROR_KIND_NOT_FOUND
	outside     = nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW
	overloaded  = nornv1.ErrorKind_ERROR_KIND_OVERLOADED
	taken       = nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS
	unavailable = nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE
)

func member(n byte) register.Member {
	return register.Member{Node: "n", Incarnation: register.Incarnation{n}}
}

// rest is the rest of a node, which has nothing; it keeps the requests that it is to carry out.
type rest struct {
	lease.Others
	router.Node
	retention.Queues
	retention.References
	asked []*message.Request
}

func (r *rest) Request(_ clock.Time, q *message.Request)                     { r.asked = append(r.asked, q) }
func (r *rest) Tells([]byte)                                                 {}
func (r *rest) StillLeads(ring.Partition, string) *proto.Error               { return nil }
func (r *rest) Alone(ring.Partition) bool                                    { return true }
func (r *rest) CaughtUp(ring.Partition) bool                                 { return true }
func (r *rest) Demand(clock.Time, ring.Partition)                            {}
func (r *rest) Settings(string) *nornv1.QueueSettings                        { return nil }
func (r *rest) DeletedAt(string) int64                                       { return 0 }
func (r *rest) Retention(bool) retention.Rule                                { return retention.Rule{} }
func (r *rest) Stamp(now clock.Time, _ id.ID) int64                          { return now.Wall }
func (r *rest) Wall(now clock.Time) int64                                    { return now.Wall }
func (r *rest) Leader(ring.Partition) (register.Member, bool)                { return member(0), true }
func (r *rest) Reader(ring.Partition) (register.Member, bool)                { return member(0), true }
func (r *rest) Find(clock.Time, id.ID, bool, func(clock.Time, *proto.Error)) {}

// bench is the machine of a node which leads its one partition.
type bench struct {
	*Machine
	rest *rest
	v    *vnode.Vnode
	now  clock.Time
	ids  *id.Generator
}

// newBench makes one with so many members of the cohort.
func newBench(t *testing.T, members int) *bench {
	t.Helper()
	b := &bench{rest: &rest{}, now: clock.Time{Wall: time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC).UnixNano(), Mono: int64(time.Hour)}, ids: id.NewGenerator(7, rand.Uint64)}
	self, disk, seen := member(0), memstore.New(), view.New(member(0), 1)
	seen.Cells[0] = register.Cell{Epoch: epoch, Leader: self}
	for n := range members {
		seen.Cells[0].Cohort = append(seen.Cells[0].Cohort, member(byte(n)))
	}
	seen.Joined, seen.Current = true, true
	seen.Look()
	var err error
	check := func() {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	b.v, err = vnode.Open(0, vnode.Config{Partitions: 1, HeadSize: 8, Random: rand.Float64}, disk, b.now)
	check()
	b.v.Lead(epoch)
	e := Env{Ground: &ground.Ground{Self: self, Eta: eta, GCGrace: grace, View: seen, Round: round.New(disk), Partitions: partitions.New([]*vnode.Vnode{b.v}, nil, nil), Tenants: quota.New(), Pending: waiting.New(), Rand: rand.New(rand.NewPCG(1, 2))}, MaxPayload: 100}
	e.Round.Now = b.now
	acceptors, err := leadership.OpenAcceptors(&leadership.Env{Ground: e.Ground}, 1, disk)
	check()
	e.Standing, err = standing.New(standing.Env{Ground: e.Ground}, make([]uint64, 1), disk, b.now)
	check()
	e.Routes = router.New(router.Env{Ground: e.Ground, IDs: b.ids, Standing: e.Standing, Node: b.rest})
	e.Transfer = transfer.New(transfer.Env{Ground: e.Ground})
	leases := lease.New(lease.Env{Ground: e.Ground, Standing: e.Standing, Acceptors: acceptors, Others: b.rest})
	e.Replication = replication.New(replication.Env{Ground: e.Ground, Standing: e.Standing, Acceptors: acceptors, Leases: leases, Transfer: e.Transfer})
	e.Retention = retention.New(retention.Env{Ground: e.Ground, Queues: b.rest, References: b.rest}, b.now)
	e.Dependency = dependency.New(dependency.Env{Ground: e.Ground, Routes: b.rest, Leases: leases, Times: b.rest}, 1)
	hands := dispatch.New(dispatch.Env{Ground: e.Ground, MaxQueues: 9})
	e.Queues = queues.New(queues.Env{Ground: e.Ground, Retry: crdt.Retry{MaxAttempts: 1}, MaxQueues: 2, Dispatch: hands})
	e.Keys = uniquekeys.New(uniquekeys.Env{Ground: e.Ground, Standing: e.Standing, Leaders: b.rest, Proofs: b.rest})
	e.Settle = settle.New(settle.Env{Ground: e.Ground, Standing: e.Standing, Replication: e.Replication, Transfer: e.Transfer, Sessions: b.rest, Clashes: &arrivals.Clashes{}})
	b.Machine = New(e, Disk{Least: 100, Free: 1000})
	return b
}

// spec is a task for queue q under a new ID, which is so old.
func (b *bench) spec(age time.Duration) *nornv1.TaskSpec {
	return &nornv1.TaskSpec{Id: b.ids.Next(b.now.Wall - int64(age)).Bytes(), Queue: "q", Payload: []byte("x")}
}

// enqueue sends tasks as a client, and gives what is wrong with each; all are refused alike.
func (b *bench) enqueue(tasks ...*nornv1.TaskSpec) (kinds []nornv1.ErrorKind, existed []bool) {
	m, err := b.Enqueue(b.now, &message.Request{From: message.Origin{Conn: 1}}, &nornv1.EnqueueRequest{Tasks: tasks})
	for i := range tasks {
		switch {
		case err != nil:
			kinds, existed = append(kinds, err.Kind), append(existed, false)
		default:
			res := m.(*nornv1.EnqueueReply).Results[i]
			kinds, existed = append(kinds, res.GetError().GetKind()), append(existed, res.GetReceipt().GetExisted())
		}
	}
	return kinds, existed
}

// decide writes facts of a task as they come from another replica.
func (b *bench) decide(t *testing.T, task []byte, facts ...func(id.ID) crdt.Fact) {
	t.Helper()
	for _, f := range facts {
		if _, err := vnode.Merge(b.v, b.Round.Tx, []crdt.Fact{f(id.ID(task))}, b.now); err != nil {
			t.Fatal(err)
		}
	}
}

func completed(task id.ID) crdt.Fact { return crdt.Completed{Token: epoch<<32 + 1, At: 1}.Fact(task) }
func dead(task id.ID) crdt.Fact      { return crdt.Dead{At: 1, Reason: "no"}.Fact(task) }
func cancelled(task id.ID) crdt.Fact { return crdt.Cancelled{At: 1}.Fact(task) }
func stone(task id.ID) crdt.Fact {
	return crdt.Tombstone{Outcome: crdt.StateDead, At: 1, Collected: 2}.Fact(task)
}

// TestEachTaskIsJudgedForItself: guarantee 1.
func TestEachTaskIsJudgedForItself(t *testing.T) {
	b := newBench(t, 1)
	large, nameless, other := b.spec(0), b.spec(0), b.spec(0)
	large.Payload, nameless.Queue = make([]byte, 101), ""
	itself := b.spec(0)
	itself.Dependencies = [][]byte{itself.Id}
	first := b.spec(0)
	again := gproto.CloneOf(first)
	again.Priority = 3
	keyed := &nornv1.TaskSpec{Queue: "q", Key: "k", Dependencies: [][]byte{id.UniqueKey([16]byte{}, "q", "k", 0, 0).Bytes()}}
	kinds, _ := b.enqueue(large, first, nameless, other, itself, again, keyed)
	if want := [7]nornv1.ErrorKind{invalid, 0, invalid, 0, invalid, taken, invalid}; [7]nornv1.ErrorKind(kinds) != want || b.Enqueued != 2 || b.Round.Refused != 5 {
		t.Errorf("of seven tasks %v; %d are counted", kinds, b.Enqueued)
	}
}

// TestTheAnswerToARepeatedSendIsTheSame: guarantee 1, whatever has come since.
func TestTheAnswerToARepeatedSendIsTheSame(t *testing.T) {
	settings := func(s *nornv1.QueueSettings) func(*testing.T, *bench, []byte) {
		return func(t *testing.T, b *bench, _ []byte) {
			data, err := gproto.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			if bad := b.Queues.Load(&register.State{Revision: 9, Queues: map[string]register.Queue{"q": {Version: 1, Settings: data}}}); bad != nil {
				t.Fatal(bad)
			}
		}
	}
	for what, c := range map[string]struct {
		since func(*testing.T, *bench, []byte)
		fresh nornv1.ErrorKind // what a new task is told
	}{
		"nothing":                   {func(*testing.T, *bench, []byte) {}, 0},
		"its queue takes no more":   {settings(&nornv1.QueueSettings{MaxTasks: 1}), overloaded},
		"its queue drains":          {settings(&nornv1.QueueSettings{Draining: true}), conflict},
		"it is completed":           {func(t *testing.T, b *bench, task []byte) { b.decide(t, task, completed) }, 0},
		"it is older than gc-grace": {func(_ *testing.T, b *bench, _ []byte) { b.now = b.now.Add(2 * grace) }, 0},
		"it was collected":          {func(t *testing.T, b *bench, task []byte) { b.decide(t, task, dead, stone) }, 0},
		"its queue's name is given up": {func(t *testing.T, b *bench, task []byte) {
			b.decide(t, task, dead, stone)
			b.Queues.Unuse("q")
			for _, name := range []string{"a", "b"} {
				b.Queues.Use(name, b.now)
			}
		}, overloaded},
	} {
		b := newBench(t, 1)
		first := b.spec(0)
		if kinds, _ := b.enqueue(gproto.CloneOf(first)); kinds[0] != 0 {
			t.Fatalf("a task is refused: %v", kinds)
		}
		c.since(t, b, first.Id)
		kinds, existed := b.enqueue(b.spec(0), gproto.CloneOf(first))
		if kinds[0] != c.fresh || existed[0] || kinds[1] != 0 || !existed[1] || b.Duplicates != 1 {
			t.Errorf("since then %s: a new one is told %v, a repeated one %v; it existed: %t; %d are counted", what, kinds[0], kinds[1], existed[1], b.Duplicates)
		}
	}
}

// TestAnIDMayBeSoOld: guarantee 2; and not of the future.
func TestAnIDMayBeSoOld(t *testing.T) {
	b := newBench(t, 1)
	begun := func(age time.Duration) *nornv1.LaunchRequest {
		task := b.spec(0)
		task.Id = id.Launch([16]byte{1}, [16]byte{2}, 1).Bytes()
		return &nornv1.LaunchRequest{Tasks: []*nornv1.TaskSpec{task}, Begun: []int64{b.now.Wall - int64(age)}}
	}
	for age, want := range map[time.Duration]nornv1.ErrorKind{0: 0, grace - time.Minute: 0, grace + time.Minute: outside, -2 * eta: outside, -eta / 2: 0} {
		fresh := newBench(t, 1)
		if kinds, _ := fresh.enqueue(fresh.spec(age)); kinds[0] != want {
			t.Errorf("an ID that is %v old: %v", age, kinds[0])
		}
		if age < 0 {
			continue
		}
		m, err := fresh.Launch(b.now, &message.Request{Routed: true}, begun(age))
		if err != nil || m.(*nornv1.EnqueueReply).Results[0].GetError().GetKind() != want {
			t.Errorf("a launch that was begun %v ago: %v, %v", age, m, err)
		}
	}
	late := begun(0)
	late.Until = []int64{b.now.Wall - 1}
	if m, err := b.Launch(b.now, &message.Request{Routed: true}, late); err != nil || m.(*nornv1.EnqueueReply).Results[0].GetError().GetKind() != outside {
		t.Errorf("a launch after its deadline: %v, %v", m, err)
	}
	if _, err := b.Launch(b.now, &message.Request{}, begun(0)); err == nil {
		t.Error("a client launches")
	}
}

// TestNothingIsTakenInThatHasNoRoom: guarantee 3; what other nodes send has room there, and who
// ends tasks needs none.
func TestNothingIsTakenInThatHasNoRoom(t *testing.T) {
	for _, c := range []struct {
		what string
		do   func(*bench)
		conn uint64
		want nornv1.ErrorKind
	}{
		{"there is room", func(*bench) {}, 1, 0},
		{"the disk is nearly full", func(b *bench) { b.Disk.Look(99, 0) }, 1, full},
		{"it is, with what is to stay free as it says", func(b *bench) { b.Disk.Look(999, 1000) }, 1, full},
		{"it fills up", func(b *bench) { b.Disk.Wrote(451) }, 1, full},
		{"it fills up, not quite", func(b *bench) { b.Disk.Wrote(450) }, 1, 0},
		{"it has filled up for good", func(b *bench) { b.Disk.Wrote(1 << 40) }, 1, full},
		{"it has room again", func(b *bench) { b.Disk.Wrote(1 << 40); b.Disk.Look(1000, 0) }, 1, 0},
		{"another node sends it", func(b *bench) { b.Disk.Look(99, 0) }, message.PeerConns + 1, 0},
		{"the cluster is being made", func(b *bench) { b.View.Young = 3 }, 1, unavailable},
	} {
		b := newBench(t, 1)
		before := b.spec(0)
		b.enqueue(before)
		c.do(b)
		_, err := b.Enqueue(b.now, &message.Request{From: message.Origin{Conn: c.conn}}, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{b.spec(0)}})
		if kind := nornv1.ErrorKind(0); err != nil && err.Kind != c.want || err == nil && c.want != kind {
			t.Errorf("%s: %v", c.what, err)
		}
		m, err := b.Cancel(b.now, &nornv1.CancelRequest{Ids: [][]byte{before.Id}})
		if err != nil || m.(*nornv1.WriteReply).Results[0].Error != nil || b.Cancelled != 1 {
			t.Errorf("%s: a task is not cancelled: %v, %v", c.what, m, err)
		}
	}
}

// TestWhoMayRetryATask: guarantee 4, and which tasks.
func TestWhoMayRetryATask(t *testing.T) {
	only := []nornv1.State{nornv1.State_STATE_DEAD}
	unconfirmed := func(b *bench) {
		b.Replication.Confirms.ReadIndex(b.now, &message.Request{Confirm: message.ConfirmedSince{At: b.now.Mono, Parts: []ring.Partition{0}}})
	}
	for _, c := range []struct {
		what    string
		members int
		facts   []func(id.ID) crdt.Fact
		do      func(*bench)
		only    []nornv1.State
		want    nornv1.ErrorKind
		retried uint64
		state   nornv1.State
	}{
		{"it is dead", 1, []func(id.ID) crdt.Fact{dead}, nil, nil, 0, 1, nornv1.State_STATE_READY},
		{"it is dead, as asked for", 1, []func(id.ID) crdt.Fact{dead}, nil, only, 0, 1, nornv1.State_STATE_READY},
		{"it is dead, and others keep it", 3, []func(id.ID) crdt.Fact{dead}, nil, nil, 0, 1, nornv1.State_STATE_READY},
		{"nobody leads", 1, []func(id.ID) crdt.Fact{dead}, func(b *bench) { b.v.Follow() }, nil, unavailable, 0, 0},
		{"another one may lead", 3, []func(id.ID) crdt.Fact{dead}, unconfirmed, nil, unavailable, 0, 0},
		{"too few have said how it ended", 3, []func(id.ID) crdt.Fact{dead}, func(b *bench) { b.Replication.Reads.TooFewAnswered = true }, nil, unavailable, 0, 0},
		{"its partition is being deleted", 1, []func(id.ID) crdt.Fact{dead}, func(b *bench) { b.View.Dropping[0] = true }, nil, unavailable, 0, 0},
		{"it is ready", 1, nil, nil, nil, 0, 0, nornv1.State_STATE_READY},
		{"it is ready, and only dead ones are meant", 1, nil, nil, only, conflict, 0, nornv1.State_STATE_READY},
		{"it is completed", 1, []func(id.ID) crdt.Fact{completed}, nil, nil, conflict, 0, nornv1.State_STATE_COMPLETED},
		{"it was cancelled", 1, []func(id.ID) crdt.Fact{cancelled}, nil, nil, conflict, 0, nornv1.State_STATE_CANCELLED},
		{"it was collected", 1, []func(id.ID) crdt.Fact{dead, stone}, nil, nil, conflict, 0, nornv1.State_STATE_DEAD},
	} {
		b := newBench(t, c.members)
		task := b.spec(0)
		b.enqueue(task)
		b.decide(t, task.Id, c.facts...)
		if c.do != nil {
			c.do(b)
		}
		request := &nornv1.RetryRequest{Ids: [][]byte{task.Id, b.spec(0).Id}, OnlyStates: c.only}
		m, err := b.Retry(b.now, request)
		if err != nil {
			t.Fatal(err)
		}
		all := m.(*nornv1.WriteReply).Results
		if all[0].GetError().GetKind() != c.want || b.Retried != c.retried || c.state != 0 && all[0].GetState() != c.state {
			t.Errorf("%s: %v, %d were retried", c.what, all[0], b.Retried)
		}
		if kind := all[1].GetError().GetKind(); kind != notFound && kind != unavailable {
			t.Errorf("%s: a task that is not known: %v", c.what, all[1])
		}
		if c.retried == 0 {
			continue
		}
		if m, _ := b.Retry(b.now, request); m.(*nornv1.WriteReply).Results[0].GetError() != nil || b.Retried != 1 {
			t.Errorf("%s: the same request again is told %v", c.what, m)
		}
	}
}

// answer answers the request that this node has made of itself last.
func (b *bench) answer(m gproto.Message) {
	q := b.rest.asked[len(b.rest.asked)-1]
	b.Routes.Answered(q.From.Request, b.Self, &message.Reply{Message: m})
}

// list answers a list page by page, of a task each, and gives where the last one has ended. slow: it
// takes as long as all of it may; ends: nothing is behind the last page.
func (b *bench) list(t *testing.T, what string, pages int, slow, ends bool) (last []byte) {
	t.Helper()
	for n := range pages {
		list, ok := b.rest.asked[len(b.rest.asked)-1].Body.(*nornv1.ListRequest)
		if !ok || len(b.rest.asked) != n+1 || string(list.GetCursor()) != string(last) {
			t.Fatalf("%s: page %d: it asks for %v", what, n, b.rest.asked[len(b.rest.asked)-1].Body)
		}
		if slow {
			b.Round.Now = b.now.Add(bulkFor)
		}
		task := b.ids.Next(b.now.Wall)
		last = query.TaskCursor.Seal(task.Bytes())
		page := &nornv1.ListReply{Tasks: []*nornv1.Task{{Id: task.String()}}, NextCursor: last}
		if ends && n == pages-1 {
			page.NextCursor = nil
		}
		b.answer(page)
	}
	return last
}

// TestARequestByFilterIsBounded: guarantee 5.
func TestARequestByFilterIsBounded(t *testing.T) {
	few := uint32(9)
	for _, c := range []struct {
		what  string
		m     *nornv1.BulkRequest
		pages int // of the list
		slow  bool
		last  bool // the list ends with them
		acts  bool
	}{
		{"to the end of the list", &nornv1.BulkRequest{Queue: "q"}, 3, false, true, true},
		{"so many tasks", &nornv1.BulkRequest{Queue: "q", Limit: 2}, 2, false, false, true},
		{"so many pages", &nornv1.BulkRequest{Queue: "q"}, bulkPages, false, false, true},
		{"for so long", &nornv1.BulkRequest{Queue: "q"}, 1, true, false, true},
		{"to look only", &nornv1.BulkRequest{Queue: "q", DryRun: true}, 2, false, true, false},
		{"another number is expected", &nornv1.BulkRequest{Queue: "q", Expected: &few}, 2, false, true, false},
	} {
		b := newBench(t, 1)
		c.m.Action = nornv1.BulkAction_BULK_ACTION_CANCEL
		from := message.Origin{Conn: 1, Request: 2}
		q := &message.Request{From: from, Body: c.m}
		if _, err := b.ByFilter(b.now, q, c.m); err != nil {
			t.Fatal(err)
		}
		last := b.list(t, c.what, c.pages, c.slow, c.last)
		cancel, acts := b.rest.asked[len(b.rest.asked)-1].Body.(*nornv1.CancelRequest)
		if acts != c.acts || acts && len(cancel.GetIds()) != c.pages {
			t.Fatalf("%s: after %d pages it asks for %v", c.what, c.pages, b.rest.asked[len(b.rest.asked)-1].Body)
		}
		if acts {
			reply := &nornv1.WriteReply{}
			for range cancel.GetIds() {
				reply.Results = append(reply.Results, &nornv1.WriteResult{})
			}
			b.answer(reply)
		}
		if len(b.Round.Ready.Replies) != 1 || b.Round.Ready.Replies[0].To != from {
			t.Fatalf("%s: it answers %v", c.what, b.Round.Ready.Replies)
		}
		answer := b.Round.Ready.Replies[0]
		if c.m.Expected != nil {
			if answer.Err == nil || answer.Err.Kind != conflict {
				t.Errorf("%s: it answers %v", c.what, answer)
			}
			continue
		}
		got := answer.Message.(*nornv1.BulkReply)
		if int(got.GetMatched()) != c.pages || acts && int(got.GetDone()) != c.pages || (len(got.GetNextCursor()) == 0) != c.last {
			t.Errorf("%s: it answers %v", c.what, got)
		}
		if c.last {
			continue
		}
		// Who goes on with the cursor is asked about the tasks of then, after the last one.
		first := b.rest.asked[0].Body.(*nornv1.ListRequest)
		goesOn := gproto.CloneOf(c.m)
		goesOn.Cursor = got.GetNextCursor()
		if _, err := b.ByFilter(b.now.Add(time.Hour), q, goesOn); err != nil {
			t.Fatal(err)
		}
		next := b.rest.asked[len(b.rest.asked)-1].Body.(*nornv1.ListRequest)
		if string(next.GetCursor()) != string(last) || !next.GetFilter().GetCreatedBefore().AsTime().Equal(first.GetFilter().GetCreatedBefore().AsTime()) {
			t.Errorf("%s: it goes on with %v", c.what, next)
		}
	}
}

// TestWhatIsNoRequestByFilter is refused before anything is asked for.
func TestWhatIsNoRequestByFilter(t *testing.T) {
	retry, stop := nornv1.BulkAction_BULK_ACTION_RETRY, nornv1.BulkAction_BULK_ACTION_CANCEL
	for what, m := range map[string]*nornv1.BulkRequest{
		"no action":            {Queue: "q"},
		"everything, unmeant":  {Action: stop},
		"too many":             {Action: stop, Queue: "q", Limit: proto.MaxBatchTasks + 1},
		"a reason for a retry": {Action: retry, Queue: "q", Reason: "x"},
		"a long reason":        {Action: stop, Queue: "q", Reason: string(make([]byte, proto.MaxNoteBytes+1))},
		"a cursor of nobody":   {Action: stop, Queue: "q", Cursor: []byte("x")},
	} {
		b := newBench(t, 1)
		if _, err := b.ByFilter(b.now, &message.Request{Body: m}, m); err == nil || err.Kind != invalid || len(b.rest.asked) != 0 {
			t.Errorf("%s: %v", what, err)
		}
	}
}
