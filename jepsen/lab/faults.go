package lab

import (
	"errors"
	"slices"
	"time"
)

// Faults are all that there are; the F numbers are those of the fault matrix of
// the design.
func Faults() []Fault {
	return slices.Concat([]Fault{
		{Name: "kill", About: "kill -9 one node, start it again (F1)", run: func(n *nemesis) error { return n.killed(1) }},
		{Name: "kill-majority", About: "kill -9 most nodes at once (F1)", run: func(n *nemesis) error { return n.killed(len(n.members())/2 + 1) }},
		{Name: "kill-all", About: "kill -9 all nodes at once (F1)", run: func(n *nemesis) error { return n.killed(len(n.members())) }},
		{Name: "pause", About: "SIGSTOP one node, SIGCONT seconds later (F2)", run: func(n *nemesis) error { return n.paused(1) }},
		{Name: "pause-majority", About: "SIGSTOP most nodes (F2)", run: func(n *nemesis) error { return n.paused(len(n.members())/2 + 1) }},
		{Name: "restart", About: "SIGTERM one node, start it again (F13)", run: (*nemesis).restarted},
		{Name: "rolling", About: "SIGTERM and start each node in turn (F13)", run: (*nemesis).rolling},
		{Name: "partition", About: "cut one node off and heal, then kill, wipe and rejoin another (F3, F14)", run: (*nemesis).cutAndWiped},
	}, hunts(), masters(), cuts(), shapes(), damages(), changes(), pairs(), disks(), rotten(), lying(), strangers(), intruders(), certificates(), clocks(), groups(), builds())
}

func (n *nemesis) killed(k int) error { return n.killedThese(n.some(k)) }

func (n *nemesis) killedThese(all []*process) error {
	n.does("kill -9 %s", names(all))
	for _, p := range all {
		if err := p.kill(); err != nil {
			return err
		}
	}
	n.wait(0, 4*time.Second)
	n.does("start %s", names(all))
	for _, p := range all {
		if err := n.begin(p); err != nil {
			return err
		}
	}
	return nil
}

func (n *nemesis) paused(k int) error { return n.pausedThese(n.some(k)) }

func (n *nemesis) pausedThese(all []*process) error {
	n.does("SIGSTOP %s", names(all))
	for _, p := range all {
		if err := p.pause(true); err != nil {
			return err
		}
	}
	n.wait(time.Second, 10*time.Second)
	n.does("SIGCONT %s", names(all))
	var failed []error
	for _, p := range all {
		failed = append(failed, p.pause(false))
	}
	return errors.Join(failed...)
}

func (n *nemesis) restarted() error {
	p := n.one()
	n.does("restart %s", p.name)
	if err := p.stop(); err != nil {
		n.found("internal", "SIGTERM: %v", err) // a clean shutdown is promised (I18)
	}
	return n.begin(p)
}

func (n *nemesis) rolling() error {
	for _, p := range n.members() {
		n.does("restart %s", p.name)
		if err := p.stop(); err != nil {
			n.found("internal", "SIGTERM: %v", err)
		}
		if err := n.begin(p); err != nil {
			return err
		}
		if err := n.whole(n.caller.goesOn(), rest); err != nil {
			n.found("stuck", "a rolling restart: after that of %s: %v", p.name, err)
			return errStuck
		}
	}
	return nil
}

// cutAndWiped: one node is cut off from the others for a while, its clients still
// reach it; then another loses its disk.
func (n *nemesis) cutAndWiped() error {
	two := n.some(2)
	if err := n.isolated(two[0]); err != nil {
		return err
	}
	return disk{n}.emptied(two[1])
}
