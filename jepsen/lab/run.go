package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/faults"
	"github.com/norn-dev/norn/jepsen/lab/verdict"
	"github.com/norn-dev/norn/jepsen/lab/workloads"
)

// Run does one run. The error is a [machine.NotRun], or says why it could not be done;
// what was found in a run that was done is in its result.
func Run(ctx context.Context, cfg cluster.Config) (*verdict.Result, error) {
	if cfg.Nodes == 0 {
		cfg.Nodes = cluster.Replicas
	}
	if cfg.Duration <= 0 {
		cfg.Duration = 20 * time.Second
	}
	if cfg.Think <= 0 {
		cfg.Think = 120 * time.Millisecond
	}
	if cfg.Eta <= 0 {
		cfg.Eta = faults.Eta
	}
	if cfg.Workload == "" {
		cfg.Workload = workloads.Workloads()[0].Name
	}
	w, ok := workloads.Named(cfg.Workload)
	if !ok {
		return nil, fmt.Errorf("there is no workload %q", cfg.Workload)
	}
	chosen, err := faults.Find(cfg.Fault)
	if err != nil {
		return nil, err
	}
	t, err := takes(&cfg, chosen)
	if err != nil {
		return nil, err
	}
	say := func(text string) {
		if cfg.Progress != nil {
			_, _ = fmt.Fprintln(cfg.Progress, text)
		}
	}
	return begun(say, func() (_ *verdict.Result, err error) {
		within, end := context.WithCancelCause(ctx)
		defer end(nil)
		limited, cancel := context.WithTimeout(within, 3*cfg.Duration+cluster.Most)
		defer cancel()
		l, err := cluster.Open(cfg, t.shaped)
		if err != nil {
			return nil, err
		}
		l.Layers, l.Args, l.Dress, l.Kept, l.Caller = t.layers, w.Args, t.dress, w.Kept, cluster.Caller{Ctx: within, End: end}
		defer func() { err = errors.Join(err, l.Close()) }()
		return trial{l, workloads.NewServers(l)}.run(limited, chosen, w)
	})
}

// trial is a run with those who have its nodes show that they serve.
type trial struct {
	*cluster.Lab
	*workloads.Servers
}

// needed is what the faults of a run take, all together.
type needed struct {
	shaped bool // the proxy
	layers cluster.Layers
	dress  []func(*cluster.Lab, *cluster.Process) error
}

// takes says what faults take, or why this machine has it not. It sees to it that there
// are enough nodes.
func takes(cfg *cluster.Config, chosen []faults.Fault) (t needed, err error) {
	for i, f := range chosen {
		if f.Needs != nil {
			if err := f.Needs(cfg); err != nil {
				return t, err
			}
		}
		if err := f.Layers.Needs(); err != nil {
			return t, err
		}
		cfg.Nodes = max(cfg.Nodes, f.Nodes)
		t.shaped = t.shaped || f.Shaped
		t.layers |= f.Layers
		same := func(g faults.Fault) bool { return g.Name == f.Name || f.Group != "" && g.Group == f.Group }
		if f.Dress != nil && slices.IndexFunc(chosen, same) == i { // once
			t.dress = append(t.dress, f.Dress)
		}
	}
	return t, nil
}

// run does it; whatever comes of it, everything is closed afterwards.
func (l trial) run(ctx context.Context, chosen []faults.Fault, w workloads.Workload) (*verdict.Result, error) {
	if err := l.Start(ctx); err != nil {
		if l.Caller.Ended() {
			return nil, l.Caller.Why()
		}
		return nil, err
	}
	working, enough := context.WithCancel(ctx) // until the last fault is over, however long that takes
	defer enough()
	c := &workloads.Crew{Lab: l.Lab, Ctx: working, Queues: w.Queues, Owed: map[id.ID]client.Task{}}
	c.Work.Go(func() {
		if err := l.Strain.WatchDisk(working, l.Dir); err != nil {
			l.Found("internal", "the disk under all nodes: %v", err)
		}
	})
	c.Work.Go(func() {
		l.Gauges.Watch(working, func() []*cluster.Process {
			l.Mu.Lock()
			defer l.Mu.Unlock()
			return slices.Clone(l.Nodes)
		})
	})
	err := w.Begin(c)
	l.quiet(ctx, w.Calm)
	storm, over := context.WithTimeout(ctx, l.Cfg.Duration)
	defer over()
	if err == nil {
		err = faults.Storms(storm, l.Lab, l.Servers, chosen)
	}
	if err == nil {
		l.quiet(ctx, w.Calm)
	}
	enough()
	c.Work.Wait()
	l.Note(verdict.StormOver)
	if c.Numbers != nil {
		if why := c.Numbers.Lost(); why != "" {
			l.Found("overlap", "writings under a claim got lost%s", why) // I4
		}
	}
	if err == nil && !l.Caller.Ended() {
		err = l.end(ctx, c, w)
	}
	if l.Caller.Ended() { // whatever else it says then
		err = l.Caller.Why()
	}
	if errors.Is(err, cluster.ErrTaken) {
		return nil, err
	}
	if errors.Is(err, cluster.ErrStuck) {
		err = errors.Join(err, cluster.Portraits(l.Lab))
	}
	if err != nil && !errors.Is(err, cluster.ErrStuck) && !errors.Is(err, cluster.ErrEnded) {
		return nil, errors.Join(err, l.SaveLogs())
	}
	r, err := verdict.Judged(l.Lab, w, err)
	if err == nil && r.Verdict != verdict.Passed {
		err = l.SaveLogs()
	}
	return r, err
}

// end brings the cluster to rest and reads everything.
func (l trial) end(ctx context.Context, c *workloads.Crew, w workloads.Workload) error {
	if err := l.settle(ctx, c, w); err != nil {
		return err
	}
	if err := l.readBack(ctx, c); err != nil {
		return err
	}
	l.Rec.Mu.Lock()
	events := slices.Clone(l.Rec.Events)
	l.Rec.Mu.Unlock()
	l.LossesForgiven = l.Forgiven(events)
	return l.disks(ctx, events)
}

// starts is how often a run begins at most.
const starts = 5

// begun does a run, and again while ports are taken.
func begun(say func(string), do func() (*verdict.Result, error)) (r *verdict.Result, err error) {
	for n := range starts {
		if r, err = do(); !errors.Is(err, cluster.ErrTaken) {
			return r, err
		}
		say(fmt.Sprintf("attempt %d of %d: %v", n+1, starts, err))
	}
	return r, err
}

// quiet lets clients work for a while with nothing wrong.
func (l trial) quiet(ctx context.Context, d time.Duration) {
	if d == 0 {
		return
	}
	l.Note("nothing is wrong for %v", d)
	w := cluster.Window{What: "nothing", From: time.Since(l.Rec.Began) + workloads.QuietBegins}
	select {
	case <-ctx.Done():
		return
	case <-time.After(d):
	}
	w.To = time.Since(l.Rec.Began)
	l.Calms = append(l.Calms, w)
	l.Note("it was quiet")
}
