package record

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/proto"
)

// Recorder writes the history down. Times are those of its one monotonic clock.
type Recorder struct {
	Began time.Time

	Mu        sync.Mutex // guards what follows
	Events    []*history.Event
	ops       uint64
	processes int
}

// NewRecorder begins a history now.
func NewRecorder() *Recorder { return &Recorder{Began: time.Now()} }

// add stamps an event: in the order of the history times ascend.
func (r *Recorder) add(e *history.Event) {
	e.At = int64(time.Since(r.Began))
	r.Events = append(r.Events, e)
}

// Note writes down what the test does.
func (r *Recorder) Note(text string) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.add(&history.Event{Phase: history.Note, Text: text})
}

// Process gives a number for one more client.
func (r *Recorder) Process() int {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.processes++
	return r.processes
}

// Invoke writes down the begin of an operation, before it begins.
func (r *Recorder) Invoke(process int, e *history.Event) *history.Event {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.ops++
	e.Op, e.Process, e.Phase = r.ops, process, history.Invoke
	r.add(e)
	return e
}

// End writes down what came of it, with the parts that an answer has. Without an
// error it happened.
func (r *Recorder) End(asked *history.Event, err error, answer history.Event) history.Phase {
	e := answer
	e.Op, e.Process, e.Func, e.Phase = asked.Op, asked.Process, asked.Func, history.OK
	e.Session, e.Request = asked.Session, asked.Request
	if err != nil {
		e.Phase, e.Error, e.Text, e.Items = history.Fail, Kind(err), err.Error(), nil
		if Unknown(err) {
			e.Phase = history.Info
		}
	}
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.add(&e)
	return e.Phase
}

// Unknown tells whether what failed may have happened. What is no error of the
// client package says nothing.
func Unknown(err error) bool {
	var e *client.Error
	return !errors.As(err, &e) || e.Unknown
}

// Kind names an error as a history does.
func Kind(err error) string {
	var p *proto.Error
	if errors.As(err, &p) {
		return strings.TrimPrefix(p.Kind.String(), "ERROR_KIND_")
	}
	return "UNAVAILABLE"
}

// Repeated adds the attempts that the client package has made by itself: where
// an answer says that a task was there before, though nobody else has sent it, a
// first attempt had arrived whose answer was lost. It is an operation of its own
// that never ended.
func Repeated(events []*history.Event) []*history.Event {
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

// Items asks for nothing but tasks.
func Items(tasks []id.ID) (all []history.Item) {
	for _, t := range tasks {
		all = append(all, history.Item{Task: t})
	}
	return all
}

// At is a local time in the history.
func (r *Recorder) At(t time.Time) int64 { return int64(t.Sub(r.Began)) }

// TasksOf gives the tasks that were acknowledged, and those that were sent.
func TasksOf(events []*history.Event) (acked, sent map[id.ID]bool) {
	acked, sent = map[id.ID]bool{}, map[id.ID]bool{}
	for _, e := range events {
		if e.Func != history.Enqueue {
			continue
		}
		for i := range e.Items {
			switch item := &e.Items[i]; {
			case e.Phase == history.Invoke:
				sent[item.Task] = true
			case e.Phase == history.OK && item.Error == "" && !item.Unsure:
				acked[item.Task], sent[item.Task] = true, true // of a unique key only the answer has the ID
			}
		}
	}
	return acked, sent
}

// Stepped tells whether a clock was set in a history.
func Stepped(events []*history.Event) bool {
	return slices.ContainsFunc(events, func(e *history.Event) bool { return e.Phase == history.Note && e.Text == check.ClockStepped })
}
