package outboxtest

import (
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/outbox"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// What a transaction writes is what the cluster gets, whatever is in it.
func TestEveryFieldArrives(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		all := make([]byte, 256)
		for i := range all {
			all[i] = byte(i)
		}
		dep := id.Launch([16]byte{1}, [16]byte{2}, 3)
		key := id.UniqueKey([16]byte{1}, "q", "the key", 0, 1)
		tasks := []client.Task{
			{Queue: "a"},
			{Queue: "b/c:d", Payload: all, Priority: -1 << 31},
			{Queue: "q", Payload: []byte("x"), Priority: 1<<31 - 1, NotBefore: time.Unix(2_000_000_000, 123_456_789).UTC()},
			{Queue: "q", Dependencies: []id.ID{dep}, OnDependencyFailure: nornv1.DependencyFailure_DEPENDENCY_FAILURE_RUN,
				Retry:   &nornv1.RetryPolicy{MaxAttempts: 3, InitialSeconds: 0.5, MaxSeconds: 60, Multiplier: 3, Jitter: 0.1},
				Headers: map[string]string{"traceparent": "00-1-2-03", "名": "日本語 🙂 \\ ' \""}},
			{ID: key, Queue: "q", Key: "the key", KeyWindow: time.Hour},
		}
		var ids []id.ID
		w.in(t, func(tx *sql.Tx) bool {
			var err error
			ids, err = w.box.EnqueueMany(t.Context(), tx, tasks)
			if err != nil {
				t.Fatal(err)
			}
			return true
		})
		c := newCluster()
		run(t, w.relay(t, c, outbox.Config{}))
		eventually(t, "all arrive", func() bool { n, _ := c.count(); return n == len(tasks) })
		for i, want := range tasks {
			want.ID = ids[i]
			got := c.tasks[ids[i]]
			if len(want.Payload) == 0 {
				want.Payload, got.Payload = nil, nil
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("task %d:\n got %+v\nwant %+v", i, got, want)
			}
		}
	})
}

func TestRolledBackIsNoTask(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c := newCluster()
		run(t, w.relay(t, c, outbox.Config{}))
		var gone, kept id.ID
		for i, commit := range []bool{false, true} {
			w.in(t, func(tx *sql.Tx) bool {
				task, err := w.box.Enqueue(t.Context(), tx, client.Task{Queue: "q", Payload: fmt.Append(nil, i)})
				if err != nil {
					t.Fatal(err)
				}
				if commit {
					kept = task
				} else {
					gone = task
				}
				return commit
			})
		}
		eventually(t, "the committed one arrives, and its row goes", func() bool {
			n, _ := c.count()
			return n > 0 && w.backlog(t).Waiting == 0
		})
		c.mu.Lock()
		defer c.mu.Unlock()
		if _, there := c.tasks[kept]; !there || len(c.tasks) != 1 {
			t.Errorf("%d tasks, the committed one among them: %v", len(c.tasks), there)
		}
		if _, there := c.tasks[gone]; there {
			t.Error("a rolled back transaction has left a task")
		}
	})
}

// A batch neither outgrows the limit on rows nor that on bytes.
func TestManyAndLarge(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ids := w.put(t, 612)
		if !slices.IsSortedFunc(ids, id.ID.Compare) {
			t.Error("IDs do not increase")
		}
		w.in(t, func(tx *sql.Tx) bool {
			large := make([]client.Task, 6)
			for i := range large {
				large[i] = client.Task{Queue: "large", Payload: []byte(strings.Repeat(string(rune('a'+i)), 1<<20))}
			}
			if _, err := w.box.EnqueueMany(t.Context(), tx, large); err != nil {
				t.Fatal(err)
			}
			return true
		})
		c := newCluster()
		r := w.relay(t, c, outbox.Config{Batch: 100})
		run(t, r)
		eventually(t, "all arrive", func() bool { return w.backlog(t) == outbox.Backlog{} })
		if n, duplicates := c.count(); n != 618 || duplicates != 0 {
			t.Errorf("%d tasks, %d duplicates", n, duplicates)
		}
		if c.most > 4<<20 {
			t.Errorf("a call with %d bytes of payload", c.most)
		}
		if s := r.Stats(); s.Batches < 8 || s.Relayed != 618 {
			t.Errorf("stats %+v", s)
		}
	})
}

// Rows that can never become tasks stay, with the reason, and hold up nobody.
func TestPoison(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ids := w.put(t, 10)
		w.exec(t, fmt.Sprintf("UPDATE TABLE SET options = '{\"no such\": 1}' WHERE id = '%s'", ids[0]))
		w.exec(t, "INSERT INTO TABLE (id, queue, payload) VALUES ('not an ID', 'q', '')")
		poison := []string{ids[0].String(), ids[1].String(), ids[2].String(), "not an ID"}
		if w.dialect == outbox.SQLite { // where a column holds anything
			w.exec(t, fmt.Sprintf("UPDATE TABLE SET priority = 'high' WHERE id = '%s'", ids[3]))
			poison = append(poison, ids[3].String())
		}
		slices.Sort(poison)
		c := newCluster()
		c.refuse = func(task client.Task) error {
			switch task.ID {
			case ids[1]:
				return fmt.Errorf("%w: payload too large\nfor this server", client.ErrInvalid)
			case ids[2]:
				return fmt.Errorf("%w: other spec", client.ErrAlreadyExists)
			case ids[4]:
				return fmt.Errorf("%w: the queue drains", client.ErrConflict)
			}
			return nil
		}
		stop := run(t, w.relay(t, c, outbox.Config{}))
		left := 10 - len(poison) // those of put but the poison, and not ids[4]
		eventually(t, "the others arrive", func() bool { n, _ := c.count(); return n == left })
		eventually(t, "the poison is aside", func() bool { b := w.backlog(t); return b.Aside == len(poison) && b.Waiting == 1 })
		stop()
		var got []string
		for after := ""; ; {
			page, err := w.box.Aside(t.Context(), w.db, after, 2)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			for _, a := range page {
				got, after = append(got, a.ID), a.ID
				if a.Reason == "" || strings.Contains(a.Reason, "\n") || a.Attempts != 1 {
					t.Errorf("%+v", a)
				}
			}
		}
		if !slices.Equal(got, poison) {
			t.Errorf("aside are %v, want %v", got, poison)
		}
		decisions(t, w, c, ids)
	})
}

// A row without an ID, of a shell in which `norn outbox id` failed, holds up nobody, and can be asked for.
func TestRowWithoutAnID(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.exec(t, "INSERT INTO TABLE (id, queue, payload) VALUES ('', 'q', 'x')")
		ids := w.put(t, 1)
		c := newCluster()
		run(t, w.relay(t, c, outbox.Config{}))
		eventually(t, "the other one arrives", func() bool { b := w.backlog(t); return b.Aside == 1 && b.Waiting == 0 })
		aside, err := w.box.Aside(t.Context(), w.db, "", 10)
		if err != nil || len(aside) != 1 || aside[0].Queue != "q" || !strings.Contains(aside[0].Reason, "had no ID") {
			t.Fatalf("%+v, %v", aside, err)
		}
		if err := w.box.Retry(t.Context(), w.db, aside[0].ID); err != nil {
			t.Fatal(err)
		}
		eventually(t, "so does this one", func() bool { n, _ := c.count(); return n == 2 })
		c.mu.Lock()
		defer c.mu.Unlock()
		if named, err := id.Parse(aside[0].ID); err != nil || string(c.tasks[named].Payload) != "x" || c.tasks[ids[0]].Queue == "" {
			t.Errorf("%v: %+v", err, c.tasks)
		}
	})
}

// decisions are what a person does about rows that are set aside.
func decisions(t *testing.T, w *world, c *cluster, ids []id.ID) {
	t.Helper()
	c.refuse = nil
	if err := w.box.Retry(t.Context(), w.db, ids[1].String()); err != nil {
		t.Error(err)
	}
	renamed, err := w.box.Rename(t.Context(), w.db, ids[2].String())
	if err != nil {
		t.Error(err)
	}
	if err := w.box.Discard(t.Context(), w.db, "not an ID"); err != nil {
		t.Error(err)
	}
	for _, never := range []string{ids[4].String(), ids[9].String(), "nothing"} { // one waits, one is sent, one never was
		_, rename := w.box.Rename(t.Context(), w.db, never)
		for _, err := range []error{w.box.Retry(t.Context(), w.db, never), rename, w.box.Discard(t.Context(), w.db, never)} {
			if !errors.Is(err, outbox.ErrNotAside) {
				t.Errorf("%s: %v", never, err)
			}
		}
	}
	before := w.backlog(t)
	run(t, w.relay(t, c, outbox.Config{}))
	eventually(t, "what was retried arrives", func() bool { return w.backlog(t).Waiting == 0 })
	if got := w.backlog(t).Aside; got != before.Aside {
		t.Errorf("%d rows are aside, want %d", got, before.Aside)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, retried := c.tasks[ids[1]]
	_, fresh := c.tasks[renamed]
	_, stale := c.tasks[ids[2]]
	if !retried || !fresh || stale {
		t.Errorf("retried: %v, under the new ID: %v, under the old one: %v", retried, fresh, stale)
	}
}

// The same ID twice is for the transaction to notice, not for the relay.
func TestSameIDTwice(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		task := client.Task{ID: w.put(t, 1)[0], Queue: "q"}
		if _, err := w.box.Enqueue(t.Context(), w.db, task); err == nil {
			t.Error("an ID that waits already was taken again")
		}
		if b := w.backlog(t); b.Waiting != 1 || b.Oldest.IsZero() || time.Since(b.Oldest) > patience {
			t.Errorf("%+v", b)
		}
	})
}
