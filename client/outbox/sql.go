package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/norn-dev/norn/id"
)

// insert writes rows, at least one.
func (t table) insert(rows []row) (string, []any) {
	const one = "(?, ?, ?, ?, ?, ?, ?)"
	args := make([]any, 0, 7*len(rows))
	for i := range rows {
		r := &rows[i]
		var options any
		if r.options != nil {
			options = string(r.options)
		}
		args = append(args, r.id.String(), r.queue, int64(r.priority), r.payload, options, r.created, r.created)
	}
	return t.sql("INSERT INTO TABLE (id, queue, priority, payload, options, created, due) VALUES " +
		one + strings.Repeat(", "+one, len(rows)-1)), args
}

// head is what is first known of a row that is due.
type head struct {
	id   string
	due  any // as it stands there: SQLite keeps fractions too
	size int
}

// whole is a column of a whole number, as a time in milliseconds, 0 where it says none
// that can be read: SQLite keeps whatever it was given.
type whole int64

// Scan never fails: a row is no worse for it, and others are read with it.
func (m *whole) Scan(column any) error {
	*m = 0
	switch v := column.(type) {
	case int64:
		*m = whole(v)
	case float64:
		if v > 0 && v < math.MaxInt64 {
			*m = whole(v)
		}
	case []byte: // as some drivers give numbers
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			*m = whole(n)
		}
	}
	return nil
}

// mostAttempts is up to where attempts are counted: beyond what a relay comes to in years
// of refusals, and within any integer of a database.
const mostAttempts = 1_000_000

// count is how often a row was refused before; what cannot be so counts from 0 again.
func (m whole) count() int {
	if m < 0 || m > mostAttempts {
		return 0
	}
	return int(m)
}

// heads reads the rows that are due, at most limit.
func (t table) heads(ctx context.Context, q Queryer, now int64, limit int, lock bool) ([]head, error) {
	statement := "SELECT id, due, LENGTH(payload) FROM TABLE WHERE aside = 0 AND due <= ? ORDER BY due, id LIMIT ?"
	if lock {
		statement += " FOR UPDATE SKIP LOCKED"
	}
	rows, err := q.QueryContext(ctx, t.sql(statement), now, limit)
	if err != nil {
		return nil, err
	}
	var out []head
	for rows.Next() {
		var h head
		if err := rows.Scan(&h.id, &h.due, &h.size); err != nil {
			return nil, errors.Join(err, rows.Close())
		}
		out = append(out, h)
	}
	return out, errors.Join(rows.Err(), rows.Close())
}

// bodies reads rows by ID. strange are those that cannot be read at all.
func (t table) bodies(ctx context.Context, q Queryer, ids []string) (out []row, strange []refusal, err error) {
	statement, args := t.in("SELECT id, queue, priority, payload, options, created, attempts FROM TABLE WHERE id IN", ids)
	rows, err := q.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, nil, err
	}
	for rows.Next() {
		var r row
		var text sql.NullString
		var created, attempts whole
		bad := rows.Scan(&text, &r.queue, &r.priority, &r.payload, &r.options, &created, &attempts)
		if r.created, r.attempts = int64(created), attempts.count(); bad == nil {
			r.id, bad = id.ParseNew(text.String)
		}
		switch {
		case bad == nil:
			out = append(out, r)
		case !text.Valid: // not even that was read
			return nil, nil, errors.Join(bad, rows.Close())
		default:
			one := refusal{id: text.String, aside: true, err: fmt.Errorf("%w: %w", ErrTask, bad)}
			if text.String == "" {
				one.err = fmt.Errorf("%w: the row had no ID; this one is new", ErrTask)
				one.renamed = new(maker).next().String()
			}
			strange = append(strange, one)
		}
	}
	return out, strange, errors.Join(rows.Err(), rows.Close())
}

// settle carries out what became of rows.
func (t table) settle(ctx context.Context, tx *sql.Tx, done []string, refused []refusal, now time.Time) error {
	if err := t.remove(ctx, tx, done); err != nil {
		return fmt.Errorf("deleting %d rows: %w", len(done), err)
	}
	for _, r := range refused {
		aside := 0
		if r.aside {
			aside = 1
		}
		if _, err := tx.ExecContext(ctx, t.sql("UPDATE TABLE SET attempts = CASE WHEN attempts BETWEEN 0 AND 1000000 THEN attempts + 1 ELSE 1 END, due = ?, aside = ?, error = ? WHERE id = ?"),
			now.Add(r.delay).UnixMilli(), aside, short(r.err), r.id); err != nil {
			return fmt.Errorf("putting off row %s: %w", r.id, err)
		}
		if r.renamed == "" {
			continue
		}
		if _, err := tx.ExecContext(ctx, t.sql("UPDATE TABLE SET id = ? WHERE id = ?"), r.renamed, r.id); err != nil {
			return fmt.Errorf("naming row %q: %w", r.id, err)
		}
	}
	return nil
}

// remove deletes rows. MySQL gets them one by one: for several it may rather
// read a small table as a whole, and wait there for the rows that another relay
// holds, which waits for these: a deadlock.
func (t table) remove(ctx context.Context, tx *sql.Tx, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	if t.dialect != MySQL {
		statement, args := t.in("DELETE FROM TABLE WHERE id IN", ids)
		_, err := tx.ExecContext(ctx, statement, args...)
		return err
	}
	one, err := tx.PrepareContext(ctx, t.sql("DELETE FROM TABLE WHERE id = ?"))
	if err != nil {
		return err
	}
	for _, each := range ids {
		if _, err = one.ExecContext(ctx, each); err != nil {
			break
		}
	}
	return errors.Join(err, one.Close())
}
