package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// replicas changes the number of replicas.
func (k clusterCommands) replicas() *cobra.Command {
	h := &change{clusterCommands: k}
	cmd := &cobra.Command{
		Use: "replicas N", Short: "Change how many copies of each partition there are", Args: cobra.ExactArgs(1),
		Long: `Change how many copies of each partition the nodes keep, 1 to 9: what --replicas
said when the cluster was made. Everything goes on meanwhile, and it is waited for
(--wait). Copies that are to be more are made one after the other; of those that
are to be fewer one goes at a time, after it has handed over what it has. With
fewer nodes than that there is one copy on each, and more as nodes join.

An odd number is best: of 1 copy nothing may be down, of 3 one, of 5 two; 4 stand
no more than 3. Upgrade all nodes first: a node of a build that does not know this
stops when it hears of it. Fewer copies take --yes.`,
		Example: "  norn cluster replicas 3\n  norn cluster replicas 5 --dry-run\n  norn cluster replicas 3 --yes --wait 1h",
	}
	h.flags(cmd, 10*time.Minute, false)
	yes := cmd.Flags().Bool("yes", false, "yes, fewer copies")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		n, err := strconv.Atoi(args[0])
		if err != nil || n < 1 || n > ring.MaxReplicas {
			return cli.Usage("%q is not a number of copies: 1 to %d", args[0], ring.MaxReplicas)
		}
		h.done = func(s *nornv1.StatusReply) bool { return int(s.GetReplicas()) == n && settled(s) && unmade(s) == 0 }
		h.do = func(ctx context.Context, c client.Cluster, o client.ChangeOptions) (*nornv1.ClusterReply, error) {
			s, err := c.Status(ctx, client.StatusOptions{})
			if err != nil {
				return nil, err
			}
			if was := int(s.GetReplicas()); n < was && !*yes && !o.DryRun {
				return nil, cli.Usage("%d copies instead of %d survive less; add --yes if that is meant, or --dry-run", n, was)
			}
			return c.SetReplicas(ctx, n, o)
		}
		return h.run(cmd)
	}
	return cmd
}

// unmade counts the partitions that have not got as many copies as there are to be.
func unmade(s *nornv1.StatusReply) (left int) {
	holders := 0
	for _, n := range s.GetNodes() {
		if (n.GetState() == "up" || n.GetState() == "down") && n.GetWeight() > 0 {
			holders++
		}
	}
	for _, p := range s.GetPartitions() {
		if len(p.GetCohort()) != min(int(s.GetReplicas()), holders) {
			left++
		}
	}
	return left
}

// replicasLine is how many copies there are to be, and where that is not so yet.
func replicasLine(s *nornv1.StatusReply) string {
	text := strconv.Itoa(int(s.GetReplicas()))
	if left := unmade(s); left > 0 {
		text += fmt.Sprintf(", not yet of %d of %d partitions", left, len(s.GetPartitions()))
	}
	return text
}
