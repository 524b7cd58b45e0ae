package schedules

import (
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/schedule"
)

// maxUpcoming is how many instants one command prints: a schedule of each
// minute for a week.
const maxUpcoming = 10_080

// localTime is how times without a zone are read.
const localTime = "2006-01-02T15:04:05"

// upcoming is what `norn schedule next` was asked for.
type upcoming struct {
	cron, zone, from, uuid string
	n                      int
	by                     schedule.Reading
	kept                   *nornv1.Schedule // of the cluster; nil: a specification
}

func (s commands) next() *cobra.Command {
	ask := upcoming{by: schedule.Current}
	cmd := &cobra.Command{
		Use: "next NAME | --cron SPEC", Short: "Print when a schedule or a specification is due next", Args: cobra.MaximumNArgs(1), ValidArgsFunction: s.complete,
		Long: `Print when a schedule or a specification is due next: as an instant in UTC, as the
local time of the zone with its offset, and with a note where the clock changes. A
specification needs no server. A schedule launches later than its instants by its
jitter.

A fixed time of the day runs once per day: one that the clock leaves out in spring
at the jump, one that comes twice in autumn the first time. Hours written with *
follow elapsed time. -o json prints [{at, local, offset, note}].`,
		Example: `  norn schedule next nightly -n 3
  norn schedule next --cron '30 2 * * *' --tz America/New_York --from 2026-03-06 -n 3
  norn schedule next --cron '? ?(0-7) * * *' --uuid 0f9e8d7c-6b5a-4938-8776-655443322110
  norn schedule next --cron '@every 90s' -o json | jq -r '.[].at'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0 && ask.cron == "" && (ask.zone != "" || ask.uuid != ""):
				return cli.Usage("--tz and --uuid are for a specification; a schedule has its own")
			case len(args) > 0 && ask.cron == "":
				return s.about(cmd.Context(), args[0], func(c *client.Client) error {
					found, err := c.Schedules().Get(cmd.Context(), args[0])
					if err != nil {
						return err
					}
					kept, _ := upcomingOf(found)
					kept.from, kept.n, kept.kept = ask.from, ask.n, found
					switch {
					case found.GetSpec().GetPaused():
						s.Note("schedule %s is paused: nothing is launched until `norn schedule resume %s`", args[0], args[0])
					case found.GetEnded():
						s.Note("schedule %s has ended: nothing of this is launched", args[0])
					}
					return s.printNext(kept)
				})
			case len(args) > 0:
				return cli.Usage("a specification in --cron has no name; %q is too much (quote the specification)", args[0])
			}
			return s.printNext(ask)
		},
	}
	f := cmd.Flags()
	f.StringVar(&ask.cron, "cron", "", "the `specification`, such as '30 2 * * MON-FRI'")
	f.StringVar(&ask.zone, "tz", "", "time `zone` such as Europe/Berlin (UTC unless CRON_TZ= names one)")
	f.IntVarP(&ask.n, "number", "n", 10, "how `many` instants")
	f.StringVar(&ask.from, "from", "", "from this `time` on: RFC 3339, or a local date or time of the zone (default now)")
	f.StringVar(&ask.uuid, "uuid", "", "`UUID` of the schedule, which chooses the values of ?")
	_ = cmd.RegisterFlagCompletionFunc("tz", func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		return cli.CompleteWords(schedule.NewZones().Names()...)(cmd, args, typed) // the names are read when somebody asks
	})
	return cmd
}

// printNext prints instants while it finds them.
func (s commands) printNext(ask upcoming) error {
	if ask.n < 1 || ask.n > maxUpcoming {
		return cli.Usage("-n: %d is not from 1 to %d", ask.n, maxUpcoming)
	}
	uuid, err := uuidOf(ask.uuid)
	if err != nil {
		return err
	}
	spec, table, err := timetableOf(ask, uuid)
	if err != nil {
		return err
	}
	from, err := startOf("from", ask.from, table.Zone().Location())
	if err != nil {
		return err
	}
	switch resolved := spec.Resolve(uuid); {
	case spec.Picks() && ask.uuid == "":
		s.Note("? depends on the schedule's UUID; without --uuid this is one of its values: %s", resolved)
	case spec.Picks():
		s.Note("? is here: %s", resolved)
	}
	warnings := spec.Warnings()
	if ask.kept != nil {
		warnings = ask.kept.GetWarnings()
	}
	for _, w := range warnings {
		s.Note("%s", w)
	}
	list := occurrenceList(s.Writer()).None("no launches in that time")
	at := from - 1
	if t := ask.kept.GetSpec().GetStart(); t != nil {
		at = max(at, t.AsTime().UnixNano()-1)
	}
	for list.Len() < ask.n {
		next, ok := table.Next(at)
		if end := ask.kept.GetSpec().GetEnd(); ok && end != nil && next >= end.AsTime().UnixNano() {
			s.Note("the schedule ends at %s", end.AsTime().Format(time.RFC3339))
			break
		}
		if !ok {
			s.Note("there is nothing more within 40 years")
			break
		}
		list.Add(table.Describe(next))
		at = next
	}
	return list.Close()
}

// timetableOf reads the specification and its zone.
func timetableOf(ask upcoming, uuid [16]byte) (schedule.Spec, *schedule.Timetable, error) {
	if ask.cron == "" {
		return schedule.Spec{}, nil, cli.Usage("--cron: a specification is missing, such as --cron '30 2 * * *'")
	}
	spec, err := ask.by.Parse(ask.cron)
	if errors.Is(err, schedule.ErrReading) { // of the cluster
		return spec, nil, err
	}
	if err != nil {
		return spec, nil, specError(err)
	}
	zone, err := spec.LoadZone(schedule.NewZones(), ask.zone)
	if err != nil && !errors.Is(err, schedule.ErrSpec) {
		return spec, nil, cli.Usage("--tz: %w", err)
	}
	if err != nil {
		return spec, nil, specError(err)
	}
	table, err := spec.Compile(uuid, zone)
	if err != nil {
		return spec, nil, specError(err)
	}
	return spec, table, nil
}

// specError shows where a specification is wrong.
func specError(err error) error {
	var bad *schedule.SpecError
	if errors.As(err, &bad) {
		return cli.Usage("--cron: %w\n%s", err, bad.Pointer())
	}
	return cli.Usage("--cron: %w", err)
}

// uuidOf reads a UUID; "" is the one of zeros.
func uuidOf(text string) (uuid [16]byte, err error) {
	if text == "" {
		return uuid, nil
	}
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(b) != len(uuid) {
		return uuid, cli.Usage("--uuid: %q is not a UUID", text)
	}
	return [16]byte(b), nil
}

// startOf reads --from, or another flag, in wall ns.
func startOf(flag, text string, loc *time.Location) (int64, error) {
	if text == "" {
		return time.Now().UnixNano(), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	for _, layout := range []string{localTime, "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if err != nil {
			t, err = time.Parse(layout, text)
			t = schedule.First(t, loc)
		}
	}
	if err != nil {
		return 0, cli.Usage("--%s: %q is not a time such as 2026-03-08T02:00:00Z, or a local one such as 2026-03-08 or 2026-03-08T02:00", flag, text)
	}
	if t.Year() < 1700 || t.Year() > 2200 {
		return 0, cli.Usage("--%s: the year %d is not from 1700 to 2200", flag, t.Year())
	}
	return t.UnixNano(), nil
}

func occurrenceList(w *render.Writer) *render.List[schedule.Occurrence] {
	type column = render.Column[schedule.Occurrence]
	return render.NewList(w, occurrenceForm,
		column{Head: "at", Cell: func(o schedule.Occurrence) string { return o.Time().UTC().Format(time.RFC3339) }},
		column{Head: "local", Cell: func(o schedule.Occurrence) string { return o.Time().Format("Mon 2006-01-02 15:04:05") }},
		column{Head: "zone", Cell: func(o schedule.Occurrence) string { return o.Zone }},
		column{Head: "offset", Cell: func(o schedule.Occurrence) string { return schedule.OffsetText(o.Offset) }},
		column{Head: "note", Cell: schedule.Occurrence.Note},
	)
}

// occurrenceForm is the contract of -o json.
func occurrenceForm(o schedule.Occurrence) jsonform.Value {
	str := jsonform.String
	return jsonform.Object(
		jsonform.Field{Name: "at", Value: jsonform.Time(o.Time())},
		jsonform.Field{Name: "local", Value: str(o.Local())},
		jsonform.Field{Name: "offset", Value: str(schedule.OffsetText(o.Offset))},
		jsonform.Field{Name: "note", Value: str(o.Note())},
	)
}
