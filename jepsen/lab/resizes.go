package lab

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/client"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// resized has partitions on another number of nodes than they are made with, and then
// on as many again. In between all is in its place, or it is not waited for, or a node
// dies and comes back.
func (n operator) resized() error {
	two := n.some(2)
	witness, victim := two[0], two[1]
	to := []int{1, 2, 4, 5}[n.rnd.IntN(4)]
	if err := n.resize(witness, to); err != nil {
		return err
	}
	if n.rnd.IntN(3) == 0 {
		n.wait(time.Second, 4*time.Second)
		n.does("kill -9 %s, start it", victim.name)
		if err := victim.kill(); err != nil {
			return err
		}
		n.wait(0, 3*time.Second)
		if err := n.begin(victim); err != nil {
			return err
		}
	}
	if n.rnd.IntN(3) > 0 {
		if err := n.inPlace(witness, to); err != nil {
			return err
		}
	}
	n.wait(time.Second, 4*time.Second)
	if err := n.resize(victim, replicas); err != nil {
		return err
	}
	return n.inPlace(victim, replicas)
}

// resize sets the number of replicas.
func (n operator) resize(through *process, to int) error {
	return n.ask(through, fmt.Sprintf("%d replicas", to), func(ctx context.Context, c client.Cluster) (*nornv1.ClusterReply, error) {
		return c.SetReplicas(ctx, to, client.ChangeOptions{})
	})
}

// inPlace waits until a node says that each partition has so many replicas and leads.
func (n operator) inPlace(through *process, replicas int) error {
	last := ""
	for end := time.Now().Add(rest); time.Now().Before(end); <-time.After(200 * time.Millisecond) {
		s, err := n.status(context.Background(), through)
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
	n.found("stuck", "%d replicas: %s says %s", replicas, through.name, last)
	return errStuck
}
