package outboxtest

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/outbox"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// buildNorn builds the program.
func buildNorn() (string, error) {
	if path := os.Getenv("NORN_TEST_BINARY"); path != "" {
		return path, nil // somebody has built it
	}
	path := filepath.Join(the.dir, "norn")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", path, "./cmd/norn")
	cmd.Dir = filepath.Join("..", "..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building norn: %w\n%s", err, out)
	}
	return path, nil
}

// server is a `norn server` with a directory that outlives it.
type server struct {
	data, addr string
	cmd        *exec.Cmd
	ended      chan struct{}
}

// start starts it at the address it had, any at first.
func (s *server) start(t *testing.T) {
	t.Helper()
	path, err := the.norn()
	if err != nil {
		t.Fatal(err)
	}
	listen := "127.0.0.1:0"
	if s.addr != "" {
		listen = s.addr
	}
	s.cmd = exec.Command(path, "server", "--data", s.data, "--name", "n1", "--listen", listen, "--peer-listen", "127.0.0.1:0",
		"--http-listen", "127.0.0.1:0", "--eta", "100ms", "--log-format", "json", "--partitions", "8")
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "NORN_") {
			s.cmd.Env = append(s.cmd.Env, v)
		}
	}
	out, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan string, 1)
	ended := make(chan struct{})
	s.ended = ended
	var log bytes.Buffer // read after ended
	cmd := s.cmd
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			log.WriteString(lines.Text() + "\n")
			var line struct{ Msg, Listen string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "server.ready" {
				ready <- line.Listen
			}
		}
		_ = cmd.Wait() // the log says why
	}()
	select {
	case s.addr = <-ready:
	case <-ended:
		t.Fatalf("the server ended:\n%s", log.String())
	case <-time.After(patience):
		t.Fatal("the server is not ready")
	}
}

func (s *server) stop(sig os.Signal) {
	_ = s.cmd.Process.Signal(sig) // it may have ended
	select {
	case <-s.ended:
	case <-time.After(patience):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
}

// startNorn starts a server, and makes a client of it.
func startNorn(t *testing.T) (*server, *client.Client) {
	t.Helper()
	s := &server{data: filepath.Join(t.TempDir(), "data")}
	s.start(t)
	t.Cleanup(func() { s.stop(os.Kill) })
	c, err := client.Dial(t.Context(), []string{s.addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return s, c
}

// tasksIn reads all tasks of a queue.
func tasksIn(t *testing.T, c *client.Client, queue string) map[string]*nornv1.Task {
	t.Helper()
	all := map[string]*nornv1.Task{}
	for task, err := range c.List(t.Context(), client.Filter{Queue: queue}) {
		if err != nil {
			t.Fatal(err)
		}
		if all[task.GetId()] != nil {
			t.Errorf("task %s is listed twice", task.GetId())
		}
		all[task.GetId()] = task
	}
	return all
}

// only is each for some kinds of database.
func only(t *testing.T, names []string, test func(t *testing.T, w *world)) {
	t.Helper()
	each(t, func(t *testing.T, w *world) {
		for _, name := range names {
			if strings.HasSuffix(t.Name(), "/"+name) {
				test(t, w)
				return
			}
		}
	})
}

// A relay is killed by SIGKILL after a real server has taken the tasks and
// before their rows are deleted. Whoever follows sends them again, at once where
// they were locked, after the lease where they were leased: the same tasks, once.
func TestKilledBetweenEnqueueAndDelete(t *testing.T) {
	s, c := startNorn(t)
	each(t, func(t *testing.T, w *world) {
		p := startChild(t, w, s.addr)
		queue := w.table
		var ids []id.ID
		w.in(t, func(tx *sql.Tx) bool {
			tasks := make([]client.Task, 20)
			for i := range tasks {
				tasks[i] = client.Task{Queue: queue, Payload: fmt.Append(nil, i), Headers: map[string]string{"n": fmt.Sprint(i)}}
			}
			var err error
			if ids, err = w.box.EnqueueMany(t.Context(), tx, tasks); err != nil {
				t.Fatal(err)
			}
			return true
		})
		p.wait(t)
		p.kill(syscall.SIGKILL)
		if n, b := len(tasksIn(t, c, queue)), w.backlog(t); n != 20 || b.Waiting != 20 {
			t.Fatalf("%d tasks and %d rows when the relay was killed, want 20 and 20", n, b.Waiting)
		}
		// Meanwhile a worker does some of them: they must not come back.
		claims, err := c.Claim(t.Context(), client.ClaimRequest{Queues: []string{queue}, Max: 5})
		if err != nil || len(claims) != 5 {
			t.Fatalf("%d claims, %v", len(claims), err)
		}
		for _, claim := range claims {
			if _, err := c.Complete(t.Context(), claim.ID, claim.Token, client.CompleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		r := w.relay(t, c, outbox.Config{Timeout: time.Second, Lease: 1500 * time.Millisecond})
		run(t, r)
		eventually(t, "the table is empty", func() bool { return w.backlog(t) == outbox.Backlog{} })
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("took %v with leases of 1.5 s", took)
		}
		tasks := tasksIn(t, c, queue)
		for _, one := range ids {
			if tasks[one.String()] == nil {
				t.Errorf("task %s is not there", one)
			}
		}
		completed := 0
		for _, task := range tasks {
			if task.GetState() == nornv1.State_STATE_COMPLETED {
				completed++
			}
		}
		if len(tasks) != 20 || completed != 5 {
			t.Errorf("%d tasks, %d of them completed; want 20 and 5", len(tasks), completed)
		}
		if stats := r.Stats(); stats.Duplicates != 20 || stats.Aside != 0 {
			t.Errorf("stats %+v", stats)
		}
	})
}

// Norn is away for a while. Transactions go on, and their tasks arrive when it
// is back.
func TestNornDownForAWhile(t *testing.T) {
	s, c := startNorn(t)
	only(t, []string{"postgres-pgx", "mariadb", "sqlite"}, func(t *testing.T, w *world) {
		r := w.relay(t, c, outbox.Config{Timeout: time.Second})
		run(t, r)
		first := w.put(t, 30)
		eventually(t, "they arrive", func() bool { return w.backlog(t).Waiting == 0 })
		s.stop(os.Kill)
		second := w.put(t, 30)
		eventually(t, "the relay notices", func() bool { return r.Stats().Failing > 0 })
		if b := w.backlog(t); b.Waiting != 30 || b.Aside != 0 {
			t.Errorf("%+v", b)
		}
		s.start(t)
		eventually(t, "the others arrive", func() bool { return w.backlog(t).Waiting == 0 })
		tasks := tasksIn(t, c, "q")
		for _, one := range append(first, second...) {
			if tasks[one.String()] == nil {
				t.Errorf("task %s is lost", one)
			}
		}
	})
}

// What a real server refuses for good is set aside, with its reason.
func TestRefusedByNorn(t *testing.T) {
	_, c := startNorn(t)
	only(t, []string{"postgres-pq", "mariadb", "sqlite"}, func(t *testing.T, w *world) {
		taken := c.NewID()
		if _, err := c.Enqueue(t.Context(), client.Task{ID: taken, Queue: "q", Payload: []byte("first")}); err != nil {
			t.Fatal(err)
		}
		old := id.NewGenerator(1, func() uint64 { return uint64(the.tables.Load()) }).Next(time.Now().Add(-8 * 24 * time.Hour).UnixNano())
		tasks := []client.Task{
			{ID: taken, Queue: "q", Payload: []byte("second")},
			{ID: old, Queue: "q"},
			{ID: c.NewID(), Queue: "q", Payload: make([]byte, 2<<20)},
			{ID: c.NewID(), Queue: "q", Payload: []byte("fine")},
		}
		w.in(t, func(tx *sql.Tx) bool {
			if _, err := w.box.EnqueueMany(t.Context(), tx, tasks); err != nil {
				t.Fatal(err)
			}
			return true
		})
		told := map[string]outbox.Aside{}
		stop := run(t, w.relay(t, c, outbox.Config{OnAside: func(a outbox.Aside) { told[a.ID] = a }}))
		eventually(t, "all are judged", func() bool { return w.backlog(t) == outbox.Backlog{Aside: 3} })
		stop()
		for i, want := range []string{"another spec", "older than gc-grace", "over the limit"} {
			if got := told[tasks[i].ID.String()]; !strings.Contains(got.Reason, want) || got.Queue != "q" {
				t.Errorf("told %+v, want %q", got, want)
			}
		}
		if _, err := c.Get(t.Context(), tasks[3].ID); err != nil {
			t.Error(err)
		}
		renamed, err := w.box.Rename(t.Context(), w.db, old.String())
		if err != nil {
			t.Fatal(err)
		}
		run(t, w.relay(t, c, outbox.Config{}))
		eventually(t, "it arrives under its new ID", func() bool {
			_, err := c.Get(context.Background(), renamed)
			return err == nil && !errors.Is(err, client.ErrNotFound)
		})
	})
}
