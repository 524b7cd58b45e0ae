package faults

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/machine"
	"github.com/norn-dev/norn/jepsen/lab/network"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// What the register's voters are for is to say who leads what. So without a majority of
// them nothing changes, and nothing ends: who leads goes on under its epoch, enqueues go
// on, and whoever asks is told that the register does not answer. While a majority is
// there, slow or not, nothing of that is seen.

// Of the register, in faults of its voters.
const (
	probeQueue = "register-probe" // whose note is set to see whether the register takes a change
	refuses    = 3 * time.Second  // a change may take so long before it counts as not taken
	tells      = 10 * time.Second // after so long a node says that there is no majority

	electionTimeout = time.Second // of the register, by default
)

// change has the register take a change, asked for through a node, and tells how long
// that took.
func (n group) change(p *cluster.Process, limit time.Duration) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c, err := client.Dial(ctx, []string{p.Dial}, n.Options()...)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	began := time.Now()
	_, err = c.Queues().Set(ctx, probeQueue, client.QueueChange{Settings: &nornv1.QueueSettings{Note: fmt.Sprint(began.UnixNano())}, Fields: []string{"note"}})
	return time.Since(began), err
}

// changes has the register take a change through each of some nodes: it has a majority.
// It gives the shortest time that one took.
func (n group) changes(through []*cluster.Process) (best time.Duration) {
	best = machine.Patience
	for _, p := range through {
		before := n.Strain.Patient(p)
		took, err := n.change(p, machine.Patience)
		if err != nil && !n.Strain.Starved(p, before) {
			n.Found("register", "a majority of it is there, and a change through %s is not taken in %v: %v", p.Name, machine.Patience, err)
		}
		best = min(best, took)
	}
	return best
}

// silent has no node of some get a change of the register done, nor say that it has a
// majority: it has none.
func (n group) silent(through []*cluster.Process) {
	for _, p := range through {
		if took, err := n.change(p, refuses); err == nil {
			n.Found("register", "no majority of it is there, and a change through %s is taken in %v", p.Name, took)
		} else {
			n.does("%s: no change of the register (%.80v)", p.Name, err)
		}
	}
	for _, p := range through {
		said := true
		for end := time.Now().Add(tells); said && time.Now().Before(end); <-time.After(200 * time.Millisecond) {
			if s, err := n.Status(context.Background(), p); err == nil {
				said = s.GetRegister().GetMajority()
			}
		}
		if said {
			n.Found("register", "no majority of it is there, and after %v %s does not say so", tells, p.Name)
		}
	}
}

// rest are the members that are none of some.
func (n group) rest(some []*cluster.Process) []*cluster.Process {
	return slices.DeleteFunc(slices.Clone(n.Members()), func(p *cluster.Process) bool { return slices.Contains(some, p) })
}

// drawn are some of the voters, as many as a function says.
func (n group) drawn(many func(all int) int) (some []*cluster.Process, all int) {
	voters := n.voters()
	n.Rnd.Shuffle(len(voters), func(i, j int) { voters[i], voters[j] = voters[j], voters[i] })
	return voters[:min(len(voters), many(len(voters)))], len(voters)
}

// among tells of two nodes whether neither is one of some: they reach each other.
func among(dead []*cluster.Process) func(a, b *cluster.Process) bool {
	return func(a, b *cluster.Process) bool { return !slices.Contains(dead, a) && !slices.Contains(dead, b) }
}

// fewer has some voters killed, looks at what the others do, and starts them again.
func (n group) fewer(many func(all int) int) error {
	all, err := n.seats()
	if err != nil {
		return err
	}
	dead, voters := n.drawn(many)
	n.does("kill -9 %s of %d that keep the register", cluster.Names(dead), voters)
	for _, p := range dead {
		if err := p.Kill(); err != nil {
			return err
		}
	}
	others := n.rest(dead)
	if 2*(voters-len(dead)) > voters {
		n.does("the register takes a change after %v", n.changes(others).Round(time.Millisecond))
	} else {
		n.silent(others)
	}
	if err := n.hold(kept(all, among(dead))); err != nil {
		return err
	}
	n.wait(time.Second, 6*time.Second)
	n.does("start %s", cluster.Names(dead))
	for _, p := range dead {
		if err := n.Begin(p); err != nil {
			return err
		}
	}
	return nil
}

// slow has the register's files of some voters written late. A node does so beside what
// it does with tasks.
func (n group) slow(many func(all int) int) error {
	all, err := n.seats()
	if err != nil {
		return err
	}
	some, voters := n.drawn(many)
	late := n.upTo(2 * time.Second)
	n.does("every fsync of the register of %s, of %d that keep it, takes %v", cluster.Names(some), voters, late.Round(time.Millisecond))
	before := map[*cluster.Process]int64{}
	for _, p := range some {
		before[p] = p.Mood.Tardy.Load()
		p.Mood.Slow(registerDir, late)
	}
	n.wait(time.Second, 6*time.Second)
	if err := n.hold(kept(all, among(nil))); err != nil {
		return err
	}
	took, most := late, 2*len(some) > voters
	if most && 2*late >= electionTimeout {
		// A vote is written down too, so there may be no leader of the register for long.
		took, err = n.change(n.one(), machine.Patience)
		n.does("a change of it takes %v (%v)", took.Round(time.Millisecond), err)
	} else {
		took = n.changes(n.some(2))
		n.does("it takes a change after %v", took.Round(time.Millisecond))
	}
	n.wait(time.Second, 6*time.Second)
	for _, p := range some {
		p.Mood.Slow("", 0)
		cluster.Proven(n.Lab, p.Mood.Tardy.Load() > before[p], "slow voters: no fsync of the register of %s was late", p.Name)
	}
	if most { // one of them must have written it down
		cluster.Proven(n.Lab, took >= late, "slow voters: a change took %v, and most need %v to write it down", took, late)
	}
	return n.hold(kept(all, among(nil)))
}

// registerDir is where a node keeps its part of the register.
const registerDir = "register"

// emptied: a voter loses what it knew. Nobody counts on what it has promised: it is
// another one when it comes back.
func (n group) emptied() error {
	all, err := n.seats()
	if err != nil {
		return err
	}
	dead, voters := n.drawn(func(int) int { return 1 })
	if len(dead) == 0 {
		cluster.Proven(n.Lab, false, "nobody says who keeps the register")
		return nil
	}
	p, others := dead[0], n.rest(dead)
	was, voted, err := n.incarnation(others[0], p)
	if err != nil {
		return err
	}
	cluster.Proven(n.Lab, voted, "%s kept no register before it was wiped", p.Name)
	n.does("kill -9 and wipe %s, which keeps the register as %.8s", p.Name, was)
	if err := p.Kill(); err != nil {
		return err
	}
	n.Wiped(p)
	if err := p.Wipe(); err != nil {
		return err
	}
	n.does("the register takes a change after %v", n.changes(others).Round(time.Millisecond))
	if err := n.hold(kept(all, among(dead))); err != nil {
		return err
	}
	n.does("start %s empty", p.Name)
	if err := n.Begin(p); err != nil {
		return err
	}
	if err := n.Whole(n.Caller.GoesOn(), cluster.Rest); err != nil {
		n.Found("stuck", "%s was wiped, which kept the register: %v", p.Name, err)
		return cluster.ErrStuck
	}
	return n.seatedAgain(others[0], p, was, voters)
}

// seatedAgain waits until as many keep the register as before one of them was wiped: that
// one, as another incarnation, or where there are more than five nodes another one in its place.
func (n group) seatedAgain(through, p *cluster.Process, was string, voters int) error {
	now, last := "", error(nil)
	for end := time.Now().Add(cluster.Rest); time.Now().Before(end) && !n.Caller.Ended(); <-time.After(200 * time.Millisecond) {
		votes := false
		if now, votes, last = n.incarnation(through, p); last != nil {
			continue
		}
		if now == was {
			n.Found("register", "%s was wiped and is still %s: what it had promised counts", p.Name, now) // I7, K4
			return nil
		}
		switch {
		case votes:
			n.does("%s keeps the register as %.8s", p.Name, now)
			return nil
		case len(n.voters()) >= voters:
			n.does("%s is %.8s now, and another one keeps the register in its place", p.Name, now)
			return nil
		}
		last = fmt.Errorf("fewer than %d keep it", voters)
	}
	n.Found("stuck", "%s was wiped and has come back as %.8s, and the register is not kept by %d nodes after %v: %v", p.Name, now, voters, cluster.Rest, last)
	return cluster.ErrStuck
}

// incarnation is what tells a node that is up from others of its name, as another one
// sees it, and whether it keeps the register.
func (n group) incarnation(through, p *cluster.Process) (is string, votes bool, err error) {
	s, err := n.Status(context.Background(), through)
	if err != nil {
		return "", false, err
	}
	for _, m := range s.GetNodes() {
		if m.GetName() == p.Name && m.GetState() == "up" {
			return m.GetIncarnation(), slices.Contains(s.GetVoters(), p.Name), nil
		}
	}
	return "", false, fmt.Errorf("%s is not up", p.Name)
}

// cutData: those that keep the register are cut off from those that do not. Who leads
// there goes on, and nobody else is elected; on the other side everything goes on.
func (n group) cutData() error {
	all, err := n.seats()
	if err != nil {
		return err
	}
	voters, _ := n.drawn(func(all int) int { return all })
	data := n.rest(voters)
	cluster.Proven(n.Lab, len(data) > 0, "all nodes keep the register, there is nobody to cut off")
	n.does("cut %s off from %s, which keep the register", cluster.Names(data), cluster.Names(voters))
	same := func(a, b *cluster.Process) bool { return slices.Contains(data, a) == slices.Contains(data, b) }
	err = n.Relink(func(links map[network.Way]network.Link) {
		for _, from := range n.Members() {
			for _, to := range n.Members() {
				if !same(from, to) {
					links[network.Way{From: from.N, To: to.N}] = network.Cut()
				}
			}
		}
	})
	if err != nil {
		return err
	}
	n.silent(data)
	n.does("elsewhere the register takes a change after %v", n.changes(voters).Round(time.Millisecond))
	still := kept(all, same)
	n.does("%d of them are led from the side without it", len(slices.DeleteFunc(slices.Clone(still), func(s seat) bool { return !slices.Contains(data, s.leader) })))
	if err := n.hold(still); err != nil {
		return err
	}
	n.wait(time.Second, 6*time.Second)
	return n.heal()
}
