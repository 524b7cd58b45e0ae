package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/norn-dev/norn/bench"
	"github.com/norn-dev/norn/client"
)

// cuttable is a company whose processes are cut off from each other by a failover run.
type cuttable struct{ *company }

func (c cuttable) Names() (all []string) {
	for _, p := range c.all {
		all = append(all, p.name)
	}
	return all
}

// Break cuts a process off.
func (c cuttable) Break(fault string, node int) error {
	if fault != bench.Cut {
		return fmt.Errorf("no %s, only cuts", fault)
	}
	c.isolate(c.all[node])
	return nil
}

// Mend makes the links good, and waits until each process leads something.
func (c cuttable) Mend(ctx context.Context, _ string, _ int) error {
	c.heal()
	c.settled(len(c.all))
	for tick := time.Tick(100 * time.Millisecond); ; {
		leads := make(map[string]bool)
		for _, p := range c.all[0].status(c.t).Partitions {
			leads[p.Leader] = true
		}
		if len(leads) == len(c.all) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("only %v lead anything: %w", leads, ctx.Err())
		case <-tick:
		}
	}
}

// TestClusterFailoverCut: each node in turn is cut off from the others for six seconds
// under enqueues and claims, and clients reach it as before. Neither stops for more than
// 4 s (issue 5: silent partition). Who is with the node that was cut off waits for longer: it
// finds after 2.5 s that it is, and then a write waits for half a second.
func TestClusterFailoverCut(t *testing.T) {
	thorough(t)
	limits := map[string]float64{"enqueue_stops": 4000, "claim_stops": 4000, "producer_waits": 6000, "task_waits": 10_000} // ms
	c := wired(t, "--partitions", "64")
	for range 3 {
		c.add().start(t)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := (cuttable{c}).Mend(ctx, bench.Cut, 0); err != nil {
		t.Fatal(err)
	}
	cfg := bench.Default()
	cfg.Scenario, cfg.Kills, cfg.Freezes, cfg.Cuts, cfg.Clients, cfg.Nodes = "failover", 0, 0, 6, 3, cuttable{c}
	report, err := bench.Run(ctx, turning(c.addresses(), func(ctx context.Context, nodes []string) (*client.Client, error) {
		return client.Dial(ctx, nodes, client.WithAgent("norn/test"), client.WithTimeout(time.Minute))
	}), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	for figure, limit := range limits {
		half, _ := report.Get("cut_" + figure + "_p50")
		most, ok := report.Get("cut_" + figure + "_max")
		t.Logf("%s: %.0f ms in the median of %d cuts, at most %.0f of %.0f ms", figure, half, len(report.Rounds), most, limit)
		if !ok || most > limit {
			t.Errorf("%s is %v ms at most, over %v", figure, most, limit)
		}
	}
	held, _ := report.Get("cut_tasks_held")
	t.Logf("%d tasks, %v came back with the end of a lease only", report.Tasks, held)
}
