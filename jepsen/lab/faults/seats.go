package faults

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/machine"
	"github.com/norn-dev/norn/jepsen/lab/workloads"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/ring"
)

// seat is a partition with who leads it, in which epoch, for whom.
type seat struct {
	partition ring.Partition
	epoch     uint64
	leader    *cluster.Process
	cohort    []*cluster.Process
	settled   bool // the leader is the one that is planned
	clock     int  // how often it had said that it is not sure of its clock
}

// Of seats: for how long they must have been the same, and how long that is waited for.
const (
	seated  = 2 * time.Second
	seating = 20 * time.Second
)

// seats are those of all partitions, once every node serves and nobody has come to lead
// anything for a while.
func (n group) seats() ([]seat, error) {
	ctx := n.Caller.GoesOn()
	if err := n.Serves(ctx, cluster.Rest); err != nil {
		return nil, err
	}
	var since time.Time
	var last []seat
	for end := time.Now().Add(seating); time.Now().Before(end); <-time.After(300 * time.Millisecond) {
		s, err := n.Status(ctx, n.one())
		if err != nil {
			continue
		}
		now := n.seatsOf(s)
		if last == nil || !slices.EqualFunc(last, now, func(a, b seat) bool { return a.epoch == b.epoch && a.leader == b.leader }) {
			last, since = now, time.Now()
		}
		if slices.ContainsFunc(now, func(s seat) bool { return !s.settled }) {
			since = time.Now() // somebody else is to lead it
		}
		if time.Since(since) >= seated {
			break
		}
	}
	for i := range last {
		if last[i].leader == nil {
			continue
		}
		said, err := last[i].leader.Logged("clock.off")
		if err != nil {
			return nil, err
		}
		last[i].clock = len(said)
	}
	return last, nil
}

// seatsOf are the seats of a node's view of the cluster.
func (n group) seatsOf(s *nornv1.StatusReply) (all []seat) {
	for _, p := range s.GetPartitions() {
		t := seat{partition: ring.Partition(p.GetId()), epoch: p.GetEpoch()}
		t.settled = len(p.GetPlanned()) > 0 && p.GetPlanned()[0] == p.GetLeader()
		for _, o := range n.Members() {
			if o.Name == p.GetLeader() {
				t.leader = o
			}
			if slices.Contains(p.GetCohort(), o.Name) {
				t.cohort = append(t.cohort, o)
			}
		}
		all = append(all, t)
	}
	return all
}

// kept are the seats whose leader reaches a majority of its cohort: it needs no register
// to go on.
func kept(all []seat, reach func(a, b *cluster.Process) bool) (some []seat) {
	for _, s := range all {
		reached := 0
		for _, o := range s.cohort {
			if s.leader != nil && reach(s.leader, o) {
				reached++
			}
		}
		if s.leader != nil && reach(s.leader, s.leader) && reached >= quorum.Majority(len(s.cohort)) {
			some = append(some, s)
		}
	}
	return some
}

// hold has each leader grant something in its partition, under the epoch that it had:
// a task is enqueued, claimed and completed through it. It says what is wrong. An election
// because the leader was not sure of its clock, as on a machine that is busy, is no finding.
func (n group) hold(all []seat) error {
	held := 0
	for _, s := range all {
		h, err := n.Server(s.leader)
		if err != nil {
			return err
		}
		token, strained, err := workloads.Asker{Hand: h}.Grants(s.partition, machine.Patience)
		if err != nil {
			n.Found("availability", "%s leads partition %d and reaches a majority of its cohort: %v", s.leader.Name, s.partition, err)
			return nil
		}
		said, err := s.leader.Logged("clock.off")
		if err != nil {
			return err
		}
		switch epoch := token >> 32; {
		case epoch == s.epoch:
			held++
		case strained || len(said) > s.clock:
			n.does("the machine was busy: partition %d went from epoch %d to %d", s.partition, s.epoch, epoch)
		default:
			n.Found("register", "%s led partition %d in epoch %d and reached a majority of its cohort; it is in epoch %d now: there was an election that nobody needed", s.leader.Name, s.partition, s.epoch, epoch)
		}
	}
	cluster.Proven(n.Lab, held > 0 || len(all) == 0, "none of %d leaders is still there: the machine was busy", len(all))
	n.does("%d of %d leaders of partitions that reach a majority grant under the epoch of before", held, len(all))
	return nil
}
