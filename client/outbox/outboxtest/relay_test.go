package outboxtest

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/outbox"
)

// Two relays share the rows: each is sent once, by one of them.
func TestTwoRelaysAtOnce(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const n = 800
		w.put(t, n)
		c := newCluster()
		one, two := w.relay(t, c, outbox.Config{Batch: 20}), w.relay(t, c, outbox.Config{Batch: 20})
		stopOne, stopTwo := run(t, one), run(t, two)
		eventually(t, "all arrive", func() bool { return w.backlog(t).Waiting == 0 })
		stopOne()
		stopTwo()
		a, b := one.Stats(), two.Stats()
		if tasks, duplicates := c.count(); tasks != n || duplicates != 0 || a.Relayed+b.Relayed != n {
			t.Errorf("%d tasks, %d duplicates; %+v, %+v", tasks, duplicates, a, b)
		}
		if a.Relayed == 0 || b.Relayed == 0 {
			t.Logf("one of them did everything: %d and %d", a.Relayed, b.Relayed)
		}
	})
}

// While a relay waits for the cluster with rows in its hands, programs write
// new ones, and another relay sends those.
func TestNobodyWaitsForASlowRelay(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.put(t, 5)
		slow := newCluster()
		slow.entered, slow.hold = make(chan int, 1), make(chan struct{})
		stop := run(t, w.relay(t, slow, outbox.Config{}))
		if n := <-slow.entered; n != 5 {
			t.Fatalf("it holds %d rows", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for i := range 3 {
			if _, err := w.box.Enqueue(ctx, w.db, client.Task{Queue: "q", Payload: fmt.Append(nil, i)}); err != nil {
				t.Fatalf("writing while a relay sends: %v", err)
			}
		}
		quick := newCluster()
		run(t, w.relay(t, quick, outbox.Config{}))
		eventually(t, "the new rows go another way", func() bool { n, _ := quick.count(); return n == 3 })
		close(slow.hold)
		eventually(t, "the table is empty", func() bool { return w.backlog(t).Waiting == 0 })
		stop()
		if n, _ := slow.count(); n != 5 {
			t.Errorf("%d of 5 went through the slow one", n)
		}
		if n, _ := quick.count(); n != 3 {
			t.Errorf("%d of 3 went through the quick one", n)
		}
	})
}

// The database is killed, and comes back: nothing is lost, nothing is doubled.
func TestDatabaseRestart(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		if w.daemon == nil {
			return // SQLite has no server to restart
		}
		c := newCluster()
		r := w.relay(t, c, outbox.Config{Batch: 50})
		run(t, r)
		committed := 0
		write := func() bool {
			tx, err := w.db.BeginTx(t.Context(), nil)
			if err != nil {
				return false
			}
			if _, err := w.box.EnqueueMany(t.Context(), tx, []client.Task{{Queue: "q"}, {Queue: "q"}}); err != nil {
				_ = tx.Rollback() // the connection is gone
				return false
			}
			// A commit whose answer is lost may have happened: none is made then.
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			committed += 2
			return true
		}
		for range 50 {
			if !write() {
				t.Fatal("cannot write")
			}
		}
		w.daemon.stop(os.Kill)
		eventually(t, "the relay notices", func() bool { return r.Stats().Failing > 0 })
		if err := w.daemon.start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "writing goes on", write)
		eventually(t, "all arrive", func() bool { return w.backlog(t).Waiting == 0 && r.Stats().Failing == 0 })
		if n, duplicates := c.count(); n < committed {
			t.Errorf("%d tasks of %d that were committed (%d sent twice)", n, committed, duplicates)
		}
		if n, _ := c.count(); n > committed {
			t.Errorf("%d tasks, only %d were committed", n, committed)
		}
	})
}
