package sim

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/sim/disk"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/world"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/placement"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/group"
	"github.com/norn-dev/norn/register/wire"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// victim draws a node whose disk may get lost: everything on it is durable on
// another member of the cohort it belongs to, and the register keeps its
// majority. Nothing promises more.
func (f nemesis) victim() *node {
	n := world.Pick(&f.s.World, f.nodes)
	if slices.ContainsFunc(f.nodes, func(o *node) bool { return !o.away && !o.up && o != n }) || !f.mayLose(n) {
		return nil
	}
	return n
}

// mayLose tells whether what is on a disk may get lost: one at a time, with
// everything elsewhere. Nothing gets lost while something has rotted that nobody has
// read yet: its node is given partitions meanwhile, as any other, and then one of them
// could lack a majority.
func (f nemesis) mayLose(n *node) bool {
	recent := func(o *node) bool {
		return o.hurt && f.s.Now-o.since < int64(30*time.Second) || o != n && (o.disk.Bad != "" || o.cells.Bad != "")
	}
	return n.up && !n.away && !slices.ContainsFunc(f.nodes, recent) &&
		len(f.members()) >= 3 && len(f.cells) > 0 && f.spare(n) && f.votes(n) && f.held(n)
}

// intact tells whether no cohort has a member that has lost anything. What rots now
// may be read when its node is in any of them.
func (f nemesis) intact() bool {
	for p := range f.cells {
		for _, m := range f.cells[p].Cohort {
			if o := f.find(m); o == nil || o.self != m || o.away || o.hurt {
				return false
			}
		}
	}
	return true
}

// held tells whether every cohort has a majority of members without a node that
// have never lost anything: of fewer nobody may copy, an operator must decide. Who is
// away for longer than anything is remembered does not count. Where
// one has lost something already, whoever is to take its place may be let in just now,
// by anybody, with what it knows of the register. A cohort that was asked for counts like
// one that is: whatever is lost meanwhile, the register may grant it.
func (f nemesis) held(n *node) bool {
	var views []*placement.View
	for _, o := range f.alive() {
		views = append(views, placement.See(o.peers.state(), nil))
	}
	if len(views) == 0 {
		return false
	}
	for p := range f.cells {
		planned := func(v *placement.View) bool { return slices.Contains(v.Planned(ring.Partition(p)), n.self) }
		cohort := f.cells[p].Cohort
		left := whole(f, cohort, n)
		switch {
		case slices.Contains(cohort, n.self):
			if left < quorum.Majority(len(cohort)) {
				return false
			}
		case left < len(cohort) && slices.ContainsFunc(views, planned):
			return false
		}
		if !granted(f, ring.Partition(p), n) {
			return false
		}
	}
	return true
}

// granted tells whether each cohort that a partition may yet be given keeps a majority
// without a node.
func granted(f nemesis, p ring.Partition, n *node) bool {
	return !slices.ContainsFunc(f.sought.of(p, f.s.Now), func(cohort []register.Member) bool {
		return slices.Contains(cohort, n.self) && whole(f, cohort, n) < quorum.Majority(len(cohort))
	})
}

// whole is how many of a cohort, without a node, have never lost anything.
func whole(f nemesis, cohort []register.Member, n *node) (left int) {
	for _, m := range cohort {
		if o := f.find(m); o != nil && o != n && o.self == m && !o.away && !o.hurt && o.asleep == 0 {
			left++
		}
	}
	return left
}

// sought are the cohorts that nodes have asked the register for of late.
type sought map[ring.Partition][]soughtCohort

type soughtCohort struct {
	members []register.Member
	until   int64 // true time at which the request is over in any case, ns
}

// soughtFor is how long a request to the register may be under way, ns.
const soughtFor = int64(20 * time.Second)

// add notes a cohort that is asked for, and forgets older ones.
func (w sought) add(c *register.Change, now int64) {
	left := slices.DeleteFunc(w[c.Partition], func(o soughtCohort) bool { return o.until <= now })
	w[c.Partition] = append(left, soughtCohort{c.New.Cohort, now + soughtFor})
}

// of gives the cohorts that may still be granted to a partition.
func (w sought) of(p ring.Partition, now int64) (cohorts [][]register.Member) {
	for _, c := range w[p] {
		if c.until > now {
			cohorts = append(cohorts, c.members)
		}
	}
	return cohorts
}

// votes tells whether the register has a majority without a node. Who has left, or
// is another incarnation by now, may still be a voter, and does not count.
func (f nemesis) votes(n *node) bool {
	up := 0
	var voters []register.Member
	for _, o := range f.alive() {
		st := o.peers.machine.Status()
		if st.Leads {
			voters = slices.Concat(st.Voters, st.Outgoing)
		}
	}
	for _, m := range voters {
		if o := f.find(m); o != nil && o != n && o.self == m && !o.away {
			up++
		}
	}
	may := func(r register.Node) bool {
		return r.Member == n.self && (r.Status == register.Active || r.Status == register.Joining)
	}
	if !slices.Contains(voters, n.self) && slices.ContainsFunc(f.records, may) {
		up-- // it may become one just now, in the place of another one
	}
	return up >= 2 && up > len(voters)/2
}

// decided tells whether a majority of the register's voters without a node knows all
// of its log to be decided. A voter that has forgotten what it had acknowledged votes
// for who does not have that either, before anybody can tell that it has.
func (f nemesis) decided(n *node) bool {
	st := n.peers.machine.Status()
	for _, voters := range [][]register.Member{st.Voters, st.Outgoing} {
		know := 0
		for _, m := range voters {
			o := f.find(m)
			if o == nil || o == n || o.self != m || !o.up {
				continue
			}
			if s := o.peers.machine.Status(); s.Commit >= st.Last && s.Term >= st.Term {
				know++
			}
		}
		if len(voters) > 0 && know < quorum.Majority(len(voters)) {
			return false
		}
	}
	return true
}

// members gives the nodes that are in the cluster for good.
func (f nemesis) members() (all []*node) {
	for _, n := range f.nodes {
		if !n.away && !n.leaving {
			all = append(all, n)
		}
	}
	return all
}

// spare tells whether every fact of a node is on another disk where it belongs.
func (f nemesis) spare(n *node) bool {
	for p := range f.s.plan.Partitions {
		p := ring.Partition(p)
		if vnode.Dropping(n.disk, p) {
			continue
		}
		for task, ok := vnode.NextTask(n.disk.Mem, p, id.ID{}); ok; task, ok = vnode.NextTask(n.disk.Mem, p, task) {
			if !f.elsewhere(n, p, task) {
				return false
			}
		}
	}
	return true
}

func (f nemesis) elsewhere(n *node, p ring.Partition, task id.ID) bool {
	facts, err := vnode.Facts(n.disk.Mem, p, task)
	if err != nil {
		return false
	}
	have := map[string]bool{}
	for _, m := range f.cells[p].Cohort {
		o := f.find(m)
		if o == nil || o == n || o.self != m || !o.up || o.disk.AtRisk() > 0 {
			continue
		}
		if t, err := vnode.LoadTask(o.disk.Mem, p, task); err == nil && t.Collected() {
			return true // it was there; what is left of it does not come back (K8)
		}
		others, err := vnode.Facts(o.disk.Mem, p, task)
		if err != nil {
			return false
		}
		for i := range others {
			have[string(others[i].Key.Append(nil))] = true
		}
	}
	for i := range facts {
		if !have[string(facts[i].Key.Append(nil))] {
			return false
		}
	}
	return true
}

// wipe loses the disks of a node; a new incarnation under its name joins.
func (f nemesis) wipe() {
	n := f.victim()
	if n == nil {
		return
	}
	f.s.stats[stats.Wipes]++
	f.s.note("%sthe disks are lost", n)
	f.lose(n)
}

// lose ends a node's process and has it come back with empty disks.
func (f nemesis) lose(n *node) {
	s := f.s
	if n.up {
		n.crash()
	}
	n.Life++                      // the restart that was planned is off
	n.hurt, n.since = true, s.Now // until it is another incarnation
	n.disk, n.cells = disk.New(), disk.New()
	s.After(s.About(s.plan.Crash.Down+time.Second), func() {
		if !n.away && !n.up {
			f.join(n)
		}
	})
}

// restore sets the disks of a node back to what they were some time ago. The
// others can tell it, and it must hear of it before it does harm: then it goes on
// as another incarnation. Or it has lost nothing that anybody was told.
func (f nemesis) restore() {
	s := f.s
	n := world.Pick(&s.World, f.nodes)
	if !n.up || n.away {
		return
	}
	facts, cells, self := disk.Copied(n.disk.Mem), disk.Copied(n.cells.Mem), n.self
	var try func(left int)
	try = func(left int) {
		if s.healing || n.self != self || n.hurt {
			return
		}
		forgets := forgets(n.disk, facts)
		if !f.mayLose(n) || !f.decided(n) || forgets && !f.remembered(n, facts) {
			if left > 0 {
				s.After(time.Second, func() { try(left - 1) })
			}
			return
		}
		s.stats[stats.Restores]++
		if forgets {
			s.stats[stats.Forgotten]++
		}
		s.note("%sthe disks are set back; promises or claims are forgotten: %t", n, forgets)
		n.crash()
		n.hurt, n.since = true, s.Now
		n.disk, n.cells = facts, cells
	}
	s.After(s.Between(time.Second, 20*time.Second), func() { try(20) })
}

// forgets tells whether an older state of a disk lacks a promise or a claim that
// the disk has now.
func forgets(now, then *disk.Disk) bool {
	for key, value := range now.Mem.Scan(nil, nil) {
		if key[0] != 'a' && key[0] != 'b' { // claims, promises: the tables of package vnode
			continue
		}
		if old, ok := then.Mem.Get(key); !ok || !bytes.Equal(old, value) {
			return true
		}
	}
	return false
}

// remembered tells whether all others of the cohorts of a node have on their disks
// that its disk was further than an older state of it. Where only some know, they
// may all be away when it starts: then nobody tells it, and nothing is promised.
func (f nemesis) remembered(n *node, then *disk.Disk) bool {
	mark, _, err := standing.ReadMarks(then.Mem)
	if err != nil {
		return false
	}
	for _, o := range f.others(n) {
		if o.disk.AtRisk() > 0 {
			return false
		}
		_, seen, err := standing.ReadMarks(o.disk.Mem)
		if err != nil || seen[n.self] <= mark {
			return false
		}
	}
	return true
}

// others are those that share a cohort with a node.
func (f nemesis) others(n *node) (all []*node) {
	for p := range f.cells {
		cohort := f.cells[p].Cohort
		if !slices.Contains(cohort, n.self) {
			continue
		}
		for _, m := range cohort {
			if o := f.find(m); o != nil && o != n && o.self == m && !slices.Contains(all, o) {
				all = append(all, o)
			}
		}
	}
	return all
}

// flip turns a bit over on the disk of a node.
func (f nemesis) flip() {
	n := f.victim()
	s := f.s
	if n == nil || !f.intact() {
		return
	}
	at := n.disk
	where := "facts"
	if s.Chance(0.3) {
		at, where = n.cells, "register"
	}
	var keys []string
	for key := range at.Mem.Scan(nil, nil) {
		keys = append(keys, string(key))
	}
	if len(keys) == 0 {
		return
	}
	s.stats[stats.Flips]++
	n.hurt, n.since = true, s.Now
	at.Bad = world.Pick(&s.World, keys)
	s.note("%sa bit turns over on the disk of the %s, in record %q", n, where, at.Bad)
	if where == "register" || s.Chance(0.3) {
		n.crash() // it is read at the start
	}
}

// expected tells whether the end of a process is what damage or an older disk
// must lead to. Who has forgotten something goes on as another incarnation, with
// the facts it has; to others somebody gives empty disks.
func (f nemesis) expected(n *node, err error) bool {
	forgot := errors.Is(err, standing.ErrForgot) || errors.Is(err, group.ErrForgot)
	known := forgot || errors.Is(err, disk.ErrRotten) || errors.Is(err, wire.ErrDamaged) ||
		errors.Is(err, group.ErrTwin) || errors.Is(err, vnode.ErrDamaged)
	if !n.hurt || !known {
		return false
	}
	f.s.stats[stats.Damaged]++
	f.s.note("%sthe process ends: %v", n, err)
	switch {
	case forgot && n.disk.Bad == "":
		f.renew(n)
		return true
	case n.up:
		n.disk.Bad, n.cells.Bad = "", ""
		n.disk, n.cells = disk.New(), disk.New()
	}
	f.lose(n)
	return true
}

// renew has a node whose disk was set back stop in order and come back as another
// incarnation, as package node does (node/forgot.go).
func (f nemesis) renew(n *node) {
	s := f.s
	s.stats[stats.Renewed]++
	n.cells.Bad = ""
	if n.up {
		n.stop()
	}
	n.Life++                      // the restart that was planned is off
	n.hurt, n.since = true, s.Now // until it is another incarnation
	s.After(s.About(s.plan.Crash.Down+time.Second), func() {
		if !n.away && !n.up {
			f.rejoin(n)
		}
	})
}

// asks sees a node ask for cells.
func (f *fleet) asks(n *node, q *register.Request) {
	for i := range q.Changes {
		f.sought.add(&q.Changes[i], f.s.Now)
		if err := f.leaders.Asks(seenNode{n}, &q.Changes[i]); err != nil {
			f.s.violation(Audit, "%v", err)
			return
		}
	}
}
