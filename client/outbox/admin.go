package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/norn-dev/norn/id"
)

// countMost is where counting stops: counting rows reads them.
const countMost = 100_000

// ErrNotAside is returned when no row with that ID is set aside.
var ErrNotAside = errors.New("outbox: not set aside")

// Queryer reads and writes: an *sql.DB, *sql.Tx or *sql.Conn.
type Queryer interface {
	Execer
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Backlog is what lies in the table.
type Backlog struct {
	Waiting int       // rows that wait to be sent, at most 100,000 are counted
	Aside   int       // rows that are set aside, counted likewise
	Oldest  time.Time // when about the oldest that waits was written; zero: none
}

// Backlog looks at the table.
func (o *Outbox) Backlog(ctx context.Context, db Queryer) (b Backlog, err error) {
	for aside, n := range []*int{&b.Waiting, &b.Aside} {
		if err := o.table.one(ctx, db, "SELECT COUNT(*) FROM (SELECT 1 FROM TABLE WHERE aside = ? LIMIT ?) AS counted", []any{aside, countMost}, n); err != nil {
			return b, fmt.Errorf("outbox: counting rows: %w", err)
		}
	}
	b.Oldest, err = o.table.oldest(ctx, db)
	return b, err
}

// oldest is when the row with the lowest ID of those that wait was written: IDs
// are in the order of time but for those of unique keys.
func (t table) oldest(ctx context.Context, db Queryer) (time.Time, error) {
	var text string
	var created whole
	err := t.one(ctx, db, "SELECT id, created FROM TABLE WHERE aside = 0 ORDER BY id LIMIT 1", nil, &text, &created)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return time.Time{}, nil
	case err != nil:
		return time.Time{}, fmt.Errorf("outbox: looking for the oldest row: %w", err)
	}
	return written(text, int64(created)), nil
}

// written is when a row was written: the time of its ID, which is what the
// cluster judges too, or the column where the ID does not say. Writers in plain
// SQL leave the column zero.
func written(text string, created int64) time.Time {
	switch task, err := id.Parse(text); {
	case err == nil && task.Kind() == id.KindTask:
		return task.Time()
	case created != 0:
		return time.UnixMilli(created).UTC()
	}
	return time.Time{}
}

// one reads a single row; sql.ErrNoRows when there is none.
func (t table) one(ctx context.Context, db Queryer, statement string, args []any, into ...any) error {
	rows, err := db.QueryContext(ctx, t.sql(statement), args...)
	if err != nil {
		return err
	}
	err = sql.ErrNoRows
	if rows.Next() {
		err = rows.Scan(into...)
	} else if rows.Err() != nil {
		err = rows.Err()
	}
	return errors.Join(err, rows.Close())
}

// Aside lists rows that are set aside, in order of their IDs: at most limit of
// those after an ID; "" for the first.
func (o *Outbox) Aside(ctx context.Context, db Queryer, after string, limit int) ([]Aside, error) {
	rows, err := db.QueryContext(ctx, o.table.sql("SELECT id, queue, created, attempts, error FROM TABLE WHERE aside = 1 AND id > ? ORDER BY id LIMIT ?"), after, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("outbox: listing rows: %w", err)
	}
	var out []Aside
	for rows.Next() {
		var a Aside
		var created, attempts whole
		var reason sql.NullString
		if err := rows.Scan(&a.ID, &a.Queue, &created, &attempts, &reason); err != nil {
			return nil, errors.Join(fmt.Errorf("outbox: listing rows: %w", err), rows.Close())
		}
		a.Created, a.Attempts, a.Reason = written(a.ID, int64(created)), attempts.count(), reason.String
		out = append(out, a)
	}
	return out, errors.Join(rows.Err(), rows.Close())
}

// Retry lets a row that is set aside be sent again, as it is. ErrNotAside: there
// is no such row.
func (o *Outbox) Retry(ctx context.Context, db Execer, task string) error {
	return o.decide(ctx, db, task, "UPDATE TABLE SET aside = 0, attempts = 0, due = ? WHERE id = ? AND aside = 1", time.Now().UnixMilli(), task)
}

// Rename lets a row that is set aside be sent again under a new ID, which it
// returns. For one that the cluster refused because of its age this is the way
// to have it done, at the risk that it is done twice: a relay may have enqueued it
// under the old ID, so long ago that the cluster has forgotten. ErrNotAside: there
// is no such row.
func (o *Outbox) Rename(ctx context.Context, db Queryer, task string) (id.ID, error) {
	var options sql.NullString
	err := o.table.one(ctx, db, "SELECT options FROM TABLE WHERE id = ? AND aside = 1", []any{task}, &options)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return id.ID{}, fmt.Errorf("%w: %s", ErrNotAside, task)
	case err != nil:
		return id.ID{}, fmt.Errorf("outbox: reading row %s: %w", task, err)
	}
	// A row whose options cannot be read is refused again under any name.
	if t, _ := decode(&row{options: []byte(options.String)}); t.Key != "" {
		return id.ID{}, fmt.Errorf("%w: the ID of a task with a unique key is for the cluster to say", ErrTask)
	}
	renamed := o.newID()
	return renamed, o.decide(ctx, db, task, "UPDATE TABLE SET id = ?, aside = 0, attempts = 0, due = ? WHERE id = ? AND aside = 1",
		renamed.String(), time.Now().UnixMilli(), task)
}

// Discard deletes a row that is set aside: its task will never be. ErrNotAside:
// there is no such row.
func (o *Outbox) Discard(ctx context.Context, db Execer, task string) error {
	return o.decide(ctx, db, task, "DELETE FROM TABLE WHERE id = ? AND aside = 1", task)
}

func (o *Outbox) decide(ctx context.Context, db Execer, task, statement string, args ...any) error {
	result, err := db.ExecContext(ctx, o.table.sql(statement), args...)
	if err != nil {
		return fmt.Errorf("outbox: changing row %s: %w", task, err)
	}
	if n, err := result.RowsAffected(); err == nil && n == 0 {
		return fmt.Errorf("%w: %s", ErrNotAside, task)
	}
	return nil
}
