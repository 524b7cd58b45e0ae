package core

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store/memstore"
)

// large is a cluster whose cells stand as planned, with a network that loses
// nothing and takes a millisecond. Only what the cores say is counted: not the
// register, not gossip, not signs of life.
type large struct {
	b        testing.TB
	now      clock.Time
	cores    []*Core
	stores   []*memstore.Mem
	index    map[register.Member]int
	wake     []int64 // mono ns
	post     []parcel
	messages int
	busy     time.Duration // in Step and Ready
}

type parcel struct {
	at int64
	to int
	m  *FromPeer
}

func newLarge(b testing.TB, nodes, partitions int) *large {
	l := &large{b: b, now: clock.Time{Wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano(), Mono: 1}, index: map[register.Member]int{}}
	var members []register.Member
	var planned []ring.Node
	for i := range nodes {
		m := register.Member{Node: fmt.Sprintf("n%03d", i), Incarnation: register.Incarnation{byte(i), byte(i >> 8), 1}}
		l.index[m] = i
		members = append(members, m)
		planned = append(planned, ring.Node{Member: ring.Member{Name: m.Node, Key: m.Incarnation}, Weight: 100})
	}
	plan, err := ring.Place(ring.Plan{}, planned, partitions, 3)
	if err != nil {
		b.Fatal(err)
	}
	state := register.State{Cluster: register.Cluster{ID: register.UUID{1}, Partitions: partitions, Replicas: 3}, Members: members, Revision: 1, Plan: register.Value{Version: 1, Data: plan.AppendTo(nil)}}
	for _, m := range members {
		state.Nodes = append(state.Nodes, register.Node{Member: m, Version: 1, Status: register.Active, Weight: 100})
	}
	for p := range partitions {
		cell := register.Cell{Epoch: 1, Nonce: uint64(p)}
		for _, m := range plan.Cohort(ring.Partition(p)) {
			cell.Cohort = append(cell.Cohort, register.Member{Node: m.Name, Incarnation: m.Key})
		}
		cell.Leader = cell.Cohort[0]
		state.Cells = append(state.Cells, cell)
	}
	for i, m := range members {
		s := memstore.New()
		c, err := Open(Config{
			Self: m, Cluster: state.Cluster, Eta: eta, Buffer: eta, GCGrace: 7 * 24 * time.Hour, Lease: lease,
			Retry: crdt.Retry{MaxAttempts: 3, Initial: time.Second, Max: time.Hour, Multiplier: 2000}, HeadSize: 256,
			MaxPayload: 1 << 20, MaxWaiters: 100, MaxQueues: 100, MaxClaims: 1000, CollectInterval: time.Minute,
			Retention: Retention{What: nornv1.Retention_RETENTION_DELETE, After: time.Hour}, Repair: 10 * time.Second,
			Rand: rand.New(rand.NewPCG(uint64(i), 1)),
		}, s, l.now)
		if err != nil {
			b.Fatal(err)
		}
		l.cores, l.stores, l.wake = append(l.cores, c), append(l.stores, s), append(l.wake, 0)
	}
	for i, c := range l.cores {
		l.step(i, Changed{State: state})
		l.step(i, Alive{Members: slices.DeleteFunc(slices.Clone(members), func(m register.Member) bool { return m == c.cfg.Self })})
		c.ready.Register = nil
		for p, v := range c.vnodes { // nobody has to be elected
			if state.Cells[p].Leader == c.cfg.Self {
				v.Lead(state.Cells[p].Epoch)
			}
		}
	}
	return l
}

func (l *large) step(i int, event any) {
	began := time.Now()
	if err := l.cores[i].Step(l.now, event); err != nil {
		l.b.Fatal(err)
	}
	l.busy += time.Since(began)
	l.wake[i] = l.now.Mono
}

// run lets time pass.
func (l *large) run(d time.Duration) {
	end := l.now.Mono + int64(d)
	for l.now.Mono < end {
		next := end
		if len(l.post) > 0 {
			next = min(next, l.post[0].at)
		}
		for i := range l.wake {
			next = min(next, l.wake[i])
		}
		l.now = l.now.Add(time.Duration(max(0, next-l.now.Mono)))
		for len(l.post) > 0 && l.post[0].at <= l.now.Mono {
			p := l.post[0]
			l.post = l.post[1:]
			l.step(p.to, p.m)
		}
		for i, c := range l.cores {
			if l.wake[i] > l.now.Mono {
				continue
			}
			began := time.Now()
			ready, err := c.Ready(l.now)
			l.busy += time.Since(began)
			if err != nil {
				l.b.Fatal(err)
			}
			l.wake[i] = max(ready.WakeMono, l.now.Mono+1)
			if ready.Persist != nil {
				l.stores[i].Apply(ready.Persist)
				c.Recycle(ready.Persist)
			}
			for _, s := range slices.Concat(ready.Early, ready.Send) {
				l.messages++
				l.post = append(l.post, parcel{l.now.Mono + int64(time.Millisecond), l.index[s.To], &FromPeer{From: c.cfg.Self, Message: s.Message}})
			}
		}
	}
}

// BenchmarkClusters counts what a node says and computes in a second, when
// nothing happens and with 20 tasks a second through each node.
func BenchmarkClusters(b *testing.B) {
	for _, size := range []struct{ nodes, partitions int }{{3, 64}, {10, 128}, {50, 512}, {200, 2048}} {
		for _, rate := range []int{0, 20} {
			b.Run(fmt.Sprintf("nodes=%d/partitions=%d/rate=%d", size.nodes, size.partitions, rate), func(b *testing.B) {
				l := newLarge(b, size.nodes, size.partitions)
				l.run(12 * time.Second) // trees are built, first comparisons are over
				ids := id.NewGenerator(1, rand.New(rand.NewPCG(1, 2)).Uint64)
				l.messages, l.busy = 0, 0
				b.ResetTimer()
				seconds := 0
				for b.Loop() {
					for n := range max(rate, 1) {
						for i := range l.cores {
							if rate > 0 {
								s := spec("q")
								s.Id = ids.Next(l.now.Wall).Bytes()
								l.step(i, &Request{From: Origin{Conn: 1, Request: uint64(seconds*rate + n + 1)}, Body: &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}}, Received: l.now.Mono})
							}
						}
						l.run(time.Second / time.Duration(max(rate, 1)))
					}
					seconds++
				}
				per := float64(seconds * size.nodes)
				b.ReportMetric(float64(l.messages)/per, "messages/node/s")
				b.ReportMetric(float64(l.busy.Microseconds())/per, "cpu-us/node/s")
			})
		}
	}
}
