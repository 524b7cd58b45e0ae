package capacity

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/proto/jsonform"
)

// Usual is a demand without its tasks.
var Usual = Demand{Payload: 1000, Retention: 24 * time.Hour, GCGrace: 168 * time.Hour, Replicas: 3, Batch: 1, Peak: 3, Cores: 8, Busy: 0.5}

// Flags has a demand set on the command line.
func (d *Demand) Flags(f *pflag.FlagSet) {
	f.Float64Var(&d.TasksPerDay, "tasks-per-day", 0, "tasks on a usual day, as 100000 or 1e9")
	f.Float64Var(&d.Payload, "payload", d.Payload, "bytes of payload and headers of a task")
	f.DurationVar(&d.Retention, "retention", d.Retention, "how long finished tasks are kept, with the time that they wait")
	f.DurationVar(&d.GCGrace, "gc-grace", d.GCGrace, "the setting of the servers")
	f.IntVar(&d.Replicas, "replicas", d.Replicas, "copies of each task")
	f.IntVar(&d.Batch, "batch", d.Batch, "tasks that are enqueued, claimed and completed at once")
	f.Float64Var(&d.Peak, "peak", d.Peak, "the busiest second, relative to the mean of the day")
	f.Float64Var(&d.Cores, "cores", d.Cores, "processors of a node")
	f.Float64Var(&d.Busy, "busy", d.Busy, "how much of them may be used, 0 to 1")
}

// Command prints plans; usage makes the error of a mistake in the command line.
func Command(writer func() *render.Writer, usage func(format string, args ...any) error) *cobra.Command {
	d := Usual
	cmd := &cobra.Command{
		Use: "plan", Short: "Reckon how many nodes and partitions so many tasks need", Args: cobra.NoArgs,
		Long: `Reckon from measured figures how many nodes and partitions a cluster needs for so
many tasks a day, and what each node needs. It asks no cluster. Processor time and
packets are of tasks one at a time, or 100 at a time with --batch 100 or more. Your
handlers, slow disks, TLS and lines between sites are left out: docs/explanation/scaling.md.`,
		Example: "  norn cluster plan --tasks-per-day 1e8\n  norn cluster plan --tasks-per-day 2e9 --payload 4000 --retention 1h --batch 100 --cores 16",
	}
	d.Flags(cmd.Flags())
	cmd.RunE = func(*cobra.Command, []string) error {
		p, err := Measured.Reckon(d)
		if err != nil {
			return usage("give --tasks-per-day over 0, --peak of at least 1, --busy up to 1, --replicas 1 to 9, and --cores of which an idle node leaves some")
		}
		return p.Show(writer())
	}
	return cmd
}

// Show prints a plan.
func (p *Plan) Show(w *render.Writer) error {
	number := func(name string, v float64) jsonform.Field {
		return jsonform.Field{Name: name, Value: jsonform.Number(v)}
	}
	form := jsonform.Object(
		number("clusters", float64(p.Clusters)), number("nodes", float64(p.Nodes)), number("partitions", float64(p.Partitions)),
		number("tasks_per_second", p.Rate), number("busy", p.Busy), number("idle_cpu_ms", p.Idle),
		number("memory_bytes", p.Memory*(1<<20)), number("disk_bytes", p.Disk), number("signs_of_life_per_second", p.Signs), number("packets_per_second", p.Packets),
	)
	return w.Object(form, func(out io.Writer) {
		pairs := [][2]string{
			{"nodes", strconv.Itoa(p.Nodes)},
			{"partitions", strconv.Itoa(p.Partitions)},
			{"tasks a second, at the peak", fmt.Sprintf("%.0f", p.Rate)},
			{"processors then", fmt.Sprintf("%.0f %% busy", 100*p.Busy)},
			{"processor of an idle node", fmt.Sprintf("%.0f ms a second", p.Idle)},
			{"memory of a node, at least", fmt.Sprintf("%.0f MiB", p.Memory)},
			{"disk of a node", fmt.Sprintf("%.1f GB", p.Disk/1e9)},
			{"signs of life of a node", fmt.Sprintf("%.0f a second", p.Signs)},
			{"packets of a node, at most", fmt.Sprintf("%.0f a second", p.Packets)},
		}
		if p.Clusters > 1 {
			pairs = append([][2]string{{"clusters, each as below", strconv.Itoa(p.Clusters)}}, pairs...)
		}
		render.Pairs(out, pairs...)
	})
}
