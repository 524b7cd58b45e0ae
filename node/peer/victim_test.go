package peer

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store/memstore"
)

// victim is the core of one of three nodes, whose disk and register do as they are told. One
// of the others lies to it, and the third one says nothing.
type victim struct {
	t       testing.TB
	core    *core.Core
	store   *memstore.Mem
	now     clock.Time
	state   register.State
	next    uint64
	replies map[uint64]message.Reply
}

func newVictim(t testing.TB) *victim {
	v := &victim{t: t, store: memstore.New(), now: clock.Time{Wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano(), Mono: 1}, replies: map[uint64]message.Reply{}}
	cohort := []register.Member{who(1, 0), who(2, 0), who(3, 0)}
	v.state = register.State{Cluster: register.Cluster{ID: testCluster, Partitions: 8, Replicas: 3}, Revision: 5}
	for _, m := range cohort {
		v.state.Nodes = append(v.state.Nodes, register.Node{Member: m, Addresses: []string{m.Node + ":1"}, Status: register.Active, Weight: 1, Version: 1})
	}
	for range v.state.Cluster.Partitions {
		v.state.Cells = append(v.state.Cells, register.Cell{Epoch: 3, Cohort: cohort, Leader: cohort[2], Nonce: 1})
	}
	var err error
	v.core, err = core.Open(core.Config{
		Self: cohort[0], Cluster: v.state.Cluster, Eta: time.Second, Buffer: time.Second, GCGrace: time.Hour, Lease: time.Minute,
		Retry: crdt.Retry{MaxAttempts: 3, Initial: time.Second, Max: time.Hour, Multiplier: 2000}, HeadSize: 4,
		MaxPayload: 1 << 20, MaxWaiters: 100, MaxQueues: 100, MaxClaims: 1000, Rand: rand.New(rand.NewPCG(1, 2)),
	}, v.store, v.now)
	v.check(err)
	v.step(message.Changed{State: v.state, Majority: true, Voters: cohort})
	v.step(message.Alive{Members: cohort[1:]})
	return v
}

func (v *victim) check(err error) {
	v.t.Helper()
	if err != nil {
		v.t.Fatalf("the node ends: %v", err)
	}
}

// step takes an event, and does what follows.
func (v *victim) step(event any) {
	v.t.Helper()
	v.check(v.core.Step(v.now, event))
	for range 100 {
		ready, err := v.core.Ready(v.now)
		v.check(err)
		if ready.Empty() {
			return
		}
		if ready.Persist != nil {
			v.store.Apply(ready.Persist)
			v.store.Sync()
			v.core.Recycle(ready.Persist)
		}
		for _, r := range ready.Register {
			v.check(v.core.Step(v.now, message.Registered{Result: register.Result{Tag: r.Tag, State: v.state, Won: make([]bool, len(r.Changes))}}))
		}
		for _, r := range ready.Replies {
			v.replies[r.To.Request] = r
		}
	}
}

// goesOn shows that the node runs for a while, and takes a task.
func (v *victim) goesOn() {
	v.t.Helper()
	for range 30 {
		v.now = v.now.Add(500 * time.Millisecond)
		v.step(message.Tick{})
	}
	v.check(v.core.Audit())
	v.next++
	v.step(&message.Request{From: message.Origin{Conn: 1, Request: v.next, Method: uint16(nornv1.Method_METHOD_ENQUEUE)}, Body: &nornv1.EnqueueRequest{
		Tasks: []*nornv1.TaskSpec{{Queue: "a-queue-that-nobody-guesses"}}, Durability: &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE},
	}})
	reply, answered := v.replies[v.next]
	if m, is := reply.Message.(*nornv1.EnqueueReply); !answered || reply.Err != nil || !is || m.Results[0].Receipt == nil {
		v.t.Fatalf("it takes no task: answered %t: %v, %v", answered, reply.Message, reply.Err)
	}
}

// lie has one of the others say something, now and once more later.
func (v *victim) lie(m message.PeerMessage) {
	v.t.Helper()
	v.step(&message.FromPeer{From: who(3, 0), Message: m})
	v.goesOn()
}

// TestNoMessageEndsTheVictim: some lies that are as likely as truths.
func TestNoMessageEndsTheVictim(t *testing.T) {
	alone := []register.Member{who(3, 0)}
	v := newVictim(t)
	v.goesOn()
	for _, huge := range []uint64{1, 100, 1 << 20, 1 << 40, 1<<63 - 1, ^uint64(0)} {
		for _, m := range []message.PeerMessage{
			&message.Beaten{Sent: v.now, Boot: huge, Seen: huge, Whole: true, Sound: true},
			&message.DurabilityEpoch{Mark: huge},
			&message.Cells{Cells: []message.KnownCell{{Partition: 1, Cell: register.Cell{Epoch: huge, Nonce: 1, Cohort: alone, Leader: alone[0]}}}},
			&message.Purge{Partition: 1, Epoch: huge},
			&message.QuarantineFacts{Partition: 1, Epoch: huge},
			&message.FactsTaken{Write: huge, Refused: []ring.Partition{1, 4095}, Mark: huge},
			&message.Elect{Stand: []message.Stand{{Partition: 1, Epoch: huge, Nonce: 1, To: alone, Floor: huge}}},
		} {
			v.lie(m)
		}
	}
}
