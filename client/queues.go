package client

import (
	"context"
	"errors"
	"os"
	"os/user"
	"strings"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Names of the fields of [nornv1.QueueSettings] that [Queues] sets by itself.
const (
	fieldPaused   = "paused"
	fieldDraining = "draining"
	fieldNote     = "note"
)

// Queues reads and changes queues: see [Client.Queues].
type Queues struct{ c *Client }

// Queues gives what a client can do with queues. A queue needs no making: it is
// there as soon as it has tasks or settings.
func (c *Client) Queues() Queues { return Queues{c} }

// List reads all queues that have tasks or settings, by name.
func (q Queues) List(ctx context.Context) ([]*nornv1.Queue, error) {
	var all []*nornv1.Queue
	for ask := (&nornv1.QueuesRequest{}); ; {
		var m nornv1.QueuesReply
		if err := q.c.read(ctx, "list queues", nornv1.Method_METHOD_QUEUES, 0, ask, &m); err != nil {
			return nil, err
		}
		all = append(all, m.GetQueues()...)
		if len(m.GetNextCursor()) == 0 {
			return all, nil
		}
		ask = &nornv1.QueuesRequest{Cursor: m.GetNextCursor()}
	}
}

// Get reads one queue. ErrNotFound: it has neither tasks nor settings.
func (q Queues) Get(ctx context.Context, name string) (*nornv1.Queue, error) {
	const op = "get queue"
	var m nornv1.QueuesReply
	if err := q.c.read(ctx, op, nornv1.Method_METHOD_QUEUES, 0, &nornv1.QueuesRequest{Names: []string{name}}, &m); err != nil {
		return nil, err
	}
	for _, found := range m.GetQueues() {
		if found.GetName() == name {
			return found, nil
		}
	}
	return nil, &Error{Op: op, Attempts: 1, Err: proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, "queue %s has neither tasks nor settings", name)}
}

// QueueChange is what [Queues.Set] is asked for.
type QueueChange struct {
	// Settings are the new values.
	Settings *nornv1.QueueSettings
	// Fields names those of Settings that are to change, as in the protocol:
	// "lease_seconds", "retry.max_attempts". What is unset in Settings goes back
	// to the servers' configuration.
	Fields []string
	// IfVersion changes nothing unless the queue's version is this; 0: whatever it
	// is.
	IfVersion uint64
}

// Set changes settings of a queue and returns it as it is then. ErrConflict: it
// has another version than IfVersion.
func (q Queues) Set(ctx context.Context, name string, change QueueChange) (*nornv1.Queue, error) {
	const op = "set queue"
	var m nornv1.QueuesReply
	ask := &nornv1.SetQueueRequest{Name: name, Settings: change.Settings, Fields: change.Fields, IfVersion: change.IfVersion}
	err := q.c.do(ctx, &request{
		op: op, method: uint16(nornv1.Method_METHOD_SET_QUEUE), body: message{m: ask}, write: true,
		decode: func(flags uint16, b []byte) error { return decodeInto(flags, b, &m) },
	})
	if err != nil {
		return nil, err
	}
	if len(m.GetQueues()) != 1 {
		return nil, &Error{Op: op, Attempts: 1, Unknown: true, Err: badAnswer(errNotOneQueue)}
	}
	return m.GetQueues()[0], nil
}

// Pause keeps the tasks of a queue from being handed out. Enqueues go on, and so
// do the claims that there are. A note, unless it is "", tells others why; that it was this
// user on this machine, and since when, they are told in any case.
func (q Queues) Pause(ctx context.Context, name, note string) (*nornv1.Queue, error) {
	return q.Set(ctx, name, noted(QueueChange{Settings: &nornv1.QueueSettings{Paused: true, PausedBy: whoami()}, Fields: []string{fieldPaused}}, note))
}

// whoami is the user and the machine of this process, as far as they are known.
func whoami() string {
	name := os.Getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		name += "@" + host
	}
	return strings.ToValidUTF8(name[:min(len(name), proto.MaxPausedBy)], "")
}

// Drain refuses enqueues, with an ErrConflict, while the tasks that are there
// are handed out. A note, unless it is "", tells others why.
func (q Queues) Drain(ctx context.Context, name, note string) (*nornv1.Queue, error) {
	return q.Set(ctx, name, noted(QueueChange{Settings: &nornv1.QueueSettings{Draining: true}, Fields: []string{fieldDraining}}, note))
}

// Resume ends both Pause and Drain, and takes the note away.
func (q Queues) Resume(ctx context.Context, name string) (*nornv1.Queue, error) {
	return q.Set(ctx, name, QueueChange{Settings: &nornv1.QueueSettings{}, Fields: []string{fieldPaused, fieldDraining, fieldNote}})
}

// Delete deletes a queue: its settings, its tasks that are finished, and its name. It comes
// back with the next task. ErrConflict: it has tasks that are not finished; Purge cancels
// those that do not run. ErrNotFound: it has neither tasks nor settings.
func (q Queues) Delete(ctx context.Context, name string) error {
	err := q.c.do(ctx, &request{
		op: "delete queue", method: uint16(nornv1.Method_METHOD_SET_QUEUE), body: message{m: &nornv1.SetQueueRequest{Name: name, Delete: true}}, write: true,
		decode: func(flags uint16, b []byte) error { return decodeInto(flags, b, &nornv1.QueuesReply{}) },
	})
	if errors.Is(err, ErrNotFound) && errors.Is(err, ErrUnknown) {
		return nil // an answer was lost: it is gone by our own doing
	}
	return err
}

func noted(change QueueChange, note string) QueueChange {
	if note != "" {
		change.Settings.Note, change.Fields = note, append(change.Fields, fieldNote)
	}
	return change
}

// Purge cancels the tasks of a queue that are waiting, scheduled or ready.
// Those that run, are finished or dead are left alone, and so are those that
// are enqueued more than twice eta after its start. See [Client.CancelWhere].
func (q Queues) Purge(ctx context.Context, name string, o BulkOptions) (Bulk, error) {
	if err := proto.CheckQueue(name); err != nil { // "" would be all queues
		return Bulk{}, &Error{Op: "purge", Err: err}
	}
	return q.c.CancelWhere(ctx, Filter{Queue: name, States: []nornv1.State{
		nornv1.State_STATE_WAITING, nornv1.State_STATE_SCHEDULED, nornv1.State_STATE_READY,
	}}, o)
}
