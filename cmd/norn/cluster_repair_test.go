package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// looks are what a cluster that is repaired shows, one after the other; the last one stays.
type looks []*nornv1.StatusReply

func (l *looks) Status(context.Context, client.StatusOptions) (*nornv1.StatusReply, error) {
	s := (*l)[0]
	if len(*l) > 1 {
		*l = (*l)[1:]
	}
	return s, nil
}

func (*looks) Repair(context.Context, []uint32, client.ChangeOptions) (*nornv1.ClusterReply, error) {
	return &nornv1.ClusterReply{Comparisons: 8}, nil
}

// lookAt is a status of nodes that have done so much of repair; those that have not said it have nil.
func lookAt(done ...*nornv1.RepairStatus) *nornv1.StatusReply {
	s := &nornv1.StatusReply{Node: "a", Repair: &nornv1.RepairStatus{}}
	for i, d := range done {
		name := string(rune('a' + i))
		s.Nodes = append(s.Nodes, &nornv1.NodeStatus{Name: name, Incarnation: "0" + name, State: "up", Alive: true, Repair: d})
		s.Repair.Left += d.GetLeft()
		s.Repair.Compared += d.GetCompared()
		s.Repair.Failed += d.GetFailed()
		s.Repair.FactsMoved += d.GetFactsMoved()
	}
	return s
}

// TestARepairDuringWhichANodeGoes: what the sums lacked then counted as done, and the command
// said so with exit code 0.
func TestARepairDuringWhichANodeGoes(t *testing.T) {
	did := func(left uint32, compared, failed, moved uint64) *nornv1.RepairStatus {
		return &nornv1.RepairStatus{Left: left, Compared: compared, Failed: failed, FactsMoved: moved}
	}
	before := lookAt(did(0, 10, 1, 5), did(0, 7, 0, 0))
	half := lookAt(did(2, 12, 1, 9), did(0, 11, 0, 1))
	done := lookAt(did(0, 14, 1, 9), did(0, 11, 0, 1))
	down, away, other := lookAt(did(0, 14, 1, 9), nil), lookAt(did(0, 14, 1, 9)), lookAt(did(0, 14, 1, 9), did(0, 11, 0, 0))
	down.Nodes[1].Alive, down.Nodes[1].State = false, "down"
	other.Nodes[1].Incarnation = "1b"
	for name, c := range map[string]struct {
		looks looks
		code  int
		says  string
	}{
		"all stay":                        {looks{before, half, done}, 0, "8 comparisons done, 5 facts moved\n"},
		"one is down":                     {looks{before, half, down}, cli.ExitUnavailable, "node b"},
		"one is out of the list":          {looks{before, half, away}, cli.ExitUnavailable, "node b"},
		"one is another":                  {looks{before, half, other}, cli.ExitUnavailable, "node b"},
		"one has started again":           {looks{before, half, lookAt(did(0, 14, 1, 9), did(0, 0, 0, 0))}, cli.ExitUnavailable, "node b"},
		"one is silent":                   {looks{before, half, lookAt(did(0, 14, 1, 9), nil)}, cli.ExitFailed, "not done within"},
		"one is silent for a moment":      {looks{before, half, lookAt(did(0, 12, 1, 9), nil), half, done}, 0, "8 comparisons done, 5 facts moved\n"},
		"one fails":                       {looks{before, lookAt(did(0, 14, 2, 9), did(0, 11, 0, 1))}, cli.ExitFailed, "1 failed"},
		"for a moment nothing seems left": {looks{before, lookAt(did(0, 11, 1, 6), did(0, 8, 0, 0)), half, done}, 0, "8 comparisons done, 5 facts moved\n"},
		"one was down already":            {looks{down, down}, 0, "8 comparisons done, 0 facts moved\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, err bytes.Buffer
			k := clusterCommands{&app{&cli.App{Quiet: true, Out: &out, ErrOut: &err}}}
			l := c.looks
			got := k.repairs(t.Context(), &l, nil, 4*time.Second)
			if code := cli.ExitCode(got); code != c.code || !strings.Contains(out.String()+err.String(), c.says) {
				t.Errorf("exit code %d, want %d: %v\n%s%s", code, c.code, got, out.String(), err.String())
			}
		})
	}
}
