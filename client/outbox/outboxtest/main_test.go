package outboxtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/outbox"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// These run once for all tests, when one asks for them.
type shared struct {
	postgres, maria func() (*daemon, string, error)
	norn            func() (string, error) // path of the program
	started         []func()               // what to end, in reverse
	dir             string
	mu              sync.Mutex // guards started
	tables          atomic.Int64
}

var the shared

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(child())
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "norn-outbox-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	the.dir = dir
	the.postgres = once(startPostgres)
	the.maria = once(startMaria)
	the.norn = sync.OnceValues(buildNorn)
	code := m.Run()
	for i := len(the.started) - 1; i >= 0; i-- {
		the.started[i]()
	}
	_ = os.RemoveAll(dir) // a temporary directory
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// once starts a daemon when it is first asked for, and has it removed in the
// end.
func once(start func() (*daemon, string, error)) func() (*daemon, string, error) {
	var d *daemon
	dsn := sync.OnceValues(func() (string, error) {
		began, text, err := start()
		if err != nil {
			return "", err
		}
		d = began
		the.mu.Lock()
		defer the.mu.Unlock()
		the.started = append(the.started, d.remove)
		return text, nil
	})
	return func() (*daemon, string, error) {
		text, err := dsn()
		return d, text, err
	}
}

// world is a table in a database.
type world struct {
	driver, dsn string
	dialect     outbox.Dialect
	leases      bool
	table       string
	daemon      *daemon // nil for SQLite
	db          *sql.DB
	box         *outbox.Outbox
}

// kinds of databases, drivers and ways to share rows.
var kinds = []struct {
	name, driver string
	dialect      outbox.Dialect
	leases       bool
}{
	{"postgres-pgx", "pgx", outbox.PostgreSQL, false},
	{"postgres-pq", "postgres", outbox.PostgreSQL, false},
	{"postgres-leases", "pgx", outbox.PostgreSQL, true},
	{"mariadb", "mysql", outbox.MySQL, false},
	{"mariadb-leases", "mysql", outbox.MySQL, true},
	{"sqlite", "sqlite", outbox.SQLite, true},
}

// each runs a test in every kind of database that is installed, in a table of
// its own.
func each(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			w := &world{driver: k.driver, dialect: k.dialect, leases: k.leases, table: fmt.Sprintf("box_%d", the.tables.Add(1))}
			var err error
			switch k.dialect {
			case outbox.PostgreSQL:
				w.daemon, w.dsn, err = the.postgres()
			case outbox.MySQL:
				w.daemon, w.dsn, err = the.maria()
			case outbox.SQLite:
				w.dsn = "file:" + filepath.Join(t.TempDir(), "test.db") + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)"
			}
			if errors.Is(err, errNotInstalled) {
				t.Skipf("NOT RUN: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if w.box, err = outbox.New(w.dialect, outbox.Options{Table: w.table}); err != nil {
				t.Fatal(err)
			}
			w.db = w.open(t)
			for range 2 { // the second time does no harm
				if err := w.box.CreateTable(t.Context(), w.db); err != nil {
					t.Fatal(err)
				}
			}
			test(t, w)
		})
	}
}

// open is another pool of connections to the database.
func (w *world) open(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open(w.driver, w.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// relay makes a relay with connections of its own.
func (w *world) relay(t testing.TB, to outbox.Enqueuer, cfg outbox.Config) *outbox.Relay {
	t.Helper()
	cfg.Leases = w.leases
	if cfg.Poll == 0 {
		cfg.Poll = 5 * time.Millisecond
	}
	r, err := w.box.Relay(w.open(t), to, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// run runs a relay until the function that it returns is called, or the test
// ends.
func run(t testing.TB, r *outbox.Relay) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// in runs f in a transaction, which is committed if f says so.
func (w *world) in(t testing.TB, f func(tx *sql.Tx) (commit bool)) {
	t.Helper()
	tx, err := w.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	end := tx.Rollback
	if f(tx) {
		end = tx.Commit
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
}

// put writes n tasks in one transaction.
func (w *world) put(t testing.TB, n int) []id.ID {
	t.Helper()
	var ids []id.ID
	w.in(t, func(tx *sql.Tx) bool {
		tasks := make([]client.Task, n)
		for i := range tasks {
			tasks[i] = client.Task{Queue: "q", Payload: fmt.Appendf(nil, "payload %d", i)}
		}
		var err error
		if ids, err = w.box.EnqueueMany(t.Context(), tx, tasks); err != nil {
			t.Fatal(err)
		}
		return true
	})
	return ids
}

// exec runs a statement; TABLE is the table.
func (w *world) exec(t testing.TB, statement string) {
	t.Helper()
	if _, err := w.db.ExecContext(t.Context(), strings.ReplaceAll(statement, "TABLE", w.table)); err != nil {
		t.Fatal(err)
	}
}

// backlog is what lies in the table.
func (w *world) backlog(t testing.TB) outbox.Backlog {
	t.Helper()
	b, err := w.box.Backlog(t.Context(), w.db)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// cluster takes tasks once each, like the real one.
type cluster struct {
	mu         sync.Mutex // guards the fields below
	tasks      map[id.ID]client.Task
	duplicates int
	refuse     func(client.Task) error
	entered    chan int      // if set, hears of calls
	hold       chan struct{} // if set, calls wait for it
	most       int           // bytes of payload in the largest call
}

func newCluster() *cluster { return &cluster{tasks: map[id.ID]client.Task{}} }

func (c *cluster) EnqueueMany(ctx context.Context, tasks []client.Task, _ ...client.WriteOption) ([]client.Result, error) {
	if c.entered != nil {
		c.entered <- len(tasks)
	}
	if c.hold != nil {
		select {
		case <-c.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	results, size := make([]client.Result, len(tasks)), 0
	for i, t := range tasks {
		size += len(t.Payload)
		results[i].ID = t.ID
		if c.refuse != nil {
			if results[i].Err = c.refuse(t); results[i].Err != nil {
				continue
			}
		}
		_, existed := c.tasks[t.ID]
		if existed {
			c.duplicates++
		}
		c.tasks[t.ID] = t
		results[i].Receipt = &nornv1.Receipt{Id: t.ID.String(), Existed: existed}
	}
	c.most = max(c.most, size)
	return results, nil
}

func (c *cluster) count() (tasks, duplicates int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.tasks), c.duplicates
}
