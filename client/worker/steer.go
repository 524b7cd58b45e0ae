package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// steered is an error that says what shall become of the task.
type steered struct {
	err     error
	in      time.Duration
	discard bool
	snooze  bool
	away    time.Duration // for so long it does not come here again
}

func (s *steered) Error() string {
	if s.err != nil {
		return s.err.Error()
	}
	if s.in <= 0 { // the task's policy says for how long
		return "snoozed"
	}
	return fmt.Sprintf("snoozed for %v", s.in)
}

func (s *steered) Unwrap() error { return s.err }

// RetryAfter makes an error that fails the task and retries it after d, instead
// of after what the task's policy says, and after a hundred years at the latest; 0 is at
// once. It uses an attempt.
func RetryAfter(d time.Duration, err error) error {
	return &steered{err: err, in: max(d, time.Nanosecond)} // zero would be the policy's
}

// Discard makes an error that fails the task for good: it is dead, whatever
// attempts are left.
func Discard(err error) error { return &steered{err: err, discard: true} }

// Snooze makes an error that puts the task off for d, a hundred years at most, without
// using an attempt; 0 leaves the time to the task's policy.
func Snooze(d time.Duration) error { return &steered{in: d, snooze: true} }

// PanicError is the failure of a handler that panicked.
type PanicError struct {
	Value any    // what it panicked with
	Stack []byte // where
}

const (
	// maxPanic and maxStack bound what is reported of each, in bytes: of a longer error only the
	// end would be kept, and what it panicked with stands in the beginning.
	maxPanic = 4 << 10
	maxStack = 10 << 10
)

// Error gives the value and, behind an empty line, the stack, neither of them longer than
// what is kept with a task.
func (p *PanicError) Error() string {
	value, stack := fmt.Sprint(p.Value), string(p.Stack)
	if len(value) > maxPanic {
		value = strings.ToValidUTF8(value[:maxPanic], "") + " …"
	}
	if len(stack) > maxStack {
		stack = strings.ToValidUTF8(stack[:maxStack], "") + "\n…"
	}
	return "panic: " + value + "\n\n" + stack
}

// errGoexit is the failure of a handler that ended its goroutine.
var errGoexit = errors.New("the handler called runtime.Goexit")

// HandleJSON sets a handler of a queue whose payloads are JSON. A payload that
// is not a T is discarded: no retry can help it.
func HandleJSON[T any](w *Worker, queue string, h func(ctx context.Context, t *Task, v T) error) {
	w.Handle(queue, JSON(h))
}
