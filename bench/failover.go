package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/client"
)

// What is done to a node.
const (
	Kill   = "kill"   // -9, and a new start
	Freeze = "freeze" // SIGSTOP: its connections stand, and nothing comes
	Cut    = "cut"    // the other nodes and it do not reach each other; clients reach all
)

// Nodes are what a failover run breaks, one at a time.
type Nodes interface {
	// Names are those of the nodes.
	Names() []string
	// Break does something to a node at once.
	Break(fault string, node int) error
	// Mend undoes it, and waits until any one of the nodes may be broken and each
	// leads something.
	Mend(ctx context.Context, fault string, node int) error
}

// Round is what came of breaking one node once.
type Round struct {
	Fault, Node string
	Enqueue     time.Duration // in which nobody's enqueue was acknowledged
	Producer    time.Duration // for which the producer waited that waited longest
	Claim       time.Duration // in which nobody was given a task
	Task        time.Duration // for which the task waited for a claim that waited longest
	Held        int           // tasks whose grant died with the node: they come back with the end of its lease
}

// window is how long a broken node stays broken: longer than anything may take.
func window(fault string) time.Duration {
	if fault == Kill {
		return 3 * time.Second
	}
	return 6 * time.Second
}

const (
	// failoverRate is how many tasks a second are enqueued unless told otherwise:
	// enough to see a gap of milliseconds, and little enough to wait for nothing else.
	failoverRate = 300
	// failoverTasks bounds those of a run, for hours of it.
	failoverTasks = 1 << 22
	// held is how long a task waits that was granted, but to nobody: nothing but the
	// end of a lease takes so long.
	held = 20 * time.Second
	// rest is between the mending of one node and the breaking of the next.
	rest = time.Second
)

// breaking is a failover run under way. All times are since it began.
type breaking struct {
	*run
	began  time.Time
	failed atomic.Int64 // calls without an answer that counts

	mu     sync.Mutex // guards what follows
	calls  [][2]time.Duration
	acked  map[uint32]time.Duration
	served map[uint32]time.Duration
	claims []time.Duration
}

// scenarioFailover breaks nodes under enqueues and claims.
func (r *run) scenarioFailover(ctx context.Context) error {
	b := &breaking{run: r, began: time.Now(), acked: make(map[uint32]time.Duration), served: make(map[uint32]time.Duration)}
	producing, stopProducers := context.WithCancel(ctx)
	defer stopProducers()
	working, stopWorkers := context.WithCancel(ctx)
	defer stopWorkers()
	var producers, workers sync.WaitGroup
	for i := range r.Producers {
		producers.Go(func() { b.produce(producing, i, r.producers[i%len(r.producers)]) })
	}
	for i := range r.Workers {
		workers.Go(func() { b.work(working, r.workers[i%len(r.workers)]) })
	}
	rounds, spans, err := b.faults(ctx)
	stopProducers()
	producers.Wait()
	if err == nil {
		err = b.drain(ctx)
	}
	stopWorkers()
	workers.Wait()
	if err != nil {
		return err
	}
	for i := range rounds {
		b.judgeRound(&rounds[i], spans[i])
	}
	r.report.Tasks, r.report.Rounds = len(b.acked), rounds
	r.report.rounds(rounds)
	r.report.add("calls_failed", float64(b.failed.Load()), "")
	return nil
}

// faults breaks one node after the other, and says when.
func (b *breaking) faults(ctx context.Context) (rounds []Round, spans [][2]time.Duration, err error) {
	names := b.Nodes.Names()
	all := slices.Concat(slices.Repeat([]string{Kill}, b.Kills), slices.Repeat([]string{Freeze}, b.Freezes), slices.Repeat([]string{Cut}, b.Cuts))
	for n, fault := range all {
		node := n % len(names)
		b.progress(fmt.Sprintf("%s of %s", fault, names[node]), n, len(all))
		if err := pause(ctx, rest); err != nil {
			return nil, nil, err
		}
		from := time.Since(b.began)
		if err := b.Nodes.Break(fault, node); err != nil {
			return nil, nil, fmt.Errorf("bench: %s of %s: %w", fault, names[node], err)
		}
		if err := pause(ctx, window(fault)); err != nil {
			return nil, nil, err
		}
		spans = append(spans, [2]time.Duration{from, time.Since(b.began)})
		rounds = append(rounds, Round{Fault: fault, Node: names[node]})
		if err := b.Nodes.Mend(ctx, fault, node); err != nil {
			return nil, nil, fmt.Errorf("bench: after a %s of %s: %w", fault, names[node], err)
		}
	}
	return rounds, spans, nil
}

// pause waits, or says why not.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("bench: %w", ctx.Err())
	case <-time.After(d):
		return nil
	}
}

// produce enqueues a task at a time, at its share of the rate and out of step with
// the others.
func (b *breaking) produce(ctx context.Context, n int, c *client.Client) {
	if pause(ctx, time.Duration(n)*time.Second/time.Duration(b.Rate)) != nil {
		return
	}
	tick := time.NewTicker(time.Duration(b.Producers) * time.Second / time.Duration(b.Rate))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		number := b.tally.next.Add(1) - 1
		if int(number) >= b.Tasks {
			return
		}
		began := time.Since(b.began)
		for { // one that fails is tried until it does not: a program would
			_, err := c.Enqueue(ctx, client.Task{Queue: b.Queue, Payload: b.tally.payload(number, b.Payload)})
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return
			}
			b.failed.Add(1)
			number = b.tally.next.Add(1) - 1 // the other one may be there or not
			if int(number) >= b.Tasks || pause(ctx, time.Millisecond) != nil {
				return
			}
		}
		b.tally.acknowledge(number)
		at := time.Since(b.began)
		b.mu.Lock()
		b.calls = append(b.calls, [2]time.Duration{began, at})
		b.acked[number] = at
		b.mu.Unlock()
	}
}

// work claims and completes.
func (b *breaking) work(ctx context.Context, c *client.Client) {
	for ctx.Err() == nil {
		claims, err := c.Claim(ctx, client.ClaimRequest{Queues: []string{b.Queue}, Max: 4, Wait: wait, Worker: "bench"})
		if err != nil {
			if ctx.Err() == nil {
				b.failed.Add(1)
				_ = pause(ctx, time.Millisecond)
			}
			continue
		}
		at := time.Since(b.began)
		b.mu.Lock()
		if len(claims) > 0 {
			b.claims = append(b.claims, at)
		}
		for _, claim := range claims {
			if number, err := b.tally.claim(claim.Grant.GetTask().GetPayload()); err == nil {
				b.served[number] = at
			}
		}
		b.mu.Unlock()
		for _, claim := range claims {
			none := uint64(0) // updates
			for ctx.Err() == nil {
				if _, err := c.Complete(ctx, claim.ID, claim.Token, client.CompleteOptions{Seq: &none}); err == nil {
					b.tally.completed.Add(1)
					break
				}
				b.failed.Add(1)
				_ = pause(ctx, time.Millisecond)
			}
		}
	}
}

// drain waits until every acknowledged task was claimed and completed. What a dead
// node's claim has taken with it comes back after its lease.
func (b *breaking) drain(ctx context.Context) error {
	for end := time.Now().Add(2 * patience); time.Now().Before(end); {
		b.mu.Lock()
		left := 0
		for number := range b.acked { // Any order: they are counted.
			if _, ok := b.served[number]; !ok {
				left++
			}
		}
		b.mu.Unlock()
		if left == 0 {
			return pause(ctx, rest) // for the completions
		}
		b.progress("the rest is claimed", len(b.acked)-left, len(b.acked))
		if err := pause(ctx, looks); err != nil {
			return err
		}
	}
	return nil // they are counted as lost, or as left
}

// judgeRound finds how long what stood still after a node was broken.
func (b *breaking) judgeRound(r *Round, span [2]time.Duration) {
	acks := make([]time.Duration, 0, len(b.calls))
	for _, c := range b.calls {
		acks = append(acks, c[1])
		if c[1] > span[0] && c[0] < span[1] {
			r.Producer = max(r.Producer, c[1]-max(c[0], span[0]))
		}
	}
	r.Enqueue, r.Claim = silence(acks, span), silence(b.claims, span)
	for number, acked := range b.acked { // Any order: the maximum is sought.
		served, ok := b.served[number]
		if !ok {
			served = time.Since(b.began)
		}
		if acked >= span[1] || acked < span[0]-rest/2 || served <= span[0] {
			continue // a task of before that is still not served was held by an earlier round
		}
		if waited := served - max(acked, span[0]); waited >= held {
			r.Held++
		} else {
			r.Task = max(r.Task, waited)
		}
	}
}

// silence is the longest time in a span in which nothing happened.
func silence(events []time.Duration, span [2]time.Duration) (longest time.Duration) {
	slices.Sort(events)
	last := span[0]
	for _, at := range events {
		if at <= last {
			continue
		}
		if at >= span[1] {
			break
		}
		longest = max(longest, at-last)
		last = at
	}
	return max(longest, span[1]-last)
}

// rounds adds the median and the maximum of what rounds have shown.
func (r *Report) rounds(rounds []Round) {
	for _, fault := range []string{Kill, Freeze, Cut} {
		held, any := 0, false
		for _, round := range rounds {
			if round.Fault == fault {
				held, any = held+round.Held, true
			}
		}
		if !any {
			continue
		}
		for _, what := range []struct {
			name string
			of   func(Round) time.Duration
		}{
			{"enqueue_stops", func(r Round) time.Duration { return r.Enqueue }}, {"producer_waits", func(r Round) time.Duration { return r.Producer }},
			{"claim_stops", func(r Round) time.Duration { return r.Claim }}, {"task_waits", func(r Round) time.Duration { return r.Task }},
		} {
			var all []time.Duration
			for _, round := range rounds {
				if round.Fault == fault {
					all = append(all, what.of(round))
				}
			}
			slices.Sort(all)
			r.add(fault+"_"+what.name+"_p50", float64(all[len(all)/2])/1e6, "ms")
			r.add(fault+"_"+what.name+"_max", float64(all[len(all)-1])/1e6, "ms")
		}
		r.add(fault+"_tasks_held", float64(held), "tasks")
	}
}
