package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// safeToStop tells scripts whether a node can be stopped.
func (k clusterCommands) safeToStop() *cobra.Command {
	cmd := &cobra.Command{
		Use: "safe-to-stop [NODE]", Short: "Whether a node can be stopped without stopping anything else", Args: cobra.MaximumNArgs(1), ValidArgsFunction: k.completeNodes(1),
		Long: `Tell whether a node, without NODE the one at --addr, can be stopped now: exit code 0
if every partition that it keeps, and the register, has a majority without it, of nodes in
reach whose disks have all that they acknowledged; 1 if not. It is for scripts that
restart nodes one by one, and for the preStop hook of a container; /readyz?role=restart
answers the same for the node that is asked.

--wait waits until it can be. -o json prints {node, safe, partitions, register}: how
many partitions need it, and whether the register does.`,
		Example: "  norn cluster safe-to-stop n2\n  norn cluster safe-to-stop n2 --wait 10m && ssh n2 systemctl restart norn",
	}
	wait := cmd.Flags().Duration("wait", 0, "for how `long` to wait until it can be stopped; 0: not at all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *wait < 0 {
			return cli.Usage("--wait: %s is under zero", *wait)
		}
		if len(args) == 0 && len(k.Addrs) > 1 {
			return cli.Usage("name the node: --addr has %d addresses, and any of them may answer", len(k.Addrs))
		}
		return k.With(cmd.Context(), func(c *client.Client) error { return k.spares(cmd.Context(), c.Cluster(), args, *wait) })
	}
	return cmd
}

// spares asks until a node can be stopped, or that was long enough.
func (k clusterCommands) spares(ctx context.Context, c client.Cluster, args []string, wait time.Duration) error {
	tick := time.NewTicker(followPause)
	defer tick.Stop()
	for until := time.Now().Add(wait); ; {
		s, err := c.Status(ctx, client.StatusOptions{})
		if err != nil {
			return err
		}
		n, err := toBeStopped(s, args)
		if err != nil {
			return err
		}
		why := neededFor(n, s)
		if why != "" && time.Now().Before(until) {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-tick.C:
				continue
			}
		}
		form := jsonform.Object(
			jsonform.Field{Name: "node", Value: jsonform.String(n.GetName())}, jsonform.Field{Name: "safe", Value: jsonform.Bool(why == "")},
			jsonform.Field{Name: "partitions", Value: jsonform.Number(float64(n.GetNeededBy()))}, jsonform.Field{Name: "register", Value: jsonform.Bool(n.GetNeededByRegister())},
		)
		err = k.Writer().Object(form, func(w io.Writer) {
			if why == "" {
				fmt.Fprintf(w, "node %s can be stopped\n", cli.Clean(n.GetName()))
			}
		})
		if err == nil && why != "" {
			k.Complain(fmt.Sprintf("node %s is not to be stopped now: without it %s (missing guarantee: a majority without it); see `norn cluster status`", cli.Clean(n.GetName()), why))
			return cli.Reported{Code: cli.ExitFailed}
		}
		return err
	}
}

// toBeStopped finds the node that is meant.
func toBeStopped(s *nornv1.StatusReply, args []string) (*nornv1.NodeStatus, error) {
	who, _ := meant(s, args)
	for _, n := range s.GetNodes() {
		if n.GetIncarnation() == who {
			return n, nil
		}
	}
	for _, n := range s.GetNodes() { // one that still joins
		if n.GetName() == who {
			return n, nil
		}
	}
	return nil, fmt.Errorf("%w: there is no node %s in this cluster; `norn cluster members` lists them", client.ErrNotFound, who)
}

// neededFor says what would stop without a node; empty: nothing.
func neededFor(n *nornv1.NodeStatus, s *nornv1.StatusReply) string {
	var why []string
	if p := n.GetNeededBy(); p > 0 {
		why = append(why, fmt.Sprintf("%s of %s would have no majority in reach", count(p, "partition", "partitions"), render.Number(uint64(len(s.GetPartitions())))))
	}
	if n.GetNeededByRegister() {
		why = append(why, "the register would have none")
	}
	return strings.Join(why, ", and ")
}
