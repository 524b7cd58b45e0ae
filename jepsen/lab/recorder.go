package lab

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/proto"
)

// recorder writes the history down. Times are those of its one monotonic clock.
type recorder struct {
	began time.Time

	mu        sync.Mutex // guards what follows
	events    []*history.Event
	ops       uint64
	processes int
}

func newRecorder() *recorder { return &recorder{began: time.Now()} }

// add stamps an event: in the order of the history times ascend.
func (r *recorder) add(e *history.Event) {
	e.At = int64(time.Since(r.began))
	r.events = append(r.events, e)
}

// note writes down what the test does.
func (r *recorder) note(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(&history.Event{Phase: history.Note, Text: text})
}

// process gives a number for one more client.
func (r *recorder) process() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.processes++
	return r.processes
}

// invoke writes down the begin of an operation, before it begins.
func (r *recorder) invoke(process int, e *history.Event) *history.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops++
	e.Op, e.Process, e.Phase = r.ops, process, history.Invoke
	r.add(e)
	return e
}

// end writes down what came of it, with the parts that an answer has. Without an
// error it happened.
func (r *recorder) end(asked *history.Event, err error, answer history.Event) history.Phase {
	e := answer
	e.Op, e.Process, e.Func, e.Phase = asked.Op, asked.Process, asked.Func, history.OK
	e.Session, e.Request = asked.Session, asked.Request
	if err != nil {
		e.Phase, e.Error, e.Text, e.Items = history.Fail, kind(err), err.Error(), nil
		if unknown(err) {
			e.Phase = history.Info
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(&e)
	return e.Phase
}

// unknown tells whether what failed may have happened. What is no error of the
// client package says nothing.
func unknown(err error) bool {
	var e *client.Error
	return !errors.As(err, &e) || e.Unknown
}

// kind names an error as a history does.
func kind(err error) string {
	var p *proto.Error
	if errors.As(err, &p) {
		return strings.TrimPrefix(p.Kind.String(), "ERROR_KIND_")
	}
	return "UNAVAILABLE"
}

// repeated adds the attempts that the client package has made by itself: where
// an answer says that a task was there before, though nobody else has sent it, a
// first attempt had arrived whose answer was lost. It is an operation of its own
// that never ended.
func repeated(events []*history.Event) []*history.Event {
	again := map[uint64]bool{}
	last := uint64(0)
	for _, e := range events {
		last = max(last, e.Op)
		for i := range e.Items {
			if e.Phase == history.OK && e.Items[i].Existed {
				again[e.Op] = true
			}
		}
	}
	out := make([]*history.Event, 0, len(events)+len(again))
	for _, e := range events {
		if e.Phase == history.Invoke && again[e.Op] {
			last++
			ghost := *e
			ghost.Op = last
			out = append(out, &ghost)
		}
		out = append(out, e)
	}
	return out
}

// items asks for nothing but tasks.
func items(tasks []id.ID) (all []history.Item) {
	for _, t := range tasks {
		all = append(all, history.Item{Task: t})
	}
	return all
}
