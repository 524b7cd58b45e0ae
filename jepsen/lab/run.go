package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// Run does one run. The error is a [NotRun], or says why it could not be done;
// what was found in a run that was done is in its result.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	if cfg.Nodes == 0 {
		cfg.Nodes = replicas
	}
	if cfg.Duration <= 0 {
		cfg.Duration = 20 * time.Second
	}
	if cfg.Think <= 0 {
		cfg.Think = 120 * time.Millisecond
	}
	if cfg.Eta <= 0 {
		cfg.Eta = eta
	}
	if cfg.Workload == "" {
		cfg.Workload = Workloads()[0].Name
	}
	w, ok := workload(cfg.Workload)
	if !ok {
		return nil, fmt.Errorf("there is no workload %q", cfg.Workload)
	}
	faults, err := find(cfg.Fault)
	if err != nil {
		return nil, err
	}
	t, err := takes(&cfg, faults)
	if err != nil {
		return nil, err
	}
	outside := ctx
	ctx, cancel := context.WithTimeout(outside, 3*cfg.Duration+most)
	defer cancel()
	say := func(text string) {
		if cfg.Progress != nil {
			_, _ = fmt.Fprintln(cfg.Progress, text)
		}
	}
	return begun(say, func() (_ *Result, err error) {
		l, err := open(cfg, t.shaped)
		if err != nil {
			return nil, err
		}
		l.layers, l.args, l.dress, l.kept, l.caller = t.layers, w.args, t.dress, w.kept, caller{outside}
		defer func() { err = errors.Join(err, l.close()) }()
		return l.run(ctx, faults, w)
	})
}

// needed is what the faults of a run take, all together.
type needed struct {
	shaped bool // the proxy
	layers layers
	dress  []func(*lab, *process) error
}

// takes says what faults take, or why this machine has it not. It sees to it that there
// are enough nodes.
func takes(cfg *Config, faults []Fault) (t needed, err error) {
	for i, f := range faults {
		if f.needs != nil {
			if err := f.needs(cfg); err != nil {
				return t, err
			}
		}
		if err := f.layers.needs(); err != nil {
			return t, err
		}
		cfg.Nodes = max(cfg.Nodes, f.nodes)
		t.shaped = t.shaped || f.shaped
		t.layers |= f.layers
		same := func(g Fault) bool { return g.Name == f.Name || f.group != "" && g.group == f.group }
		if f.dress != nil && slices.IndexFunc(faults, same) == i { // once
			t.dress = append(t.dress, f.dress)
		}
	}
	return t, nil
}

// run does it; whatever comes of it, everything is closed afterwards.
func (l *lab) run(ctx context.Context, faults []Fault, w Workload) (*Result, error) {
	if err := l.start(ctx); err != nil {
		if l.caller.ended() {
			return nil, errEnded
		}
		return nil, portTaken(l, err)
	}
	working, enough := context.WithCancel(ctx) // until the last fault is over, however long that takes
	defer enough()
	c := &crew{lab: l, ctx: working, queues: w.queues, owed: map[id.ID]client.Task{}}
	c.work.Go(func() {
		if err := l.strain.watchDisk(working, l.dir); err != nil {
			l.found("internal", "the disk under all nodes: %v", err)
		}
	})
	c.work.Go(func() {
		l.gauges.watch(working, func() []*process {
			l.mu.Lock()
			defer l.mu.Unlock()
			return slices.Clone(l.nodes)
		})
	})
	err := w.begin(c)
	l.quiet(ctx, w.calm)
	storm, over := context.WithTimeout(ctx, l.cfg.Duration)
	defer over()
	if err == nil {
		err = (&nemesis{l, storm}).storm(faults)
	}
	if err == nil {
		l.quiet(ctx, w.calm)
	}
	enough()
	c.work.Wait()
	l.note(stormOver)
	if c.numbers != nil {
		if why := c.numbers.lost(); why != "" {
			l.found("overlap", "writings under a claim got lost%s", why) // I4
		}
	}
	if err == nil && !l.caller.ended() {
		err = l.end(ctx, c, w)
	}
	if l.caller.ended() { // whatever else it says then
		err = errEnded
	}
	if errors.Is(err, errStuck) {
		err = errors.Join(err, portraits(l))
	}
	if err != nil && !errors.Is(err, errStuck) && !errors.Is(err, errEnded) {
		return nil, errors.Join(err, l.saveLogs())
	}
	r, err := l.judge(w, err)
	if err == nil && r.Verdict != Passed {
		err = l.saveLogs()
	}
	return r, err
}

// end brings the cluster to rest and reads everything.
func (l *lab) end(ctx context.Context, c *crew, w Workload) error {
	if err := l.settle(ctx, c, w); err != nil {
		return err
	}
	if err := l.readBack(ctx, c); err != nil {
		return err
	}
	l.rec.mu.Lock()
	events := slices.Clone(l.rec.events)
	l.rec.mu.Unlock()
	l.lossesForgiven = l.forgiven(events)
	return l.disks(ctx, events)
}

// history is what is judged and kept.
func (l *lab) history() []*history.Event {
	l.rec.mu.Lock()
	defer l.rec.mu.Unlock()
	return repeated(l.rec.events)
}
