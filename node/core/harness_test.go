package core

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/hunt/policies"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/retention"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/memstore"
	"github.com/norn-dev/norn/vnode/audit"

	gproto "google.golang.org/protobuf/proto"
)

// rig drives a core as the loop of package node does, with a clock of its own
// and a store that can crash.
type rig struct {
	t        testing.TB
	now      clock.Time
	store    *memstore.Mem
	regStore *memstore.Mem
	register *register.Local
	core     *Core
	ids      *id.Generator
	rand     *rand.Rand
	next     uint64
	replies  map[message.Origin]message.Reply
	wakeWall int64
	wakeMono int64
	hold     bool // keep replies back: the sync has not returned
	held     []message.Reply
	collect  time.Duration // interval; 0: nothing is collected
	decided  []message.Decided
	archives []*nornv1.Task
	broken   bool // archives fail
	manual   bool // the register answers when told
	waiting  []register.Request
}

const (
	testPartitions = 4
	eta            = 5 * time.Second
	leaseTime      = 30 * time.Second
)

func newRig(t testing.TB) *rig {
	r := &rig{
		t: t, store: memstore.New(), regStore: memstore.New(),
		now:     clock.Time{Wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano(), Mono: 1},
		rand:    rand.New(rand.NewPCG(1, 2)),
		replies: map[message.Origin]message.Reply{},
	}
	r.ids = id.NewGenerator(7, r.rand.Uint64)
	self := register.Member{Node: "n1", Incarnation: register.Incarnation{1}}
	if err := register.Format(r.regStore, register.Cluster{ID: register.UUID{9}, Partitions: testPartitions, Replicas: 3}, self); err != nil {
		t.Fatal(err)
	}
	r.open()
	return r
}

func (r *rig) open() {
	r.t.Helper()
	var err error
	if r.register, err = register.OpenLocal(r.regStore); err != nil {
		r.t.Fatal(err)
	}
	r.core, err = Open(Config{
		Policy:  policies.Chosen(),
		Self:    register.Member{Node: "n1", Incarnation: register.Incarnation{1}},
		Cluster: r.register.Cluster(), Eta: eta, Buffer: eta, GCGrace: 7 * 24 * time.Hour, Lease: leaseTime,
		Retry:    crdt.Retry{MaxAttempts: 3, Initial: time.Second, Max: time.Hour, Multiplier: 2000},
		HeadSize: 4, MaxPayload: 1 << 20, MaxWaiters: 100, MaxQueues: 100, MaxClaims: 1000,
		Retention: retention.Rule{What: nornv1.Retention_RETENTION_DELETE, After: time.Hour}, CollectInterval: r.collect, Archive: true,
		Rand: rand.New(rand.NewPCG(3, r.rand.Uint64())),
	}, r.store, r.now)
	if err != nil {
		r.t.Fatal(err)
	}
	r.turn()
}

// crash loses what was not synced and starts again after down.
func (r *rig) crash(down time.Duration) {
	r.t.Helper()
	r.store, r.regStore = r.store.Crash(0), r.regStore.Crash(0)
	r.held, r.hold = nil, false
	// A new process has a new monotonic clock.
	r.now = clock.Time{Wall: r.now.Wall + int64(down), Mono: 1}
	r.open()
}

// turn runs the loop until the core wants nothing more, in the order the
// package comment demands.
func (r *rig) turn() {
	r.t.Helper()
	for range 1000 {
		ready, err := r.core.Ready(r.now)
		if err != nil {
			r.t.Fatal(err)
		}
		if err := r.core.Audit(); err != nil {
			r.t.Fatal(err)
		}
		r.decided = append(r.decided, ready.Decided...)
		r.wakeWall, r.wakeMono = ready.WakeWall, ready.WakeMono
		if ready.Empty() {
			return
		}
		if ready.Persist != nil {
			r.store.Apply(ready.Persist)
			r.core.Recycle(ready.Persist)
		}
		var snapshot store.Snapshot
		if len(ready.Reads) > 0 {
			snapshot = r.store.Snapshot()
		}
		ready.Register = append(ready.Register, ready.Commit...) // the store is synced below, before anybody can crash
		if r.manual {
			r.waiting = append(r.waiting, ready.Register...)
			ready.Register = nil
		}
		for _, req := range ready.Register {
			r.register.Do(req, func(res register.Result) { r.step(message.Registered{Result: res}) })
		}
		for i := range ready.Archives {
			tasks, err := ready.Archives[i].Tasks(r.store)
			if err != nil {
				r.t.Fatal(err)
			}
			if !r.broken {
				r.archives = append(r.archives, tasks...)
			}
			r.step(message.Archived{Tag: ready.Archives[i].Tag, Tasks: len(tasks), Failed: r.broken})
		}
		if r.hold {
			r.held = append(r.held, ready.Replies...)
			continue
		}
		r.store.Sync()
		for _, reply := range ready.Replies {
			r.deliver(reply)
		}
		for i := range ready.Reads {
			reply, empty, err := ready.Reads[i].Run(snapshot, r.now)
			if err != nil {
				r.t.Fatal(err)
			}
			switch {
			case empty:
			case reply.To.Internal():
				r.step(message.Answered{Reply: reply})
			default:
				r.deliver(reply)
			}
			if ready.Reads[i].Waits {
				r.step(message.ReadDone{From: ready.Reads[i].From, Empty: empty})
			}
		}
	}
	r.t.Fatal("the core never comes to rest")
}

func (r *rig) deliver(reply message.Reply) {
	r.t.Helper()
	if old, twice := r.replies[reply.To]; twice {
		r.t.Fatalf("two replies to one request: %v and %v", old, reply)
	}
	r.replies[reply.To] = reply
}

func (r *rig) step(event any) {
	r.t.Helper()
	if err := r.core.Step(r.now, event); err != nil {
		r.t.Fatal(err)
	}
}

// pass lets time go by, looking at the core whenever it wants to be.
func (r *rig) pass(d time.Duration) {
	r.t.Helper()
	end := r.now.Add(d)
	for {
		next := end
		if r.wakeMono < next.Mono {
			next = r.now.Add(time.Duration(max(0, r.wakeMono-r.now.Mono)))
		}
		if r.wakeWall < next.Wall {
			next = r.now.Add(time.Duration(max(0, r.wakeWall-r.now.Wall)))
		}
		r.now = next
		r.step(message.Tick{})
		r.turn()
		if r.now.Mono >= end.Mono {
			return
		}
	}
}

// send gives a request to the core without waiting for its reply.
func (r *rig) send(conn uint64, m gproto.Message) message.Origin {
	r.t.Helper()
	r.next++
	from := message.Origin{Conn: conn, Request: r.next}
	r.step(&message.Request{From: from, Body: m, Received: r.now.Mono})
	return from
}

// ask sends a request and gives its reply.
func (r *rig) ask(m gproto.Message) message.Reply {
	r.t.Helper()
	from := r.send(1, m)
	r.turn()
	reply, ok := r.replies[from]
	if !ok {
		r.t.Fatalf("no reply to %T", m)
	}
	return reply
}

func must[M gproto.Message](r *rig, m gproto.Message) M {
	r.t.Helper()
	reply := r.ask(m)
	if reply.Err != nil {
		r.t.Fatalf("%T: %v", m, reply.Err)
	}
	return reply.Message.(M)
}

func (r *rig) enqueue(specs ...*nornv1.TaskSpec) []id.ID {
	r.t.Helper()
	var ids []id.ID
	for _, s := range specs {
		if len(s.Id) == 0 {
			s.Id = r.ids.Next(r.now.Wall).Bytes()
		}
		ids = append(ids, id.ID(s.Id))
	}
	for i, res := range must[*nornv1.EnqueueReply](r, &nornv1.EnqueueRequest{Tasks: specs}).Results {
		if res.Error != nil {
			r.t.Fatalf("task %d: %v", i, res.Error)
		}
	}
	return ids
}

func spec(queue string) *nornv1.TaskSpec {
	return &nornv1.TaskSpec{Queue: queue, Payload: []byte("payload")}
}

func (r *rig) claim(queue string, n uint32) []*nornv1.Grant {
	r.t.Helper()
	return must[*nornv1.ClaimReply](r, &nornv1.ClaimRequest{Queues: []string{queue}, MaxTasks: n, Worker: "w"}).Grants
}

func (r *rig) complete(task id.ID, token uint64) *nornv1.WriteResult {
	r.t.Helper()
	return must[*nornv1.WriteReply](r, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: token}}}).Results[0]
}

func (r *rig) get(task id.ID) *nornv1.Task {
	r.t.Helper()
	return must[*nornv1.GetReply](r, &nornv1.GetRequest{Id: task.Bytes()}).Task
}

// audit recomputes every index and counter from facts and claims and compares.
func (r *rig) audit() {
	r.t.Helper()
	for p := range testPartitions {
		if err := audit.Partition(r.store, ring.Partition(p)); err != nil {
			r.t.Fatalf("partition %d: %v", p, err)
		}
	}
	if err := audit.Links(r.store, testPartitions); err != nil {
		r.t.Fatal(err)
	}
}
