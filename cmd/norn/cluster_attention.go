package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/proto/jsonform"
)

// attention shows what the dashboard's overview shows.
func (k clusterCommands) attention() *cobra.Command {
	return &cobra.Command{
		Use: "attention", Short: "What needs somebody, the worst first, with what to do about it", Args: cobra.NoArgs,
		Long: `Tell what needs somebody, the worst first, with what to do about it: queues that are
paused with work, that no worker takes, whose tasks die or wait for long; schedules
that failed, are late or have paused themselves; nodes, clocks and disks; partitions
without a leader. The dashboard's overview shows the same list.`,
		Example: "  norn cluster attention\n  norn cluster attention -o json | jq '.concerns[] | select(.severity == \"critical\")'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return k.With(cmd.Context(), func(c *client.Client) error {
				m, err := c.Cluster().Attention(cmd.Context())
				if err != nil {
					return err
				}
				return k.Writer().Object(jsonform.Of(m), func(w io.Writer) {
					for _, one := range m.GetConcerns() {
						since := ""
						if at := one.GetSince(); at != nil {
							since = " (since " + at.AsTime().Local().Format(time.DateTime) + ")"
						}
						_, _ = fmt.Fprintf(w, "%s: %s%s\n    %s\n", jsonform.EnumName(one.GetSeverity()), render.Text([]byte(one.GetText()), 1000), since, render.Text([]byte(one.GetAction()), 1000))
					}
					for _, u := range m.GetUnseen() {
						_, _ = fmt.Fprintf(w, "not looked at: %s\n", render.Text([]byte(u), 1000))
					}
					if len(m.GetConcerns()) == 0 {
						_, _ = fmt.Fprintf(w, "nothing needs anybody, as far as %s knows\n", m.GetNode())
					}
				})
			})
		},
	}
}
