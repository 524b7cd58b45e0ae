package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
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
			return cli.Usage("it stops all nodes and deletes every task of the cluster, for ever; add --yes if that is meant, or --dry-run")
		case *wait < 0:
			return cli.Usage("--wait: %s is under zero", *wait)
		}
		return k.asked(cmd.Context(), client.StatusOptions{}, func(s *nornv1.StatusReply) error {
			return k.destroys(cmd.Context(), s, client.ChangeOptions{DryRun: *dryRun, Force: *force}, *wait)
		})
	}
	return cmd
}

func (k clusterCommands) destroys(ctx context.Context, s *nornv1.StatusReply, o client.ChangeOptions, wait time.Duration) error {
	var ports []*clientPort
	if !o.DryRun && wait > 0 {
		ports = reach(ctx, s)
		defer func() {
			for _, p := range ports {
				if p.conn != nil {
					_ = p.conn.Close()
				}
			}
		}()
	}
	var reply *nornv1.ClusterReply
	err := k.With(ctx, func(c *client.Client) (err error) {
		reply, err = c.Cluster().Destroy(ctx, s.GetClusterId(), o)
		return err
	})
	if err != nil {
		return err
	}
	err = k.Writer().Object(jsonform.Of(reply), func(w io.Writer) {
		fmt.Fprintln(w, "cluster", s.GetClusterId())
		changeTable(w, reply, o.DryRun)
	})
	if err != nil || o.DryRun || wait == 0 {
		return err
	}
	return k.gone(ctx, ports, wait)
}

// clientPort is that of a node which is to stop.
type clientPort struct {
	node, addr string
	conn       net.Conn // nil: it was not reached
}

// portTime is how long a node may take to accept a connection. One that has gone with its
// machine is refused by the network within that.
const portTime = 4 * time.Second

// reach connects to the nodes while they live: what cannot be reached then says nothing later.
func reach(ctx context.Context, s *nornv1.StatusReply) (all []*clientPort) {
	var wg sync.WaitGroup
	for _, n := range s.GetNodes() {
		if !n.GetAlive() || n.GetState() == "removed" {
			continue
		}
		p := &clientPort{node: n.GetName(), addr: n.GetAddress()}
		all = append(all, p)
		if p.addr != "" {
			wg.Go(func() { _ = p.dial(ctx) })
		}
	}
	wg.Wait()
	return all
}

func (p *clientPort) dial(ctx context.Context) error {
	c, err := (&net.Dialer{Timeout: portTime}).DialContext(ctx, "tcp", p.addr)
	if err == nil {
		p.conn = c
	}
	return err
}

// stops returns when the node has: its connection has ended, and no other one can be made. A
// dial that times out may be the network's fault, and is repeated.
func (p *clientPort) stops(ctx context.Context) bool {
	for ctx.Err() == nil {
		unwatch := context.AfterFunc(ctx, func() { _ = p.conn.Close() })
		_, _ = io.Copy(io.Discard, p.conn)
		unwatch()
		_ = p.conn.Close()
		var late net.Error
		if err := p.dial(ctx); err != nil && ctx.Err() == nil && (!errors.As(err, &late) || !late.Timeout()) {
			return true
		}
		select { // a node ends connections on which nobody says anything
		case <-ctx.Done():
		case <-time.After(followPause):
		}
	}
	_ = p.conn.Close()
	return false
}

// gone waits until the client ports of the nodes that were there are closed.
func (k clusterCommands) gone(ctx context.Context, ports []*clientPort, wait time.Duration) error {
	watch, end := context.WithCancel(ctx)
	stopped := make(chan bool, len(ports))
	var unseen []string
	all := 0
	for _, p := range ports {
		if p.conn == nil {
			unseen = append(unseen, cli.Clean(p.node))
			continue
		}
		all++
		go func() { stopped <- p.stops(watch) }()
	}
	left := all
	defer func() {
		end()
		for ; left > 0; left-- {
			<-stopped
		}
	}()
	progress, until := k.Progress("stopped"), time.NewTimer(wait)
	defer progress.Clear()
	defer until.Stop()
	for left > 0 {
		progress.Stage("stopped", all-left, all)
		select {
		case <-stopped:
			left--
		case <-until.C:
			progress.Clear()
			k.Complain(fmt.Sprintf("%s did not stop within %s; look at their logs", count(left, "node", "nodes"), render.Duration(wait)))
			return cli.Reported{Code: cli.ExitFailed}
		case <-ctx.Done():
			return fmt.Errorf("%w; the data is given up and the nodes stop all the same, some seconds later", context.Cause(ctx))
		}
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w; the data is given up and the nodes stop all the same, some seconds later", context.Cause(ctx))
	case len(unseen) > 0:
		progress.Clear()
		k.Complain(fmt.Sprintf("it cannot be seen from here whether %s stops; look at the log", strings.Join(unseen, ", ")))
		return cli.Reported{Code: cli.ExitFailed}
	}
	return nil
}
