package lab

import "context"

// builds are the faults of nodes that run another build than the others.
func builds() []Fault {
	return []Fault{
		{Name: "upgrade", About: "each node in turn is stopped and started with an older build, then with the newer one (F13)", needs: func(c *Config) error {
			if c.Old == "" {
				return notRun("no older build was given")
			}
			return nil
		}, run: (*nemesis).upgraded},
	}
}

// upgraded goes back to the older build and forward again, one node at a time.
func (n *nemesis) upgraded() error {
	for _, build := range []string{n.cfg.Old, n.cfg.Norn} {
		for _, p := range n.members() {
			n.does("%s runs %s", p.name, build)
			if err := p.stop(); err != nil {
				n.found("internal", "SIGTERM: %v", err)
			}
			p.norn = build
			if err := n.begin(p); err != nil {
				return err
			}
			if err := n.whole(context.WithoutCancel(n.ctx), rest); err != nil {
				n.found("stuck", "%s runs %s: %v", p.name, build, err)
				return errStuck
			}
		}
	}
	return nil
}
