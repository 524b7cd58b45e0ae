package faults

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// resized has partitions on another number of nodes than they are made with, and then
// on as many again. In between all is in its place, or it is not waited for, or a node
// dies and comes back.
func (n operator) resized() error {
	two := n.some(2)
	witness, victim := two[0], two[1]
	to := []int{1, 2, 4, 5}[n.Rnd.IntN(4)]
	if err := n.resize(witness, to); err != nil {
		return err
	}
	if n.Rnd.IntN(3) == 0 {
		n.wait(time.Second, 4*time.Second)
		n.does("kill -9 %s, start it", victim.Name)
		if err := victim.Kill(); err != nil {
			return err
		}
		n.wait(0, 3*time.Second)
		if err := n.Begin(victim); err != nil {
			return err
		}
	}
	if n.Rnd.IntN(3) > 0 {
		if err := n.inPlace(witness, to); err != nil {
			return err
		}
	}
	n.wait(time.Second, 4*time.Second)
	if err := n.resize(victim, cluster.Replicas); err != nil {
		return err
	}
	return n.inPlace(victim, cluster.Replicas)
}

// resize sets the number of replicas.
func (n operator) resize(through *cluster.Process, to int) error {
	return n.ask(through, fmt.Sprintf("%d replicas", to), func(ctx context.Context, c client.Cluster) (*nornv1.ClusterReply, error) {
		return c.SetReplicas(ctx, to, client.ChangeOptions{})
	})
}

// inPlace waits until a node says that each partition has so many replicas and leads.
func (n operator) inPlace(through *cluster.Process, replicas int) error {
	last := ""
	for end := time.Now().Add(cluster.Rest); time.Now().Before(end) && !n.Caller.Ended(); <-time.After(200 * time.Millisecond) {
		s, err := n.Status(context.Background(), through)
		if err != nil {
			last = err.Error()
			continue
		}
		at := slices.IndexFunc(s.GetPartitions(), func(p *nornv1.PartitionStatus) bool {
			return len(p.GetCohort()) != replicas || p.GetMoving() || !p.GetClaimAvailable()
		})
		switch {
		case int(s.GetReplicas()) != replicas:
			last = fmt.Sprintf("there are to be %d", s.GetReplicas())
		case at >= 0:
			last = s.GetPartitions()[at].String()
		default:
			return nil
		}
	}
	n.Found("stuck", "%d replicas: %s says %s", replicas, through.Name, last)
	return cluster.ErrStuck
}
