package outbox

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// recorder notes statements.
type recorder struct {
	statements []string
	args       [][]any
}

func (r *recorder) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	r.statements, r.args = append(r.statements, query), append(r.args, args)
	return nil, nil
}

func newOutbox(t *testing.T, d Dialect, o Options) *Outbox {
	t.Helper()
	box, err := New(d, o)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

func TestDialects(t *testing.T) {
	for name, want := range map[string]Dialect{"postgres": PostgreSQL, "PostgreSQL": PostgreSQL, "pgx": PostgreSQL, "mariadb": MySQL, "sqlite3": SQLite} {
		if got, err := ParseDialect(name); got != want || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, err := ParseDialect("oracle"); !errors.Is(err, ErrDialect) {
		t.Error(err)
	}
	for _, d := range []Dialect{"", "postgresql", "oracle"} {
		if _, err := New(d, Options{}); !errors.Is(err, ErrDialect) {
			t.Errorf("%q: %v", d, err)
		}
	}
	for _, name := range []string{"a b", "a;b", "a.b.c", "1a", "ä", strings.Repeat("a", 49), ".a", "a."} {
		if _, err := New(SQLite, Options{Table: name}); !errors.Is(err, ErrTable) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := New(SQLite, Options{Table: strings.Repeat("a", 48)}); err != nil {
		t.Error(err)
	}
}

// Placeholders are the dialect's, and few shapes of a statement are made.
func TestStatements(t *testing.T) {
	o := newOutbox(t, PostgreSQL, Options{Table: "s.box"})
	task, statement, args, err := o.Statement(client.Task{Queue: "q", Payload: []byte("x"), Priority: 3})
	if err != nil || !strings.HasSuffix(statement, "INSERT INTO s.box (id, queue, priority, payload, options, created, due) VALUES ($1, $2, $3, $4, $5, $6, $7)") {
		t.Errorf("%s, %v", statement, err)
	}
	if len(args) != 7 || args[0] != task.String() || args[1] != "q" || args[2] != int64(3) || args[4] != nil || args[5] != args[6] {
		t.Errorf("%v", args)
	}
	if _, statement, _, _ := newOutbox(t, MySQL, Options{}).Statement(client.Task{Queue: "q"}); !strings.HasSuffix(statement, "(?, ?, ?, ?, ?, ?, ?)") {
		t.Error(statement)
	}
	shapes := map[string]bool{}
	for n := 1; n <= 500; n++ {
		ids := make([]string, n)
		for i := range ids {
			ids[i] = fmt.Sprint(i)
		}
		statement, args := o.table.in("DELETE FROM TABLE WHERE id IN", ids)
		shapes[statement] = true
		if len(args) < n || args[n-1] != fmt.Sprint(n-1) || args[len(args)-1] != args[n-1] || strings.Count(statement, "$") != len(args) {
			t.Fatalf("%d: %s, %v", n, statement, args)
		}
	}
	if len(shapes) != 10 {
		t.Errorf("%d shapes of one statement", len(shapes))
	}
}

func TestEnqueueManySplits(t *testing.T) {
	o := newOutbox(t, MySQL, Options{})
	var r recorder
	ids, err := o.EnqueueMany(t.Context(), &r, make10(client.Task{Queue: "q", Payload: make([]byte, 1<<20)}))
	if err != nil || len(ids) != 10 || len(r.statements) != 4 { // three of a mebibyte fit into four
		t.Errorf("%d IDs in %d statements, %v", len(ids), len(r.statements), err)
	}
	r = recorder{}
	if _, err := o.EnqueueMany(t.Context(), &r, make([]client.Task, 0)); err != nil || len(r.statements) != 0 {
		t.Errorf("no tasks: %d statements, %v", len(r.statements), err)
	}
	one := id.NewGenerator(1, random).Next(time.Now().UnixNano())
	if _, err := o.EnqueueMany(t.Context(), &r, []client.Task{{ID: one, Queue: "q"}, {ID: one, Queue: "q"}}); !errors.Is(err, ErrDuplicate) {
		t.Error(err)
	}
	if _, err := o.EnqueueMany(t.Context(), &r, []client.Task{{Queue: "q"}, {Queue: "?"}}); !errors.Is(err, ErrTask) || !strings.Contains(err.Error(), "task 2 of 2") {
		t.Error(err)
	}
	if len(r.statements) != 0 {
		t.Error("something was written although a task was bad")
	}
}

func make10(t client.Task) []client.Task {
	out := make([]client.Task, 10)
	for i := range out {
		out[i] = t
	}
	return out
}

// What could never become a task is refused before anything is written.
func TestBadTasks(t *testing.T) {
	o := newOutbox(t, SQLite, Options{})
	key := id.UniqueKey([16]byte{}, "q", "k", 0, 0)
	self := id.NewGenerator(1, random).Next(1)
	for name, bad := range map[string]client.Task{
		"queue":            {Queue: "a b"},
		"payload":          {Queue: "q", Payload: make([]byte, proto.MaxPayloadCeiling+1)},
		"itself":           {Queue: "q", ID: self, Dependencies: []id.ID{self}},
		"key without ID":   {Queue: "q", Key: "k"},
		"key and plain ID": {Queue: "q", Key: "k", ID: self},
		"ID of a key":      {Queue: "q", ID: key},
		"header":           {Queue: "q", Headers: map[string]string{"a": "\xff"}},
		"key bytes":        {Queue: "q", ID: key, Key: "\xff"},
		"time":             {Queue: "q", NotBefore: time.Unix(-1, 0)},
		"retry":            {Queue: "q", Retry: &nornv1.RetryPolicy{Multiplier: 0.5}},
		"policy":           {Queue: "q", OnDependencyFailure: 99},
	} {
		var r recorder
		if _, err := o.Enqueue(t.Context(), &r, bad); !errors.Is(err, ErrTask) || len(r.statements) != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	var r recorder
	if got, err := o.Enqueue(t.Context(), &r, client.Task{Queue: "q", Key: "k", ID: key}); err != nil || got != key {
		t.Error(err)
	}
}

func TestBadOptions(t *testing.T) {
	made := id.NewGenerator(1, random).Next(1)
	for _, text := range []string{`{`, `{} {}`, `[]`, `{"retries":1}`, `{"on_dependency_failure":"explode"}`, `{"not_before":"soon"}`, `{"dependencies":["x"]}`, `{"key":"k"}`, `{"retry":{"max_attempts":-1}}`} {
		if _, err := decode(&row{id: made, queue: "q", options: []byte(text)}); !errors.Is(err, ErrTask) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if got, err := decode(&row{id: made, queue: "q", options: []byte(`{"on_dependency_failure":"cancel","retry":{"max_attempts":3}}`)}); err != nil || got.Retry.GetMaxAttempts() != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A delay counts from the transaction, not from the relay.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutbox(t, SQLite, Options{})
		r, err := o.row(client.Task{Queue: "q", Delay: time.Hour}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		want := time.Now().Add(time.Hour)
		time.Sleep(time.Minute)
		if got, err := decode(&r); err != nil || !got.NotBefore.Equal(want) || got.Delay != 0 {
			t.Errorf("%v, %v; want %v", got.NotBefore, err, want)
		}
	})
}

// IDs increase within a program, also when its clock steps back a little.
func TestIDs(t *testing.T) {
	var m maker
	last := m.next()
	for range 10_000 {
		next := m.next()
		if next.Compare(last) <= 0 || next.Kind() != id.KindTask {
			t.Fatalf("%s after %s", next, last)
		}
		last = next
	}
	if d := time.Since(last.Time()); d < -time.Second || d > time.Minute {
		t.Errorf("the ID is %v old", d)
	}
	mine := id.NewGenerator(1, random).Next(7)
	o := newOutbox(t, SQLite, Options{NewID: func() id.ID { return mine }})
	if got, err := o.Enqueue(t.Context(), &recorder{}, client.Task{Queue: "q"}); got != mine || err != nil {
		t.Errorf("%s, %v", got, err)
	}
}

func TestConfig(t *testing.T) {
	for name, c := range map[string]Config{
		"batch": {Batch: MaxBatch + 1}, "negative batch": {Batch: -1}, "poll": {Poll: -1}, "timeout": {Timeout: time.Millisecond},
		"lease": {Lease: 10 * time.Second, Timeout: 10 * time.Second}, "horizon": {Horizon: -1},
	} {
		if err := c.complete(); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := Config{Timeout: time.Minute}
	if err := c.complete(); err != nil || c.Lease <= c.Timeout || c.Batch != DefaultBatch || c.Poll != DefaultPoll || c.Horizon != DefaultHorizon {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := newOutbox(t, SQLite, Options{}).Relay(nil, nil, Config{}); !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
}

// TestAttemptsThatMakeNoSense: one below zero ended the relay, and the program it runs in, when
// the cluster refused its row.
func TestAttemptsThatMakeNoSense(t *testing.T) {
	for _, column := range []any{int64(-1), 0.5, -0.5, int64(math.MaxInt64), []byte("x"), "x", nil} {
		var n whole
		if err := n.Scan(column); err != nil || n.count() < 0 || n.count() > mostAttempts {
			t.Errorf("%v: %d, %v", column, n.count(), err)
		}
		if d := backoff(n.count(), firstDelay, longestDelay); d <= 0 || d > longestDelay {
			t.Errorf("%v: it waits for %v", column, d)
		}
	}
}

func TestJudge(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	task := func(age time.Duration) *client.Task {
		return &client.Task{ID: id.NewGenerator(1, random).Next(now.Add(-age).UnixNano())}
	}
	unknown := &client.Error{Err: &proto.Error{Kind: nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS}, Unknown: true}
	for _, c := range []struct {
		err     error
		age     time.Duration
		aside   bool
		longest time.Duration
	}{
		{client.ErrInvalid, 0, true, 0},
		{client.ErrAlreadyExists, 0, true, 0},
		{client.ErrNotFound, 0, true, 0},
		{unknown, 0, false, longestWait},
		{client.ErrOutOfWindow, 8 * 24 * time.Hour, true, 0},
		{client.ErrOutOfWindow, -10 * time.Second, false, longestDelay}, // a clock that is ahead
		{client.ErrUnavailable, 0, false, longestWait},
		{client.ErrOverloaded, 0, false, longestWait},
		{client.ErrDiskFull, 0, false, longestWait},
		{client.ErrConflict, 0, false, longestDelay},
		{client.ErrPermissionDenied, 0, false, longestDelay},
		{client.ErrInternal, 0, false, longestDelay},
	} {
		for attempts := range 200 {
			got := judge(task(c.age), c.err, attempts, now)
			if got.aside != c.aside || got.delay > c.longest || !c.aside && got.delay < 300*time.Millisecond || attempts > 50 && got.delay < c.longest*4/5 {
				t.Errorf("%v, attempt %d: %+v", c.err, attempts, got)
				break
			}
		}
	}
}

// safeBuffer is a bytes.Buffer for several goroutines.
type safeBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// A row that waits for long is told of before the cluster refuses it.
func TestHorizon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const horizon = 24 * time.Hour
		var log safeBuffer
		m, c := newMemory(10, someRows(t, 1)...), newCluster()
		m.down = errors.New("away")
		r := relayOf(t, m, c, Config{Horizon: horizon, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		stop := running(t, r)
		m.change(func(m *memory) { m.down = nil })
		c.change(func(c *cluster) { c.down = client.ErrUnavailable })
		told := func(level string) int { return strings.Count(log.String(), "level="+level+" msg=\"outbox: a row ") }
		time.Sleep(horizon/2 - time.Minute)
		synctest.Wait()
		if n := told("WARN") + told("ERROR"); n != 0 {
			t.Errorf("told %d times before half of the time was over", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := told("WARN"); n < 30 || n > 70 || told("ERROR") != 0 {
			t.Errorf("told %d times in an hour, %d errors", n, told("ERROR"))
		}
		time.Sleep(horizon / 2)
		synctest.Wait()
		stop()
		if told("ERROR") == 0 || r.Stats().Oldest.IsZero() {
			t.Errorf("a row beyond the horizon is not told of: %+v", r.Stats())
		}
	})
}

func TestExitWhenEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newMemory(10, someRows(t, 25)...), newCluster()
		began := time.Now()
		if err := relayOf(t, m, c, Config{ExitWhenEmpty: true}).Run(t.Context()); err != nil || c.has() != 25 || time.Since(began) > 0 {
			t.Errorf("%d tasks, %v, after %v", c.has(), err, time.Since(began))
		}
	})
}

func TestShort(t *testing.T) {
	got := short(errors.New(strings.Repeat("ä\n\x00", 1000) + "\xff"))
	if len(got) > 1010 || strings.ContainsAny(got, "\n\x00") || strings.ToValidUTF8(got, "") != got {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

// TestStatementsFitAnOldSQLite: before 3.32 a statement takes 999 arguments, and 3.24 will do, says
// docs/how-to/outbox.md.
func TestStatementsFitAnOldSQLite(t *testing.T) {
	const most = 999
	box := newOutbox(t, SQLite, Options{})
	r := &recorder{}
	ids, err := box.EnqueueMany(t.Context(), r, slices.Repeat([]client.Task{{Queue: "q"}}, DefaultBatch))
	if err != nil || len(ids) != DefaultBatch {
		t.Fatalf("%d IDs, %v", len(ids), err)
	}
	texts := make([]string, len(ids))
	for i, one := range ids {
		texts[i] = one.String()
	}
	_, looked := box.table.in("SELECT 1 FROM TABLE WHERE id IN", texts)
	for _, args := range append(r.args, looked) {
		if len(args) > most {
			t.Errorf("a statement with %d arguments", len(args))
		}
	}
}
