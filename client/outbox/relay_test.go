package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
)

func TestCarriesEverythingInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := someRows(t, 25)
		m, c := newMemory(10, rows...), newCluster()
		r := relayOf(t, m, c, Config{})
		stop := running(t, r)
		synctest.Wait()
		if c.has() != 25 || c.calls != 3 {
			t.Errorf("%d tasks in %d calls without waiting, want 25 in 3", c.has(), c.calls)
		}
		if !slices.IsSortedFunc(c.order, id.ID.Compare) {
			t.Error("one relay without failures sends in another order than that of the IDs")
		}
		stop()
		if waiting, aside := m.left(); waiting+aside != 0 {
			t.Errorf("left are %d waiting and %d aside", waiting, aside)
		}
		if s := r.Stats(); s.Relayed != 25 || s.Batches != 3 || s.Duplicates+s.PutOff+s.Aside+s.Failures != 0 || s.LastSuccess.IsZero() {
			t.Errorf("stats %+v", s)
		}
	})
}

// A relay that dies between the enqueue and the delete.
func TestSendsAgainWhatItCouldNotDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newMemory(10, someRows(t, 4)...), newCluster()
		m.lost = true
		r := relayOf(t, m, c, Config{})
		stop := running(t, r)
		synctest.Wait()
		if waiting, _ := m.left(); c.has() != 4 || waiting != 4 {
			t.Fatalf("%d tasks, %d rows; want 4 and 4", c.has(), waiting)
		}
		m.change(func(m *memory) { m.lost = false })
		time.Sleep(time.Second)
		synctest.Wait()
		stop()
		if waiting, _ := m.left(); c.has() != 4 || waiting != 0 {
			t.Errorf("%d tasks, %d rows; want 4 and 0", c.has(), waiting)
		}
		if s := r.Stats(); s.Duplicates != 4 || s.Relayed != 4 || s.Failures != 1 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestPoisonIsSetAsideAndBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := someRows(t, 30)
		rows[3].queue = "not a queue"
		rows[4].options = []byte(`{"retri":{}}`)
		m, c := newMemory(10, rows...), newCluster()
		m.rows[rows[5].id.String()].strange = fmt.Errorf("%w: no ID", ErrTask)
		c.refuse = func(task client.Task) error {
			switch task.ID {
			case rows[7].id:
				return fmt.Errorf("%w: too large", client.ErrInvalid)
			case rows[8].id:
				return fmt.Errorf("%w: other spec", client.ErrAlreadyExists)
			}
			return nil
		}
		var told []Aside
		r := relayOf(t, m, c, Config{OnAside: func(a Aside) { told = append(told, a) }})
		stop := running(t, r)
		synctest.Wait()
		stop()
		if waiting, aside := m.left(); c.has() != 25 || waiting != 0 || aside != 5 {
			t.Errorf("%d tasks, %d rows wait, %d are set aside; want 25, 0, 5", c.has(), waiting, aside)
		}
		if len(told) != 5 || r.Stats().Aside != 5 {
			t.Fatalf("told of %d rows: %+v", len(told), told)
		}
		for _, a := range told {
			if a.Reason == "" || a.Attempts != 1 {
				t.Errorf("told %+v", a)
			}
		}
	})
}

// A request that is refused as a whole does not condemn the innocent in it.
func TestOneBadTaskInARefusedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := someRows(t, 33)
		m, c := newMemory(100, rows...), newCluster()
		bad := rows[20].id
		c.whole = func(tasks []client.Task) error {
			if slices.ContainsFunc(tasks, func(one client.Task) bool { return one.ID == bad }) {
				return fmt.Errorf("%w: the frame makes no sense", client.ErrInvalid)
			}
			return nil
		}
		stop := running(t, relayOf(t, m, c, Config{}))
		synctest.Wait()
		stop()
		if waiting, aside := m.left(); c.has() != 32 || waiting != 0 || aside != 1 || m.rows[bad.String()] == nil {
			t.Errorf("%d tasks, %d rows wait, %d are set aside", c.has(), waiting, aside)
		}
	})
}

// Rows that several share a verdict with, although only one is at fault.
func TestInvalidTogetherIsAskedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := someRows(t, 10)
		m, c := newMemory(100, rows...), newCluster()
		crowd := 0
		c.refuse = func(task client.Task) error {
			if crowd++; crowd <= 10 || task.ID == rows[2].id {
				return fmt.Errorf("%w: refused with its neighbours", client.ErrInvalid)
			}
			return nil
		}
		stop := running(t, relayOf(t, m, c, Config{}))
		synctest.Wait()
		stop()
		if _, aside := m.left(); c.has() != 9 || aside != 1 {
			t.Errorf("%d tasks, %d set aside; want 9 and 1", c.has(), aside)
		}
	})
}

func TestClusterDownForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newMemory(10, someRows(t, 15)...), newCluster()
		c.down = &client.Error{Op: "enqueue", Err: errors.New("connection refused")}
		r := relayOf(t, m, c, Config{})
		stop := running(t, r)
		time.Sleep(time.Hour)
		synctest.Wait()
		s := r.Stats()
		if most := 8 + 3600/24 + 1; c.calls > most || c.calls < 100 {
			t.Errorf("%d calls in an hour without a cluster, want between 100 and %d", c.calls, most)
		}
		if s.Failing != c.calls || !strings.Contains(s.LastError, "connection refused") || s.PutOff != 0 {
			t.Errorf("stats %+v", s)
		}
		c.change(func(c *cluster) { c.down = nil })
		time.Sleep(longestPause)
		synctest.Wait()
		stop()
		if waiting, _ := m.left(); c.has() != 15 || waiting != 0 {
			t.Errorf("%d tasks, %d rows", c.has(), waiting)
		}
		for _, s := range m.rows {
			if s.attempts != 0 {
				t.Error("an absent cluster counts as an attempt of the row")
			}
		}
		if s := r.Stats(); s.Failing != 0 {
			t.Errorf("stats %+v", s)
		}
	})
}

// Tasks whose partition takes nothing are put off, and the others go through.
func TestNoQuorumForSome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := someRows(t, 40)
		m, c := newMemory(10, rows...), newCluster()
		dead := func(one id.ID) bool { return slices.IndexFunc(rows, func(r row) bool { return r.id == one })%4 == 0 }
		c.refuse = func(task client.Task) error {
			if dead(task.ID) {
				return client.ErrUnavailable
			}
			return nil
		}
		r := relayOf(t, m, c, Config{})
		stop := running(t, r)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if c.has() != 30 {
			t.Errorf("%d of the 30 that can be taken are", c.has())
		}
		time.Sleep(time.Hour)
		c.change(func(c *cluster) { c.refuse = nil })
		time.Sleep(longestWait + longestPause)
		synctest.Wait()
		stop()
		if c.has() != 40 || r.Stats().Aside != 0 {
			t.Errorf("%d tasks, %d set aside", c.has(), r.Stats().Aside)
		}
	})
}

func TestDatabaseDownForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newMemory(10, someRows(t, 5)...), newCluster()
		m.down = errors.New("the database restarts")
		r := relayOf(t, m, c, Config{})
		stop := running(t, r)
		time.Sleep(10 * time.Minute)
		m.change(func(m *memory) { m.down = nil })
		time.Sleep(longestPause)
		synctest.Wait()
		stop()
		if c.has() != 5 || r.Stats().Failures == 0 || r.Stats().Failing != 0 {
			t.Errorf("%d tasks, stats %+v", c.has(), r.Stats())
		}
	})
}

func TestTwoRelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newMemory(7, someRows(t, 100)...), newCluster()
		one, two := relayOf(t, m, c, Config{}), relayOf(t, m, c, Config{})
		stopOne, stopTwo := running(t, one), running(t, two)
		synctest.Wait()
		stopOne()
		stopTwo()
		a, b := one.Stats(), two.Stats()
		if c.has() != 100 || a.Relayed+b.Relayed != 100 || a.Duplicates+b.Duplicates != 0 {
			t.Errorf("%d tasks; %+v, %+v", c.has(), a, b)
		}
	})
}

func TestPollsAndWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newMemory(10), newCluster()
		r := relayOf(t, m, c, Config{Poll: time.Minute})
		stop := running(t, r)
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		if m.taking != 11 {
			t.Errorf("looked %d times in ten minutes, want 11", m.taking)
		}
		rows := someRows(t, 1)
		m.change(func(m *memory) { m.rows[rows[0].id.String()] = &stored{row: rows[0]} })
		synctest.Wait()
		if c.has() != 0 {
			t.Error("sent without being woken")
		}
		r.Wake()
		r.Wake()
		synctest.Wait()
		if c.has() != 1 {
			t.Error("not sent although woken")
		}
		stop()
	})
}

// The end of the context lets finish what was begun, and no longer than the
// timeout.
func TestCleanShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, c := newMemory(10, someRows(t, 5)...), newCluster()
		c.block = make(chan struct{})
		ctx, cancel := context.WithCancel(context.Background())
		r := relayOf(t, m, c, Config{Timeout: 10 * time.Second})
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		cancel()
		time.Sleep(time.Second)
		if len(ended) != 0 {
			t.Fatal("Run returned while a batch was on its way")
		}
		close(c.block)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if waiting, _ := m.left(); waiting != 0 || c.has() != 5 {
			t.Errorf("%d rows, %d tasks", waiting, c.has())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		m, c := newMemory(10, someRows(t, 5)...), newCluster()
		c.block = make(chan struct{})
		r := relayOf(t, m, c, Config{Timeout: 10 * time.Second})
		stop := running(t, r)
		synctest.Wait()
		began := time.Now()
		stop()
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("took %v to stop", took)
		}
		if waiting, _ := m.left(); waiting != 5 {
			t.Errorf("%d rows are left, want all", waiting)
		}
	})
}

func TestRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := relayOf(t, newMemory(1), newCluster(), Config{})
		stop := running(t, r)
		synctest.Wait()
		if err := r.Run(context.Background()); !errors.Is(err, ErrRunning) {
			t.Errorf("second Run: %v", err)
		}
		stop()
		stop = running(t, r) // again, after the first has ended
		synctest.Wait()
		stop()
	})
}

// Rows of a queue that drains do not keep back those of other queues, however many they
// are: a batch of nothing else says nothing about the next one.
func TestADrainingQueueKeepsBackNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := someRows(t, 301)
		rows[300].queue = "open"
		m, c := newMemory(10, rows...), newCluster()
		c.refuse = func(task client.Task) error {
			if task.Queue == "open" {
				return nil
			}
			return fmt.Errorf("%w: queue q is draining", client.ErrConflict)
		}
		r := relayOf(t, m, c, Config{})
		stop := running(t, r)
		time.Sleep(time.Second)
		synctest.Wait()
		if c.has() != 1 || r.Stats().Failures != 0 {
			t.Errorf("%d tasks after a second, want the one of the open queue; stats %+v", c.has(), r.Stats())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		stop()
		if waiting, aside := m.left(); waiting != 300 || aside != 0 {
			t.Errorf("%d rows wait, %d are set aside; want 300 and 0", waiting, aside)
		}
		if most := 300 * (9 + 3600/240 + 1); int(r.Stats().PutOff) > most {
			t.Errorf("%d rows were refused in an hour, want at most %d", r.Stats().PutOff, most)
		}
	})
}

// slow is a cluster that is far away.
type slow struct {
	*cluster
	trip time.Duration
}

func (s slow) EnqueueMany(ctx context.Context, tasks []client.Task, o ...client.WriteOption) ([]client.Result, error) {
	select {
	case <-time.After(s.trip):
		return s.cluster.EnqueueMany(ctx, tasks, o...)
	case <-ctx.Done():
		return nil, &client.Error{Op: "enqueue", Ended: ctx.Err(), Unknown: true}
	}
}

// What is found out about some rows in the time that a batch has is kept: otherwise the same
// batch would come again for ever, where there are more bad rows than can be asked for one by
// one.
func TestManyBadRowsFarAway(t *testing.T) {
	bad := fmt.Errorf("%w: too large", client.ErrInvalid)
	for name, refuse := range map[string]func(*cluster){
		"each": func(c *cluster) {
			c.refuse = func(task client.Task) error {
				if task.Queue == "open" {
					return nil
				}
				return bad
			}
		},
		"whole": func(c *cluster) {
			c.whole = func(tasks []client.Task) error {
				if slices.ContainsFunc(tasks, func(one client.Task) bool { return one.Queue != "open" }) {
					return bad
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rows := someRows(t, 400)
				rows[399].queue = "open"
				m, c := newMemory(500, rows...), newCluster()
				refuse(c)
				stop := running(t, relayOf(t, m, slow{c, 50 * time.Millisecond}, Config{}))
				time.Sleep(10 * time.Minute)
				stop()
				if waiting, aside := m.left(); waiting != 0 || aside != 399 || c.has() != 1 {
					t.Errorf("%d rows wait, %d are set aside, %d tasks; want 0, 399 and 1", waiting, aside, c.has())
				}
			})
		})
	}
}
