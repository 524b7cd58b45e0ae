package outbox

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a table without a database, for the tests of the relay itself.
type memory struct {
	mu     sync.Mutex // guards the fields below
	rows   map[string]*stored
	limit  int
	down   error // what the database answers, if not nil
	lost   bool  // settling fails: the relay dies between enqueue and delete
	taking int   // how often rows were asked for
}

type stored struct {
	row
	due     time.Time
	locked  bool
	aside   error
	strange error
}

func newMemory(limit int, rows ...row) *memory {
	m := &memory{rows: map[string]*stored{}, limit: limit}
	for _, r := range rows {
		m.rows[r.id.String()] = &stored{row: r}
	}
	return m
}

func (m *memory) take(_ context.Context, now time.Time) (*taken, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.taking++
	if m.down != nil {
		return nil, m.down
	}
	var due []*stored
	for _, s := range m.rows {
		if s.aside == nil && !s.locked && !s.due.After(now) {
			due = append(due, s)
		}
	}
	slices.SortFunc(due, func(a, b *stored) int { return cmp.Or(a.due.Compare(b.due), a.id.Compare(b.id)) })
	if len(due) == 0 {
		return nil, nil
	}
	t := &taken{full: len(due) > m.limit}
	due = due[:min(len(due), m.limit)]
	for _, s := range due {
		s.locked = true
		if s.strange != nil {
			t.strange = append(t.strange, refusal{id: s.id.String(), aside: true, err: s.strange})
			continue
		}
		t.rows = append(t.rows, s.row)
	}
	t.settle = func(ctx context.Context, done []string, refused []refusal, now time.Time) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, s := range due {
			s.locked = false
		}
		if m.lost || m.down != nil {
			return errors.Join(errors.New("connection lost"), m.down)
		}
		for _, one := range done {
			delete(m.rows, one)
		}
		for _, r := range refused {
			s := m.rows[r.id]
			s.attempts++
			s.due = now.Add(r.delay)
			if r.aside {
				s.aside = r.err
			}
		}
		return nil
	}
	return t, nil
}

func (m *memory) waiting(context.Context) (time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var oldest *stored
	for _, s := range m.rows {
		if s.aside == nil && (oldest == nil || s.id.Compare(oldest.id) < 0) {
			oldest = s
		}
	}
	if oldest == nil {
		return time.Time{}, m.down
	}
	return time.UnixMilli(oldest.created), m.down
}

// change calls f while nobody else looks.
func (m *memory) change(f func(*memory)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m)
}

// left are the rows that wait, and those that are set aside.
func (m *memory) left() (waiting, aside int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.rows {
		if s.aside != nil {
			aside++
		} else {
			waiting++
		}
	}
	return waiting, aside
}

// cluster takes tasks once each, like the real one.
type cluster struct {
	mu     sync.Mutex // guards the fields below
	tasks  map[id.ID]string
	order  []id.ID
	calls  int
	refuse func(client.Task) error
	down   error
	whole  func([]client.Task) error // a call that is refused altogether
	block  chan struct{}             // if set, calls wait for it, or for their context
}

func newCluster() *cluster { return &cluster{tasks: map[id.ID]string{}} }

func (c *cluster) EnqueueMany(ctx context.Context, tasks []client.Task, _ ...client.WriteOption) ([]client.Result, error) {
	c.mu.Lock()
	block := c.block
	c.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return nil, &client.Error{Op: "enqueue", Ended: ctx.Err(), Unknown: true}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if c.down != nil {
		return nil, c.down
	}
	if c.whole != nil {
		if err := c.whole(tasks); err != nil {
			return nil, err
		}
	}
	results := make([]client.Result, len(tasks))
	for i, t := range tasks {
		results[i].ID = t.ID
		if c.refuse != nil {
			if results[i].Err = c.refuse(t); results[i].Err != nil {
				continue
			}
		}
		_, existed := c.tasks[t.ID]
		if !existed {
			c.tasks[t.ID] = string(t.Payload)
			c.order = append(c.order, t.ID)
		}
		results[i].Receipt = &nornv1.Receipt{Id: t.ID.String(), Existed: existed}
	}
	return results, nil
}

func (c *cluster) change(f func(*cluster)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c)
}

func (c *cluster) has() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.tasks)
}

// someRows makes n rows, in order.
func someRows(t testing.TB, n int) []row {
	t.Helper()
	o, err := New(PostgreSQL, Options{})
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]row, n)
	for i := range rows {
		if rows[i], err = o.row(client.Task{Queue: "q", Payload: []byte{byte(i), byte(i >> 8)}}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	return rows
}

// relayOf makes a relay with defaults.
func relayOf(t testing.TB, s source, to Enqueuer, cfg Config) *Relay {
	t.Helper()
	if err := cfg.complete(); err != nil {
		t.Fatal(err)
	}
	return newRelay(s, to, cfg)
}

// running runs a relay; what it returns stops it and waits.
func running(t testing.TB, r *Relay) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}
