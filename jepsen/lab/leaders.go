package lab

import (
	"context"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// hunts are the faults that look for leaders (F23).
func hunts() []Fault {
	hunt := func(name, about string, run func(*nemesis, *process) error) Fault {
		return Fault{Name: name, About: about, run: func(n *nemesis) error { return run(n, n.leader()) }}
	}
	return []Fault{
		hunt("kill-leader", "kill -9 the node that leads most partitions, start it again (F1, F23)", func(n *nemesis, p *process) error { return n.killedThese([]*process{p}) }),
		hunt("isolate-leader", "cut the node that leads most partitions off (F3, F23)", (*nemesis).isolated),
		hunt("pause-leader", "SIGSTOP the node that leads most partitions, SIGCONT seconds later (F2, F23)", func(n *nemesis, p *process) error { return n.pausedThese([]*process{p}) }),
		{Name: "leader-hunt", About: "kill -9 whoever leads most, five times over, as soon as the others have taken over (F23)", run: (*nemesis).hunted},
	}
}

// leader is the node that leads most partitions, as some node says; any one when
// nobody says.
func (n *nemesis) leader() *process {
	all := n.some(len(n.members()))
	best, led := all[0], uint32(0)
	for _, p := range all {
		s, err := n.status(context.Background(), p)
		if err != nil {
			continue
		}
		for _, m := range s.GetNodes() {
			if o := n.named(m); o != nil && m.GetLed() > led {
				best, led = o, m.GetLed()
			}
		}
		break
	}
	n.does("%s leads %d partitions", best.name, led)
	return best
}

// named finds the process of a member that is up.
func (n *nemesis) named(m *nornv1.NodeStatus) *process {
	for _, p := range n.members() {
		if p.name == m.GetName() && m.GetState() == "up" {
			return p
		}
	}
	return nil
}

func (n *nemesis) hunted() error {
	for range 5 {
		p := n.leader()
		n.does("kill -9 %s", p.name)
		if err := p.kill(); err != nil {
			return err
		}
		n.wait(time.Second, 3*time.Second)
		if err := n.begin(p); err != nil {
			return err
		}
		n.wait(0, time.Second)
	}
	return nil
}
