package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
)

// chaosLease is that of the workers, as short as clocks that differ by a second
// allow.
const chaosLease = 2 * time.Second

// referee judges what workers are granted. All of them run in this process, so
// that one clock says who may believe what, and when.
type referee struct {
	t *testing.T

	mu    sync.Mutex // guards what follows
	tasks map[id.ID]*contested
	done  int // acknowledged completions
	grant int
	again int // grants of tasks that had been granted before
	fails int // violations: after some they are all the same
}

// contested is a task as its workers see it.
type contested struct {
	token uint64    // the highest that was heard
	heard time.Time // when that was
	until time.Time // what its worker may believe; zero: it has ended it
	acked time.Time // when its completion was acknowledged; zero: not yet
}

func (r *referee) complain(format string, args ...any) {
	if r.fails++; r.fails < 20 {
		r.t.Errorf(format, args...)
	}
}

// granted judges a claim that was asked for at a time.
func (r *referee) granted(asked time.Time, c *client.Claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	k := r.tasks[c.ID]
	if k == nil {
		k = &contested{}
		r.tasks[c.ID] = k
	} else {
		r.again++
	}
	r.grant++
	if !k.acked.IsZero() && k.acked.Before(asked) {
		r.complain("%s was granted %v after its completion had been acknowledged", c.ID, asked.Sub(k.acked))
	}
	if c.Token <= k.token {
		if k.heard.Before(asked) {
			r.complain("%s: token %d, asked for after %d had been heard of", c.ID, c.Token, k.token)
		}
		return // it came late: a newer one is known
	}
	if now.Before(k.until) && now.Before(c.Deadline) {
		r.complain("%s is granted with token %d while the one with %d is valid for %v", c.ID, c.Token, k.token, k.until.Sub(now))
	}
	k.token, k.heard, k.until = c.Token, now, c.Deadline
}

// believes notes until when a worker may believe in its claim; the zero time:
// it does not any more.
func (r *referee) believes(c *client.Claim, until time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.tasks[c.ID]; k.token == c.Token {
		k.until = until
	}
}

func (r *referee) completed(task id.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.tasks[task]; k.acked.IsZero() {
		k.acked = time.Now()
		r.done++
	}
}

// unfinished counts tasks without an acknowledged completion.
func (r *referee) unfinished(tasks map[id.ID]bool) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for task := range tasks { // Any order: they are counted.
		if k := r.tasks[task]; k == nil || k.acked.IsZero() {
			n++
		}
	}
	return n
}

// chaosWorker claims tasks until ctx ends. It dies now and then, is stopped in the
// middle of its work, or goes on with it.
func (r *referee) chaosWorker(ctx context.Context, rnd *rand.Rand, name string, addrs []string) {
	for ctx.Err() == nil {
		c, err := client.Dial(ctx, addrs, client.WithTimeout(5*time.Second))
		if err != nil {
			return // the test is over
		}
		for alive := true; alive && ctx.Err() == nil; {
			asked := time.Now()
			got, err := c.Claim(ctx, client.ClaimRequest{Queues: []string{"q"}, Max: 1 + rnd.IntN(3), Lease: chaosLease, Wait: time.Second, Worker: name})
			if err != nil {
				r.pause(ctx, 50*time.Millisecond)
				continue
			}
			for _, claim := range got {
				r.granted(asked, claim)
			}
			for _, claim := range got {
				alive = alive && r.work(ctx, rnd, c, claim)
			}
		}
		_ = c.Close() // it dies: what it holds lapses
	}
}

// work is what becomes of a claim. It tells whether the worker lives on.
func (r *referee) work(ctx context.Context, rnd *rand.Rand, c *client.Client, claim *client.Claim) bool {
	switch n := rnd.IntN(40); {
	case n == 0: // killed
		return false
	case n == 1: // stopped for longer than the lease; it completes late
		r.pause(ctx, 2*chaosLease)
	case n < 6: // long work
		for range 3 {
			r.pause(ctx, chaosLease/3)
			if res, err := c.Renew(ctx, []client.Ref{claim.Ref()}, chaosLease); err == nil && res[0].Err == nil {
				r.believes(claim, res[0].Deadline)
			}
		}
	default:
		r.pause(ctx, time.Duration(rnd.IntN(50))*time.Millisecond)
	}
	r.believes(claim, time.Time{}) // nothing is done under it from here on
	for range 3 {
		if _, err := c.Complete(ctx, claim.ID, claim.Token, client.CompleteOptions{}); err == nil {
			r.completed(claim.ID)
			break
		}
	}
	return true
}

func (r *referee) pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// chaos kills, stops and restarts nodes at random until the time is over, and then
// has all of them up.
func (c *company) chaos(rnd *rand.Rand, d time.Duration) (faults map[string]int) {
	faults = map[string]int{}
	wait := func(least, most time.Duration) { <-time.After(least + time.Duration(rnd.Int64N(int64(most-least)))) }
	for end := time.Now().Add(d); time.Now().Before(end); {
		p := c.all[rnd.IntN(len(c.all))]
		switch n := rnd.IntN(10); {
		case n < 4:
			faults["kill -9"]++
			p.kill(c.t)
			wait(0, 3*time.Second)
			p.start(c.t)
		case n < 7:
			faults["SIGSTOP"]++
			p.signal(c.t, syscall.SIGSTOP)
			wait(500*time.Millisecond, 6*time.Second)
			p.signal(c.t, syscall.SIGCONT)
		case n < 9:
			faults["restart"]++
			p.stop(c.t)
			p.start(c.t)
		default:
			faults["kill -9 of all"]++
			for _, p := range c.all {
				p.kill(c.t)
			}
			for _, p := range c.all {
				p.launch(c.t)
			}
			for _, p := range c.all {
				if err := p.s.wait(); err != nil {
					c.t.Fatal(err)
				}
			}
		}
		wait(200*time.Millisecond, 3*time.Second)
	}
	return faults
}

// TestClusterChaos is issue 5's "shown by": three nodes, leases of two seconds, 20
// workers that die and stop too, and nodes that are killed, stopped and restarted
// at random. Every task is finished, no two valid claims of one are held at once,
// tokens increase, and no acknowledged completion is granted again.
// NORN_TEST_CHAOS says for how many seconds, NORN_TEST_SEED which run.
func TestClusterChaos(t *testing.T) {
	thorough(t)
	seconds, seed := number("NORN_TEST_CHAOS", 60), uint64(number("NORN_TEST_SEED", int(time.Now().Unix())))
	t.Logf("NORN_TEST_SEED=%d, %d seconds of faults", seed, seconds)
	c := startCompany(t, 3, "--eta", "1s")
	r := &referee{t: t, tasks: map[id.ID]*contested{}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()
	for n := range 20 {
		addrs := c.addresses()
		addrs = append(addrs[n%3:], addrs[:n%3]...)
		working.Go(func() { r.chaosWorker(ctx, rand.New(rand.NewPCG(seed, uint64(n))), fmt.Sprintf("w%d", n), addrs) })
	}
	// Ten a second each: 20 workers that die, stop and work for long now and then do
	// twice as many. What they could not keep up with would wait at the end.
	load := c.produce("q", 1, 100*time.Millisecond)
	faults := c.chaos(rand.New(rand.NewPCG(seed, 100)), time.Duration(seconds)*time.Second)
	load.end(t)
	c.settled(3)
	healed := time.Now()
	left := -1
	for tick := time.Tick(200 * time.Millisecond); time.Since(healed) < 5*patience; <-tick {
		if left = r.unfinished(load.acked); left == 0 {
			break
		}
	}
	cancel()
	working.Wait()
	t.Logf("%v; %d tasks, %d grants, %d of them again, %d completions acknowledged; finished %v after the last fault", faults, len(load.acked), r.grant, r.again, r.done, time.Since(healed).Round(100*time.Millisecond))
	if left != 0 {
		t.Errorf("%d of %d acknowledged tasks are not finished", left, len(load.acked))
	}
	if r.again == 0 || len(faults) == 0 {
		t.Error("nothing has happened that could have gone wrong")
	}
	for _, p := range c.all {
		p.verified(t)
	}
}
