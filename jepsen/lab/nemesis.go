package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Fault is one way to hurt a cluster.
type Fault struct {
	Name, About string
	// Shaped faults take the proxy.
	shaped bool
	// Nodes is the least number of nodes; 0: 3.
	nodes int
	// needs says why this machine or build does not allow it; nil: nothing to ask.
	needs func(*Config) error
	// layers are what it takes between nodes and the disk of the machine.
	layers layers
	// dress gives each node more arguments, or another program; nil: it needs none.
	dress func(*lab, *process) error
	group string // of faults that dress nodes in the same way; "": none
	// run hurts the cluster, waits, and takes it back; after it the cluster must
	// become whole.
	run func(*nemesis) error
}

// nemesis hurts a cluster as the seed says.
type nemesis struct {
	*lab
	ctx context.Context // ends with the storm
}

// Window is when a fault was there.
type Window struct {
	Fault    string
	What     string
	From, To time.Duration // since the start of the run
	Whole    time.Duration // when the cluster was whole again; 0: it was not waited for
}

// find gives the faults that are named, with commas between.
func find(names string) (all []Fault, err error) {
	if names == "" || names == "none" {
		return nil, nil
	}
	known := Faults()
	for _, name := range strings.Split(names, ",") {
		i := slices.IndexFunc(known, func(f Fault) bool { return f.Name == name })
		switch {
		case i >= 0:
			all = append(all, known[i])
		case name == "mix":
			for _, f := range known {
				if !f.shaped && f.needs == nil && f.layers == 0 && f.nodes <= replicas {
					all = append(all, f)
				}
			}
		case name == "all":
			all = append(all, known...)
		default:
			return nil, fmt.Errorf("there is no fault %q", name)
		}
	}
	return all, nil
}

// storm hurts the cluster until the time is over: each fault at least once, in
// an order drawn anew each time round, with pauses between.
func (n *nemesis) storm(faults []Fault) error {
	if len(faults) == 0 {
		<-n.ctx.Done()
		return nil
	}
	for first := true; first || n.ctx.Err() == nil; first = false {
		for _, i := range n.rnd.Perm(len(faults)) {
			n.wait(time.Second, 3*time.Second)
			if n.ctx.Err() != nil && !first || n.caller.ended() {
				return nil
			}
			if err := n.strike(&faults[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// strike does one fault, and waits until the cluster has recovered from it.
func (n *nemesis) strike(f *Fault) error {
	n.mu.Lock()
	n.windows = append(n.windows, Window{Fault: f.Name, From: time.Since(n.rec.began)})
	n.mu.Unlock()
	if err := f.run(n); err != nil {
		return fmt.Errorf("fault %s: %w", f.Name, err)
	}
	if err := n.relink(func(all map[way]link) { clear(all) }); err != nil {
		return err
	}
	w := &n.windows[len(n.windows)-1]
	w.To = time.Since(n.rec.began)
	n.note("%s is over", f.Name)
	if err := n.whole(n.caller.goesOn(), rest); err != nil {
		n.found("stuck", "%v after %s the cluster is not whole: %v", rest, f.Name, err)
		return errStuck
	}
	w.Whole = time.Since(n.rec.began)
	n.say("whole after %.1f s", (w.Whole - w.To).Seconds())
	if err := n.serves(n.caller.goesOn(), rest); err != nil {
		n.found("stuck", "%v after %s the cluster is whole, and does not serve: %v", rest, f.Name, err)
		return errStuck
	}
	return nil
}

// errStuck is returned when a cluster does not recover: there is a finding.
var errStuck = errors.New("the cluster does not recover")

// does says what is being done, for the history and the report.
func (n *nemesis) does(format string, args ...any) {
	w := &n.windows[len(n.windows)-1]
	if w.What != "" {
		w.What += "; "
	}
	w.What += fmt.Sprintf(format, args...)
	n.note(format, args...)
}

// proven says that a fault did what it is for, or else notes what cannot be told: then
// the run proves nothing.
func proven(l *lab, is bool, format string, args ...any) {
	if is {
		return
	}
	l.mu.Lock()
	l.idle = append(l.idle, fmt.Sprintf(format, args...))
	l.mu.Unlock()
	l.say("NO EFFECT: %s", fmt.Sprintf(format, args...))
}

// wait waits some time, and a little when the storm is over.
func (n *nemesis) wait(least, most time.Duration) {
	d := least + time.Duration(n.rnd.Int64N(int64(most-least)+1))
	if n.ctx.Err() != nil {
		d = min(d, least)
	}
	<-time.After(d)
}

// some draws nodes, in an order of its own.
func (n *nemesis) some(k int) []*process {
	all := n.members()
	n.rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(k, len(all))]
}

// one draws a node.
func (n *nemesis) one() *process { return n.some(1)[0] }

func names(all []*process) string {
	var s []string
	for _, p := range all {
		s = append(s, p.name)
	}
	slices.Sort(s)
	return strings.Join(s, " ")
}
