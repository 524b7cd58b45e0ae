package outboxtest

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/outbox"
)

// childVariable makes the test binary a relay that stops between the enqueue
// and the delete, and can be killed there.
const childVariable = "NORN_OUTBOX_TEST_CHILD"

// errand is what the child is to do.
type errand struct {
	Driver, DSN, Table string
	Dialect            outbox.Dialect
	Leases             bool
	Norn               string // address; "": whatever is sent is taken
}

// stuck says that it has sent, and never returns.
type stuck struct{ to outbox.Enqueuer }

func (s stuck) EnqueueMany(ctx context.Context, tasks []client.Task, opts ...client.WriteOption) ([]client.Result, error) {
	if s.to != nil {
		results, err := s.to.EnqueueMany(ctx, tasks, opts...)
		if err != nil {
			return nil, err
		}
		for _, r := range results {
			if r.Err != nil {
				return nil, r.Err
			}
		}
	}
	fmt.Printf("sent %d\n", len(tasks))
	select {} // until killed
}

func child() int {
	var o errand
	err := json.Unmarshal([]byte(os.Getenv(childVariable)), &o)
	if err == nil {
		err = o.run()
	}
	fmt.Println("failed:", err)
	return 1
}

func (o *errand) run() error {
	db, err := sql.Open(o.Driver, o.DSN)
	if err != nil {
		return err
	}
	box, err := outbox.New(o.Dialect, outbox.Options{Table: o.Table})
	if err != nil {
		return err
	}
	to := stuck{}
	if o.Norn != "" {
		c, err := client.Dial(context.Background(), []string{o.Norn})
		if err != nil {
			return err
		}
		to.to = c
	}
	r, err := box.Relay(db, to, outbox.Config{Leases: o.Leases, Timeout: time.Second, Lease: 1500 * time.Millisecond})
	if err != nil {
		return err
	}
	return r.Run(context.Background())
}

// process is a child.
type process struct {
	cmd  *exec.Cmd
	said chan string
}

func startChild(t *testing.T, w *world, norn string) *process {
	t.Helper()
	o, err := json.Marshal(errand{w.driver, w.dsn, w.table, w.dialect, w.leases, norn})
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(os.Args[0]), said: make(chan string, 1)}
	p.cmd.Env = append(os.Environ(), childVariable+"="+string(o))
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			select {
			case p.said <- lines.Text():
			default:
			}
		}
		close(p.said)
	}()
	t.Cleanup(func() { p.kill(syscall.SIGKILL) })
	return p
}

// wait waits until it has sent 20 rows.
func (p *process) wait(t *testing.T) {
	t.Helper()
	select {
	case line := <-p.said:
		if line != "sent 20" {
			t.Fatalf("the other relay: %q", line)
		}
	case <-time.After(patience):
		t.Fatal("the other relay does not send")
	}
}

// kill ends it and waits.
func (p *process) kill(sig os.Signal) {
	_ = p.cmd.Process.Signal(sig) // it may have ended
	for range p.said {            // until its output ends
	}
	_ = p.cmd.Wait() // it was killed
}
