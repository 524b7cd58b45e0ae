package faults

import (
	"context"
	"slices"
	"time"

	"github.com/norn-dev/norn/jepsen/lab/cluster"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// hunts are the faults that look for leaders (F23).
func hunts() []Fault {
	hunt := func(name, about string, run func(*nemesis, *cluster.Process) error) Fault {
		return Fault{Name: name, About: about, run: func(n *nemesis) error { return run(n, n.leader()) }}
	}
	return []Fault{
		hunt("kill-leader", "kill -9 the node that leads most partitions, start it again (F1, F23)", func(n *nemesis, p *cluster.Process) error { return n.killedThese([]*cluster.Process{p}) }),
		hunt("isolate-leader", "cut the node that leads most partitions off (F3, F23)", (*nemesis).isolated),
		hunt("pause-leader", "SIGSTOP the node that leads most partitions, SIGCONT seconds later (F2, F23)", func(n *nemesis, p *cluster.Process) error { return n.pausedThese([]*cluster.Process{p}) }),
		{Name: "leader-hunt", About: "kill -9 whoever leads most, five times over, as soon as the others have taken over (F23)", run: (*nemesis).hunted},
	}
}

// leader is the node that leads most partitions, as some node says; any one when
// nobody says.
func (n *nemesis) leader() *cluster.Process {
	all := n.some(len(n.Members()))
	best, led := all[0], uint32(0)
	for _, p := range all {
		s, err := n.Status(context.Background(), p)
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
	n.does("%s leads %d partitions", best.Name, led)
	return best
}

// named finds the process of a member that is up.
func (n *nemesis) named(m *nornv1.NodeStatus) *cluster.Process {
	for _, p := range n.Members() {
		if p.Name == m.GetName() && m.GetState() == "up" {
			return p
		}
	}
	return nil
}

func (n *nemesis) hunted() error {
	for range 5 {
		p := n.leader()
		n.does("kill -9 %s", p.Name)
		if err := p.Kill(); err != nil {
			return err
		}
		n.wait(time.Second, 3*time.Second)
		if err := n.Begin(p); err != nil {
			return err
		}
		n.wait(0, time.Second)
	}
	return nil
}

// masters are the faults that look for the node that launches schedules (F23).
func masters() []Fault {
	hunt := func(name, about string, run func(*nemesis, *cluster.Process) error) Fault {
		return Fault{Name: name, About: about, run: func(n *nemesis) error { return run(n, n.master()) }}
	}
	return []Fault{
		hunt("kill-master", "kill -9 the node that launches schedules, which leads the register, start it again (F1, F23)", func(n *nemesis, p *cluster.Process) error { return n.killedThese([]*cluster.Process{p}) }),
		hunt("isolate-master", "cut the node that launches schedules off (F3, F23)", (*nemesis).isolated),
		hunt("pause-master", "SIGSTOP the node that launches schedules, SIGCONT seconds later (F2, F23)", func(n *nemesis, p *cluster.Process) error { return n.pausedThese([]*cluster.Process{p}) }),
	}
}

// master is the node that launches schedules, as some node says; any one when
// nobody says.
func (n *nemesis) master() *cluster.Process {
	all := n.Members()
	for _, p := range n.some(len(all)) {
		to, err := n.Dial(3*time.Second, p)
		if err != nil {
			continue
		}
		s, err := to.Schedules().Status(context.Background())
		if i := slices.IndexFunc(all, func(o *cluster.Process) bool { return o.Name == s.GetMaster() }); err == nil && i >= 0 {
			n.does("%s is master, the %d. time that one is", all[i].Name, s.GetTerm())
			return all[i]
		}
	}
	return n.one()
}
