package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func (k clusterCommands) destroy() *cobra.Command {
	cmd := &cobra.Command{
		Use: "destroy --yes", Short: "Stop all nodes and delete all data, for ever", Args: cobra.NoArgs,
		Long: `Stop all nodes of the cluster and delete all of their data, for ever. Every task,
queue and setting is gone. From then on no node takes anything; they stop some
seconds later, which is waited for. Archives and backups stay, and so does what
else is in the data directories.

A node that is not in reach would keep its data, so it is refused unless --force
is given. A server that is started again on an empty directory makes a new
cluster.`,
		Example: "  norn cluster destroy --dry-run\n  norn cluster destroy --yes",
	}
	yes := cmd.Flags().Bool("yes", false, "yes, delete everything")
	dryRun := cmd.Flags().Bool("dry-run", false, "say what would be done, and do nothing")
	force := cmd.Flags().Bool("force", false, "also if some node is not in reach")
	wait := cmd.Flags().Duration("wait", time.Minute, "for how `long` to wait until the nodes have stopped; 0: not at all")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case !*yes && !*dryRun:
			return usage("it stops all nodes and deletes every task of the cluster, for ever; add --yes if that is meant, or --dry-run")
		case *wait < 0:
			return usage("--wait: %s is under zero", *wait)
		}
		return k.asked(cmd.Context(), client.StatusOptions{}, func(s *nornv1.StatusReply) error {
			return k.destroys(cmd.Context(), s, client.ChangeOptions{DryRun: *dryRun, Force: *force}, *wait)
		})
	}
	return cmd
}

func (k clusterCommands) destroys(ctx context.Context, s *nornv1.StatusReply, o client.ChangeOptions, wait time.Duration) error {
	var reply *nornv1.ClusterReply
	err := k.with(ctx, func(c *client.Client) (err error) {
		reply, err = c.Cluster().Destroy(ctx, s.GetClusterId(), o)
		return err
	})
	if err != nil {
		return err
	}
	err = k.writer().Object(jsonform.Of(reply), func(w io.Writer) {
		fmt.Fprintln(w, "cluster", s.GetClusterId())
		changeTable(w, reply, o.DryRun)
	})
	if err != nil || o.DryRun || wait == 0 {
		return err
	}
	return k.gone(ctx, s, wait)
}

// gone waits until the client ports of the nodes that were there are closed.
func (k clusterCommands) gone(ctx context.Context, s *nornv1.StatusReply, wait time.Duration) error {
	var addrs []string
	for _, n := range s.GetNodes() {
		if n.GetAlive() && n.GetAddress() != "" && n.GetState() != "removed" {
			addrs = append(addrs, n.GetAddress())
		}
	}
	progress, all := k.progress("stopped"), len(addrs)
	defer progress.Clear()
	tick := time.NewTicker(followPause)
	defer tick.Stop()
	dialer := net.Dialer{Timeout: time.Second}
	for until := time.Now().Add(wait); ; {
		addrs = slices.DeleteFunc(addrs, func(addr string) bool {
			c, err := dialer.DialContext(ctx, "tcp", addr)
			if err == nil {
				_ = c.Close()
			}
			return err != nil && ctx.Err() == nil
		})
		progress.Stage("stopped", all-len(addrs), all)
		switch {
		case len(addrs) == 0:
			return nil
		case time.Now().After(until):
			progress.Clear()
			k.complain(fmt.Sprintf("%s did not stop within %s; look at their logs", count(len(addrs), "node", "nodes"), render.Duration(wait)))
			return reported{exitFailed}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; the data is given up and the nodes stop all the same, some seconds later", context.Cause(ctx))
		case <-tick.C:
		}
	}
}
