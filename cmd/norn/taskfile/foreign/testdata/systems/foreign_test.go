package systems

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	_ "github.com/lib/pq"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverdatabasesql"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/norn-dev/norn/cmd/norn/taskfile/foreign"
)

// patience is for a server to start.
const patience = 30 * time.Second

// program finds a program, or says that the test is not run.
func program(t *testing.T, names ...string) string {
	t.Helper()
	for _, name := range names {
		if at, err := exec.LookPath(name); err == nil {
			return at
		}
		if all, _ := filepath.Glob(name); len(all) > 0 { // a pattern that is none finds nothing
			return all[len(all)-1]
		}
	}
	t.Skipf("NOT RUN: there is no %s on this machine", names[0])
	return ""
}

// run starts a server that is ended with the test.
func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		_ = cmd.Wait()
		if t.Failed() {
			b, _ := os.ReadFile(out.Name()) // for people
			t.Logf("%s: %s", cmd.Path, b)
		}
		_ = out.Close()
	})
}

// eventually asks until there is no error.
func eventually(t *testing.T, ask func() error) {
	t.Helper()
	err := ask()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); err != nil && time.Now().Before(end); err = ask() {
		<-tick.C
	}
	if err != nil {
		t.Fatal(err)
	}
}

func port(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// redis starts a redis-server and gives its address.
func redis(t *testing.T) string {
	t.Helper()
	at, p := program(t, "redis-server"), port(t)
	run(t, exec.Command(at, "--port", p, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir()))
	eventually(t, func() error {
		c, err := net.Dial("tcp", "127.0.0.1:"+p)
		if err == nil {
			err = c.Close()
		}
		return err
	})
	return "127.0.0.1:" + p
}

// all reads all jobs by their kind and the state that follows.
func all(t *testing.T, system, address string) map[string]foreign.Job {
	t.Helper()
	found := make(map[string]foreign.Job)
	err := foreign.Each(t.Context(), system, address, func(j *foreign.Job) error {
		if _, twice := found[j.Kind]; twice {
			t.Errorf("%s is there twice", j.Kind)
		}
		found[j.Kind] = *j
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// expect compares what was found with which are to be done and which are finished.
func expect(t *testing.T, found map[string]foreign.Job, open, finished []string) {
	t.Helper()
	if want := slices.Sorted(slices.Values(append(slices.Clone(open), finished...))); !slices.Equal(slices.Sorted(maps.Keys(found)), want) {
		t.Errorf("found %v, not %v", slices.Sorted(maps.Keys(found)), want)
	}
	for _, k := range finished {
		if !found[k].Finished {
			t.Errorf("%s is not finished", k)
		}
	}
	for _, k := range open {
		if found[k].Finished {
			t.Errorf("%s is finished", k)
		}
	}
}

// TestAsynq: tasks that wait, are scheduled, have failed, were completed, were archived and
// are in a group, written by the real client and server of asynq.
func TestAsynq(t *testing.T) {
	at := asynq.RedisClientOpt{Addr: redis(t)}
	c := asynq.NewClient(at)
	defer func() { _ = c.Close() }()
	put := func(kind string, o ...asynq.Option) {
		t.Helper()
		if _, err := c.Enqueue(asynq.NewTask(kind, []byte("payload of "+kind)), o...); err != nil {
			t.Fatal(err)
		}
	}
	ran := make(chan string, 3)
	mux := asynq.NewServeMux()
	mux.HandleFunc("fails", func(context.Context, *asynq.Task) error { ran <- "fails"; return errors.New("no") })
	mux.HandleFunc("dies", func(context.Context, *asynq.Task) error { ran <- "dies"; return asynq.SkipRetry })
	mux.HandleFunc("done", func(context.Context, *asynq.Task) error { ran <- "done"; return nil })
	put("fails", asynq.Queue("work"))
	put("dies", asynq.Queue("work"))
	put("done", asynq.Queue("work"), asynq.Retention(time.Hour))
	server := asynq.NewServer(at, asynq.Config{Queues: map[string]int{"work": 1}, LogLevel: asynq.FatalLevel, RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour }})
	if err := server.Start(mux); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		select {
		case <-ran:
		case <-time.After(patience):
			t.Fatal("they do not run")
		}
	}
	server.Shutdown()
	put("waits")
	put("later", asynq.ProcessIn(time.Hour), asynq.Queue("other"))
	put("grouped", asynq.Group("g"))
	found := all(t, "asynq", "redis://"+at.Addr+"/0")
	expect(t, found, []string{"fails", "waits", "later", "grouped"}, []string{"dies", "done"})
	if j := found["waits"]; string(j.Payload) != "payload of waits" || j.Queue != "default" || j.ID == "" || !j.NotBefore.IsZero() {
		t.Errorf("waits is %+v", j)
	}
	if j := found["later"]; j.Queue != "other" || time.Until(j.NotBefore) < 59*time.Minute {
		t.Errorf("later is %+v", j)
	}
	if j := found["fails"]; j.Headers["asynq-retried"] != "1" || time.Until(j.NotBefore) < 59*time.Minute {
		t.Errorf("fails is %+v", j)
	}
}

type args struct {
	Name string `json:"name"`
	kind string
}

func (a args) Kind() string { return a.kind }

// TestRiver: jobs written by the real client of River into a PostgreSQL with its migrations.
func TestRiver(t *testing.T) {
	url := postgres(t)
	db, err := sql.Open("postgres", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	ctx := t.Context()
	driver := riverdatabasesql.New(db)
	m, err := rivermigrate.New(driver, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	c, err := river.NewClient(driver, &river.Config{})
	if err != nil {
		t.Fatal(err)
	}
	put := func(kind string, o *river.InsertOpts) int64 {
		t.Helper()
		r, err := c.Insert(ctx, args{"of " + kind, kind}, o)
		if err != nil {
			t.Fatal(err)
		}
		return r.Job.ID
	}
	put("waits", &river.InsertOpts{Queue: "mail", Priority: 2, Tags: []string{"one", "two"}})
	put("later", &river.InsertOpts{ScheduledAt: time.Now().Add(time.Hour)})
	gone := put("gone", nil)
	if _, err := c.JobCancel(ctx, gone); err != nil {
		t.Fatal(err)
	}
	found := all(t, "river", url)
	expect(t, found, []string{"waits", "later"}, []string{"gone"})
	if j := found["waits"]; strings.ReplaceAll(string(j.Payload), " ", "") != `{"name":"ofwaits"}` || j.Queue != "mail" || j.Priority != -2 || !slices.Equal(j.Tags, []string{"one", "two"}) {
		t.Errorf("waits is %+v with %s", j, j.Payload)
	}
	if j := found["later"]; time.Until(j.NotBefore) < 59*time.Minute || j.Queue != "default" {
		t.Errorf("later is %+v", j)
	}
	// The same from a file.
	rows, err := db.QueryContext(ctx, "SELECT row_to_json(j)::text FROM river_job j")
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		text.WriteString(line + "\n")
	}
	file := filepath.Join(t.TempDir(), "jobs")
	if err := errors.Join(rows.Err(), os.WriteFile(file, []byte(text.String()), 0o600)); err != nil {
		t.Fatal(err)
	}
	expect(t, all(t, "river", file), []string{"waits", "later"}, []string{"gone"})
}

// postgres starts a PostgreSQL and gives its URL.
func postgres(t *testing.T) string {
	t.Helper()
	initdb := program(t, "initdb", "/usr/lib/postgresql/*/bin/initdb")
	server := filepath.Join(filepath.Dir(initdb), "postgres")
	if real, err := filepath.EvalSymlinks(initdb); err == nil {
		server = filepath.Join(filepath.Dir(real), "postgres")
	}
	dir, p := filepath.Join(t.TempDir(), "db"), port(t)
	as := func(name string, args ...string) *exec.Cmd {
		if os.Geteuid() != 0 {
			return exec.Command(name, args...)
		}
		return exec.Command("setpriv", append([]string{"--reuid=nobody", "--clear-groups", name}, args...)...) // it refuses root
	}
	if os.Geteuid() == 0 {
		var err error
		if dir, err = os.MkdirTemp("/tmp", "foreigntest-"); err != nil { // nobody may not enter the others
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		if out, err := exec.Command("chown", "nobody", dir).CombinedOutput(); err != nil {
			t.Fatal(string(out), err)
		}
	}
	if out, err := as(initdb, "-D", dir, "-U", "norn", "-A", "trust", "-N").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, out)
	}
	run(t, as(server, "-D", dir, "-p", p, "-h", "127.0.0.1", "-k", dir, "-F"))
	url := fmt.Sprintf("postgres://norn@127.0.0.1:%s/postgres?sslmode=disable", p)
	db, err := sql.Open("postgres", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	eventually(t, func() error { return db.PingContext(t.Context()) })
	return url
}

// TestSidekiq: jobs written by the client of Sidekiq itself, in Ruby.
func TestSidekiq(t *testing.T) {
	ruby := program(t, "ruby")
	if out, err := exec.Command(ruby, "-e", `require "sidekiq"`).CombinedOutput(); err != nil {
		t.Skipf("NOT RUN: ruby has no sidekiq: %s", out[:min(len(out), 200)])
	}
	at := redis(t)
	script := `
require "sidekiq"
Sidekiq.configure_client { |c| c.redis = { url: "redis://` + at + `/0" } }
Sidekiq::Client.push("class" => "Waits", "args" => [1, "two"], "queue" => "mail")
Sidekiq::Client.push("class" => "Later", "args" => [], "at" => Time.now.to_f + 3600)
`
	if out, err := exec.Command(ruby, "-e", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	found := all(t, "sidekiq", "redis://"+at+"/0")
	expect(t, found, []string{"Waits", "Later"}, nil)
	if j := found["Waits"]; string(j.Payload) != `[1,"two"]` || j.Queue != "mail" {
		t.Errorf("Waits is %+v", j)
	}
	if j := found["Later"]; time.Until(j.NotBefore) < 59*time.Minute {
		t.Errorf("Later is %+v", j)
	}
}
