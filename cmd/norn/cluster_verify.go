package main

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
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

func (k clusterCommands) verify() *cobra.Command {
	cmd := &cobra.Command{
		Use: "verify [PARTITION…]", Short: "Compare what the replicas of each partition hold", Args: cobra.ArbitraryArgs,
		Long: `Ask every replica of every partition, or of some, what it holds, and compare the
sums over their facts and the counters of their tasks. It changes nothing.

What differs is looked at again for a while, for a write may just be under way,
and replicas repair each other all the time. Exit code 1: replicas differ, 4: a
replica is out of reach and the others are equal.

-o json prints {partitions, replicas, equal, differing, unreachable, facts,
problems, quarantined}; problems are the partitions that are not in order, with
what each replica holds, quarantined those of which replicas keep facts aside,
which make no difference: [{partition, task, nodes}], up to 100 of a replica.`,
		Example: "  norn cluster verify\n  norn cluster verify 7 12 --wait 1m\n  norn cluster verify -o json | jq '.problems[].id'",
	}
	wait := cmd.Flags().Duration("wait", 15*time.Second, "for how `long` to look again at replicas that differ; 0: one look")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ids, err := partitionArgs(args)
		if err != nil {
			return err
		}
		if *wait < 0 {
			return cli.Usage("--wait: %s is under zero", *wait)
		}
		return k.With(cmd.Context(), func(c *client.Client) error {
			progress := k.Progress("verified")
			v, err := c.Cluster().Verify(cmd.Context(), client.VerifyOptions{Partitions: ids, Wait: *wait, Progress: func(done, total int) {
				progress.Stage("verified", done, total)
			}})
			progress.Clear()
			if err != nil {
				return err
			}
			if err := k.Writer().Object(verification(v), func(w io.Writer) { verificationTable(w, v) }); err != nil {
				return err
			}
			return k.verdict(v)
		})
	}
	return cmd
}

// partitionArgs reads numbers of partitions.
func partitionArgs(args []string) (ids []uint32, err error) {
	for _, a := range args {
		n, err := strconv.ParseUint(a, 10, 32)
		if err != nil {
			return nil, cli.Usage("%q is not the number of a partition", a)
		}
		ids = append(ids, uint32(n))
	}
	return ids, nil
}

// verdict is the exit code, with what it means.
func (k clusterCommands) verdict(v *client.Verification) error {
	switch {
	case v.Differing > 0:
		k.Complain(fmt.Sprintf("the replicas of %s do not hold the same (missing guarantee: equal replicas); they repair each other, at once with `norn cluster repair`",
			count(v.Differing, "partition", "partitions")))
		return cli.Reported{Code: cli.ExitFailed}
	case v.Unreachable > 0:
		k.Complain(fmt.Sprintf("replicas of %s did not answer (missing guarantee: all replicas in reach), the others are equal; see `norn cluster members`",
			count(v.Unreachable, "partition", "partitions")))
		return cli.Reported{Code: cli.ExitUnavailable}
	}
	return nil
}

// addUp adds up what was verified: replicas that answered, and the facts of a
// partition once.
func addUp(v *client.Verification) (replicas, equal int, facts uint64, problems []*nornv1.VerifiedPartition) {
	for _, p := range v.Partitions {
		most := uint64(0)
		for _, r := range p.GetReplicas() {
			if r.GetProblem() == "" {
				replicas++
				most = max(most, r.GetFacts())
			}
		}
		facts += most
		if p.GetDiffers() || p.GetUnreachable() {
			problems = append(problems, p)
		} else {
			equal++
		}
	}
	return replicas, equal, facts, problems
}

func verification(v *client.Verification) jsonform.Value {
	replicas, equal, facts, problems := addUp(v)
	number := func(name string, n int) jsonform.Field {
		return jsonform.Field{Name: name, Value: jsonform.Number(float64(n))}
	}
	return jsonform.Object(
		number("partitions", len(v.Partitions)), number("replicas", replicas), number("equal", equal),
		number("differing", v.Differing), number("unreachable", v.Unreachable),
		jsonform.Field{Name: "facts", Value: jsonform.String(strconv.FormatUint(facts, 10))},
		jsonform.Field{Name: "problems", Value: jsonform.ListOf(problems)},
		jsonform.Field{Name: "quarantined", Value: jsonform.List(quarantineForms(v)...)},
	)
}

// quarantined is a task of which replicas keep facts aside.
type quarantined struct {
	partition uint32
	task      string
	nodes     []string
}

// quarantine gives those tasks by partition and ID, and how many more there are
// on some replica that did not name all of them.
func quarantine(v *client.Verification) (all []quarantined, more int) {
	for _, p := range v.Partitions {
		begin, unnamed := len(all), 0
		for _, r := range p.GetReplicas() {
			unnamed = max(unnamed, int(r.GetQuarantinedTasks())-len(r.GetQuarantined()))
			for _, task := range r.GetQuarantined() {
				at := slices.IndexFunc(all[begin:], func(q quarantined) bool { return q.task == task })
				if at < 0 {
					at, all = len(all)-begin, append(all, quarantined{p.GetId(), task, nil})
				}
				all[begin+at].nodes = append(all[begin+at].nodes, r.GetNode())
			}
		}
		slices.SortFunc(all[begin:], func(a, b quarantined) int { return cmp.Compare(a.task, b.task) })
		more += unnamed
	}
	return all, more
}

func quarantineForms(v *client.Verification) (forms []jsonform.Value) {
	all, _ := quarantine(v)
	for _, q := range all {
		var nodes []jsonform.Value
		for _, n := range q.nodes {
			nodes = append(nodes, jsonform.String(n))
		}
		forms = append(forms, jsonform.Object(
			jsonform.Field{Name: "partition", Value: jsonform.Number(float64(q.partition))},
			jsonform.Field{Name: "task", Value: jsonform.String(q.task)},
			jsonform.Field{Name: "nodes", Value: jsonform.List(nodes...)},
		))
	}
	return forms
}

// quarantineTable names what is kept aside.
func quarantineTable(w io.Writer, all []quarantined, more int) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(w)
	g := render.NewGrid(false, "partition", "kept aside", "on")
	for _, q := range all {
		g.Row(fmt.Sprint(q.partition), q.task, strings.Join(q.nodes, " "))
	}
	g.Write(w)
	if more > 0 {
		fmt.Fprintf(w, "and %s\n", count(more, "more task", "more tasks"))
	}
}

func verificationTable(w io.Writer, v *client.Verification) {
	replicas, equal, facts, problems := addUp(v)
	pairs := [][2]string{
		{"partitions", fmt.Sprintf("%s, %s equal", render.Number(uint64(len(v.Partitions))), render.Number(uint64(equal)))},
		{"replicas", render.Number(uint64(replicas))},
	}
	if facts > 0 { // a single replica keeps no tree
		pairs = append(pairs, [2]string{"facts", render.Number(facts)})
	}
	if v.Differing > 0 {
		pairs = append(pairs, [2]string{"differing", render.Number(uint64(v.Differing))})
	}
	if v.Unreachable > 0 {
		pairs = append(pairs, [2]string{"out of reach", render.Number(uint64(v.Unreachable))})
	}
	aside, more := quarantine(v)
	if n := len(aside) + more; n > 0 {
		pairs = append(pairs, [2]string{"kept aside", count(n, "task", "tasks")})
	}
	render.Pairs(w, pairs...)
	defer quarantineTable(w, aside, more)
	differingTable(w, problems)
	unreachedTable(w, problems)
}

// unreachedTable has a line for each replica that is out of reach and why: a node that is
// down has one of nearly every partition.
func unreachedTable(w io.Writer, problems []*nornv1.VerifiedPartition) {
	type silent struct{ node, why string }
	var order []silent
	of := make(map[silent][]string)
	for _, p := range problems {
		for _, r := range p.GetReplicas() {
			if r.GetProblem() == "" || p.GetDiffers() { // those that differ are shown whole
				continue
			}
			k := silent{r.GetNode(), cli.Clean(r.GetProblem())}
			if of[k] == nil {
				order = append(order, k)
			}
			of[k] = append(of[k], fmt.Sprint(p.GetId()))
		}
	}
	if len(order) == 0 {
		return
	}
	fmt.Fprintln(w)
	g := render.NewGrid(false, "replica", "partitions", "problem")
	for _, k := range order {
		ids := of[k]
		which := strings.Join(ids[:min(len(ids), maxNamed)], " ")
		if more := len(ids) - maxNamed; more > 0 {
			which += fmt.Sprintf(" and %d more", more)
		}
		g.Row(k.node, which, k.why)
	}
	g.Write(w)
}

// maxNamed is how many partitions of a replica that is out of reach are named.
const maxNamed = 8

// differingTable shows what each replica holds of partitions that differ.
func differingTable(w io.Writer, problems []*nornv1.VerifiedPartition) {
	problems = slices.DeleteFunc(slices.Clone(problems), func(p *nornv1.VerifiedPartition) bool { return !p.GetDiffers() })
	if len(problems) == 0 {
		return
	}
	fmt.Fprintln(w)
	g := render.NewGrid(false, "partition", "replica", "queue", "facts", "root", "unfinished", "completed", "dead", "cancelled", "problem")
	for _, p := range problems {
		for _, r := range p.GetReplicas() {
			id := fmt.Sprint(p.GetId())
			if r.GetProblem() != "" {
				g.Row(id, r.GetNode(), "", "", "", "", "", "", "", cli.Clean(r.GetProblem()))
				continue
			}
			const what = "differs"
			g.Row(id, r.GetNode(), "", fmt.Sprint(r.GetFacts()), hex.EncodeToString(r.GetRoot()[:min(6, len(r.GetRoot()))]),
				fmt.Sprint(r.GetUnfinished()), fmt.Sprint(r.GetCompleted()), fmt.Sprint(r.GetDead()), fmt.Sprint(r.GetCancelled()), what)
			for _, q := range r.GetQueues() {
				g.Row(id, r.GetNode(), q.GetQueue(), "", "", fmt.Sprint(q.GetUnfinished()), fmt.Sprint(q.GetCompleted()), fmt.Sprint(q.GetDead()), fmt.Sprint(q.GetCancelled()), what)
			}
		}
	}
	g.Write(w)
}
