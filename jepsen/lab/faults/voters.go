package faults

import (
	"context"
	"slices"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/network"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// groups are the faults of the register's voters, and of members that change while
// something else happens (F12, F17).
func groups() []Fault {
	return []Fault{
		{Name: "voters", About: "of five nodes most of those that keep the register are killed; the others take tasks meanwhile, and lead what they led (F17)", Nodes: 5, run: func(n *nemesis) error { return group{n}.fewer(func(all int) int { return all/2 + 1 }) }},
		{Name: "few-voters", About: "of five nodes fewer than half of those that keep the register are killed: it goes on, and so do the leaders (F17)", Nodes: 5, run: func(n *nemesis) error { return group{n}.fewer(func(all int) int { return 1 + n.Rnd.IntN((all-1)/2) }) }},
		{Name: "wipe-voter", About: "of five nodes one that keeps the register is killed, and comes back empty; it votes again as another one, or another node does in its place (F17)", Nodes: 5, run: func(n *nemesis) error { return group{n}.emptied() }},
		{Name: "slow-voters", About: "of five nodes most of those that keep the register write it down late, and nothing else (F17)", Nodes: 5, Layers: cluster.Moody, run: func(n *nemesis) error { return group{n}.slow(func(all int) int { return all/2 + 1 }) }},
		{Name: "few-slow-voters", About: "the same with fewer than half of them (F17)", Nodes: 5, Layers: cluster.Moody, run: func(n *nemesis) error { return group{n}.slow(func(all int) int { return 1 + n.Rnd.IntN((all-1)/2) }) }},
		{Name: "cut-data", About: "of eight nodes those that keep the register are cut off from those that do not (F17)", Nodes: 8, run: func(n *nemesis) error { return group{n}.cutData() }},
		{Name: "cut-voters", About: "of five nodes those that keep the register are cut off from each other and from the others (F17)", Nodes: 5, run: func(n *nemesis) error { return group{n}.scatteredVoters() }},
		{Name: "join-while-cut", About: "a node joins while another is cut off, and leaves again (F12, F22)", run: func(n *nemesis) error { return operator{n}.joinedWhileCut() }},
		{Name: "race", About: "two nodes join at once, one dies meanwhile, and both leave at once (F12)", run: func(n *nemesis) error { return operator{n}.raced() }},
		{Name: "swizzle", About: "the links of some nodes go one by one, and come back in another order (F4)", run: func(n *nemesis) error { return group{n}.swizzled() }},
	}
}

// group is the nemesis of those that keep the register, and of many links.
type group struct{ *nemesis }

// voters are the nodes that keep the register, as some node says.
func (n group) voters() (all []*cluster.Process) {
	for _, p := range n.some(len(n.Members())) {
		s, err := n.Status(context.Background(), p)
		if err != nil {
			continue
		}
		for _, o := range n.Members() {
			if slices.Contains(s.GetVoters(), o.Name) {
				all = append(all, o)
			}
		}
		return all
	}
	return nil
}

func (n group) scatteredVoters() error {
	all := n.voters()
	n.does("cut %s off, each alone", cluster.Names(all))
	return n.apart(network.Cut(), func(from, to *cluster.Process) bool { return slices.Contains(all, from) || slices.Contains(all, to) })
}

// swizzled: links go and come back one node at a time.
func (n group) swizzled() error {
	some := n.some(1 + n.Rnd.IntN(len(n.Members())))
	for _, p := range some {
		if err := n.off(p); err != nil {
			return err
		}
		n.wait(0, 1500*time.Millisecond)
	}
	n.wait(time.Second, 4*time.Second)
	for len(some) > 0 {
		i := n.Rnd.IntN(len(some))
		p := some[i]
		some = slices.Delete(some, i, i+1)
		n.does("join %s again", p.Name)
		err := n.Relink(func(links map[network.Way]network.Link) {
			for w := range links { // Any order: those of one node go.
				if w.From == p.N && !off(some, w.To) || w.To == p.N && !off(some, w.From) {
					delete(links, w)
				}
			}
		})
		if err != nil {
			return err
		}
		n.wait(0, 1500*time.Millisecond)
	}
	return n.heal()
}

// off tells whether a node is one of some.
func off(some []*cluster.Process, node int) bool {
	return slices.ContainsFunc(some, func(p *cluster.Process) bool { return p.N == node })
}

// leaves has a node leave, waits until it has left, and stops it.
func (n operator) leaves(witness, p *cluster.Process) error {
	leave := func(ctx context.Context, c client.Cluster) (*nornv1.ClusterReply, error) {
		return c.Leave(ctx, p.Name, client.ChangeOptions{})
	}
	p.May(true) // it ends when it has left
	return n.ask(witness, p.Name+" leaves", leave)
}

// left waits until nodes have left, and stops them.
func (n operator) left(witness *cluster.Process, all ...*cluster.Process) error {
	for _, p := range all {
		if err := n.until(witness, p.Name, "removed"); err != nil {
			return err
		}
		p.Gone = true
		if err := p.Stop(); err != nil {
			return err
		}
	}
	return nil
}

func (n operator) joinedWhileCut() error {
	two := n.some(2)
	if err := n.nemesis.off(two[0]); err != nil {
		return err
	}
	p, err := n.Add()
	if err != nil {
		return err
	}
	n.does("%s joins", p.Name)
	if err := n.Begin(p); err != nil {
		return err
	}
	n.wait(2*time.Second, 8*time.Second)
	if err := n.heal(); err != nil {
		return err
	}
	if err := n.Whole(context.Background(), cluster.Rest); err != nil {
		n.Found("stuck", "%s joins while %s is cut off: %v", p.Name, two[0].Name, err)
		return cluster.ErrStuck
	}
	if err := n.leaves(two[1], p); err != nil {
		return err
	}
	return n.left(two[1], p)
}

func (n operator) raced() error {
	two := n.some(2)
	victim, witness := two[0], two[1]
	var fresh []*cluster.Process
	for range 2 {
		p, err := n.Add()
		if err != nil {
			return err
		}
		fresh = append(fresh, p)
	}
	n.does("%s join", cluster.Names(fresh))
	for _, p := range fresh {
		if err := n.Begin(p); err != nil {
			return err
		}
	}
	n.wait(0, 3*time.Second)
	n.does("kill -9 %s, start it", victim.Name)
	if err := victim.Kill(); err != nil {
		return err
	}
	n.wait(0, 3*time.Second)
	if err := n.Begin(victim); err != nil {
		return err
	}
	if err := n.Whole(context.Background(), cluster.Rest); err != nil {
		n.Found("stuck", "%s join: %v", cluster.Names(fresh), err)
		return cluster.ErrStuck
	}
	for _, p := range fresh {
		if err := n.leaves(witness, p); err != nil {
			return err
		}
	}
	return n.left(witness, fresh...)
}
