package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// killRun is a workload against a server that is killed again and again. It
// remembers what was acknowledged, and when.
type killRun struct {
	t      *testing.T
	c      *client.Client
	stop   atomic.Bool
	clock  atomic.Int64 // one order for acknowledgements and calls
	grants atomic.Int64

	mu        sync.Mutex       // guards the maps
	enqueued  map[id.ID]bool   // acknowledged
	completed map[id.ID]int64  // acknowledged at
	tokens    map[id.ID]uint64 // highest granted
}

func (k *killRun) produce(ctx context.Context) {
	for !k.stop.Load() {
		tasks := make([]client.Task, 1+rand.IntN(20))
		for i := range tasks {
			tasks[i] = client.Task{ID: k.c.NewID(), Queue: "kill", Payload: []byte("x"), Priority: int32(rand.IntN(3))}
		}
		results, err := k.c.EnqueueMany(ctx, tasks)
		if err != nil {
			continue // the outcome is unknown: nothing is owed
		}
		k.mu.Lock()
		for i, r := range results {
			if r.Err == nil {
				k.enqueued[tasks[i].ID] = true
			}
		}
		k.mu.Unlock()
	}
}

func (k *killRun) work(ctx context.Context, until func() bool) {
	for !until() {
		called := k.clock.Add(1)
		claims, err := k.c.Claim(ctx, client.ClaimRequest{Queues: []string{"kill"}, Max: 10, Lease: time.Second, Wait: 200 * time.Millisecond})
		if err != nil {
			continue
		}
		var done []*nornv1.Completion
		k.mu.Lock()
		for _, c := range claims {
			k.grants.Add(1)
			if at, ok := k.completed[c.ID]; ok && at < called {
				k.t.Errorf("task %s came back after its completion was acknowledged", c.ID)
			}
			if c.Token <= k.tokens[c.ID] {
				k.t.Errorf("task %s: token %d after %d", c.ID, c.Token, k.tokens[c.ID])
			}
			k.tokens[c.ID] = c.Token
			if rand.IntN(10) > 0 { // the others are left to expire
				done = append(done, &nornv1.Completion{Id: c.ID.Bytes(), Token: c.Token})
			}
		}
		k.mu.Unlock()
		if len(done) == 0 {
			continue
		}
		results, err := k.c.CompleteMany(ctx, done)
		if err != nil {
			continue
		}
		k.mu.Lock()
		for i, r := range results {
			if r.Err == nil {
				k.completed[id.ID(done[i].Id)] = k.clock.Add(1)
			}
		}
		k.mu.Unlock()
	}
}

// TestKillAtRandomMoments kills the server with SIGKILL under load: nothing
// acknowledged is lost, nothing completed comes back. NORN_TEST_KILLS sets how
// often (`make kills` asks for 100).
func TestKillAtRandomMoments(t *testing.T) {
	kills := 5
	if n, err := strconv.Atoi(os.Getenv("NORN_TEST_KILLS")); err == nil {
		kills = n
	}
	addr, data := freeAddress(t), filepath.Join(t.TempDir(), "data")
	open := func() *server {
		s, err := startServer(data, "--listen", addr)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(kills)*5*time.Second+2*time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, []string{addr}, client.WithTimeout(20*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	k := &killRun{t: t, c: c, enqueued: map[id.ID]bool{}, completed: map[id.ID]int64{}, tokens: map[id.ID]uint64{}}
	var producers, workers sync.WaitGroup
	for range 4 {
		producers.Go(func() { k.produce(ctx) })
		workers.Go(func() { k.work(ctx, k.stop.Load) })
	}
	for range kills {
		// Sometimes while the store is still being opened, mostly under load.
		<-time.After(time.Duration(rand.IntN(400)) * time.Millisecond)
		if _, err := s.end(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		s = open()
	}
	<-time.After(200 * time.Millisecond)
	k.stop.Store(true)
	producers.Wait()
	workers.Wait()
	k.drain(ctx)
	k.verify(ctx, kills)
	if code, err := s.end(syscall.SIGTERM); err != nil || code != 0 {
		t.Fatalf("the server ended with %d, %v", code, err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// drain works until every task is finished.
func (k *killRun) drain(ctx context.Context) {
	var workers sync.WaitGroup
	var empty atomic.Bool
	for range 4 {
		workers.Go(func() { k.work(ctx, empty.Load) })
	}
	for ctx.Err() == nil {
		n, err := k.c.Count(ctx, "kill")
		if err == nil && n.Total.Completed == n.Total.Total {
			break
		}
		<-time.After(20 * time.Millisecond)
	}
	empty.Store(true)
	workers.Wait()
}

// verify lists everything and compares it with what was acknowledged.
func (k *killRun) verify(ctx context.Context, kills int) {
	states := map[string]nornv1.State{}
	for task, err := range k.c.List(ctx, client.Filter{Queue: "kill", PageSize: 1000}) {
		if err != nil {
			k.t.Fatal(err)
		}
		states[task.Id] = task.State
	}
	for task := range k.enqueued {
		if states[task.String()] != nornv1.State_STATE_COMPLETED {
			k.t.Errorf("acknowledged task %s is %v", task, states[task.String()])
		}
	}
	for task := range k.completed {
		if states[task.String()] != nornv1.State_STATE_COMPLETED {
			k.t.Errorf("acknowledged completion of %s: the task is %v", task, states[task.String()])
		}
	}
	k.t.Logf("%d kills, %d acknowledged enqueues, %d acknowledged completions, %d grants, %d tasks in the end",
		kills, len(k.enqueued), len(k.completed), k.grants.Load(), len(states))
	if len(k.enqueued) < 50*kills || len(k.completed) < 10*kills {
		k.t.Error(errors.New("too little was acknowledged for the run to prove anything"))
	}
	if n, err := k.c.Count(ctx, "kill"); err != nil || int(n.Total.Total) != len(states) {
		k.t.Error(fmt.Errorf("the counters say %v, the list has %d: %w", n, len(states), err))
	}
}
