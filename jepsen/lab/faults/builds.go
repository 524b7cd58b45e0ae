package faults

import (
	"time"

	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/machine"
)

// builds are the faults of nodes that run another build than the others.
func builds() []Fault {
	two := func(c *cluster.Config) error {
		if c.Old == "" {
			return machine.Unable("no older build was given")
		}
		if !turns(c.Fault) || settableIn(c.Old) {
			return nil
		}
		return machine.Unable("the clock of %s cannot be set, and other faults of the run set the nodes' clocks: build it with -tags norntest", c.Old)
	}
	return []Fault{
		{Name: "upgrade", About: "each node in turn is stopped and started with an older build, then with the newer one (F13)", Needs: two, run: func(n *nemesis) error { return n.upgraded(false) }},
		{Name: "upgrade-while-cut", About: "the same while one node is cut off, another one each time, or the very one (F13, F22)", Needs: two, run: func(n *nemesis) error { return n.upgraded(true) }},
	}
}

// upgraded goes back to the older build and forward again, one node at a time.
func (n *nemesis) upgraded(cut bool) error {
	for _, back := range []bool{false, true} {
		for _, p := range n.Members() {
			build := n.Cfg.Old
			if back {
				build = p.Own
			}
			if cut {
				if err := n.off(n.one()); err != nil {
					return err
				}
			}
			n.does("%s runs %s", p.Name, build)
			if err := p.Stop(); err != nil {
				n.Found("internal", "SIGTERM: %v", err)
			}
			p.Norn = build
			if err := n.Begin(p); err != nil {
				return err
			}
			if cut {
				n.wait(0, 4*time.Second)
				if err := n.heal(); err != nil {
					return err
				}
			}
			if err := n.Whole(n.Caller.GoesOn(), cluster.Rest); err != nil {
				n.Found("stuck", "%s runs %s: %v", p.Name, build, err)
				return cluster.ErrStuck
			}
		}
	}
	return nil
}
