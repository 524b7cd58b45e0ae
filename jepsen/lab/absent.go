package lab

// absent are the faults of the matrix that no run can have yet: they are
// reported as not run.
func absent() []Fault {
	why := func(format string, args ...any) func(*Config) error {
		return func(*Config) error { return notRun(format, args...) }
	}
	return []Fault{
		{Name: "clock", About: "clocks that step, drift or stop (F5)", needs: why("the program has no clock that can be set from outside; time namespaces do not move the wall clock, and setting the machine's moves every node's: the simulator does this")},
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
			if err := n.whole(n.ctx, rest); err != nil && n.ctx.Err() == nil {
				n.found("stuck", "%s runs %s: %v", p.name, build, err)
				return errStuck
			}
		}
	}
	return nil
}
