package lab

import "time"

// pairs are faults that come together (F22).
func pairs() []Fault {
	return []Fault{
		{Name: "cut-and-kill", About: "one node is cut off; meanwhile another is killed and started (F22)", run: (*nemesis).cutAndKilled},
		{Name: "cut-and-pause", About: "one node is cut off; meanwhile another is stopped and goes on (F22)", run: (*nemesis).cutAndPaused},
		{Name: "kill-while-joining", About: "a wiped node joins; meanwhile another is killed and started (F22)", run: (*nemesis).killedWhileJoining},
	}
}

// off cuts one node off until links are healed.
func (n *nemesis) off(p *process) error {
	n.does("cut %s off", p.name)
	all := n.members()
	return n.relink(func(links map[way]link) {
		for _, o := range all {
			if o != p {
				links[way{o.n, p.n}], links[way{p.n, o.n}] = cut(), cut()
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
	n.does("kill -9 %s", two[1].name)
	if err := two[1].kill(); err != nil {
		return err
	}
	n.wait(0, 4*time.Second)
	if n.rnd.IntN(2) == 0 { // it starts without the other
		n.does("start %s", two[1].name)
		if err := n.begin(two[1]); err != nil {
			return err
		}
		n.wait(0, 3*time.Second)
		return n.heal()
	}
	if err := n.heal(); err != nil {
		return err
	}
	n.does("start %s", two[1].name)
	return n.begin(two[1])
}

func (n *nemesis) cutAndPaused() error {
	two := n.some(2)
	if err := n.off(two[0]); err != nil {
		return err
	}
	n.does("SIGSTOP %s", two[1].name)
	if err := two[1].pause(true); err != nil {
		return err
	}
	n.wait(time.Second, 6*time.Second)
	if err := n.heal(); err != nil {
		return err
	}
	n.wait(0, 3*time.Second)
	n.does("SIGCONT %s", two[1].name)
	return two[1].pause(false)
}

func (n *nemesis) killedWhileJoining() error {
	two := n.some(2)
	if err := (disk{n}).emptied(two[0]); err != nil {
		return err
	}
	n.wait(0, 3*time.Second)
	n.does("kill -9 %s", two[1].name)
	if err := two[1].kill(); err != nil {
		return err
	}
	n.wait(0, 3*time.Second)
	n.does("start %s", two[1].name)
	return n.begin(two[1])
}
