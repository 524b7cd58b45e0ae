package core

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/hunt/policies"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/retention"
	"github.com/norn-dev/norn/node/core/standing"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/session"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/memstore"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// peer is one node of a trio.
type peer struct {
	self    register.Member
	store   *memstore.Mem
	core    *Core
	replies map[message.Origin]message.Reply
	down    bool
	deaf    bool   // the register tells it nothing
	mute    bool   // it does not answer it either
	forgot  error  // why it has ended by itself
	falls   string // in the next round that writes: "before" its disk has it, or "after", with nothing said
	bulk    int    // rounds that wrote in bulk
}

// letter is a message on its way.
type letter struct {
	from, to int
	message  message.PeerMessage
}

// trio is three cores that keep every partition together, a register they
// share, and a network that delivers when it is told to.
type trio struct {
	decided  []message.Decided // by all nodes
	t        testing.TB
	now      clock.Time
	rand     *rand.Rand
	ids      *id.Generator
	register *register.Local
	peers    []*peer
	post     []letter
	next     uint64
	cut      map[[2]int]bool
	repair   time.Duration
	wrong    map[int]time.Duration           // by how much wall clocks of nodes are ahead
	leads    int                             // whose member leads the register
	hands    string                          // the principal of workers with a session
	beside   func(*Config)                   // what a node knows besides its disk; nil: nothing
	reads    func(store.Reader) store.Reader // what a node that is opened reads from; nil: its store
	bare     bool                            // trees are kept from the second node on
	grace    time.Duration                   // of tombstones; 0: a week
	retain   time.Duration                   // of finished tasks; 0: an hour
	collect  time.Duration                   // interval; 0: nothing is collected
	told     bool                            // claims come after the others were asked what they have
	bump     bool                            // the name of an unhealthy worker may be taken
	before   *register.State                 // what it said before a node was lost
	keys     int                             // that were written, on all nodes
	letters  int                             // that were delivered
}

func newTrio(t testing.TB) *trio { return newRepairingTrio(t, 0) }

// newRepairingTrio compares each partition once in an interval.
func newRepairingTrio(t testing.TB, interval time.Duration) *trio {
	return newCluster(t, 3, interval)
}

// newCluster is so many cores; partition p is kept by three of them, from the
// p-th on.
func newCluster(t testing.TB, nodes int, interval time.Duration) *trio {
	return newCohorts(t, nodes, interval, func(p int) []int {
		if nodes == 3 {
			p = 0
		}
		return []int{p % nodes, (p + 1) % nodes, (p + 2) % nodes}
	})
}

// newCohorts is a cluster whose partitions are kept by these nodes.
func newCohorts(t testing.TB, nodes int, interval time.Duration, keep func(p int) []int) *trio {
	r := &trio{leads: -1, repair: interval, t: t, now: clock.Time{Wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano(), Mono: 1}, rand: rand.New(rand.NewPCG(1, 2)), cut: map[[2]int]bool{}}
	r.ids = id.NewGenerator(7, r.rand.Uint64)
	var all []register.Member
	for i := range nodes {
		m := register.Member{Node: fmt.Sprintf("n%d", i+1), Incarnation: register.Incarnation{byte(i + 1)}}
		all = append(all, m)
		r.peers = append(r.peers, &peer{self: m, store: memstore.New(), replies: map[message.Origin]message.Reply{}})
	}
	cells := memstore.New()
	r.check(register.Format(cells, register.Cluster{ID: register.UUID{9}, Partitions: testPartitions, Replicas: 3}, all[0]))
	var err error
	r.register, err = register.OpenLocal(cells)
	r.check(err)
	r.register.Do(register.Request{}, func(res register.Result) {
		var changes []register.Change
		for p, cell := range res.State.Cells {
			var cohort []register.Member
			for _, i := range keep(p) {
				cohort = append(cohort, all[i])
			}
			changes = append(changes, register.Change{Partition: ring.Partition(p), Old: cell, New: register.Cell{Epoch: 1, Cohort: cohort, Nonce: 1}})
		}
		r.register.Do(register.Request{Changes: changes}, func(res register.Result) {
			if slices.Contains(res.Won, false) {
				t.Fatal("the cells were not written")
			}
		})
	})
	for i := range r.peers {
		r.open(i)
	}
	r.elect()
	return r
}

// elect lets time pass until every partition is led by somebody who is up, and
// who the register says leads it. A candidacy whose letters were lost just before
// takes up to three phases of three seconds, and then there is a pause.
func (r *trio) elect() {
	r.t.Helper()
	for range 400 {
		r.tell()
		r.settle()
		led := 0
		for p, cell := range r.state().Cells {
			for _, o := range r.peers {
				if !o.down && o.self == cell.Leader && o.core.vnodes.See(ring.Partition(p)).Leading() == cell.Epoch {
					led++
				}
			}
		}
		if led == testPartitions {
			r.tell()
			r.settle()
			return
		}
		r.pass(50 * time.Millisecond)
	}
	r.t.Fatal("no leaders")
}

// tell tells everybody what the register says and who is alive.
func (r *trio) tell() {
	var voters []register.Member
	for _, p := range r.peers {
		voters = append(voters, p.self)
	}
	r.register.Do(register.Request{}, func(res register.Result) {
		for i, p := range r.peers {
			if p.down {
				continue
			}
			var alive []register.Member
			for j, o := range r.peers {
				if j != i && !o.down && !r.cut[[2]int{j, i}] {
					alive = append(alive, o.self)
				}
			}
			if !p.deaf {
				r.check(p.core.Step(r.clock(i), message.Changed{State: res.State, Leads: i == r.leads, Voters: voters, Majority: true}))
			}
			r.check(p.core.Step(r.clock(i), message.Alive{Members: alive}))
			r.turn(i)
		}
	})
}

// clock is what the clocks of a node say.
func (r *trio) clock(i int) clock.Time {
	t := r.now
	t.Wall += int64(r.wrong[i])
	return t
}

func (r *trio) check(err error) {
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *trio) open(i int) {
	p := r.peers[i]
	var err error
	cfg := Config{
		Policy: policies.Chosen(),
		Self:   p.self, Cluster: r.register.Cluster(), Eta: eta, Buffer: eta, GCGrace: cmp.Or(r.grace, 7*24*time.Hour), Lease: leaseTime,
		Retry:    crdt.Retry{MaxAttempts: 3, Initial: time.Second, Max: time.Hour, Multiplier: 2000},
		HeadSize: 4, MaxPayload: 1 << 20, MaxWaiters: 100, MaxQueues: 100, MaxClaims: 1000,
		Retention: retention.Rule{What: nornv1.Retention_RETENTION_DELETE, After: cmp.Or(r.retain, time.Hour)}, CollectInterval: r.collect, Tree: !r.bare, Repair: r.repair,
		Sessions: session.DispatcherConfig{Bump: r.bump}, Rand: rand.New(rand.NewPCG(3, r.rand.Uint64())),
	}
	if r.beside != nil {
		r.beside(&cfg)
	}
	var reader store.Reader = p.store
	if r.reads != nil {
		reader = r.reads(reader)
	}
	p.core, err = Open(cfg, reader, r.now)
	r.check(err)
	p.down = false
	r.turn(i)
}

// kill loses what was not synced, and everything on its way from the node.
func (r *trio) kill(i int) {
	p := r.peers[i]
	p.store, p.core, p.down = p.store.Crash(0), nil, true
}

// fall ends a node in the middle of a round: what leaves before its sync has left.
func (r *trio) fall(i int, ready *message.Ready) {
	p := r.peers[i]
	for _, s := range ready.Early {
		to := slices.IndexFunc(r.peers, func(o *peer) bool { return o.self == s.To })
		r.post = append(r.post, letter{i, to, s.Message})
	}
	p.store.Apply(ready.Persist)
	if p.falls == "after" {
		p.store.Sync()
	}
	p.falls = ""
	r.kill(i)
}

// turn runs one core until it wants nothing more.
func (r *trio) turn(i int) {
	p := r.peers[i]
	for range 1000 {
		ready, err := p.core.Ready(r.clock(i))
		if errors.Is(err, standing.ErrForgot) {
			p.forgot, p.down = err, true
			return
		}
		r.check(err)
		r.check(p.core.Audit())
		r.decided = append(r.decided, ready.Decided...)
		if ready.Empty() {
			return
		}
		if p.falls != "" && ready.Persist != nil {
			r.fall(i, &ready)
			return
		}
		if ready.Persist != nil {
			if ready.Persist.InBulk() {
				p.bulk++
			}
			r.keys += ready.Persist.Len()
			p.store.Apply(ready.Persist)
			p.core.Recycle(ready.Persist)
		}
		for _, req := range ready.Register {
			if p.mute {
				break
			}
			r.register.Do(req, func(res register.Result) { r.check(p.core.Step(r.clock(i), message.Registered{Result: res})) })
		}
		p.store.Sync()
		for _, req := range ready.Commit {
			r.register.Do(req, func(res register.Result) { r.check(p.core.Step(r.clock(i), message.Registered{Result: res})) })
		}
		for _, s := range slices.Concat(ready.Early, ready.Send) {
			to := slices.IndexFunc(r.peers, func(o *peer) bool { return o.self == s.To })
			if f, ok := s.Message.(*message.Forward); ok && f.Method != 0 && f.Method != requestMethod(f.Body) {
				r.t.Fatalf("%T goes on as method %d, and could not be read", f.Body, f.Method)
			}
			r.post = append(r.post, letter{i, to, s.Message})
		}
		for k := range ready.Reads {
			reply, empty, err := ready.Reads[k].Run(p.store, r.clock(i))
			r.check(err)
			switch {
			case empty:
			case reply.To.Internal():
				r.check(p.core.Step(r.clock(i), message.Answered{Reply: reply}))
			default:
				ready.Replies = append(ready.Replies, reply)
			}
			if ready.Reads[k].Waits {
				r.check(p.core.Step(r.clock(i), message.ReadDone{From: ready.Reads[k].From, Empty: empty}))
			}
		}
		for _, reply := range ready.Replies {
			if _, twice := p.replies[reply.To]; twice {
				r.t.Fatalf("two replies to %v", reply.To)
			}
			if reply.After >= ready.Round {
				r.t.Fatalf("a reply of round %d waits for round %d", ready.Round, reply.After)
			}
			p.replies[reply.To] = reply
		}
	}
	r.t.Fatal("the core never comes to rest")
}

// deliver hands over one letter.
func (r *trio) deliver(n int) {
	l := r.post[n]
	r.post = slices.Delete(r.post, n, n+1)
	r.letters++
	if p := r.peers[l.to]; !p.down && !r.cut[[2]int{l.from, l.to}] {
		r.check(p.core.Step(r.clock(l.to), &message.FromPeer{From: r.peers[l.from].self, Message: l.message}))
		r.turn(l.to)
	}
}

func (r *trio) settle() {
	for len(r.post) > 0 {
		r.deliver(0)
	}
}

// pass lets time go by for all.
func (r *trio) pass(d time.Duration) {
	r.now = r.now.Add(d)
	for i, p := range r.peers {
		if !p.down {
			r.check(p.core.Step(r.clock(i), message.Tick{}))
			r.turn(i)
		}
	}
}

// requestMethod is the method that has a message for its request: METHOD_SET_QUEUE has a
// SetQueueRequest.
func requestMethod(m gproto.Message) uint16 {
	name := strings.TrimSuffix(string(m.ProtoReflect().Descriptor().Name()), "Request")
	for n, method := range nornv1.Method_name { // Any order: one fits at most.
		if strings.EqualFold(strings.ReplaceAll(strings.TrimPrefix(method, "METHOD_"), "_", ""), name) {
			return uint16(n)
		}
	}
	return 0
}

// send gives a request to a node.
func (r *trio) send(i int, m gproto.Message) message.Origin {
	r.next++
	from := message.Origin{Conn: 1, Request: r.next, Method: requestMethod(m)}
	r.check(r.peers[i].core.Step(r.clock(i), &message.Request{From: from, Body: m, Received: r.now.Mono, Inquired: r.told}))
	r.turn(i)
	return from
}

func (r *trio) enqueue(i int, task id.ID, need *nornv1.Durability) message.Origin {
	s := spec("q")
	s.Id = task.Bytes()
	return r.send(i, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}, Durability: need})
}

// result is that of a single enqueue, nil while it waits.
func (r *trio) result(i int, from message.Origin) *nornv1.EnqueueResult {
	reply, ok := r.peers[i].replies[from]
	if !ok {
		return nil
	}
	if reply.Err != nil {
		r.t.Fatal(reply.Err)
	}
	return reply.Message.(*nornv1.EnqueueReply).Results[0]
}

// copies is the number of nodes with a task on their disks.
func (r *trio) copies(task id.ID) (n int) {
	for _, p := range r.peers {
		if vnode.Known(p.store.Crash(0), ring.Of(task, testPartitions), task) {
			n++
		}
	}
	return n
}
