package outbox

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
)

const (
	// rowsInStatement bounds one INSERT: 7 arguments per row stay below what any of
	// the databases takes (SQLite before 3.32: 999).
	rowsInStatement = 140
	// bytesInStatement bounds it too: the smallest usual limit of a packet is
	// MariaDB's, 16 MiB, and a largest payload (16 MiB) goes alone.
	bytesInStatement = 4 << 20
)

var (
	// ErrTask is returned when a task could never be enqueued, before anything is
	// written; the transaction can go on without it.
	ErrTask = errors.New("outbox: bad task")
	// ErrDuplicate is returned when two tasks of one call have the same ID.
	ErrDuplicate = errors.New("outbox: an ID twice")
)

// Execer runs a statement: an *sql.Tx, for an enqueue that is part of a
// transaction; an *sql.Conn or *sql.DB for one that is not.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Options of an [Outbox]. The zero value is good.
type Options struct {
	// Table is the name of the table, with a schema in front or not; "":
	// norn_outbox.
	Table string
	// NewID makes IDs of tasks that have none. A program that has a client may
	// give [client.Client.NewID]: its IDs lie where the cluster takes tasks right
	// now, so that no row has to wait for a partition that is down. nil: IDs are
	// made without a cluster.
	NewID func() id.ID
}

// Outbox writes tasks into the table. Its methods may be called from any
// goroutine.
type Outbox struct {
	table table
	newID func() id.ID
}

// New makes an Outbox. The errors are ErrDialect and ErrTable.
func New(d Dialect, o Options) (*Outbox, error) {
	t, err := newTable(d, o.Table)
	if err != nil {
		return nil, err
	}
	if o.NewID == nil {
		var m maker
		o.NewID = m.next
	}
	return &Outbox{table: t, newID: o.NewID}, nil
}

// Schema is the SQL that makes the table and its index: see [Schema].
func (o *Outbox) Schema() string { return strings.Join(o.table.schema(), "") }

// CreateTable makes the table and its index where they are not there. The
// errors are the database's.
func (o *Outbox) CreateTable(ctx context.Context, db Execer) error {
	for _, s := range o.table.schema() {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("outbox: creating table %s: %w", o.table.name, err)
		}
	}
	return nil
}

// Enqueue writes a task into the transaction and returns the ID it has when the
// transaction commits. ErrTask: the task breaks a rule. A task with a unique key
// needs its ID, from [client.Client.LookupKey] before the transaction begins: only
// the cluster knows it. Other errors are the database's, and most databases want
// the transaction rolled back then.
func (o *Outbox) Enqueue(ctx context.Context, tx Execer, t client.Task) (id.ID, error) {
	task, statement, args, err := o.Statement(t)
	if err != nil {
		return id.ID{}, err
	}
	if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
		return id.ID{}, fmt.Errorf("outbox: writing task %s: %w", task, err)
	}
	return task, nil
}

// EnqueueMany is Enqueue for several tasks, in few statements. All are checked
// before the first is written.
func (o *Outbox) EnqueueMany(ctx context.Context, tx Execer, tasks []client.Task) ([]id.ID, error) {
	now := time.Now()
	ids := make([]id.ID, len(tasks))
	rows := make([]row, len(tasks))
	seen := make(map[id.ID]bool, len(tasks))
	for i, t := range tasks {
		r, err := o.row(t, now)
		if err != nil {
			return nil, fmt.Errorf("task %d of %d: %w", i+1, len(tasks), err)
		}
		if seen[r.id] {
			return nil, fmt.Errorf("%w: task %d of %d has %s as well", ErrDuplicate, i+1, len(tasks), r.id)
		}
		seen[r.id] = true
		rows[i], ids[i] = r, r.id
	}
	for len(rows) > 0 {
		n, size := 0, 0
		for n < len(rows) && n < rowsInStatement && (n == 0 || size+rows[n].size() <= bytesInStatement) {
			size += rows[n].size()
			n++
		}
		statement, args := o.table.insert(rows[:n])
		if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
			return nil, fmt.Errorf("outbox: writing %d tasks: %w", n, err)
		}
		rows = rows[n:]
	}
	return ids, nil
}

// Statement is what Enqueue would execute, for programs that do not use
// database/sql: execute it, with its arguments, in the transaction. The
// arguments are strings, int64s, []byte and nil. The error is ErrTask.
func (o *Outbox) Statement(t client.Task) (task id.ID, statement string, args []any, err error) {
	r, err := o.row(t, time.Now())
	if err != nil {
		return id.ID{}, "", nil, err
	}
	statement, args = o.table.insert([]row{r})
	return r.id, statement, args, nil
}

// row makes the row of a task.
func (o *Outbox) row(t client.Task, now time.Time) (row, error) {
	if t.Delay > 0 {
		if at := now.Add(t.Delay); at.After(t.NotBefore) {
			t.NotBefore = at
		}
		t.Delay = 0
	}
	if t.ID.IsZero() {
		if t.Key != "" {
			return row{}, fmt.Errorf("%w: the ID of a task with a unique key is for the cluster to say; ask LookupKey before the transaction and set Task.ID", ErrTask)
		}
		t.ID = o.newID()
	}
	if err := check(&t); err != nil {
		return row{}, err
	}
	return encode(&t, now)
}

// maker makes IDs without a cluster.
type maker struct {
	mu  sync.Mutex // guards gen
	gen *id.Generator
}

func (m *maker) next() id.ID {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now().UnixNano()
	if m.gen == nil || m.gen.Ahead(now) > id.MaxAhead {
		// The clock has stepped back by more than nodes tolerate: order within
		// the process is lost, service is not.
		m.gen = id.NewGenerator(uint32(random()), random)
	}
	return m.gen.Next(now)
}

func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.BigEndian.Uint64(b[:])
}
