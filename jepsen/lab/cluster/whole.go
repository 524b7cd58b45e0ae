package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/lab/machine"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Status asks a node for its view of the cluster.
func (l *Lab) Status(ctx context.Context, p *Process) (*nornv1.StatusReply, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, []string{p.Dial}, l.Options()...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	return c.Status(ctx)
}

// Whole waits until all nodes that are to run say that every partition is on as
// many as there can be, and served. The error says what was missing in the end.
func (l *Lab) Whole(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, StarvedRests*limit)
	defer cancel()
	for _, p := range l.Members() {
		missing := "nobody was asked"
		for tick := time.Tick(200 * time.Millisecond); missing != ""; {
			before := l.Strain.Patient(nil)
			switch s, err := l.Status(ctx, p); {
			case err == nil:
				missing = Lacks(s, len(l.Members()))
			case ctx.Err() == nil: // else what was missing before tells more
				missing = err.Error()
			}
			if missing == "" {
				break
			}
			select {
			case <-ctx.Done():
			case <-tick:
			}
			if !l.Strain.Starved(nil, before) {
				limit -= time.Since(before.At)
			}
			if limit <= 0 || ctx.Err() != nil {
				return fmt.Errorf("%s: %s", p.Name, missing)
			}
		}
	}
	return nil
}

// StarvedRests is how many times as long a cluster may take to become whole on a
// machine that has no time for it: the time in which the driver itself waited for
// a processor, or the disk stood still, does not count up to there.
const StarvedRests = 4

// Lacks says what keeps a cluster of so many nodes from being whole; "" is
// nothing.
func Lacks(s *nornv1.StatusReply, nodes int) string {
	want := min(nodes, Replicas)
	copies, vnodes, voters, up, clocks := 0, 0, 0, 0, ""
	for _, n := range s.GetNodes() { // a dead incarnation may have the name of a living one
		if n.GetState() != "up" {
			continue
		}
		up++
		if why := n.GetClockFault(); why != "" { // it leads nothing, and does not vote
			clocks += fmt.Sprintf("; the clock of %s: %s", n.GetName(), why)
		}
		vnodes += int(n.GetVnodes())
		if slices.Contains(s.GetVoters(), n.GetName()) {
			voters++
		}
	}
	if up != nodes {
		return fmt.Sprintf("%d of %d nodes are up", up, nodes)
	}
	for _, p := range s.GetPartitions() {
		copies += len(p.GetCohort())
		if len(p.GetCohort()) != want || p.GetLeader() == "" || p.GetMoving() || !p.GetEnqueueAvailable() || !p.GetClaimAvailable() {
			return fmt.Sprintf("partition %d: cohort %v of %d, leader %q, moving %v, enqueues %v, claims %v%s", p.GetId(), p.GetCohort(), want,
				p.GetLeader(), p.GetMoving(), p.GetEnqueueAvailable(), p.GetClaimAvailable(), clocks)
		}
	}
	switch {
	case len(s.GetPartitions()) != Partitions:
		return fmt.Sprintf("%d partitions of %d", len(s.GetPartitions()), Partitions)
	case vnodes != copies:
		return fmt.Sprintf("of %d copies %d are on nodes that are up", copies, vnodes)
	case voters != len(s.GetVoters()) || voters < want-(want+1)%2:
		return fmt.Sprintf("of the voters %v %d are up", s.GetVoters(), voters)
	}
	return ""
}

// Equal waits until all replicas of all partitions hold the same, as a node
// finds when it asks them.
func (l *Lab) Equal(ctx context.Context, p *Process, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit+5*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, []string{p.Dial}, l.Options()...)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	v, err := c.Cluster().Verify(ctx, client.VerifyOptions{Wait: limit})
	if err == nil && v.Differing+v.Unreachable > 0 {
		err = fmt.Errorf("through %s %d partitions differ and %d have replicas out of reach", p.Name, v.Differing, v.Unreachable)
	}
	return err
}

// Start starts the first nodes and waits until they are a whole cluster.
func (l *Lab) Start(ctx context.Context) error {
	for range l.Cfg.Nodes {
		p, err := l.Add()
		if err != nil {
			return err
		}
		if err := l.Begin(p); err != nil {
			return err
		}
		if p.N == 0 { // the others join it
			if err := l.Whole(ctx, machine.Patience); err != nil {
				return errors.Join(errors.New("the first node does not serve"), err, l.logOf(p))
			}
		}
	}
	if err := l.Whole(ctx, Rest); err != nil {
		return fmt.Errorf("the cluster does not form: %w", err)
	}
	l.Note("%d nodes in %s", l.Cfg.Nodes, l.Net.Kind())
	return nil
}

// Alike notes when all replicas are equal while no client asks for anything: from then on
// what one copy was asked for holds as well (I3). Writes that the cluster makes itself may
// keep it from that for longer than is waited for.
func (l *Lab) Alike(ctx context.Context) {
	if err := l.Equal(ctx, l.Members()[0], 20*time.Second); err != nil {
		l.Say("not equal before everything is done: %v", err)
		return
	}
	l.Rec.Note(check.Equal)
	l.Say("all replicas are equal")
}

// Rests waits until the cluster is whole and all replicas are equal, as each
// node sees it.
func (l *Lab) Rests(ctx context.Context) error {
	if err := l.Whole(ctx, Rest); err != nil {
		l.Found("stuck", "the cluster does not come to rest: %v", err)
		return ErrStuck
	}
	for _, p := range l.Members() {
		if err := l.Equal(ctx, p, 40*time.Second); err != nil {
			l.Found("convergence", "%v", err)
			return ErrStuck
		}
	}
	return nil
}
