package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/network"
	"github.com/norn-dev/norn/jepsen/lab/workloads"
)

// Fault is one way to hurt a cluster.
type Fault struct {
	Name, About string
	// Shaped faults take the proxy.
	Shaped bool
	// Nodes is the least number of nodes; 0: 3.
	Nodes int
	// needs says why this machine or build does not allow it; nil: nothing to ask.
	Needs func(*cluster.Config) error
	// layers are what it takes between nodes and the disk of the machine.
	Layers cluster.Layers
	// dress gives each node more arguments, or another program; nil: it needs none.
	Dress func(*cluster.Lab, *cluster.Process) error
	Group string // of faults that dress nodes in the same way; "": none
	// run hurts the cluster, waits, and takes it back; after it the cluster must
	// become whole.
	run func(*nemesis) error
}

// nemesis hurts a cluster as the seed says.
type nemesis struct {
	*cluster.Lab
	*workloads.Servers
	ctx context.Context // ends with the storm
}

// Find gives the faults that are named, with commas between.
func Find(names string) (all []Fault, err error) {
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
				if !f.Shaped && f.Needs == nil && f.Layers == 0 && f.Nodes <= cluster.Replicas {
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
		for _, i := range n.Rnd.Perm(len(faults)) {
			n.wait(time.Second, 3*time.Second)
			if n.ctx.Err() != nil && !first || n.Caller.Ended() {
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
	n.Mu.Lock()
	n.Windows = append(n.Windows, cluster.Window{Fault: f.Name, From: time.Since(n.Rec.Began)})
	n.Mu.Unlock()
	if err := f.run(n); err != nil {
		return fmt.Errorf("fault %s: %w", f.Name, err)
	}
	if err := n.Relink(func(all map[network.Way]network.Link) { clear(all) }); err != nil {
		return err
	}
	w := &n.Windows[len(n.Windows)-1]
	w.To = time.Since(n.Rec.Began)
	n.Note("%s is over", f.Name)
	if err := n.Whole(n.Caller.GoesOn(), cluster.Rest); err != nil {
		n.Found("stuck", "%v after %s the cluster is not whole: %v", cluster.Rest, f.Name, err)
		return cluster.ErrStuck
	}
	w.Whole = time.Since(n.Rec.Began)
	n.Say("whole after %.1f s", (w.Whole - w.To).Seconds())
	if err := n.Serves(n.Caller.GoesOn(), cluster.Rest); err != nil {
		n.Found("stuck", "%v after %s the cluster is whole, and does not serve: %v", cluster.Rest, f.Name, err)
		return cluster.ErrStuck
	}
	return nil
}

// does says what is being done, for the history and the report.
func (n *nemesis) does(format string, args ...any) {
	w := &n.Windows[len(n.Windows)-1]
	if w.What != "" {
		w.What += "; "
	}
	w.What += fmt.Sprintf(format, args...)
	n.Note(format, args...)
}

// wait waits some time, and a little when the storm is over.
func (n *nemesis) wait(least, most time.Duration) {
	d := least + time.Duration(n.Rnd.Int64N(int64(most-least)+1))
	if n.ctx.Err() != nil {
		d = min(d, least)
	}
	<-time.After(d)
}

// some draws nodes, in an order of its own.
func (n *nemesis) some(k int) []*cluster.Process {
	all := n.Members()
	n.Rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(k, len(all))]
}

// one draws a node.
func (n *nemesis) one() *cluster.Process { return n.some(1)[0] }

// Storms hurts a cluster for a while with some faults.
func Storms(storm context.Context, l *cluster.Lab, s *workloads.Servers, faults []Fault) error {
	return (&nemesis{Lab: l, Servers: s, ctx: storm}).storm(faults)
}
