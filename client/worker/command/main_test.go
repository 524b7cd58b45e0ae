//go:build unix

package command

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/client/worker"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// outcomeOf is what a node heard of one task.
type outcomeOf struct {
	mu       sync.Mutex // guards the fields below
	granted  bool
	updates  []string
	failure  *nornv1.Failure
	done     *nornv1.Completion
	slow     time.Duration // the first update takes so long
	patience time.Duration // of the client; 0: as always
	away     int           // so many requests of updates are refused, as nobody is in reach
	room     int           // of the log, but for what is said at last; 0: for all
	requests int           // of updates
}

func (o *outcomeOf) answer(r fakenode.Request) fakenode.Answer {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch m := r.Message.(type) {
	case *nornv1.ClaimRequest:
		reply := &nornv1.ClaimReply{}
		if !o.granted {
			reply.Grants = []*nornv1.Grant{{
				Task:  &nornv1.Task{Id: id.ID{1}.String(), Queue: "q", Payload: []byte("the payload"), Attempts: 1},
				Token: 77, LeaseSeconds: m.GetLeaseSeconds(), Checkpoint: []byte("page 3"),
			}}
		}
		o.granted = true
		return fakenode.Answer{Message: reply}
	case *nornv1.UpdateRequest:
		return o.update(m)
	case *nornv1.CompleteRequest:
		o.done = m.GetCompletions()[0]
	case *nornv1.FailRequest:
		o.failure = m.GetFailures()[0]
	case *nornv1.ReleaseRequest:
	case *nornv1.QueuesRequest:
		return fakenode.Answer{Message: &nornv1.QueuesReply{Queues: []*nornv1.Queue{{Name: "q"}}}}
	case *nornv1.GetRequest:
		return fakenode.Answer{Message: &nornv1.GetReply{Task: &nornv1.Task{Id: id.ID{1}.String(), Queue: "q", State: nornv1.State_STATE_DEAD}}}
	default:
		return fakenode.Answer{}
	}
	return fakenode.Answer{Message: &nornv1.WriteReply{Results: []*nornv1.WriteResult{{Receipt: &nornv1.Receipt{}}}}}
}

// update takes updates, as far as there is room for them.
func (o *outcomeOf) update(m *nornv1.UpdateRequest) fakenode.Answer {
	all, reply := [][]byte{m.GetData()}, &nornv1.WriteReply{}
	for _, u := range m.GetMore() {
		all = append(all, u.GetData())
	}
	o.requests++
	if o.slow > 0 {
		<-time.After(o.slow)
		o.slow = 0
	}
	refuse := func(kind nornv1.ErrorKind) {
		reply.Results = append(reply.Results, &nornv1.WriteResult{Error: proto.Refused(kind, "no").Proto()})
	}
	for _, data := range all {
		switch {
		case o.away > 0:
			refuse(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE)
		case o.room > 0 && len(o.updates) >= o.room && !m.GetLast():
			refuse(nornv1.ErrorKind_ERROR_KIND_CONFLICT)
		default:
			text := string(data)
			if m.GetOutput() {
				text = "output: " + text
			}
			o.updates = append(o.updates, text)
			reply.Results = append(reply.Results, &nornv1.WriteResult{Receipt: &nornv1.Receipt{}})
		}
	}
	if o.away > 0 {
		o.away--
	}
	return fakenode.Answer{Message: reply}
}

// lineWriter tells of the lines a command writes to standard error.
type lineWriter chan string

func (w lineWriter) Write(b []byte) (int, error) {
	for line := range strings.Lines(string(b)) {
		select {
		case w <- strings.TrimSpace(line):
		default: // nobody waits for so many
		}
	}
	return len(b), nil
}

// runShell runs a script for one task. stop, if set, is called with the worker
// once the script has written "ready" to standard error.
func runShell(t *testing.T, cfg Config, script string, stop func(*worker.Worker)) (*outcomeOf, worker.Event) {
	t.Helper()
	return runOver(t, &outcomeOf{}, cfg, script, stop)
}

// runOver is runShell with a node that answers as o does.
func runOver(t *testing.T, o *outcomeOf, cfg Config, script string, stop func(*worker.Worker)) (*outcomeOf, worker.Event) {
	t.Helper()
	n := fakenode.New(t, o.answer)
	c, err := client.Dial(context.Background(), []string{"x"}, client.WithDialer(n.Dial), client.WithTimeout(o.patience))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	errs := make(lineWriter, 1000)
	if cfg.Args = []string{"sh", "-c", script}; cfg.Stderr == nil {
		cfg.Stderr = errs
	}
	if cfg.TempDir == "" {
		cfg.TempDir = t.TempDir()
	}
	events := make(chan worker.Event, 10)
	w := worker.New(c, worker.Config{Queues: []string{"q"}, ExitWhenEmpty: true, OnEvent: func(e worker.Event) { events <- e }})
	w.Handle("*", Handler(cfg))
	ran := make(chan error, 1)
	go func() { ran <- w.Run(context.Background()) }()
	if stop != nil {
		for line := range errs {
			if line == "ready" {
				break
			}
		}
		stop(w)
	}
	select {
	case err := <-ran:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the worker does not end")
	}
	if left, err := os.ReadDir(cfg.TempDir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	var last worker.Event
	for len(events) > 0 {
		last = <-events
	}
	return o, last
}

func long(n int) string { return string(bytes.Repeat([]byte("x"), n)) }
