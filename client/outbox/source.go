package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// source hands out rows that are due, and nobody else gets them meanwhile.
type source interface {
	// take gives nil when nothing is due.
	take(ctx context.Context, now time.Time) (*taken, error)
	// waiting is when the oldest row that waits was written; zero: none waits.
	waiting(ctx context.Context) (time.Time, error)
}

// taken is a batch of rows.
type taken struct {
	rows    []row
	strange []refusal // rows that cannot be read: to be set aside
	full    bool      // there may be more
	// settle carries out what became of rows; the others are free again. It is
	// called once, also when nothing became of any. Where it fails, all may come
	// again.
	settle func(ctx context.Context, done []string, refused []refusal, now time.Time) error
}

// refusal is what becomes of a row that the cluster did not take.
type refusal struct {
	id      string
	renamed string        // what it is called from now on: a row without an ID could not be asked for; "": id
	aside   bool          // for good
	own     bool          // it says nothing about rows of other queues or other times
	delay   time.Duration // otherwise: until it is due again
	err     error
}

// name is what the row is called when the refusal has been noted.
func (r *refusal) name() string { return cmp.Or(r.renamed, r.id) }

// database is the source that a relay works on.
type database struct {
	db       *sql.DB
	table    table
	leases   bool
	lease    time.Duration
	maxRows  int
	maxBytes int
}

func (d *database) take(ctx context.Context, now time.Time) (*taken, error) {
	if d.leases {
		return d.takeLeases(ctx, now)
	}
	return d.takeLocks(ctx, now)
}

// chosen cuts heads down to what a batch may weigh, at least one.
func (d *database) chosen(heads []head) (ids []string, full bool) {
	size := 0
	for i, h := range heads {
		if size += h.size; i > 0 && size > d.maxBytes {
			return ids, true
		}
		ids = append(ids, h.id)
	}
	return ids, len(heads) == d.maxRows
}

// takeLocks locks rows in a transaction that is open until settle. At READ
// COMMITTED, because MySQL's default would lock the gaps between rows too, and
// with them the programs that write new ones.
func (d *database) takeLocks(ctx context.Context, now time.Time) (*taken, error) {
	tx, err := d.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return nil, fmt.Errorf("beginning a transaction: %w", err)
	}
	heads, err := d.table.heads(ctx, tx, now.UnixMilli(), d.maxRows, true)
	if err != nil || len(heads) == 0 {
		if err != nil {
			err = fmt.Errorf("looking for rows: %w", err)
		}
		return nil, errors.Join(err, ended(tx.Rollback()))
	}
	ids, full := d.chosen(heads)
	t := &taken{full: full, settle: func(ctx context.Context, done []string, refused []refusal, now time.Time) error {
		if len(done)+len(refused) == 0 {
			return ended(tx.Rollback())
		}
		err := d.table.settle(ctx, tx, done, refused, now)
		if err != nil {
			_ = tx.Rollback() // the error says what matters
		} else if err = tx.Commit(); err == nil {
			return nil
		}
		// What the cluster has taken may be deleted at any time, by anyone: once
		// more without the locks, before others send it again.
		if again := d.inTx(ctx, func(tx *sql.Tx) error { return d.table.settle(ctx, tx, done, refused, now) }); again != nil {
			return err
		}
		return nil
	}}
	if t.rows, t.strange, err = d.table.bodies(ctx, tx, ids); err != nil {
		return nil, errors.Join(fmt.Errorf("reading rows: %w", err), ended(tx.Rollback()))
	}
	return t, nil
}

// takeLeases makes rows due later, each only if nobody else has done so since
// it was read. It holds no transaction while they are sent.
func (d *database) takeLeases(ctx context.Context, now time.Time) (*taken, error) {
	heads, err := d.table.heads(ctx, d.db, now.UnixMilli(), d.maxRows, false)
	if err != nil || len(heads) == 0 {
		if err != nil {
			err = fmt.Errorf("looking for rows: %w", err)
		}
		return nil, err
	}
	ids, full := d.chosen(heads)
	until := now.Add(d.lease).UnixMilli()
	mine := make([]string, 0, len(ids))
	// The first statement writes: SQLite could not turn a reading transaction
	// into a writing one while others write.
	err = d.inTx(ctx, func(tx *sql.Tx) error {
		lease, err := tx.PrepareContext(ctx, d.table.sql("UPDATE TABLE SET due = ? WHERE id = ? AND due = ? AND aside = 0"))
		if err != nil {
			return err
		}
		for i, one := range ids {
			n, err := affected(lease.ExecContext(ctx, until, one, heads[i].due))
			if err == nil && n == 0 && d.table.dialect == SQLite {
				// Its text may be there as bytes, which are equal to no text.
				n, err = affected(tx.ExecContext(ctx, d.table.sql("UPDATE OR IGNORE TABLE SET due = ?, id = CAST(id AS TEXT) WHERE id = CAST(? AS BLOB) AND due = ? AND aside = 0"),
					until, one, heads[i].due))
			}
			if err != nil {
				return errors.Join(err, lease.Close())
			}
			if n == 1 {
				mine = append(mine, one)
			}
		}
		return lease.Close()
	})
	if err != nil {
		return nil, fmt.Errorf("leasing rows: %w", err)
	}
	t := &taken{full: full}
	if len(mine) > 0 {
		if t.rows, t.strange, err = d.table.bodies(ctx, d.db, mine); err != nil {
			return nil, fmt.Errorf("reading rows: %w", err)
		}
	}
	t.settle = func(ctx context.Context, done []string, refused []refusal, now time.Time) error {
		return d.settleLeases(ctx, mine, until, done, refused, now)
	}
	return t, nil
}

// affected is how many rows a statement has changed.
func affected(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// settleLeases also ends the leases of rows of which nothing became.
func (d *database) settleLeases(ctx context.Context, mine []string, until int64, done []string, refused []refusal, now time.Time) error {
	judged := make(map[string]bool, len(mine))
	for _, one := range done {
		judged[one] = true
	}
	for _, r := range refused {
		judged[r.id] = true
	}
	return d.inTx(ctx, func(tx *sql.Tx) error {
		if err := d.table.settle(ctx, tx, done, refused, now); err != nil {
			return err
		}
		for _, one := range mine {
			if judged[one] {
				continue
			}
			if _, err := tx.ExecContext(ctx, d.table.sql("UPDATE TABLE SET due = ? WHERE id = ? AND due = ?"), now.UnixMilli(), one, until); err != nil {
				return fmt.Errorf("giving back row %s: %w", one, err)
			}
		}
		return nil
	})
}

func (d *database) inTx(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, ended(tx.Rollback()))
	}
	return tx.Commit()
}

// ended is the error of a rollback without the case that is none: database/sql
// has done it already because the context ended.
func ended(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

func (d *database) waiting(ctx context.Context) (time.Time, error) {
	return d.table.oldest(ctx, d.db)
}
