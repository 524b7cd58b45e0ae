package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/client"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// status asks a node for its view of the cluster.
func (l *lab) status(ctx context.Context, p *process) (*nornv1.StatusReply, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, []string{p.dial}, l.options()...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	return c.Status(ctx)
}

// whole waits until all nodes that are to run say that every partition is on as
// many as there can be, and served. The error says what was missing in the end.
func (l *lab) whole(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, starvedRests*limit)
	defer cancel()
	for _, p := range l.members() {
		missing := "nobody was asked"
		for tick := time.Tick(200 * time.Millisecond); missing != ""; {
			before := l.strain.patient(nil)
			switch s, err := l.status(ctx, p); {
			case err == nil:
				missing = lacks(s, len(l.members()))
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
			if !l.strain.starved(nil, before) {
				limit -= time.Since(before.at)
			}
			if limit <= 0 || ctx.Err() != nil {
				return fmt.Errorf("%s: %s", p.name, missing)
			}
		}
	}
	return nil
}

// starvedRests is how many times as long a cluster may take to become whole on a
// machine that has no time for it: the time in which the driver itself waited for
// a processor, or the disk stood still, does not count up to there.
const starvedRests = 4

// lacks says what keeps a cluster of so many nodes from being whole; "" is
// nothing.
func lacks(s *nornv1.StatusReply, nodes int) string {
	want := min(nodes, replicas)
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
	case len(s.GetPartitions()) != partitions:
		return fmt.Sprintf("%d partitions of %d", len(s.GetPartitions()), partitions)
	case vnodes != copies:
		return fmt.Sprintf("of %d copies %d are on nodes that are up", copies, vnodes)
	case voters != len(s.GetVoters()) || voters < want-(want+1)%2:
		return fmt.Sprintf("of the voters %v %d are up", s.GetVoters(), voters)
	}
	return ""
}

// equal waits until all replicas of all partitions hold the same, as a node
// finds when it asks them.
func (l *lab) equal(ctx context.Context, p *process, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit+5*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, []string{p.dial}, l.options()...)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	v, err := c.Cluster().Verify(ctx, client.VerifyOptions{Wait: limit})
	if err == nil && v.Differing+v.Unreachable > 0 {
		err = fmt.Errorf("through %s %d partitions differ and %d have replicas out of reach", p.name, v.Differing, v.Unreachable)
	}
	return err
}

// start starts the first nodes and waits until they are a whole cluster.
func (l *lab) start(ctx context.Context) error {
	for range l.cfg.Nodes {
		p, err := l.add()
		if err != nil {
			return err
		}
		if err := l.begin(p); err != nil {
			return err
		}
		if p.n == 0 { // the others join it
			if err := l.whole(ctx, patience); err != nil {
				return errors.Join(errors.New("the first node does not serve"), err, l.logOf(p))
			}
		}
	}
	if err := l.whole(ctx, rest); err != nil {
		return fmt.Errorf("the cluster does not form: %w", err)
	}
	l.note("%d nodes in %s", l.cfg.Nodes, l.net.kind())
	return nil
}
