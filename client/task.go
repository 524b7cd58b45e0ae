package client

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Task is what [Client.Enqueue] is asked for. Only Queue is required.
type Task struct {
	// ID names the task; zero: one is made before the first send. To enqueue the
	// same task again after an unknown outcome, use the same ID (see
	// [Client.NewID]).
	ID id.ID
	// Queue is [a-zA-Z0-9][a-zA-Z0-9._:/-]{0,127}.
	Queue string
	// Kind is what is to be done, such as send-welcome: a worker may choose its handler by it
	// (worker.HandleKind). At most 128 bytes, without control characters; "": none.
	Kind string
	// Tags are words to find the task by: at most 16, each at most 64 bytes, each once.
	Tags []string
	// Payload is any bytes, up to the server's limit (1 MiB by default).
	Payload []byte
	// Priority: higher is claimed first.
	Priority int32
	// NotBefore is the earliest start; zero: at once.
	NotBefore time.Time
	// Delay, if over zero, becomes a NotBefore of now plus Delay, once, before
	// the first send; the later of the two counts. Now is what the servers' clocks
	// say: that of the client may be wrong. A second call with the same ID or
	// key has another NotBefore then, and so another spec: use NotBefore for that.
	Delay time.Duration
	// Dependencies must be completed first.
	Dependencies []id.ID
	// OnDependencyFailure says what happens when one of them dies.
	OnDependencyFailure nornv1.DependencyFailure
	// Retry is nil for the queue's policy.
	Retry *nornv1.RetryPolicy
	// Headers travel with the task: a W3C traceparent, for example.
	Headers map[string]string
	// Key makes the task unique within its queue; "": it is not. The ID follows
	// from the key: it is asked for before the first send, unless ID has it (see
	// [Client.LookupKey]). The same key and spec again is the same task, and
	// another spec an ErrAlreadyExists.
	Key string
	// KeyWindow is for how long the key is taken, whatever becomes of the task:
	// once per window, windows beginning at multiples of it since 1970. 0: until
	// the task is finished.
	KeyWindow time.Duration
}

// ready completes a task for sending; p is the caller's copy.
func (t *Task) ready(now func() time.Time) {
	if t.Delay <= 0 {
		return
	}
	if at := now().Add(t.Delay); at.After(t.NotBefore) {
		t.NotBefore = at
	}
	t.Delay = 0
}

// spec is the task in the form of the wire. The hot path encodes without it:
// see appendSpec.
func (t *Task) spec() *nornv1.TaskSpec {
	s := &nornv1.TaskSpec{
		Id: t.ID.Bytes(), Queue: t.Queue, Payload: t.Payload, Priority: t.Priority, NotBefore: stampOf(t.NotBefore),
		OnDependencyFailure: t.OnDependencyFailure, Retry: t.Retry, Headers: t.Headers,
		Key: t.Key, KeyWindowSeconds: t.KeyWindow.Seconds(), Kind: t.Kind, Tags: t.Tags,
	}
	for _, d := range t.Dependencies {
		s.Dependencies = append(s.Dependencies, d.Bytes())
	}
	return s
}

// simple tells whether appendSpec knows all that is set.
func (t *Task) simple() bool {
	return len(t.Dependencies) == 0 && t.OnDependencyFailure == 0 && t.Retry == nil && len(t.Headers) == 0 &&
		len(t.Tags) == 0 && t.Key == "" && t.KeyWindow == 0 && t.NotBefore.IsZero()
}

// specSize is at least the length of what appendSpec appends to a simple task,
// and near it.
func (t *Task) specSize() int {
	const overhead = 1 + 1 + id.Size + // field 1
		1 + 2 + // tag and length of field 2
		1 + 5 + // tag and length of field 3
		1 + 10 + // field 4
		1 + 2 // tag and length of field 13
	return overhead + len(t.Queue) + len(t.Payload) + len(t.Kind)
}

// appendSpec appends the TaskSpec of a simple task: the same bytes that its
// spec would give, at a fraction of the cost.
func (t *Task) appendSpec(dst []byte) []byte {
	dst = append(dst, 1<<3|byte(protowire.BytesType), id.Size)
	dst = append(dst, t.ID[:]...)
	if t.Queue != "" {
		dst = append(dst, 2<<3|byte(protowire.BytesType))
		dst = protowire.AppendString(dst, t.Queue)
	}
	if len(t.Payload) > 0 {
		dst = append(dst, 3<<3|byte(protowire.BytesType))
		dst = protowire.AppendBytes(dst, t.Payload)
	}
	if t.Priority != 0 {
		dst = append(dst, 4<<3|byte(protowire.VarintType))
		dst = protowire.AppendVarint(dst, uint64(int64(t.Priority)))
	}
	return proto.AppendKind(dst, t.Kind, nil)
}

// enqueueOne is an EnqueueRequest of one simple task.
type enqueueOne struct {
	task       *Task
	durability *nornv1.Durability
}

// Size is an upper estimate.
func (b *enqueueOne) Size() int { return b.task.specSize() + 1 + 5 + 16 }

// AppendTo appends the request.
func (b *enqueueOne) AppendTo(dst []byte) ([]byte, error) {
	dst = append(dst, 1<<3|byte(protowire.BytesType))
	size := 2 + id.Size
	if n := len(b.task.Queue); n > 0 {
		size += 1 + protowire.SizeBytes(n)
	}
	if n := len(b.task.Payload); n > 0 {
		size += 1 + protowire.SizeBytes(n)
	}
	if p := b.task.Priority; p != 0 {
		size += 1 + protowire.SizeVarint(uint64(int64(p)))
	}
	if n := len(b.task.Kind); n > 0 {
		size += 1 + protowire.SizeBytes(n)
	}
	dst = b.task.appendSpec(protowire.AppendVarint(dst, uint64(size)))
	if b.durability != nil {
		m := message{m: b.durability}
		dst = append(dst, 2<<3|byte(protowire.BytesType))
		dst = protowire.AppendVarint(dst, uint64(m.Size()))
		return m.AppendTo(dst)
	}
	return dst, nil
}

// enqueueMany is an EnqueueRequest of any tasks.
func enqueueMany(tasks []Task, chosen []int, durability *nornv1.Durability) message {
	m := &nornv1.EnqueueRequest{Durability: durability, Tasks: make([]*nornv1.TaskSpec, 0, len(chosen))}
	for _, i := range chosen {
		m.Tasks = append(m.Tasks, tasks[i].spec())
	}
	return message{m: m}
}

// weight is about the size of a task in a request, in bytes.
func (t *Task) weight() int {
	n := t.specSize() + 32 + len(t.Key) + len(t.Dependencies)*(id.Size+2)
	for _, tag := range t.Tags {
		n += len(tag) + 2
	}
	for k, v := range t.Headers {
		n += len(k) + len(v) + 16
	}
	return min(n, math.MaxInt32)
}

// prepared copies tasks, with an ID for every one that has none. The errors are
// of those whose key could not be looked up, nil when there are none.
func (c *Client) prepared(ctx context.Context, tasks []Task) ([]Task, []error) {
	now := sync.OnceValue(c.now)
	out := slices.Clone(tasks)
	missing := 0
	for i := range out {
		out[i].ready(now)
		if out[i].ID.IsZero() && !out[i].keyed() {
			missing++
		}
	}
	ids := c.NewIDs(missing)
	for i := range out {
		if out[i].ID.IsZero() && !out[i].keyed() {
			out[i].ID, ids = ids[0], ids[1:]
		}
	}
	return out, c.nameByKey(ctx, out)
}
