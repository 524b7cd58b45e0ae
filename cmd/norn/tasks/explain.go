package tasks

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func explain(a commands) *cobra.Command {
	return &cobra.Command{
		Use: "explain ID", Short: "Tell why a task is not running", Args: cobra.ExactArgs(1),
		Long: `Tell what keeps a task from running, the weightiest reason first, and what to do
about it: a dependency, the time it is to start, the back-off after a failure, a
paused queue, better tasks that come first, no worker that asks, a worker that cannot begin tasks.`,
		Example: "  norn task explain 3ZyfAz4TTlNLdMEJYWbpzCDKw1p\n  norn task explain 3ZyfAz4TTlNLdMEJYWbpzCDKw1p -o json | jq -r '.reasons[].kind'",
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := cli.ParseID(args[0])
			if err != nil {
				return err
			}
			return a.With(cmd.Context(), func(c *client.Client) error {
				m, err := c.Explain(cmd.Context(), i)
				if err != nil {
					return err
				}
				return a.Writer().Object(jsonform.Of(m), func(w io.Writer) { a.explanation(w, m) })
			})
		},
	}
}

// explanation shows the reasons to people.
func (a commands) explanation(w io.Writer, m *nornv1.ExplainReply) {
	state := jsonform.EnumName(m.GetState())
	if !a.NoColor {
		state = render.StateColor(state)
	}
	where := ""
	if m.GetQueue() != "" {
		where = " in queue " + m.GetQueue()
	}
	fmt.Fprintf(w, "%s%s is %s\n", m.GetId(), where, state)
	var rows [][2]string
	for _, r := range m.GetReasons() {
		rows = append(rows, [2]string{"  " + strings.ReplaceAll(jsonform.EnumName(r.GetKind()), "_", " "), render.Lines(r.GetText())})
	}
	render.Pairs(w, rows...)
	if len(rows) == 0 {
		fmt.Fprintln(w, "  nothing is in its way")
	}
}
