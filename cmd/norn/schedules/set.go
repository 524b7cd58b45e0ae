package schedules

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/terms"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/schedule"

	gproto "google.golang.org/protobuf/proto"
)

func (s commands) set() *cobra.Command {
	cmd := &cobra.Command{
		Use: "set NAME --cron SPEC -q QUEUE [PAYLOAD]", Short: "Make a schedule, or change some of one", Args: cobra.RangeArgs(1, 2), ValidArgsFunction: s.complete,
		Long: `Make a schedule, or change some of one: what is not said stays as it is, and
--FLAG='' goes back to the default. An edit takes effect from now on: it launches
nothing of the past, and nothing twice.`,
		Example: "  norn schedule set nightly --cron '30 2 * * *' --tz America/New_York -q reports '{\"day\":\"yesterday\"}'\n" +
			"  norn schedule set sync --cron '? * * * *' -q sync --overlap skip --catch-up none\n" +
			"  norn schedule set nightly --deadline 2h --pause-on-failure",
	}
	f, fields := cmd.Flags(), terms.ScheduleFields()
	for i := range fields {
		switch x := &fields[i]; {
		case x.Name == "payload":
		case x.Name == "queue":
			f.StringP(x.Name, "q", "", x.Help)
		case x.Bool:
			f.VarPF(new(yes), x.Name, "", x.Help).NoOptDefVal = "true"
		default:
			f.String(x.Name, "", x.Help)
		}
	}
	file := f.String("file", "", "payload from this `file` (-: standard input)")
	headers := f.StringArray("header", nil, "a header of the tasks, `name=value`; repeat it for more; '' takes away those that there are")
	create := f.Bool("create", false, "refuse if there is one of the name")
	dryRun := f.Bool("dry-run", false, "say what would change, and change nothing")
	_ = cmd.RegisterFlagCompletionFunc("overlap", cli.CompleteWords("allow", "skip", "queue-one", "replace"))
	_ = cmd.RegisterFlagCompletionFunc("catch-up", cli.CompleteWords("latest", "none", "all"))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := cli.NotEmpty(cmd, "file"); err != nil { // else the schedule would be made without a payload
			return err
		}
		change := func(spec *nornv1.ScheduleSpec) error {
			for i := range fields {
				if flag := f.Lookup(fields[i].Name); flag != nil && flag.Changed {
					if err := fields[i].Set(spec, flag.Value.String()); err != nil {
						return cli.Usage("--%w", err)
					}
				}
			}
			for _, h := range *headers {
				if h == "" && spec.Task != nil {
					spec.Task.Headers = nil
				} else if err := terms.SetHeader(spec, h); err != nil {
					return cli.Usage("--%w", err)
				}
			}
			return s.payload(cmd.Context(), spec, args[1:], *file)
		}
		return s.about(cmd.Context(), args[0], func(c *client.Client) error {
			return s.put(cmd.Context(), c, args[0], change, client.PutOptions{Create: *create, DryRun: *dryRun})
		})
	}
	return cmd
}

// yes is a flag that says yes; =false and an empty value say no, which is the default.
type yes bool

func (y *yes) Set(text string) error {
	b, err := strconv.ParseBool(cmp.Or(text, "false"))
	*y = yes(b)
	return err
}

func (y *yes) String() string { return strconv.FormatBool(bool(*y)) }
func (y *yes) Type() string   { return "bool" }

// payload takes the payload from the command line or a file.
func (s commands) payload(ctx context.Context, spec *nornv1.ScheduleSpec, args []string, file string) (err error) {
	if spec.Task == nil {
		spec.Task = &nornv1.TaskSpec{}
	}
	switch {
	case len(args) > 0 && file != "":
		return cli.Usage("give one of PAYLOAD and --file")
	case len(args) > 0:
		spec.Task.Payload = []byte(args[0])
	case file == "-":
		spec.Task.Payload, err = cli.ReadAll(ctx, s.In, proto.MaxPayloadCeiling)
	case file != "":
		in, bad := cli.OpenInput("file", file)
		if bad != nil {
			return bad
		}
		spec.Task.Payload, err = cli.ReadAll(ctx, in, proto.MaxPayloadCeiling)
		_ = in.Close() // what was read counts
	}
	return err
}

// put changes a schedule, from what it is by then.
func (s commands) put(ctx context.Context, c *client.Client, name string, change func(*nornv1.ScheduleSpec) error, o client.PutOptions) error {
	found, err := c.Schedules().Get(ctx, name)
	switch {
	case errors.Is(err, client.ErrNotFound):
		found = nil
	case err != nil:
		return err
	}
	spec := &nornv1.ScheduleSpec{Task: &nornv1.TaskSpec{}}
	if found != nil && !o.Create {
		spec, o.IfVersion = gproto.CloneOf(found.GetSpec()), found.GetVersion()
	}
	if err := change(spec); err != nil {
		return err
	}
	terms.TidySchedule(spec)
	if err := checkSpec(spec); err != nil {
		return err
	}
	res, err := c.Schedules().Put(ctx, name, spec, o)
	if err != nil {
		return err
	}
	if o.DryRun {
		return s.results([]terms.FileSchedule{{Name: name, Spec: spec}}, []*nornv1.ScheduleResult{res}, " (dry run)")
	}
	if resolved := res.GetSchedule().GetResolved(); resolved != "" {
		s.Note("? is here: %s", resolved)
	}
	for _, w := range res.GetSchedule().GetWarnings() {
		s.Note("%s", w)
	}
	return s.Writer().Object(jsonform.Of(res.GetSchedule()), func(w io.Writer) { scheduleSheet(w, res.GetSchedule()) })
}

// checkSpec finds what is wrong with a specification before it is sent, to point
// at it.
func checkSpec(spec *nornv1.ScheduleSpec) error {
	if spec.GetTask().GetQueue() == "" {
		return cli.Usage("-q: a new schedule needs the queue of its tasks")
	}
	_, _, err := timetableOf(upcoming{cron: spec.GetCron(), zone: spec.GetTimeZone(), by: schedule.Current}, [16]byte{})
	return err
}

// upcomingOf is what `next` shows of a schedule.
func upcomingOf(s *nornv1.Schedule) (upcoming, [16]byte) {
	uuid, _ := uuidOf(s.GetUuid())
	return upcoming{cron: s.GetSpec().GetCron(), zone: s.GetSpec().GetTimeZone(), uuid: s.GetUuid(), by: schedule.Reading(min(s.GetReading(), math.MaxUint8))}, uuid
}

// span reads the ends of a stretch of time.
func span(from, to string, loc *time.Location) (a, b time.Time, err error) {
	first, err := startOf("from", from, loc)
	if err != nil {
		return a, b, err
	}
	last, err := startOf("to", to, loc)
	if err != nil {
		return a, b, err
	}
	return time.Unix(0, first), time.Unix(0, last), nil
}
