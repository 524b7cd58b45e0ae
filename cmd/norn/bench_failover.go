package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/norn-dev/norn/bench"
	"github.com/norn-dev/norn/client"
)

// failoverOptions are the flags of the failover scenario.
type failoverOptions struct {
	dev        devOptions
	partitions int
}

// breakable is a cluster of this program's own, whose nodes are broken.
type breakable struct {
	*devCluster
	checks *devChecks
	nodes  []devNode
	runs   []*devChild // the process of each node now
	todo   chan func() // for the thread that all processes are started by
	over   chan struct{}
}

var _ bench.Nodes = (*breakable)(nil)

// Bounds of what a cluster may take.
const (
	failoverReady = 2 * time.Minute        // until it is whole
	failoverPoll  = 50 * time.Millisecond  // between two looks
	failoverRuns  = 1 << 16                // processes that may end
	failoverDie   = 10 * time.Second       // until a killed process is gone
	failoverCalm  = 500 * time.Millisecond // it stays whole for so long
)

// startBreakable starts a cluster and waits until any one of its nodes may die.
func startBreakable(ctx context.Context, a *app, o failoverOptions) (b *breakable, err error) {
	b = &breakable{
		devCluster: &devCluster{app: a, grace: devGrace, ended: make(chan *devChild, failoverRuns), all: make(chan struct{})},
		todo:       make(chan func()), over: make(chan struct{}),
	}
	if b.exe, err = os.Executable(); err != nil {
		return nil, fmt.Errorf("where is this program? %w", err)
	}
	nodes, cfg, err := devCommand{a}.plan(o.dev, "", map[string]string{"partitions": strconv.Itoa(o.partitions)})
	if err != nil {
		return nil, err
	}
	if err := checkPorts(nodes); err != nil {
		return nil, err
	}
	b.nodes, b.runs = nodes, make([]*devChild, len(nodes))
	go func() {
		// The kernel ends the children with the thread that has started them.
		runtime.LockOSThread()
		for f := range b.todo {
			f()
		}
		b.waiting.Wait()
		close(b.all)
	}()
	for i := range nodes {
		if err := b.launch(i); err != nil {
			return nil, errors.Join(err, b.close())
		}
	}
	if b.checks, err = newDevChecks(a, cfg, nodes); err != nil {
		return nil, errors.Join(err, b.close())
	}
	if err := b.whole(ctx); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// launch starts a node's process.
func (b *breakable) launch(i int) error {
	failed := make(chan error)
	b.todo <- func() { failed <- b.startNode(b.nodes[i]) }
	if err := <-failed; err != nil {
		return fmt.Errorf("%s: %w", b.nodes[i].name, err)
	}
	b.runs[i] = b.children[len(b.children)-1]
	return nil
}

// close ends all nodes, at once: nobody needs them any more.
func (b *breakable) close() error {
	if b.checks != nil {
		b.checks.close()
	}
	for _, c := range b.runs {
		if c != nil && !c.over {
			_ = thaw(c.cmd.Process) // it may be frozen still
		}
	}
	close(b.todo)
	now := make(chan struct{})
	close(now)
	return b.stop(now)
}

// addresses are those of the clients' ports.
func (b *breakable) addresses() (all []string) {
	for _, n := range b.nodes {
		all = append(all, n.listen)
	}
	return all
}

// Names are those of the nodes.
func (b *breakable) Names() (all []string) {
	for _, n := range b.nodes {
		all = append(all, n.name)
	}
	return all
}

// Break kills or freezes a node.
func (b *breakable) Break(fault string, node int) error {
	switch fault {
	case bench.Kill:
		return b.runs[node].cmd.Process.Kill()
	case bench.Freeze:
		return freeze(b.runs[node].cmd.Process)
	}
	return fmt.Errorf("these nodes share the loopback, no %s of one", fault)
}

// Mend starts a killed node again, or has a frozen one go on.
func (b *breakable) Mend(ctx context.Context, fault string, node int) error {
	if fault == bench.Freeze {
		if err := thaw(b.runs[node].cmd.Process); err != nil {
			return err
		}
		return b.whole(ctx)
	}
	select {
	case c := <-b.ended:
		if c.over = true; c != b.runs[node] {
			return errors.New(b.obituary(c))
		}
	case <-time.After(failoverDie):
		return fmt.Errorf("%s does not end", b.nodes[node].name)
	}
	if err := b.launch(node); err != nil {
		return err
	}
	return b.whole(ctx)
}

// whole waits until every node says that any one may die, and leads something, and
// that has been so for a moment.
func (b *breakable) whole(parent context.Context) error {
	ctx, cancel := context.WithTimeout(parent, failoverReady)
	defer cancel()
	tick := time.NewTicker(failoverPoll)
	defer tick.Stop()
	since, what := time.Now(), "nothing is known"
	for time.Since(since) < failoverCalm || what != "" {
		select {
		case <-ctx.Done():
			if err := parent.Err(); err != nil { // told to stop
				return err
			}
			return fmt.Errorf("the cluster is not whole after %s: %s", failoverReady, what)
		case c := <-b.ended:
			c.over = true
			return errors.New(b.obituary(c))
		case <-tick.C:
		}
		missing, _ := b.checks.ask(ctx)
		if what = strings.Join(missing, "; "); what == "" {
			what = b.idle(ctx)
		}
		if what != "" {
			since = time.Now()
		}
	}
	return nil
}

// idle names a node that leads nothing.
func (b *breakable) idle(ctx context.Context) string {
	s, err := b.checks.clients[0].Status(ctx)
	if err != nil {
		return err.Error()
	}
	for _, n := range s.GetNodes() {
		if n.GetState() == "up" && n.GetLed() == 0 {
			return n.GetName() + " leads nothing"
		}
	}
	return ""
}

// failover runs the failover scenario on a cluster of its own.
func (a benchCommand) failover(ctx context.Context, o failoverOptions, cfg bench.Config, progress bench.Progress) (report *bench.Report, err error) {
	check := cfg
	check.Nodes = &breakable{} // there will be some
	if err := errors.Join(o.dev.check(), check.Check()); err != nil {
		return nil, err
	}
	temporary := o.dev.data == ""
	if temporary {
		if o.dev.data, err = os.MkdirTemp("", "norn-bench-"); err != nil {
			return nil, err
		}
	}
	var b *breakable
	defer func() {
		if b != nil {
			err = errors.Join(err, b.close())
		}
		switch dir := o.dev.data; {
		case !temporary:
		case err == nil:
			err = os.RemoveAll(dir)
		case os.Remove(dir) != nil: // it is not empty
			a.Note("data and logs are left in %s", dir)
		}
	}()
	if b, err = startBreakable(ctx, a.app, o); err != nil {
		return nil, err
	}
	cfg.Nodes, cfg.Clients = b, len(b.nodes)
	return bench.Run(ctx, turning(b.addresses(), func(ctx context.Context, nodes []string) (*client.Client, error) {
		return client.Dial(ctx, nodes, client.WithAgent("norn/"+version), client.WithTimeout(a.Timeout))
	}), cfg, progress)
}
