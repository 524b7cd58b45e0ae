package lab

import (
	"context"
	"slices"
	"time"

	"github.com/norn-dev/norn/client"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// groups are the faults of the register's voters, and of members that change while
// something else happens (F12, F17).
func groups() []Fault {
	return []Fault{
		{Name: "voters", About: "of five nodes most of those that keep the register are killed; the others take tasks meanwhile, and lead what they led (F17)", nodes: 5, run: func(n *nemesis) error { return group{n}.fewer(func(all int) int { return all/2 + 1 }) }},
		{Name: "few-voters", About: "of five nodes fewer than half of those that keep the register are killed: it goes on, and so do the leaders (F17)", nodes: 5, run: func(n *nemesis) error { return group{n}.fewer(func(all int) int { return 1 + n.rnd.IntN((all-1)/2) }) }},
		{Name: "wipe-voter", About: "of five nodes one that keeps the register is killed, and comes back empty; it votes again as another one, or another node does in its place (F17)", nodes: 5, run: func(n *nemesis) error { return group{n}.emptied() }},
		{Name: "slow-voters", About: "of five nodes most of those that keep the register write it down late, and nothing else (F17)", nodes: 5, layers: moody, run: func(n *nemesis) error { return group{n}.slow(func(all int) int { return all/2 + 1 }) }},
		{Name: "few-slow-voters", About: "the same with fewer than half of them (F17)", nodes: 5, layers: moody, run: func(n *nemesis) error { return group{n}.slow(func(all int) int { return 1 + n.rnd.IntN((all-1)/2) }) }},
		{Name: "cut-data", About: "of eight nodes those that keep the register are cut off from those that do not (F17)", nodes: 8, run: func(n *nemesis) error { return group{n}.cutData() }},
		{Name: "cut-voters", About: "of five nodes those that keep the register are cut off from each other and from the others (F17)", nodes: 5, run: func(n *nemesis) error { return group{n}.scatteredVoters() }},
		{Name: "join-while-cut", About: "a node joins while another is cut off, and leaves again (F12, F22)", run: func(n *nemesis) error { return operator{n}.joinedWhileCut() }},
		{Name: "race", About: "two nodes join at once, one dies meanwhile, and both leave at once (F12)", run: func(n *nemesis) error { return operator{n}.raced() }},
		{Name: "swizzle", About: "the links of some nodes go one by one, and come back in another order (F4)", run: func(n *nemesis) error { return group{n}.swizzled() }},
	}
}

// group is the nemesis of those that keep the register, and of many links.
type group struct{ *nemesis }

// voters are the nodes that keep the register, as some node says.
func (n group) voters() (all []*process) {
	for _, p := range n.some(len(n.members())) {
		s, err := n.status(context.Background(), p)
		if err != nil {
			continue
		}
		for _, o := range n.members() {
			if slices.Contains(s.GetVoters(), o.name) {
				all = append(all, o)
			}
		}
		return all
	}
	return nil
}

func (n group) scatteredVoters() error {
	all := n.voters()
	n.does("cut %s off, each alone", names(all))
	return n.apart(cut(), func(from, to *process) bool { return slices.Contains(all, from) || slices.Contains(all, to) })
}

// swizzled: links go and come back one node at a time.
func (n group) swizzled() error {
	some := n.some(1 + n.rnd.IntN(len(n.members())))
	for _, p := range some {
		if err := n.off(p); err != nil {
			return err
		}
		n.wait(0, 1500*time.Millisecond)
	}
	n.wait(time.Second, 4*time.Second)
	for len(some) > 0 {
		i := n.rnd.IntN(len(some))
		p := some[i]
		some = slices.Delete(some, i, i+1)
		n.does("join %s again", p.name)
		err := n.relink(func(links map[way]link) {
			for w := range links { // Any order: those of one node go.
				if w.from == p.n && !off(some, w.to) || w.to == p.n && !off(some, w.from) {
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
func off(some []*process, node int) bool {
	return slices.ContainsFunc(some, func(p *process) bool { return p.n == node })
}

// leaves has a node leave, waits until it has left, and stops it.
func (n operator) leaves(witness, p *process) error {
	leave := func(ctx context.Context, c client.Cluster) (*nornv1.ClusterReply, error) {
		return c.Leave(ctx, p.name, client.ChangeOptions{})
	}
	p.may(true) // it ends when it has left
	return n.ask(witness, p.name+" leaves", leave)
}

// left waits until nodes have left, and stops them.
func (n operator) left(witness *process, all ...*process) error {
	for _, p := range all {
		if err := n.until(witness, p.name, "removed"); err != nil {
			return err
		}
		p.gone = true
		if err := p.stop(); err != nil {
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
	p, err := n.add()
	if err != nil {
		return err
	}
	n.does("%s joins", p.name)
	if err := n.begin(p); err != nil {
		return err
	}
	n.wait(2*time.Second, 8*time.Second)
	if err := n.heal(); err != nil {
		return err
	}
	if err := n.whole(context.Background(), rest); err != nil {
		n.found("stuck", "%s joins while %s is cut off: %v", p.name, two[0].name, err)
		return errStuck
	}
	if err := n.leaves(two[1], p); err != nil {
		return err
	}
	return n.left(two[1], p)
}

func (n operator) raced() error {
	two := n.some(2)
	victim, witness := two[0], two[1]
	var fresh []*process
	for range 2 {
		p, err := n.add()
		if err != nil {
			return err
		}
		fresh = append(fresh, p)
	}
	n.does("%s join", names(fresh))
	for _, p := range fresh {
		if err := n.begin(p); err != nil {
			return err
		}
	}
	n.wait(0, 3*time.Second)
	n.does("kill -9 %s, start it", victim.name)
	if err := victim.kill(); err != nil {
		return err
	}
	n.wait(0, 3*time.Second)
	if err := n.begin(victim); err != nil {
		return err
	}
	if err := n.whole(context.Background(), rest); err != nil {
		n.found("stuck", "%s join: %v", names(fresh), err)
		return errStuck
	}
	for _, p := range fresh {
		if err := n.leaves(witness, p); err != nil {
			return err
		}
	}
	return n.left(witness, fresh...)
}
