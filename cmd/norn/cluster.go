package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/capacity"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// clusterCommands look after the nodes of a cluster.
type clusterCommands struct{ *app }

func (k clusterCommands) commands() *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use: "cluster", Short: "The nodes and partitions",
		Long: `Show the nodes and partitions of a cluster, and look after them.

A node joins with ` + "`norn server --join`" + `. It is named by its name, or by its
incarnation (as members shows it) where several have had the same name.`,
		Example: "  norn cluster status\n  norn cluster members",
	})
	cmd.AddCommand(k.status(), k.attention(), k.members(), k.partitions(), k.leaders(), k.clock(), k.leave(), k.remove(), k.replace(), k.safeToStop(), k.rebalance(), k.replicas(),
		k.verify(), k.repair(), k.recover(), k.destroy(), capacity.Command(k.Writer, cli.Usage))
	return cmd
}

// asked reads the status and hands it over.
func (k clusterCommands) asked(ctx context.Context, o client.StatusOptions, do func(*nornv1.StatusReply) error) error {
	return k.With(ctx, func(c *client.Client) error {
		s, err := c.Cluster().Status(ctx, o)
		if err != nil {
			return err
		}
		return do(s)
	})
}

func (k clusterCommands) status() *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "The cluster as one node sees it", Args: cobra.NoArgs,
		Long: `Show the cluster as one node sees it: who is there, what works, what is still
to move, and the workers that keep a session with a node in reach. members,
partitions and norn worker list show more of each; -o json has what each worker runs,
and null for the workers where they are not known.`,
		Example: "  norn cluster status\n  norn cluster status -o json | jq '.partitions[] | select(.claim_available | not)'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return k.With(cmd.Context(), func(c *client.Client) error {
				s, err := c.Cluster().Status(cmd.Context(), client.StatusOptions{})
				if err != nil {
					return err
				}
				ctx, cancel := context.WithTimeout(cmd.Context(), workersTime)
				defer cancel()
				workers, err := c.Workers().List(ctx)
				full, working := statusForms(s, workers, err)
				return k.Writer().Object(full, func(w io.Writer) { statusTable(w, s, working) })
			})
		},
	}
}

// statusForms are a status with the workers, and what is said of these to people; err says
// why they are not known, which leaves the rest worth knowing.
func statusForms(s *nornv1.StatusReply, workers []*nornv1.Worker, err error) (full jsonform.Value, working string) {
	if err != nil {
		return jsonform.Of(s).With("workers", jsonform.Value{}), "not known: " + err.Error()
	}
	return jsonform.Of(s).With("workers", jsonform.ListOf(workers)), workersLine(workers)
}

// workersTime is how long the workers are waited for: a status is asked for when
// something is wrong.
const workersTime = 2 * time.Second

// workersLine counts sessions by what they are up to, and what runs.
func workersLine(all []*nornv1.Worker) string {
	if len(all) == 0 {
		return "none keeps a session"
	}
	states, running := make(map[string]int), 0
	for _, m := range all {
		states[workerState(m)]++
		running += len(m.GetRunning())
	}
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(states)) {
		parts = append(parts, render.Number(uint64(states[state]))+" "+state)
	}
	return strings.Join(parts, "; ") + "; " + count(running, "task runs", "tasks run") + " on them"
}

func statusTable(w io.Writer, s *nornv1.StatusReply, workers string) {
	// The register names who led last, also where that one is dead or may not lead any
	// more, and nobody can be elected: what nodes say of themselves counts.
	led, enqueue, claim, oldest := 0, 0, 0, 0.0
	for _, n := range s.GetNodes() {
		if n.GetAlive() && n.GetState() != "removed" {
			led += int(n.GetLed())
		}
	}
	for _, p := range s.GetPartitions() {
		if p.GetEnqueueAvailable() {
			enqueue++
		}
		if p.GetClaimAvailable() {
			claim++
		}
		oldest = max(oldest, p.GetOldestReadySeconds())
	}
	of := " of " + strconv.Itoa(len(s.GetPartitions()))
	register := "a majority is in reach"
	if !s.GetRegister().GetMajority() {
		register = "NO majority is in reach: leaders, members and settings cannot change"
	}
	render.Pairs(w,
		[2]string{"cluster", s.GetClusterId()},
		[2]string{"seen by", s.GetNode()},
		[2]string{"voters", strings.Join(s.GetVoters(), ", ")},
		[2]string{"register", register},
		[2]string{"replicas", replicasLine(s)},
		[2]string{"partitions led", strconv.Itoa(min(led, len(s.GetPartitions()))) + of},
		[2]string{"take enqueues", strconv.Itoa(enqueue) + of},
		[2]string{"hand out claims", strconv.Itoa(claim) + of},
		[2]string{"oldest ready task", render.Duration(proto.Seconds(oldest).Round(time.Millisecond))},
		[2]string{"movement", movement(s)},
		[2]string{"repair", repairing(s.GetRepair())},
		[2]string{"workers", workers},
		[2]string{"kept aside", keptAside(s.GetNodes())},
	)
	if few := fewCopies(s); few != "" {
		render.Pairs(w, [2]string{"FEW COPIES", few})
	}
	if forgot := forgotten(s.GetNodes()); forgot != "" {
		render.Pairs(w, [2]string{"FORGOTTEN", forgot})
	}
	fmt.Fprintln(w)
	nodeGrid(w, s)
}

// fewCopies says that a quorum is one of fewer copies than there are to be, because there are
// fewer nodes; empty: it is not.
func fewCopies(s *nornv1.StatusReply) string {
	least := int(s.GetReplicas())
	for _, p := range s.GetPartitions() {
		least = min(least, len(p.GetCohort()))
	}
	members := 0
	for _, n := range s.GetNodes() {
		if n.GetState() != "removed" && n.GetState() != "joining" {
			members++
		}
	}
	if least >= int(s.GetReplicas()) || members >= int(s.GetReplicas()) {
		return ""
	}
	return cli.FewText(least, int(s.GetReplicas()))
}

// forgotten names the nodes whose disks have lost what they had acknowledged; empty: none.
func forgotten(nodes []*nornv1.NodeStatus) string {
	var who []string
	for _, n := range sortedNodes(nodes) {
		if n.GetForgot() != "" && n.GetState() != "removed" {
			who = append(who, cli.Clean(n.GetName()+" ("+n.GetForgot()+")"))
		}
	}
	if len(who) == 0 {
		return ""
	}
	return strings.Join(who, ", ") + ": these neither vote nor lead until enough others can go on without them; see docs/how-to/nodes.md"
}

// movement says what is still to move, and what nobody moves because a node is missing.
func movement(s *nornv1.StatusReply) string {
	m := s.GetMovement()
	var left []string
	if n := m.GetCopiesLeft(); n > 0 {
		left = append(left, count(n, "copy to make", "copies to make"))
	}
	if n := m.GetHandoversLeft(); n > 0 {
		left = append(left, count(n, "copy to hand over", "copies to hand over"))
	}
	if n := m.GetStuck(); n > 0 {
		left = append(left, count(n, "partition is stuck", "partitions are stuck")+": too few of its holders are left, see `norn cluster recover`")
	}
	if len(left) > 0 {
		return strings.Join(left, ", ")
	}
	short := 0
	for _, p := range s.GetPartitions() {
		if int(p.GetCopies()) < wholeCopies(s) {
			short++
		}
	}
	if short > 0 {
		return "nothing is to move, but of " + count(short, "partition a copy is", "partitions copies are") + " out of reach"
	}
	return "everything is in its place"
}

// wholeCopies is how many copies each partition is to have with the members there are.
func wholeCopies(s *nornv1.StatusReply) int {
	members := 0
	for _, n := range s.GetNodes() {
		switch n.GetState() {
		case "up", "down", "leaving":
			members++
		}
	}
	return min(int(s.GetReplicas()), max(1, members))
}

func repairing(r *nornv1.RepairStatus) string {
	text := render.Number(r.GetCompared()) + " comparisons, " + render.Number(r.GetFactsMoved()) + " facts moved"
	if r.GetFailed() > 0 {
		text += ", " + render.Number(r.GetFailed()) + " failed"
	}
	if r.GetClashes() > 0 {
		text += ", " + render.Number(r.GetClashes()) + " with two contents (task.clash in the logs)"
	}
	if r.GetLeft() > 0 {
		text += ", " + render.Number(uint64(r.GetLeft())) + " asked for and not done"
	}
	return text
}

// keptAside says who keeps facts that nobody can place any more, and who has no
// room for more of them.
func keptAside(nodes []*nornv1.NodeStatus) string {
	var parts, full []string
	for _, n := range sortedNodes(nodes) {
		if tasks := n.GetQuarantinedTasks(); tasks > 0 {
			parts = append(parts, count(tasks, "task", "tasks")+" ("+render.Number(n.GetQuarantinedBytes())+" bytes) on "+n.GetName())
		}
		if n.GetQuarantineRefused() > 0 {
			full = append(full, n.GetName())
		}
	}
	text := cmp.Or(strings.Join(parts, ", "), "nothing")
	if len(parts) > 0 {
		text += ": older than gc-grace and unknown to the others, `norn cluster verify` names them"
	}
	if len(full) > 0 {
		text += "; NO room for more on " + strings.Join(full, ", ") + ": raise `quarantine`"
	}
	return text
}

// count is a number with its noun.
func count[N int | uint32](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return render.Number(uint64(n)) + " " + many
}

func nodeGrid(w io.Writer, s *nornv1.StatusReply) {
	g := render.NewGrid(false, "node", "state", "address", "zone", "led", "vnodes", "to copy", "to hand over", "clock", "incarnation")
	for _, n := range sortedNodes(s.GetNodes()) {
		g.Row(n.GetName(), liveliness(n), n.GetAddress(), n.GetZone(), fmt.Sprint(n.GetLed()), fmt.Sprint(n.GetVnodes()),
			fmt.Sprint(n.GetCopiesLeft()), fmt.Sprint(n.GetHandoversLeft()),
			clockCell(s, n, fmt.Sprintf("%+.1fms ±%.1fms", n.GetClockOffsetMs(), n.GetClockErrorMs())), n.GetIncarnation())
	}
	g.Write(w)
}

// clockCell is what is known of a node's clock: of one that is not in reach nothing is,
// nor of one that the node that answers has not compared its own with yet.
func clockCell(s *nornv1.StatusReply, n *nornv1.NodeStatus, text string) string {
	switch {
	case !n.GetAlive():
		return "-"
	case n.GetClockErrorMs() == 0 && n.GetName() != s.GetNode():
		return "not known yet"
	}
	return text
}

// liveliness is the state, and whether a node that is on its way can be reached.
func liveliness(n *nornv1.NodeStatus) string {
	switch {
	case n.GetState() == "leaving" && !n.GetAlive(), n.GetState() == "joining" && !n.GetAlive():
		return n.GetState() + ", down"
	case n.GetState() == "removed" && n.GetAlive():
		return "removed, up"
	}
	return n.GetState()
}

func sortedNodes(nodes []*nornv1.NodeStatus) []*nornv1.NodeStatus {
	return slices.SortedFunc(slices.Values(nodes), func(a, b *nornv1.NodeStatus) int {
		return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), cmp.Compare(a.GetIncarnation(), b.GetIncarnation()))
	})
}

func (k clusterCommands) members() *cobra.Command {
	cmd := &cobra.Command{
		Use: "members", Aliases: []string{"nodes"}, Short: "List the nodes", Args: cobra.NoArgs,
		Long: `List the nodes. A state is joining (it gets the register and owns nothing yet), up,
down, leaving (it hands over what it has) or removed. Removed ones are listed
while partitions still name them or while they run; --all lists every one.`,
		Example: "  norn cluster members\n  norn cluster members -o json | jq -r '.[] | select(.state == \"down\") | .name'",
	}
	all := cmd.Flags().Bool("all", false, "also the removed nodes that do not matter any more")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return k.asked(cmd.Context(), client.StatusOptions{Removed: *all}, func(s *nornv1.StatusReply) error {
			list := memberList(k.Writer(), s.GetVoters())
			for _, n := range sortedNodes(s.GetNodes()) {
				list.Add(n)
			}
			return list.Close()
		})
	}
	return cmd
}

func memberList(w *render.Writer, voters []string) *render.List[*nornv1.NodeStatus] {
	number := func(head string, n func(*nornv1.NodeStatus) uint32) render.Column[*nornv1.NodeStatus] {
		return render.Column[*nornv1.NodeStatus]{Head: head, Cell: func(s *nornv1.NodeStatus) string { return fmt.Sprint(n(s)) }}
	}
	return render.NewList(w, func(n *nornv1.NodeStatus) jsonform.Value { return jsonform.Of(n) },
		render.Column[*nornv1.NodeStatus]{Head: "node", Cell: (*nornv1.NodeStatus).GetName},
		render.Column[*nornv1.NodeStatus]{Head: "state", Cell: liveliness},
		render.Column[*nornv1.NodeStatus]{Head: "voter", Cell: func(n *nornv1.NodeStatus) string {
			if n.GetState() != "removed" && slices.Contains(voters, n.GetName()) {
				return "yes"
			}
			return "no"
		}},
		render.Column[*nornv1.NodeStatus]{Head: "address", Cell: (*nornv1.NodeStatus).GetAddress},
		render.Column[*nornv1.NodeStatus]{Head: "peer address", Cell: func(n *nornv1.NodeStatus) string { return strings.Join(n.GetPeerAddresses(), " ") }},
		render.Column[*nornv1.NodeStatus]{Head: "zone", Cell: (*nornv1.NodeStatus).GetZone},
		number("weight", (*nornv1.NodeStatus).GetWeight), number("led", (*nornv1.NodeStatus).GetLed), number("vnodes", (*nornv1.NodeStatus).GetVnodes),
		number("to copy", (*nornv1.NodeStatus).GetCopiesLeft), number("to hand over", (*nornv1.NodeStatus).GetHandoversLeft),
		render.Column[*nornv1.NodeStatus]{Head: "incarnation", Cell: (*nornv1.NodeStatus).GetIncarnation},
	)
}

func (k clusterCommands) partitions() *cobra.Command {
	cmd := &cobra.Command{
		Use: "partitions", Short: "List the partitions with their replicas and leaders", Args: cobra.NoArgs,
		Long: `List the partitions: who leads, who keeps a copy, who shall keep one where that
is not so yet, and what works.`,
		Example: "  norn cluster partitions\n  norn cluster partitions --troubled -q\n  norn cluster partitions -o json | jq '.[] | select(.copies < 2)'",
	}
	only := cmd.Flags().Bool("troubled", false, "only those that are moving, lack a leader or a copy, or take nothing")
	ids := cmd.Flags().BoolP("ids", "q", false, "tables: only their numbers, one per line")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return k.asked(cmd.Context(), client.StatusOptions{}, func(s *nornv1.StatusReply) error {
			list := partitionList(k.Writer(), *ids)
			for _, p := range s.GetPartitions() {
				if !*only || troubled(p) {
					list.Add(p)
				}
			}
			return list.Close()
		})
	}
	return cmd
}

// troubled tells whether something is wrong with a partition, or moving.
func troubled(p *nornv1.PartitionStatus) bool {
	return p.GetMoving() || p.GetLeader() == "" || !p.GetEnqueueAvailable() || !p.GetClaimAvailable() || int(p.GetCopies()) < len(p.GetCohort())
}

func partitionList(w *render.Writer, ids bool) *render.List[*nornv1.PartitionStatus] {
	type partition = nornv1.PartitionStatus
	form := func(p *partition) jsonform.Value { return jsonform.Of(p) }
	number := func(p *partition) string { return fmt.Sprint(p.GetId()) }
	if ids {
		return render.NewList(w, form, render.Column[*partition]{Cell: number})
	}
	return render.NewList(w, form,
		render.Column[*partition]{Head: "partition", Cell: number},
		render.Column[*partition]{Head: "epoch", Cell: func(p *partition) string { return fmt.Sprint(p.GetEpoch()) }},
		render.Column[*partition]{Head: "leader", Cell: func(p *partition) string { return cmp.Or(p.GetLeader(), "-") }},
		render.Column[*partition]{Head: "copies on", Cell: func(p *partition) string { return strings.Join(p.GetCohort(), " ") }},
		render.Column[*partition]{Head: "in reach", Cell: func(p *partition) string { return fmt.Sprintf("%d of %d", p.GetCopies(), len(p.GetCohort())) }},
		render.Column[*partition]{Head: "moves to", Cell: func(p *partition) string {
			if !p.GetMoving() {
				return ""
			}
			return strings.Join(p.GetPlanned(), " ")
		}},
		render.Column[*partition]{Head: "enqueue", Cell: func(p *partition) string { return yesNo(p.GetEnqueueAvailable()) }},
		render.Column[*partition]{Head: "claim", Cell: func(p *partition) string { return yesNo(p.GetClaimAvailable()) }},
		render.Column[*partition]{Head: "oldest ready", Cell: func(p *partition) string {
			return render.Duration(proto.Seconds(p.GetOldestReadySeconds()).Round(time.Second))
		}},
	)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "NO"
}

func (k clusterCommands) leaders() *cobra.Command {
	return &cobra.Command{
		Use: "leaders", Short: "Show which node leads which partitions", Args: cobra.NoArgs,
		Long: `Show which node leads which partitions. Those that nobody in reach leads, so that
nothing can be claimed there, are in a row of their own. -o json prints
[{node, partitions, led}], node "" for those without a leader.`,
		Example: "  norn cluster leaders\n  norn cluster leaders -o json | jq -r '.[] | [.node, .led] | @tsv'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return k.asked(cmd.Context(), client.StatusOptions{}, func(s *nornv1.StatusReply) error {
				list := render.NewList(k.Writer(), leadership.form,
					render.Column[leadership]{Head: "node", Cell: func(l leadership) string { return cmp.Or(l.node, "(nobody)") }},
					render.Column[leadership]{Head: "led", Cell: func(l leadership) string { return strconv.Itoa(len(l.partitions)) }},
					render.Column[leadership]{Head: "partitions", Cell: func(l leadership) string { return ranges(l.partitions) }},
				)
				for _, l := range leaderships(s) {
					list.Add(l)
				}
				return list.Close()
			})
		},
	}
}

// clock shows how far the nodes' wall clocks are apart.
func (k clusterCommands) clock() *cobra.Command {
	return &cobra.Command{
		Use: "clock", Short: "Show how far the nodes' clocks are apart", Args: cobra.NoArgs,
		Long: `Show how far the wall clock of each node is ahead of that of the node that
answers, with the bound on the error of that. A node that cannot show that its
clock is within a quarter of eta of a majority leads nothing and does not vote
for claims; it takes tasks and completions all the same. Exit code 1 says that
there is such a node.`,
		Example: "  norn cluster clock\n  norn cluster clock -o json | jq '.[] | select(.fault != \"\")'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return k.asked(cmd.Context(), client.StatusOptions{}, func(s *nornv1.StatusReply) error {
				list := render.NewList(k.Writer(), clockForm,
					render.Column[*nornv1.NodeStatus]{Head: "node", Cell: (*nornv1.NodeStatus).GetName},
					render.Column[*nornv1.NodeStatus]{Head: "ahead", Cell: func(n *nornv1.NodeStatus) string {
						return clockCell(s, n, fmt.Sprintf("%+.1fms", n.GetClockOffsetMs()))
					}},
					render.Column[*nornv1.NodeStatus]{Head: "at most off by", Cell: func(n *nornv1.NodeStatus) string { return clockCell(s, n, fmt.Sprintf("%.1fms", n.GetClockErrorMs())) }},
					render.Column[*nornv1.NodeStatus]{Head: "fault", Cell: (*nornv1.NodeStatus).GetClockFault},
				)
				bad := 0
				for _, n := range sortedNodes(s.GetNodes()) {
					if list.Add(n); n.GetClockFault() != "" {
						bad++
					}
				}
				if err := list.Close(); err != nil || bad == 0 {
					return err
				}
				return fmt.Errorf("%s may not lead because of clocks (missing guarantee: clocks within a quarter of eta): set those that are off (NTP), or raise --eta on all nodes; where too few clocks are known, bring the other nodes back", count(bad, "node", "nodes"))
			})
		},
	}
}

// clockForm is what is said of a node's clock.
func clockForm(n *nornv1.NodeStatus) jsonform.Value {
	return jsonform.Object(
		jsonform.Field{Name: "node", Value: jsonform.String(n.GetName())},
		jsonform.Field{Name: "clock_offset_ms", Value: jsonform.Number(n.GetClockOffsetMs())},
		jsonform.Field{Name: "clock_error_ms", Value: jsonform.Number(n.GetClockErrorMs())},
		jsonform.Field{Name: "fault", Value: jsonform.String(n.GetClockFault())},
	)
}

// leadership is what a node leads.
type leadership struct {
	node       string
	partitions []uint32
}

func (l leadership) form() jsonform.Value {
	var all []jsonform.Value
	for _, p := range l.partitions {
		all = append(all, jsonform.Number(float64(p)))
	}
	return jsonform.Object(
		jsonform.Field{Name: "node", Value: jsonform.String(l.node)}, jsonform.Field{Name: "led", Value: jsonform.Number(float64(len(all)))},
		jsonform.Field{Name: "partitions", Value: jsonform.List(all...)},
	)
}

// leaderships gives every node that could lead, and "" for what nobody in reach
// leads, if that is anything.
func leaderships(s *nornv1.StatusReply) (all []leadership) {
	of := make(map[string][]uint32)
	for _, n := range s.GetNodes() {
		if n.GetState() != "removed" {
			of[n.GetName()] = nil
		}
	}
	for _, p := range s.GetPartitions() {
		name := p.GetLeader()
		if !p.GetClaimAvailable() {
			name = ""
		}
		of[name] = append(of[name], p.GetId())
	}
	for node, led := range of { // Any order: sorted below.
		all = append(all, leadership{node, led})
	}
	slices.SortFunc(all, func(a, b leadership) int { return cmp.Compare(a.node, b.node) })
	return all
}

// ranges shortens numbers in order: 0-3 7 9-10.
func ranges(all []uint32) string {
	var out []string
	for i := 0; i < len(all); {
		j := i
		for j+1 < len(all) && all[j+1] == all[j]+1 {
			j++
		}
		if i == j {
			out = append(out, fmt.Sprint(all[i]))
		} else {
			out = append(out, fmt.Sprintf("%d-%d", all[i], all[j]))
		}
		i = j + 1
	}
	return strings.Join(out, " ")
}
