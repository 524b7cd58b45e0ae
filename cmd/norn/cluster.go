package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func (a *app) cluster() *cobra.Command {
	cmd := group(&cobra.Command{Use: "cluster", Short: "The nodes and partitions", Example: "  norn cluster status"})
	cmd.AddCommand(&cobra.Command{
		Use: "status", Short: "The cluster as one node sees it", Args: cobra.NoArgs,
		Example: "  norn cluster status\n  norn cluster status -o json | jq '.partitions[] | select(.claim_available | not)'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.with(cmd.Context(), func(c *client.Client) error {
				s, err := c.Status(cmd.Context())
				if err != nil {
					return err
				}
				return a.writer().Object(jsonform.Of(s), func(w io.Writer) { statusTable(w, s) })
			})
		},
	})
	return cmd
}

func statusTable(w io.Writer, s *nornv1.StatusReply) {
	leaders, enqueue, claim, oldest := 0, 0, 0, 0.0
	for _, p := range s.GetPartitions() {
		if p.GetLeader() != "" {
			leaders++
		}
		if p.GetEnqueueAvailable() {
			enqueue++
		}
		if p.GetClaimAvailable() {
			claim++
		}
		oldest = max(oldest, p.GetOldestReadySeconds())
	}
	of := " of " + strconv.Itoa(len(s.GetPartitions()))
	render.Pairs(w,
		[2]string{"cluster", s.GetClusterId()},
		[2]string{"voters", strings.Join(s.GetVoters(), ", ")},
		[2]string{"partitions led", strconv.Itoa(leaders) + of},
		[2]string{"take enqueues", strconv.Itoa(enqueue) + of},
		[2]string{"hand out claims", strconv.Itoa(claim) + of},
		[2]string{"oldest ready task", render.Duration(proto.Seconds(oldest).Round(time.Millisecond))},
	)
	fmt.Fprintln(w)
	g := render.NewGrid(false, "node", "state", "address", "zone", "led", "vnodes", "clock", "incarnation")
	for _, n := range slices.SortedFunc(slices.Values(s.GetNodes()), func(a, b *nornv1.NodeStatus) int { return strings.Compare(a.GetName(), b.GetName()) }) {
		g.Row(n.GetName(), n.GetState(), n.GetAddress(), n.GetZone(), fmt.Sprint(n.GetLed()), fmt.Sprint(n.GetVnodes()),
			fmt.Sprintf("%+.1fms ±%.1fms", n.GetClockOffsetMs(), n.GetClockErrorMs()), n.GetIncarnation())
	}
	g.Write(w)
}
