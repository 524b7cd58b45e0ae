package lab

import (
	"time"
)

// builds are the faults of nodes that run another build than the others.
func builds() []Fault {
	two := func(c *Config) error {
		if c.Old == "" {
			return notRun("no older build was given")
		}
		if !turns(c.Fault) || settableIn(c.Old) {
			return nil
		}
		return notRun("the clock of %s cannot be set, and other faults of the run set the nodes' clocks: build it with -tags norntest", c.Old)
	}
	return []Fault{
		{Name: "upgrade", About: "each node in turn is stopped and started with an older build, then with the newer one (F13)", needs: two, run: func(n *nemesis) error { return n.upgraded(false) }},
		{Name: "upgrade-while-cut", About: "the same while one node is cut off, another one each time, or the very one (F13, F22)", needs: two, run: func(n *nemesis) error { return n.upgraded(true) }},
	}
}

// upgraded goes back to the older build and forward again, one node at a time.
func (n *nemesis) upgraded(cut bool) error {
	for _, back := range []bool{false, true} {
		for _, p := range n.members() {
			build := n.cfg.Old
			if back {
				build = p.own
			}
			if cut {
				if err := n.off(n.one()); err != nil {
					return err
				}
			}
			n.does("%s runs %s", p.name, build)
			if err := p.stop(); err != nil {
				n.found("internal", "SIGTERM: %v", err)
			}
			p.norn = build
			if err := n.begin(p); err != nil {
				return err
			}
			if cut {
				n.wait(0, 4*time.Second)
				if err := n.heal(); err != nil {
					return err
				}
			}
			if err := n.whole(n.caller.goesOn(), rest); err != nil {
				n.found("stuck", "%s runs %s: %v", p.name, build, err)
				return errStuck
			}
		}
	}
	return nil
}
