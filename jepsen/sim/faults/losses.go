package faults

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/sim/disk"
	"github.com/norn-dev/norn/jepsen/sim/nodes"
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
func (f *Nemesis) victim() *nodes.Node {
	n := world.Pick(&f.s.World, f.Nodes)
	if slices.ContainsFunc(f.Nodes, func(o *nodes.Node) bool { return !o.Away && !o.Up && o != n }) || !f.mayLose(n) {
		return nil
	}
	return n
}

// mayLose tells whether what is on a disk may get lost: one at a time, with
// everything elsewhere. Nothing gets lost while something has rotted that nobody has
// read yet: its node is given partitions meanwhile, as any other, and then one of them
// could lack a majority.
func (f *Nemesis) mayLose(n *nodes.Node) bool {
	recent := func(o *nodes.Node) bool {
		return o.Hurt && f.s.Now-o.Since < int64(30*time.Second) || o != n && (o.Disk.Bad != "" || o.Cells.Bad != "")
	}
	return n.Up && !n.Away && !slices.ContainsFunc(f.Nodes, recent) &&
		len(f.members()) >= 3 && len(f.Cells) > 0 && f.spare(n) && f.votes(n) && f.held(n)
}

// intact tells whether no cohort has a member that has lost anything. What rots now
// may be read when its node is in any of them.
func (f *Nemesis) intact() bool {
	for p := range f.Cells {
		for _, m := range f.Cells[p].Cohort {
			if o := f.Find(m); o == nil || o.Self != m || o.Away || o.Hurt {
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
func (f *Nemesis) held(n *nodes.Node) bool {
	var views []*placement.View
	for _, o := range f.Alive() {
		views = append(views, placement.See(o.Peers.State(), nil))
	}
	if len(views) == 0 {
		return false
	}
	for p := range f.Cells {
		planned := func(v *placement.View) bool { return slices.Contains(v.Planned(ring.Partition(p)), n.Self) }
		cohort := f.Cells[p].Cohort
		left := whole(f, cohort, n)
		switch {
		case slices.Contains(cohort, n.Self):
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
func granted(f *Nemesis, p ring.Partition, n *nodes.Node) bool {
	return !slices.ContainsFunc(f.sought.of(p, f.s.Now), func(cohort []register.Member) bool {
		return slices.Contains(cohort, n.Self) && whole(f, cohort, n) < quorum.Majority(len(cohort))
	})
}

// whole is how many of a cohort, without a node, have never lost anything.
func whole(f *Nemesis, cohort []register.Member, n *nodes.Node) (left int) {
	for _, m := range cohort {
		if o := f.Find(m); o != nil && o != n && o.Self == m && !o.Away && !o.Hurt && o.Asleep == 0 {
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

// Seeks sees a node ask for a cell.
func (f *Nemesis) Seeks(c *register.Change) { f.sought.add(c, f.s.Now) }

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
func (f *Nemesis) votes(n *nodes.Node) bool {
	up := 0
	var voters []register.Member
	for _, o := range f.Alive() {
		st := o.Peers.Machine.Status()
		if st.Leads {
			voters = slices.Concat(st.Voters, st.Outgoing)
		}
	}
	for _, m := range voters {
		if o := f.Find(m); o != nil && o != n && o.Self == m && !o.Away {
			up++
		}
	}
	may := func(r register.Node) bool {
		return r.Member == n.Self && (r.Status == register.Active || r.Status == register.Joining)
	}
	if !slices.Contains(voters, n.Self) && slices.ContainsFunc(f.Records, may) {
		up-- // it may become one just now, in the place of another one
	}
	return up >= 2 && up > len(voters)/2
}

// decided tells whether a majority of the register's voters without a node knows all
// of its log to be decided. A voter that has forgotten what it had acknowledged votes
// for who does not have that either, before anybody can tell that it has.
func (f *Nemesis) decided(n *nodes.Node) bool {
	st := n.Peers.Machine.Status()
	for _, voters := range [][]register.Member{st.Voters, st.Outgoing} {
		know := 0
		for _, m := range voters {
			o := f.Find(m)
			if o == nil || o == n || o.Self != m || !o.Up {
				continue
			}
			if s := o.Peers.Machine.Status(); s.Commit >= st.Last && s.Term >= st.Term {
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
func (f *Nemesis) members() (all []*nodes.Node) {
	for _, n := range f.Nodes {
		if !n.Away && !n.Leaving {
			all = append(all, n)
		}
	}
	return all
}

// spare tells whether every fact of a node is on another disk where it belongs.
func (f *Nemesis) spare(n *nodes.Node) bool {
	for p := range f.s.Plan.Partitions {
		p := ring.Partition(p)
		if vnode.Dropping(n.Disk, p) {
			continue
		}
		for task, ok := vnode.NextTask(n.Disk.Mem, p, id.ID{}); ok; task, ok = vnode.NextTask(n.Disk.Mem, p, task) {
			if !f.elsewhere(n, p, task) {
				return false
			}
		}
	}
	return true
}

func (f *Nemesis) elsewhere(n *nodes.Node, p ring.Partition, task id.ID) bool {
	facts, err := vnode.Facts(n.Disk.Mem, p, task)
	if err != nil {
		return false
	}
	have := map[string]bool{}
	for _, m := range f.Cells[p].Cohort {
		o := f.Find(m)
		if o == nil || o == n || o.Self != m || !o.Up || o.Disk.AtRisk() > 0 {
			continue
		}
		if t, err := vnode.LoadTask(o.Disk.Mem, p, task); err == nil && t.Collected() {
			return true // it was there; what is left of it does not come back (K8)
		}
		others, err := vnode.Facts(o.Disk.Mem, p, task)
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
func (f *Nemesis) wipe() {
	n := f.victim()
	if n == nil {
		return
	}
	f.s.Stats[stats.Wipes]++
	f.s.Note("%sthe disks are lost", n)
	f.lose(n)
}

// lose ends a node's process and has it come back with empty disks.
func (f *Nemesis) lose(n *nodes.Node) {
	s := f.s
	if n.Up {
		n.Crash()
	}
	n.Life++                      // the restart that was planned is off
	n.Hurt, n.Since = true, s.Now // until it is another incarnation
	n.Disk, n.Cells = disk.New(), disk.New()
	s.After(s.About(s.Plan.Crash.Down+time.Second), func() {
		if !n.Away && !n.Up {
			f.Join(n)
		}
	})
}

// restore sets the disks of a node back to what they were some time ago. The
// others can tell it, and it must hear of it before it does harm: then it goes on
// as another incarnation. Or it has lost nothing that anybody was told.
func (f *Nemesis) restore() {
	s := f.s
	n := world.Pick(&s.World, f.Nodes)
	if !n.Up || n.Away {
		return
	}
	facts, cells, self := disk.Copied(n.Disk.Mem), disk.Copied(n.Cells.Mem), n.Self
	var try func(left int)
	try = func(left int) {
		if s.Healing || n.Self != self || n.Hurt {
			return
		}
		forgets := forgets(n.Disk, facts)
		if !f.mayLose(n) || !f.decided(n) || forgets && !f.remembered(n, facts) {
			if left > 0 {
				s.After(time.Second, func() { try(left - 1) })
			}
			return
		}
		s.Stats[stats.Restores]++
		if forgets {
			s.Stats[stats.Forgotten]++
		}
		s.Note("%sthe disks are set back; promises or claims are forgotten: %t", n, forgets)
		n.Crash()
		n.Hurt, n.Since = true, s.Now
		n.Disk, n.Cells = facts, cells
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
func (f *Nemesis) remembered(n *nodes.Node, then *disk.Disk) bool {
	mark, _, err := standing.ReadMarks(then.Mem)
	if err != nil {
		return false
	}
	for _, o := range f.others(n) {
		if o.Disk.AtRisk() > 0 {
			return false
		}
		_, seen, err := standing.ReadMarks(o.Disk.Mem)
		if err != nil || seen[n.Self] <= mark {
			return false
		}
	}
	return true
}

// others are those that share a cohort with a node.
func (f *Nemesis) others(n *nodes.Node) (all []*nodes.Node) {
	for p := range f.Cells {
		cohort := f.Cells[p].Cohort
		if !slices.Contains(cohort, n.Self) {
			continue
		}
		for _, m := range cohort {
			if o := f.Find(m); o != nil && o != n && o.Self == m && !slices.Contains(all, o) {
				all = append(all, o)
			}
		}
	}
	return all
}

// flip turns a bit over on the disk of a node.
func (f *Nemesis) flip() {
	n := f.victim()
	s := f.s
	if n == nil || !f.intact() {
		return
	}
	at := n.Disk
	where := "facts"
	if s.Chance(0.3) {
		at, where = n.Cells, "register"
	}
	var keys []string
	for key := range at.Mem.Scan(nil, nil) {
		keys = append(keys, string(key))
	}
	if len(keys) == 0 {
		return
	}
	s.Stats[stats.Flips]++
	n.Hurt, n.Since = true, s.Now
	at.Bad = world.Pick(&s.World, keys)
	s.Note("%sa bit turns over on the disk of the %s, in record %q", n, where, at.Bad)
	if where == "register" || s.Chance(0.3) {
		n.Crash() // it is read at the start
	}
}

// Expected tells whether the end of a process is what damage or an older disk
// must lead to. Who has forgotten something goes on as another incarnation, with
// the facts it has; to others somebody gives empty disks.
func (f *Nemesis) Expected(n *nodes.Node, err error) bool {
	forgot := errors.Is(err, standing.ErrForgot) || errors.Is(err, group.ErrForgot)
	known := forgot || errors.Is(err, disk.ErrRotten) || errors.Is(err, wire.ErrDamaged) ||
		errors.Is(err, group.ErrTwin) || errors.Is(err, vnode.ErrDamaged)
	if !n.Hurt || !known {
		return false
	}
	f.s.Stats[stats.Damaged]++
	f.s.Note("%sthe process ends: %v", n, err)
	switch {
	case forgot && n.Disk.Bad == "":
		f.renew(n)
		return true
	case n.Up:
		n.Disk.Bad, n.Cells.Bad = "", ""
		n.Disk, n.Cells = disk.New(), disk.New()
	}
	f.lose(n)
	return true
}

// renew has a node whose disk was set back stop in order and come back as another
// incarnation, as package node does (node/forgot.go).
func (f *Nemesis) renew(n *nodes.Node) {
	s := f.s
	s.Stats[stats.Renewed]++
	n.Cells.Bad = ""
	if n.Up {
		n.Stop()
	}
	n.Life++                      // the restart that was planned is off
	n.Hurt, n.Since = true, s.Now // until it is another incarnation
	s.After(s.About(s.Plan.Crash.Down+time.Second), func() {
		if !n.Away && !n.Up {
			f.Rejoin(n)
		}
	})
}
