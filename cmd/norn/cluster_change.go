package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// change is one thing that is done about the members of a cluster.
type change struct {
	clusterCommands
	client.ChangeOptions
	wait time.Duration
	// do asks for it, done says whether a status shows that nothing is left of it.
	do   func(context.Context, client.Cluster, client.ChangeOptions) (*nornv1.ClusterReply, error)
	done func(*nornv1.StatusReply) bool
	// via are the addresses to follow it at, where the node that was asked may be
	// gone before all is done; none: the same as it was asked at.
	via []string
}

// flags adds those that changes have in common.
func (h *change) flags(cmd *cobra.Command, wait time.Duration, force bool) {
	f := cmd.Flags()
	f.BoolVar(&h.DryRun, "dry-run", false, "say what would be done, and do nothing")
	f.DurationVar(&h.wait, "wait", wait, "for how `long` to wait until nothing is left to move; 0: not at all")
	if force {
		f.BoolVar(&h.Force, "force", false, "also if it is in reach, or partitions are left with too few copies to go on")
	}
}

// run asks for the change, shows the answer and follows what comes of it.
func (h *change) run(cmd *cobra.Command) error {
	if h.wait < 0 {
		return cli.Usage("--wait: %s is under zero", h.wait)
	}
	return h.With(cmd.Context(), func(c *client.Client) error {
		reply, err := h.do(cmd.Context(), c.Cluster(), h.ChangeOptions)
		if err != nil {
			return err
		}
		if err := h.Writer().Object(jsonform.Of(reply), func(w io.Writer) { changeTable(w, reply, h.DryRun) }); err != nil {
			return err
		}
		if h.DryRun || h.wait == 0 {
			return nil
		}
		watched := h.watched(cmd.Context())
		if watched == nil {
			return h.follow(cmd.Context(), c.Cluster())
		}
		return errors.Join(h.follow(cmd.Context(), watched.Cluster()), watched.Close())
	})
}

// viaTimeout is how long the nodes at via may take for their first answer.
const viaTimeout = 5 * time.Second

// watched is a client of the nodes at via; nil where none of them can be reached
// from here.
func (h *change) watched(ctx context.Context) *client.Client {
	if len(h.via) == 0 {
		return nil
	}
	c, err := h.DialNodes(ctx, h.via)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, viaTimeout)
	defer cancel()
	if _, err = c.Cluster().Status(ctx, client.StatusOptions{}); err != nil {
		_ = c.Close() // the node that was asked is followed instead
		return nil
	}
	return c
}

// changeTable tells people what was done.
func changeTable(w io.Writer, r *nornv1.ClusterReply, dry bool) {
	if dry {
		fmt.Fprintln(w, "Nothing is done yet. This would be:")
	}
	for _, n := range r.GetNotes() {
		fmt.Fprintln(w, cli.Clean(n))
	}
	switch {
	case r.GetCopies() > 0:
		fmt.Fprintf(w, "%s of partitions to move\n", count(r.GetCopies(), "copy", "copies"))
	case !r.GetChanged() && len(r.GetNotes()) == 0:
		fmt.Fprintln(w, "there is nothing to do")
	}
}

const (
	// followPause is between two looks at a status.
	followPause = 500 * time.Millisecond
	// followLooks is how many looks in a row must find nothing left: nodes hear of
	// a change one after the other.
	followLooks = 2
)

// follow waits until nothing is left to move.
func (h *change) follow(ctx context.Context, k client.Cluster) error {
	progress := h.Progress("moved")
	defer progress.Clear()
	tick, until := time.NewTicker(followPause), time.NewTimer(h.wait)
	defer tick.Stop()
	defer until.Stop()
	for most, found := 0, 0; ; {
		s, err := k.Status(ctx, client.StatusOptions{})
		if ctx.Err() != nil {
			return goesOn(ctx)
		}
		if err != nil {
			return err
		}
		m := s.GetMovement()
		if m.GetStuck() > 0 {
			progress.Clear()
			h.Complain(fmt.Sprintf("%s cannot move (missing guarantee: enough holders); see `norn cluster recover`", count(m.GetStuck(), "partition", "partitions")))
			return cli.Reported{Code: cli.ExitUnavailable}
		}
		if found++; !h.done(s) {
			found = 0
		}
		if found == followLooks {
			return nil
		}
		left := int(m.GetCopiesLeft() + m.GetHandoversLeft())
		most = max(most, left)
		progress.Stage("moved", most-left, most)
		select {
		case <-ctx.Done():
			return goesOn(ctx)
		case <-until.C:
			progress.Clear()
			h.Complain(fmt.Sprintf("not done within %s: %s; it goes on, see `norn cluster status`", render.Duration(h.wait), movement(s)))
			return cli.Reported{Code: cli.ExitFailed}
		case <-tick.C:
		}
	}
}

// goesOn is why a command ends that waits for what is decided, and that nothing of that
// ends with it.
func goesOn(ctx context.Context) error {
	return fmt.Errorf("%w; what was begun goes on, see `norn cluster status`", context.Cause(ctx))
}

// settled says that nothing is left to move, and that no removed node is named.
func settled(s *nornv1.StatusReply) bool {
	m := s.GetMovement()
	return m.GetCopiesLeft()+m.GetHandoversLeft() == 0 &&
		!slices.ContainsFunc(s.GetPartitions(), (*nornv1.PartitionStatus).GetMoving) &&
		!slices.ContainsFunc(s.GetNodes(), func(n *nornv1.NodeStatus) bool { return n.GetState() == "removed" && n.GetVnodes() > 0 })
}

// left says that a node, by its incarnation, is not a member any more, and has
// nothing that it did not hand over.
func left(incarnation string) func(*nornv1.StatusReply) bool {
	return func(s *nornv1.StatusReply) bool {
		return !slices.ContainsFunc(s.GetNodes(), func(n *nornv1.NodeStatus) bool {
			return n.GetIncarnation() == incarnation && (n.GetState() != "removed" || n.GetVnodes() > 0)
		})
	}
}

func (k clusterCommands) leave() *cobra.Command {
	h := &change{clusterCommands: k}
	cmd := &cobra.Command{
		Use: "leave [NODE]", Short: "Have a node hand over what it has and leave", Args: cobra.MaximumNArgs(1), ValidArgsFunction: k.completeNodes(1),
		Long: `Have a node hand over what it has to the others and leave the cluster: without
NODE the one at --addr. It keeps serving meanwhile, and must run until it is
removed, which is waited for; then its process ends by itself, with exit code 0.
The last node cannot leave, and one that is dead is removed instead. --stay takes
it back as long as it is not removed.`,
		Example: "  norn cluster leave n4\n  norn cluster leave n4 --dry-run\n  norn cluster leave --stay n4",
	}
	h.flags(cmd, 10*time.Minute, false)
	stay := cmd.Flags().Bool("stay", false, "have a node that is leaving stay after all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && len(k.Addrs) > 1 {
			return cli.Usage("name the node: --addr has %d addresses, and any of them may answer", len(k.Addrs))
		}
		h.do = func(ctx context.Context, c client.Cluster, o client.ChangeOptions) (*nornv1.ClusterReply, error) {
			node, others, err := whichNode(ctx, c, args)
			if err != nil {
				return nil, err
			}
			h.done, h.via = left(node), others
			if *stay {
				h.wait = 0
				return c.Stay(ctx, node, o)
			}
			return c.Leave(ctx, node, o)
		}
		return h.run(cmd)
	}
	return cmd
}

// whichNode asks for the status, and gives what [meant] says.
func whichNode(ctx context.Context, c client.Cluster, args []string) (node string, others []string, err error) {
	s, err := c.Status(ctx, client.StatusOptions{})
	if err != nil {
		return "", nil, err
	}
	node, others = meant(s, args)
	return node, others, nil
}

// meant gives the incarnation of the node that is meant, by its name or by that, as far
// as the status shows it, or else what it was called: then the server says what is wrong
// with it. If it is the one that was asked, others are where clients reach the rest.
func meant(s *nornv1.StatusReply, args []string) (node string, others []string) {
	node = s.GetNode()
	if len(args) > 0 {
		node = args[0]
	}
	at := slices.IndexFunc(s.GetNodes(), func(n *nornv1.NodeStatus) bool { return n.GetIncarnation() == strings.ToLower(node) })
	if at < 0 {
		at = slices.IndexFunc(s.GetNodes(), func(n *nornv1.NodeStatus) bool {
			return n.GetName() == node && n.GetState() != "removed" && n.GetState() != "joining"
		})
	}
	if at < 0 {
		return node, nil
	}
	found := s.GetNodes()[at]
	for _, n := range s.GetNodes() {
		if n != found && found.GetName() == s.GetNode() && n.GetState() == "up" && n.GetAlive() && n.GetAddress() != "" {
			others = append(others, n.GetAddress())
		}
	}
	return found.GetIncarnation(), others
}

func (k clusterCommands) remove() *cobra.Command {
	h := &change{clusterCommands: k, done: settled}
	cmd := &cobra.Command{
		Use: "remove NODE", Aliases: []string{"rm"}, Short: "Give up a node that is dead", Args: cobra.ExactArgs(1), ValidArgsFunction: k.completeNodes(1),
		Long: `Give up a node that is dead: the others make new copies of what it had. One that
is in reach should leave instead. A removed node does not come back as the same
member; what it may still have is taken over should it ever start again.`,
		Example: "  norn cluster remove n3\n  norn cluster remove n3 --wait 10m",
	}
	h.flags(cmd, 0, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		h.do = func(ctx context.Context, c client.Cluster, o client.ChangeOptions) (*nornv1.ClusterReply, error) {
			return c.Remove(ctx, args[0], o)
		}
		return h.run(cmd)
	}
	return cmd
}

func (k clusterCommands) replace() *cobra.Command {
	h := &change{clusterCommands: k, done: settled}
	cmd := &cobra.Command{
		Use: "replace OLD NEW", Short: "Give up a dead node and put another one in its place", Args: cobra.ExactArgs(2), ValidArgsFunction: k.completeNodes(2),
		Long: `Give up a dead node and put another one, which has joined, in its place. A node
that joins under the name of a dead one does that by itself.`,
		Example: "  norn cluster replace n3 n6\n  norn cluster replace n3 n6 --dry-run",
	}
	h.flags(cmd, 0, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		h.do = func(ctx context.Context, c client.Cluster, o client.ChangeOptions) (*nornv1.ClusterReply, error) {
			return c.Replace(ctx, args[0], args[1], o)
		}
		return h.run(cmd)
	}
	return cmd
}

func (k clusterCommands) rebalance() *cobra.Command {
	h := &change{clusterCommands: k, done: settled}
	cmd := &cobra.Command{
		Use: "rebalance", Short: "Work out anew which node keeps what", Args: cobra.NoArgs,
		Long: `Work out anew which node keeps what, with as little movement as possible. The
cluster does that by itself whenever nodes come and go, so there is seldom
anything to do. --fresh forgets the plan that there is and begins from nothing:
nearly every copy moves.`,
		Example: "  norn cluster rebalance --dry-run\n  norn cluster rebalance --fresh --yes --wait 1h",
	}
	h.flags(cmd, 0, false)
	fresh := cmd.Flags().Bool("fresh", false, "from nothing, also where the plan cannot be read")
	yes := cmd.Flags().Bool("yes", false, "yes, move nearly everything")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *fresh && !*yes && !h.DryRun {
			return cli.Usage("--fresh moves nearly every copy; add --yes if that is meant, or --dry-run")
		}
		h.do = func(ctx context.Context, c client.Cluster, o client.ChangeOptions) (*nornv1.ClusterReply, error) {
			return c.Rebalance(ctx, *fresh, o)
		}
		return h.run(cmd)
	}
	return cmd
}
