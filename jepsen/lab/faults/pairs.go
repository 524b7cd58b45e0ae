package faults

import (
	"time"

	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/network"
)

// pairs are faults that come together (F22).
func pairs() []Fault {
	return []Fault{
		{Name: "cut-and-kill", About: "one node is cut off; meanwhile another is killed and started (F22)", run: (*nemesis).cutAndKilled},
		{Name: "cut-and-pause", About: "one node is cut off; meanwhile another is stopped and goes on (F22)", run: (*nemesis).cutAndPaused},
		{Name: "kill-while-joining", About: "a wiped node joins; meanwhile another is killed and started (F22)", run: (*nemesis).killedWhileJoining},
	}
}

// off cuts one node off until links are healed.
func (n *nemesis) off(p *cluster.Process) error {
	n.does("cut %s off", p.Name)
	all := n.Members()
	return n.Relink(func(links map[network.Way]network.Link) {
		for _, o := range all {
			if o != p {
				links[network.Way{From: o.N, To: p.N}], links[network.Way{From: p.N, To: o.N}] = network.Cut(), network.Cut()
			}
		}
	})
}

func (n *nemesis) cutAndKilled() error {
	two := n.some(2)
	if err := n.off(two[0]); err != nil {
		return err
	}
	n.wait(0, 3*time.Second)
	n.does("kill -9 %s", two[1].Name)
	if err := two[1].Kill(); err != nil {
		return err
	}
	n.wait(0, 4*time.Second)
	if n.Rnd.IntN(2) == 0 { // it starts without the other
		n.does("start %s", two[1].Name)
		if err := n.Begin(two[1]); err != nil {
			return err
		}
		n.wait(0, 3*time.Second)
		return n.heal()
	}
	if err := n.heal(); err != nil {
		return err
	}
	n.does("start %s", two[1].Name)
	return n.Begin(two[1])
}

func (n *nemesis) cutAndPaused() error {
	two := n.some(2)
	if err := n.off(two[0]); err != nil {
		return err
	}
	n.does("SIGSTOP %s", two[1].Name)
	if err := two[1].Pause(true); err != nil {
		return err
	}
	n.wait(time.Second, 6*time.Second)
	if err := n.heal(); err != nil {
		return err
	}
	n.wait(0, 3*time.Second)
	n.does("SIGCONT %s", two[1].Name)
	return two[1].Pause(false)
}

func (n *nemesis) killedWhileJoining() error {
	two := n.some(2)
	if err := (disk{n}).emptied(two[0]); err != nil {
		return err
	}
	n.wait(0, 3*time.Second)
	n.does("kill -9 %s", two[1].Name)
	if err := two[1].Kill(); err != nil {
		return err
	}
	n.wait(0, 3*time.Second)
	n.does("start %s", two[1].Name)
	return n.Begin(two[1])
}
