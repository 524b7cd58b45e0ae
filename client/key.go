package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// keysAtOnce is how many keys are looked up at the same time: enough to hide
// the way to the server, and little of its credit.
const keysAtOnce = 64

// LookupKey gives the ID that a task with a unique key has now, or would get,
// and the state of that task; unspecified when the key is free. window is as in
// [Task.KeyWindow].
//
// Enqueue does this by itself for a task that has a key and no ID. A program
// that must be able to repeat an enqueue after its own end looks up first and
// keeps the ID: repeated under it, the task is not enqueued twice even if it was
// finished in between.
func (c *Client) LookupKey(ctx context.Context, queue, key string, window time.Duration) (id.ID, nornv1.State, error) {
	const op = "key"
	var m nornv1.KeyReply
	ask := &nornv1.KeyRequest{Queue: queue, Key: key, WindowSeconds: window.Seconds()}
	if err := c.read(ctx, op, nornv1.Method_METHOD_KEY, 0, ask, &m); err != nil {
		return id.ID{}, 0, err
	}
	found, err := id.FromBytes(m.GetId())
	if err != nil {
		return id.ID{}, 0, &Error{Op: op, Attempts: 1, Err: badAnswer(err)}
	}
	return found, m.GetState(), nil
}

// keyed tells whether the task gets its ID by its key.
func (t *Task) keyed() bool { return t.ID.IsZero() && t.Key != "" }

// nameByKey gives their IDs to tasks that have a key and none. The errors are
// by task, and nil when there are none.
func (c *Client) nameByKey(ctx context.Context, tasks []Task) []error {
	var errs []error
	var running sync.WaitGroup
	var mu sync.Mutex // guards errs
	room := make(chan struct{}, keysAtOnce)
	for i := range tasks {
		t := &tasks[i]
		if !t.keyed() {
			continue
		}
		room <- struct{}{}
		running.Go(func() {
			found, _, err := c.LookupKey(ctx, t.Queue, t.Key, t.KeyWindow)
			if err == nil {
				t.ID = found
			} else {
				var e *Error
				if errors.As(err, &e) {
					e.Op = "enqueue"
				}
				mu.Lock()
				if errs == nil {
					errs = make([]error, len(tasks))
				}
				errs[i] = err
				mu.Unlock()
			}
			<-room
		})
	}
	running.Wait()
	return errs
}

// unanswered is the first of the errors of tasks if not one of the tasks has
// got as far as being judged by a server.
func unanswered(errs []error) error {
	for _, err := range errs {
		var answered *proto.Error
		if err == nil || errors.As(err, &answered) {
			return nil
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return errs[0]
}
