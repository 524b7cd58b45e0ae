package debug

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/node"
	"github.com/norn-dev/norn/proto/jsonform"
	"github.com/norn-dev/norn/store"
)

// Host is what the commands need of the program.
type Host struct {
	Writer func() *render.Writer
	Group  func(*cobra.Command) *cobra.Command    // makes a command of commands
	Usage  func(format string, args ...any) error // a mistake in the command line
}

// Commands gives `norn debug`.
func Commands(h Host) *cobra.Command {
	cmd := &cobra.Command{
		Use: "debug", Short: "Look into the files of a node that does not run",
		Long: `Look into the files of a node that does not run. These commands change nothing, and
refuse a directory that a server has open.`,
		Example: "  norn debug log /var/lib/norn\n  norn debug migrate --dry-run /var/lib/norn",
	}
	h.Group(cmd)
	cmd.AddCommand(h.log(), h.migrate())
	return cmd
}

// log prints the logs of the stores.
func (h Host) log() *cobra.Command {
	records := false
	cmd := &cobra.Command{
		Use: "log DATA", Short: "Show the logs of a data directory's stores", Args: cobra.ExactArgs(1),
		Long: `Show what a start would apply again from the logs of the two stores of a data directory,
and whether the logs are whole. A log is a chain of records, each with a checksum and that
of the record before it; a damaged one is named with its file and place.`,
		Example: "  norn debug log /var/lib/norn\n  norn debug log --records -o jsonl /var/lib/norn",
	}
	cmd.Flags().BoolVar(&records, "records", false, "each record")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		stores, err := node.Stores(args[0])
		if err != nil {
			return err //nolint:wrapcheck // it says what to do
		}
		if records {
			return h.records(stores)
		}
		return h.logs(stores)
	}
	return cmd
}

// record is a record of one of the stores.
type record struct {
	store string
	store.LogRecord
}

func (h Host) records(stores []node.StoreDir) error {
	list := render.NewList(h.Writer(), func(r record) jsonform.Value {
		return jsonform.Object(text("store", r.store), number("record", r.Number), number("bytes", uint64(r.Bytes)),
			number("batches", uint64(r.Batches)), number("sets", uint64(r.Sets)), number("deletes", uint64(r.Deletes)))
	},
		render.Column[record]{Head: "store", Cell: func(r record) string { return r.store }},
		render.Column[record]{Head: "record", Cell: func(r record) string { return strconv.FormatUint(r.Number, 10) }},
		render.Column[record]{Head: "bytes", Cell: func(r record) string { return strconv.Itoa(r.Bytes) }},
		render.Column[record]{Head: "batches", Cell: func(r record) string { return strconv.Itoa(r.Batches) }},
		render.Column[record]{Head: "sets", Cell: func(r record) string { return strconv.Itoa(r.Sets) }},
		render.Column[record]{Head: "deletes", Cell: func(r record) string { return strconv.Itoa(r.Deletes) }},
	).None("no record: all is in tables")
	var errs []error
	for _, s := range stores {
		_, err := store.ReadLog(s.Dir, func(r store.LogRecord) error {
			list.Add(record{s.Name, r})
			return nil
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.Name, err))
		}
	}
	return errors.Join(append(errs, list.Close())...)
}

func (h Host) logs(stores []node.StoreDir) error {
	var fields []jsonform.Field
	var pairs [][2]string
	for _, s := range stores {
		var count, bytes, sets, deletes uint64
		info, err := store.ReadLog(s.Dir, func(r store.LogRecord) error {
			count, bytes, sets, deletes = count+1, bytes+uint64(r.Bytes), sets+uint64(r.Sets), deletes+uint64(r.Deletes)
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		fields = append(fields, jsonform.Field{Name: s.Name, Value: jsonform.Object(
			number("files", uint64(info.Files)), number("file_bytes", uint64(info.Bytes)), number("in_tables_up_to", info.From.Number), number("last_record", info.End.Number),
			number("records", count), number("bytes", bytes), number("sets", sets), number("deletes", deletes))})
		pairs = append(pairs,
			[2]string{s.Name, fmt.Sprintf("%d files, %d bytes; whole", info.Files, info.Bytes)},
			[2]string{"  in tables", fmt.Sprintf("up to record %d", info.From.Number)},
			[2]string{"  applied again", fmt.Sprintf("%d records up to %d: %d bytes, %d sets, %d deletes", count, info.End.Number, bytes, sets, deletes)})
	}
	return h.Writer().Object(jsonform.Object(fields...), func(out io.Writer) { render.Pairs(out, pairs...) })
}

// migrate says what a start would change.
func (h Host) migrate() *cobra.Command {
	dry := false
	cmd := &cobra.Command{
		Use: "migrate --dry-run DATA", Short: "Say what a start of this version would change in a data directory", Args: cobra.ExactArgs(1),
		Long: `Say what a start of this version would change in a data directory of the version before,
and read its stores to see that it can. The server itself brings the directory to its format
when it starts; from then on the version before refuses it.`,
		Example: "  norn debug migrate --dry-run /var/lib/norn",
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "change nothing (needed: the server makes the change)")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if !dry {
			return h.Usage("the server brings a data directory to its format when it starts; give --dry-run to see what it would do")
		}
		has, writes, err := node.FormatOf(args[0])
		if err != nil {
			return err //nolint:wrapcheck // it says what to do
		}
		stores, err := node.Stores(args[0])
		if err != nil {
			return err //nolint:wrapcheck // likewise
		}
		var old uint64
		for _, s := range stores {
			info, err := store.ReadLog(s.Dir, func(store.LogRecord) error { return nil })
			if err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			if has < writes {
				old += uint64(info.Old)
			}
		}
		form := jsonform.Object(number("format", uint64(has)), number("format_written", uint64(writes)), number("log_bytes", old))
		return h.Writer().Object(form, func(out io.Writer) {
			what := "nothing: the directory has this version's format"
			if has < writes {
				what = fmt.Sprintf("up to %d bytes of the old logs are written to tables, and logs of the new kind begin; the version before refuses the directory from then on", old)
			}
			render.Pairs(out, [2]string{"format", strconv.Itoa(has)}, [2]string{"this version writes", strconv.Itoa(writes)}, [2]string{"a start changes", what})
		})
	}
	return cmd
}

func text(name, v string) jsonform.Field {
	return jsonform.Field{Name: name, Value: jsonform.String(v)}
}

func number(name string, v uint64) jsonform.Field {
	return jsonform.Field{Name: name, Value: jsonform.Number(float64(v))}
}
