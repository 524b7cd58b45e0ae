package node

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// minter draws IDs as the SDK does: a few partitions at a time.
type minter struct {
	mu   sync.Mutex // guards the fields below
	ids  *id.Generator
	left int
	want ring.Partition
}

func (m *minter) next() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left--; m.left <= 0 {
		m.left, m.want = 64, ring.Partition(rand.IntN(64))
	}
	into := uint64(m.want&^3) + rand.Uint64()%4
	return m.ids.Hashed(time.Now().UnixNano(), rand.Uint64()&^63|into).Bytes() // the hash mod 64 is the partition
}

// parallel runs f from n goroutines until b.N items of size each are done.
func parallel(b *testing.B, n, size int, f func(items int)) {
	var left sync.WaitGroup
	share := (b.N + n*size - 1) / (n * size)
	b.ResetTimer()
	for range n {
		left.Go(func() {
			for range share {
				f(size)
			}
		})
	}
	left.Wait()
	b.ReportMetric(float64(share*n*size)/b.Elapsed().Seconds(), "tasks/s")
}

// syncs reports how often the log was synced.
func syncs(b *testing.B, n *Node) {
	b.ReportMetric(float64(n.metrics.Syncs.Load())/b.Elapsed().Seconds(), "syncs/s")
}

func enqueueMany(b *testing.B, p *caller, m *minter, n int) {
	specs := make([]*nornv1.TaskSpec, n)
	for i := range specs {
		specs[i] = &nornv1.TaskSpec{Id: m.next(), Queue: "bench", Payload: make([]byte, 100)}
	}
	reply := &nornv1.EnqueueReply{}
	if err := p.call(nornv1.Method_METHOD_ENQUEUE, &nornv1.EnqueueRequest{Tasks: specs}, reply); err != nil {
		b.Error(err)
	}
}

func BenchmarkEnqueue(b *testing.B) {
	for _, batch := range []int{1, 100} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			n := start(b, testConfig(b), Options{})
			defer stop(b, n)
			p, m := connect(b, n), &minter{ids: id.NewGenerator(rand.Uint32(), rand.Uint64)}
			p.claim(&nornv1.ClaimRequest{Queues: []string{"none"}})
			parallel(b, 64, batch, func(items int) { enqueueMany(b, p, m, items) })
			syncs(b, n)
		})
	}
}

func BenchmarkClaimComplete(b *testing.B) {
	for _, batch := range []int{1, 100} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			n := start(b, testConfig(b), Options{})
			defer stop(b, n)
			p, m := connect(b, n), &minter{ids: id.NewGenerator(rand.Uint32(), rand.Uint64)}
			p.claim(&nornv1.ClaimRequest{Queues: []string{"none"}})
			for range b.N/1000 + 2 {
				enqueueMany(b, p, m, 1000)
			}
			parallel(b, 16, batch, func(items int) {
				claims := &nornv1.ClaimReply{}
				if err := p.call(nornv1.Method_METHOD_CLAIM, &nornv1.ClaimRequest{Queues: []string{"bench"}, MaxTasks: uint32(items)}, claims); err != nil {
					b.Error(err)
				}
				done := &nornv1.CompleteRequest{}
				for _, g := range claims.Grants {
					done.Completions = append(done.Completions, &nornv1.Completion{Id: taskID(b, g.Task.Id), Token: g.Token})
				}
				if len(done.Completions) == 0 {
					return
				}
				if err := p.call(nornv1.Method_METHOD_COMPLETE, done, &nornv1.WriteReply{}); err != nil {
					b.Error(err)
				}
			})
			syncs(b, n)
		})
	}
}
