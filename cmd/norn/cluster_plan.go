package main

import (
	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/cmd/norn/capacity"
)

// plan reckons what so many tasks need.
func (k clusterCommands) plan() *cobra.Command {
	d := capacity.Usual
	cmd := &cobra.Command{
		Use: "plan", Short: "Reckon how many nodes and partitions so many tasks need", Args: cobra.NoArgs,
		Long: `Reckon from measured figures how many nodes and partitions a cluster needs for so
many tasks a day, and what each node needs. It asks no cluster. Processor time and
packets are of tasks one at a time, or 100 at a time with --batch 100 or more. Your
handlers, slow disks, TLS and lines between sites are left out: docs/scaling.md.`,
		Example: "  norn cluster plan --tasks-per-day 1e8\n  norn cluster plan --tasks-per-day 2e9 --payload 4000 --retention 1h --batch 100 --cores 16",
	}
	d.Flags(cmd.Flags())
	cmd.RunE = func(*cobra.Command, []string) error {
		p, err := capacity.Measured.Reckon(d)
		if err != nil {
			return usage("give --tasks-per-day over 0, --peak of at least 1, --busy up to 1, --replicas 1 to 9, and --cores of which an idle node leaves some")
		}
		return p.Show(k.writer())
	}
	return cmd
}
