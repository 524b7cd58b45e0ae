package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func (k clusterCommands) repair() *cobra.Command {
	cmd := &cobra.Command{
		Use: "repair [PARTITION…]", Short: "Have replicas compare and complete each other now",
		Long: `Have the replicas of every partition, or of some, compare what they hold and give
each other what is missing. They do that all the time, each pair in its turn;
this does it at once, and waits for the end. Tasks of the last seconds are left
alone, for their writes are most likely under way.

-o json prints {comparisons, compared, failed, facts_moved, notes}. Exit code 1:
comparisons have failed, 4: a node is out of reach.`,
		Example: "  norn cluster repair\n  norn cluster repair 7 12",
	}
	wait := cmd.Flags().Duration("wait", 10*time.Minute, "for how `long` to wait for the end; 0: not at all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ids, err := partitionArgs(args)
		if err != nil {
			return err
		}
		if *wait < 0 {
			return cli.Usage("--wait: %s is under zero", *wait)
		}
		return k.With(cmd.Context(), func(c *client.Client) error { return k.repairs(cmd.Context(), c.Cluster(), ids, *wait) })
	}
	return cmd
}

// repaired is what came of a repair.
type repaired struct {
	begun *nornv1.ClusterReply
	// first and last are what each node, by its incarnation, said at the first and the last
	// look at which it said anything. The sums of a status lack those that are silent.
	first, last map[string]*nornv1.RepairStatus
	names       map[string]string // of those that take part
	gone        string            // one that went away, or started again, before the end
	ended       bool
}

// look takes a status in, and tells whether nothing is left as far as it shows.
func (r *repaired) look(s *nornv1.StatusReply) (nothing bool) {
	nothing = true
	here := make(map[string]bool)
	for _, n := range s.GetNodes() {
		who, is := n.GetIncarnation(), n.GetRepair()
		if !n.GetAlive() || n.GetState() == "removed" {
			continue
		}
		r.names[who], here[who] = n.GetName(), true
		if is == nil { // silent: it may have a lot left
			nothing = false
			continue
		}
		if was := r.last[who]; was == nil {
			r.first[who] = is
		} else if again(was, is) {
			r.gone = n.GetName()
		}
		r.last[who], nothing = is, nothing && is.GetLeft() == 0
	}
	for who, name := range r.names {
		if !here[who] {
			r.gone = name
		}
	}
	return nothing
}

// again tells that a node has started again between two looks: it counts from 0 then, and
// what it was asked for is forgotten.
func again(was, is *nornv1.RepairStatus) bool {
	return is.GetCompared() < was.GetCompared() || is.GetFailed() < was.GetFailed() || is.GetFactsMoved() < was.GetFactsMoved() ||
		is.GetLeft() < was.GetLeft() && is.GetCompared()+is.GetFailed() == 0
}

// sum is what the nodes have done since the first look.
func (r *repaired) sum() *nornv1.RepairStatus {
	all := &nornv1.RepairStatus{}
	for who, is := range r.last {
		was := r.first[who]
		all.Left += is.GetLeft()
		all.Compared += since(was.GetCompared(), is.GetCompared())
		all.Failed += since(was.GetFailed(), is.GetFailed())
		all.FactsMoved += since(was.GetFactsMoved(), is.GetFactsMoved())
	}
	return all
}

// since is how much a counter has risen; a node that has started again counts
// from 0.
func since(was, is uint64) uint64 { return max(is, was) - was }

func (r *repaired) form() jsonform.Value {
	number := func(name string, n uint64) jsonform.Field {
		return jsonform.Field{Name: name, Value: jsonform.String(strconv.FormatUint(n, 10))}
	}
	var notes []jsonform.Value
	done := r.sum()
	for _, n := range r.begun.GetNotes() {
		notes = append(notes, jsonform.String(n))
	}
	return jsonform.Object(
		jsonform.Field{Name: "comparisons", Value: jsonform.Number(float64(r.begun.GetComparisons()))},
		number("compared", done.GetCompared()), number("failed", done.GetFailed()), number("facts_moved", done.GetFactsMoved()),
		jsonform.Field{Name: "notes", Value: jsonform.List(notes...)},
	)
}

func (r *repaired) table(w io.Writer) {
	if r.begun.GetComparisons() == 0 && len(r.begun.GetNotes()) == 0 {
		fmt.Fprintln(w, "there is one replica of each partition: nothing to compare")
		return
	}
	text, did := "begun", r.sum()
	if r.ended {
		text = "done"
	}
	fmt.Fprintf(w, "%s %s, %s moved", count(r.begun.GetComparisons(), "comparison", "comparisons"), text,
		count(int(did.GetFactsMoved()), "fact", "facts"))
	if n := did.GetFailed(); n > 0 {
		fmt.Fprintf(w, ", %s failed", render.Number(n))
	}
	fmt.Fprintln(w)
	for _, n := range r.begun.GetNotes() {
		fmt.Fprintln(w, cli.Clean(n))
	}
}

// repairer is a cluster that is repaired.
type repairer interface {
	Status(ctx context.Context, o client.StatusOptions) (*nornv1.StatusReply, error)
	Repair(ctx context.Context, partitions []uint32, o client.ChangeOptions) (*nornv1.ClusterReply, error)
}

func (k clusterCommands) repairs(ctx context.Context, c repairer, ids []uint32, wait time.Duration) error {
	before, err := c.Status(ctx, client.StatusOptions{})
	if err != nil {
		return err
	}
	r := &repaired{first: make(map[string]*nornv1.RepairStatus), last: make(map[string]*nornv1.RepairStatus), names: make(map[string]string)}
	r.look(before)
	if r.begun, err = c.Repair(ctx, ids, client.ChangeOptions{}); err != nil {
		return err
	}
	r.ended = r.begun.GetComparisons() == 0
	if !r.ended && wait > 0 {
		if err = k.ended(ctx, c, r, wait); err != nil {
			return err
		}
	}
	if err := k.Writer().Object(r.form(), r.table); err != nil {
		return err
	}
	switch {
	case r.gone != "":
		k.Complain(fmt.Sprintf("node %s went away, or started again, before all was compared (missing guarantee: all nodes in reach); repeat it", cli.Clean(r.gone)))
		return cli.Reported{Code: cli.ExitUnavailable}
	case len(r.begun.GetNotes()) > 0:
		k.Complain("not every replica was compared (missing guarantee: all nodes in reach): " + strings.Join(r.begun.GetNotes(), "; "))
		return cli.Reported{Code: cli.ExitUnavailable}
	case !r.ended && wait > 0:
		k.Complain(fmt.Sprintf("not done within %s; it goes on, see `norn cluster status`", render.Duration(wait)))
		return cli.Reported{Code: cli.ExitFailed}
	case r.sum().GetFailed() > 0:
		k.Complain("comparisons have failed; see the nodes' logs, and repeat it")
		return cli.Reported{Code: cli.ExitFailed}
	}
	return nil
}

// ended waits until no node has a comparison left, or one is gone.
func (k clusterCommands) ended(ctx context.Context, c repairer, r *repaired, wait time.Duration) error {
	progress := k.Progress("compared")
	defer progress.Clear()
	tick := time.NewTicker(followPause)
	defer tick.Stop()
	for until, found := time.Now().Add(wait), 0; time.Now().Before(until); {
		s, err := c.Status(ctx, client.StatusOptions{})
		if ctx.Err() != nil {
			return goesOn(ctx)
		}
		if err != nil {
			return err
		}
		if found++; !r.look(s) {
			found = 0
		}
		if r.ended = r.gone == "" && found == followLooks; r.ended || r.gone != "" {
			return nil
		}
		progress.Stage("compared", int(r.begun.GetComparisons())-int(r.sum().GetLeft()), int(r.begun.GetComparisons()))
		select {
		case <-ctx.Done():
			return goesOn(ctx)
		case <-tick.C:
		}
	}
	return nil
}

func (k clusterCommands) recover() *cobra.Command {
	cmd := &cobra.Command{
		Use: "recover [--accept-loss] [NODE…]", Short: "Go on without what removed nodes had",
		Long: `Partitions of which too few holders are left do not go on by themselves: what a
removed node had may be missing on those that are left. This gives it up: the
partitions go on with what there is, and tasks and updates that were acknowledged
may be lost. Start that node again first if you can: it is no member any more, and
they do not go on because of it, but it hands over what it has, and then nothing
is lost.

Without --accept-loss it says what would be given up, with exit code 1 if that is
anything. Nodes are removed first, with ` + "`norn cluster remove`" + `. It takes a majority
of the register's voters.`,
		Example: "  norn cluster recover\n  norn cluster recover --accept-loss",
	}
	accept := cmd.Flags().Bool("accept-loss", false, "yes, lose what only those nodes had")
	h := &change{clusterCommands: k, done: settled}
	cmd.Flags().DurationVar(&h.wait, "wait", 0, "for how `long` to wait until nothing is left to move; 0: not at all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		h.DryRun = !*accept
		lost, stuck := false, 0
		h.do = func(ctx context.Context, c client.Cluster, o client.ChangeOptions) (*nornv1.ClusterReply, error) {
			reply, err := c.AcceptLoss(ctx, args, o)
			lost, stuck = reply.GetChanged(), len(reply.GetPartitions())
			return reply, err
		}
		if err := h.run(cmd); err != nil {
			return err
		}
		if lost && h.DryRun && stuck == 0 {
			k.Complain("no partition is stuck, so nothing has to be given up: the others go on without these nodes")
			return cli.Reported{Code: cli.ExitFailed}
		}
		if lost && h.DryRun {
			k.Complain("partitions are stuck (missing guarantee: enough holders); start the removed nodes again if that can be, so that they hand over what they have, and add --accept-loss")
			return cli.Reported{Code: cli.ExitFailed}
		}
		return nil
	}
	return cmd
}
