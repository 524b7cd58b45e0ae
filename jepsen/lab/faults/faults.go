package faults

import (
	"errors"
	"slices"
	"time"

	"github.com/norn-dev/norn/jepsen/lab/cluster"
)

// Faults are all that there are; the F numbers are those of the fault matrix of
// the design.
func Faults() []Fault {
	return slices.Concat([]Fault{
		{Name: "kill", About: "kill -9 one node, start it again (F1)", run: func(n *nemesis) error { return n.killed(1) }},
		{Name: "kill-majority", About: "kill -9 most nodes at once (F1)", run: func(n *nemesis) error { return n.killed(len(n.Members())/2 + 1) }},
		{Name: "kill-all", About: "kill -9 all nodes at once (F1)", run: func(n *nemesis) error { return n.killed(len(n.Members())) }},
		{Name: "pause", About: "SIGSTOP one node, SIGCONT seconds later (F2)", run: func(n *nemesis) error { return n.paused(1) }},
		{Name: "pause-majority", About: "SIGSTOP most nodes (F2)", run: func(n *nemesis) error { return n.paused(len(n.Members())/2 + 1) }},
		{Name: "restart", About: "SIGTERM one node, start it again (F13)", run: (*nemesis).restarted},
		{Name: "rolling", About: "SIGTERM and start each node in turn (F13)", run: (*nemesis).rolling},
		{Name: "partition", About: "cut one node off and heal, then kill, wipe and rejoin another (F3, F14)", run: (*nemesis).cutAndWiped},
	}, hunts(), masters(), cuts(), shapes(), damages(), changes(), pairs(), disks(), rotten(), lying(), strangers(), intruders(), certificates(), clocks(), groups(), builds())
}

func (n *nemesis) killed(k int) error { return n.killedThese(n.some(k)) }

func (n *nemesis) killedThese(all []*cluster.Process) error {
	n.does("kill -9 %s", cluster.Names(all))
	for _, p := range all {
		if err := p.Kill(); err != nil {
			return err
		}
	}
	n.wait(0, 4*time.Second)
	n.does("start %s", cluster.Names(all))
	for _, p := range all {
		if err := n.Begin(p); err != nil {
			return err
		}
	}
	return nil
}

func (n *nemesis) paused(k int) error { return n.pausedThese(n.some(k)) }

func (n *nemesis) pausedThese(all []*cluster.Process) error {
	n.does("SIGSTOP %s", cluster.Names(all))
	for _, p := range all {
		if err := p.Pause(true); err != nil {
			return err
		}
	}
	n.wait(time.Second, 10*time.Second)
	n.does("SIGCONT %s", cluster.Names(all))
	var failed []error
	for _, p := range all {
		failed = append(failed, p.Pause(false))
	}
	return errors.Join(failed...)
}

func (n *nemesis) restarted() error {
	p := n.one()
	n.does("restart %s", p.Name)
	if err := p.Stop(); err != nil {
		n.Found("internal", "SIGTERM: %v", err) // a clean shutdown is promised (I18)
	}
	return n.Begin(p)
}

func (n *nemesis) rolling() error {
	for _, p := range n.Members() {
		n.does("restart %s", p.Name)
		if err := p.Stop(); err != nil {
			n.Found("internal", "SIGTERM: %v", err)
		}
		if err := n.Begin(p); err != nil {
			return err
		}
		if err := n.Whole(n.Caller.GoesOn(), cluster.Rest); err != nil {
			n.Found("stuck", "a rolling restart: after that of %s: %v", p.Name, err)
			return cluster.ErrStuck
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
