package outboxes

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/outbox"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto/jsonform"
)

func (a commands) schema() *cobra.Command {
	cmd := &cobra.Command{
		Use: "schema postgres|mysql|sqlite", Short: "Print the SQL that makes the table", Args: cobra.ExactArgs(1),
		ValidArgs: []string{"postgres", "mysql", "sqlite"},
		Long:      `Print the SQL that makes the table. Running it twice does no harm.`,
		Example:   "  norn outbox schema postgres | psql shop\n  norn outbox schema mysql --table jobs_outbox | mysql shop\n  norn outbox schema sqlite | sqlite3 app.db",
	}
	table := cmd.Flags().String("table", outbox.DefaultTable, "`name` of the table, with a schema in front or not")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		d, err := outbox.ParseDialect(args[0])
		if err != nil {
			return cli.Usage("%w", err)
		}
		box, err := outbox.New(d, outbox.Options{Table: *table})
		if err != nil {
			return cli.Usage("--table: %w", err)
		}
		_, err = io.WriteString(a.Out, box.Schema())
		return err
	}
	return cmd
}

func (a commands) newID() *cobra.Command {
	cmd := &cobra.Command{
		Use: "id", Short: "Print IDs for rows that are written in SQL", Args: cobra.NoArgs,
		Long:    `Print new IDs of tasks, for rows that a shell or plain SQL writes into the table.`,
		Example: "  norn outbox id\n  psql shop -v id=$(norn outbox id) -f order.sql",
	}
	n := cmd.Flags().IntP("number", "n", 1, "so many, 1 to 10000")
	cmd.RunE = func(*cobra.Command, []string) error {
		if *n < 1 || *n > outbox.MaxBatch {
			return cli.Usage("--number: %d is not between 1 and %d", *n, outbox.MaxBatch)
		}
		random := func() uint64 {
			var b [8]byte
			_, _ = rand.Read(b[:]) // it never fails
			return binary.BigEndian.Uint64(b[:])
		}
		g := id.NewGenerator(uint32(random()), random)
		list := idList(a.Writer())
		for range *n {
			list.Add(g.Next(time.Now().UnixNano()).String())
		}
		return list.Close()
	}
	return cmd
}

// idList prints IDs, one per line for people.
func idList(w *render.Writer) *render.List[string] {
	return render.NewList(w, func(id string) jsonform.Value {
		return jsonform.Object(jsonform.Field{Name: "id", Value: jsonform.String(id)})
	}, render.Column[string]{Cell: func(id string) string { return render.Text([]byte(id), 40) }})
}

// opened calls do with the table.
func (a commands) opened(ctx context.Context, f *outboxFlags, do func(context.Context, *sql.DB, *outbox.Outbox) error) error {
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	db, box, err := f.open(ctx)
	if err != nil {
		return err
	}
	return errors.Join(do(ctx, db, box), db.Close())
}

func (a commands) status() *cobra.Command {
	var f *outboxFlags
	cmd := &cobra.Command{
		Use: "status --db URL", Short: "Show how many rows wait", Args: cobra.NoArgs,
		Long: `Show how many rows wait and how many are set aside (both are counted up to
100000), and when about the oldest of those that wait was written.`,
		Example: "  norn outbox status --db postgres://relay@db/shop\n  norn outbox status --db sqlite:app.db -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.opened(cmd.Context(), f, func(ctx context.Context, db *sql.DB, box *outbox.Outbox) error {
				b, err := box.Backlog(ctx, db)
				if err != nil {
					return err
				}
				return a.Writer().Object(jsonform.Object(
					jsonform.Field{Name: "waiting", Value: jsonform.Uint64(uint64(b.Waiting))},
					jsonform.Field{Name: "aside", Value: jsonform.Uint64(uint64(b.Aside))},
					jsonform.Field{Name: "oldest", Value: jsonform.Time(b.Oldest)},
				), func(w io.Writer) {
					fmt.Fprintf(w, "%s wait, %s are set aside\n", render.Number(uint64(b.Waiting)), render.Number(uint64(b.Aside)))
					if !b.Oldest.IsZero() {
						fmt.Fprintf(w, "the oldest waits since %s (%s)\n", b.Oldest.Format(time.RFC3339), render.Duration(time.Since(b.Oldest)))
					}
				})
			})
		},
	}
	f = a.flags(cmd)
	return cmd
}

// asidePage is how many rows are listed at a time.
const asidePage = 500

func (a commands) list() *cobra.Command {
	var f *outboxFlags
	cmd := &cobra.Command{
		Use: "list --db URL", Aliases: []string{"ls"}, Short: "List the rows that are set aside, with the reason", Args: cobra.NoArgs,
		Example: "  norn outbox list --db postgres://relay@db/shop\n  norn outbox list --db sqlite:app.db -o json | jq -r '.[].id'",
	}
	limit := cmd.Flags().Int("limit", 100, "at most so many")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *limit < 1 {
			return cli.Usage("--limit: %d is not over zero", *limit)
		}
		return a.opened(cmd.Context(), f, func(ctx context.Context, db *sql.DB, box *outbox.Outbox) error {
			list := asideList(a.Writer()).None("no rows are set aside")
			for after, left := "", *limit; left > 0; {
				page, err := box.Aside(ctx, db, after, min(left, asidePage))
				if err != nil || len(page) == 0 {
					return errors.Join(err, list.Close())
				}
				for _, row := range page {
					list.Add(row)
					after = row.ID
				}
				left -= len(page)
			}
			return list.Close()
		})
	}
	f = a.flags(cmd)
	return cmd
}

func asideList(w *render.Writer) *render.List[outbox.Aside] {
	type column = render.Column[outbox.Aside]
	return render.NewList(w, func(r outbox.Aside) jsonform.Value {
		return jsonform.Object(
			jsonform.Field{Name: "id", Value: jsonform.String(r.ID)},
			jsonform.Field{Name: "queue", Value: jsonform.String(r.Queue)},
			jsonform.Field{Name: "created_at", Value: jsonform.Time(r.Created)},
			jsonform.Field{Name: "attempts", Value: jsonform.Number(float64(r.Attempts))},
			jsonform.Field{Name: "error", Value: jsonform.String(r.Reason)},
		)
	},
		column{Head: "id", Cell: func(r outbox.Aside) string { return render.Text([]byte(r.ID), 40) }},
		column{Head: "queue", Cell: func(r outbox.Aside) string { return render.Text([]byte(r.Queue), 40) }},
		column{Head: "written", Cell: func(r outbox.Aside) string {
			if r.Created.IsZero() {
				return "" // nothing says so
			}
			return r.Created.Format(time.RFC3339)
		}},
		column{Head: "error", Cell: func(r outbox.Aside) string { return render.Text([]byte(r.Reason), 120) }},
	)
}

func (a commands) retry() *cobra.Command {
	var f *outboxFlags
	cmd := &cobra.Command{
		Use: "retry --db URL ID…", Short: "Let rows that are set aside be sent again", Args: cobra.MinimumNArgs(1),
		Long: `Let rows that are set aside be sent again, once what was wrong is put right. With
--new-id under a new ID, which is printed: for rows that waited for longer than
the servers' gc-grace, at the risk that their tasks are done twice; and for rows
whose ID is taken by another task.`,
		Example: "  norn outbox retry --db sqlite:app.db 2gx5h1WmUtnj6RsIb6vmj4UEFUB\n  norn outbox retry --db sqlite:app.db --new-id 2gx5h1WmUtnj6RsIb6vmj4UEFUB",
	}
	renew := cmd.Flags().Bool("new-id", false, "under new IDs")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.opened(cmd.Context(), f, func(ctx context.Context, db *sql.DB, box *outbox.Outbox) error {
			return a.forRows(args, func(row string) (string, error) {
				if !*renew {
					return row, box.Retry(ctx, db, row)
				}
				renamed, err := box.Rename(ctx, db, row)
				return renamed.String(), err
			})
		})
	}
	f = a.flags(cmd)
	return cmd
}

func (a commands) discard() *cobra.Command {
	var f *outboxFlags
	cmd := &cobra.Command{
		Use: "discard --db URL ID… --yes", Short: "Delete rows that are set aside: their tasks will never be", Args: cobra.MinimumNArgs(1),
		Example: "  norn outbox discard --db sqlite:app.db 2gx5h1WmUtnj6RsIb6vmj4UEFUB --yes",
	}
	yes := cmd.Flags().Bool("yes", false, "yes, delete them")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !*yes {
			return cli.Usage("it deletes %d rows, and their tasks will never be; add --yes if that is meant", len(args))
		}
		return a.opened(cmd.Context(), f, func(ctx context.Context, db *sql.DB, box *outbox.Outbox) error {
			return a.forRows(args, func(row string) (string, error) { return row, box.Discard(ctx, db, row) })
		})
	}
	f = a.flags(cmd)
	return cmd
}

// forRows does something to rows one after the other, and prints the IDs that
// they have then.
func (a commands) forRows(rows []string, do func(string) (string, error)) error {
	list := idList(a.Writer())
	for _, row := range rows {
		now, err := do(row)
		if errors.Is(err, outbox.ErrNotAside) {
			err = notAside{row}
		}
		if err != nil {
			return errors.Join(list.Close(), err)
		}
		list.Add(now)
	}
	return list.Close()
}

// notAside is the error about a row that is not set aside.
type notAside struct{ row string }

func (e notAside) Error() string { return "no row " + e.row + " is set aside" }

// Is makes the exit code that of things that are not found.
func (e notAside) Is(target error) bool { return target == client.ErrNotFound }
