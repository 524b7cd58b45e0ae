package run

import (
	"time"

	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/norn-dev/norn/jepsen/sim/world"
)

// Job is a task as its producer knows it.
type Job struct {
	ID        id.ID
	Queue     string
	Payload   []byte
	Priority  int32
	NotBefore int64
	Deps      []id.ID
	OnFailure nornv1.DependencyFailure
	Attempts  uint32
	Key       string
	Window    time.Duration
	Sent      bool // somebody has asked for it
	Acked     bool
	Weak      bool // acknowledged with one copy, in a run in which disks get lost
}

// Spec makes the message anew: what is sent is the receiver's.
func (j *Job) Spec() *nornv1.TaskSpec {
	t := &nornv1.TaskSpec{
		Id: j.ID.Bytes(), Queue: j.Queue, Payload: append([]byte(nil), j.Payload...), Priority: j.Priority,
		OnDependencyFailure: j.OnFailure, Key: j.Key, KeyWindowSeconds: j.Window.Seconds(),
	}
	if j.NotBefore != 0 {
		t.NotBefore = timestamppb.New(time.Unix(0, j.NotBefore))
	}
	if j.Attempts != 0 {
		t.Retry = &nornv1.RetryPolicy{MaxAttempts: j.Attempts, InitialSeconds: 0.5, MaxSeconds: MaxBackoff.Seconds()}
	}
	for _, d := range j.Deps {
		t.Dependencies = append(t.Dependencies, d.Bytes())
	}
	if n := len(j.Payload); n > 0 && j.Payload[n-1]%4 == 0 { // its client is newer than all nodes
		t.ProtoReflect().SetUnknown(newerField(j.Payload))
		if t.Retry != nil {
			t.Retry.ProtoReflect().SetUnknown(newerField(j.Payload[n-1:]))
		}
	}
	return t
}

// newerField is a field that no message has.
func newerField(value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, 1500, protowire.BytesType), value)
}

// Board is what the clients of a run know of each other's tasks: they act on
// the same ones, on purpose.
type Board struct {
	Jobs []*Job
	ByID map[id.ID]*Job
	Hot  []id.ID // claimed last
}

// Claimed notes a task that somebody works on now.
func (b *Board) Claimed(task id.ID) {
	if b.Hot = append(b.Hot, task); len(b.Hot) > 4 {
		b.Hot = b.Hot[1:]
	}
}

// Add has clients know of a task.
func (b *Board) Add(j *Job) {
	if b.ByID == nil {
		b.ByID = make(map[id.ID]*Job)
	}
	if b.ByID[j.ID] == nil {
		b.ByID[j.ID] = j
		b.Jobs = append(b.Jobs, j)
	}
}

// Some draws a task, most often a young one; nil when there is none.
func (b *Board) Some(w *world.World) *Job {
	n := len(b.Jobs)
	if n == 0 {
		return nil
	}
	if young := min(n, 12); w.Chance(0.7) {
		return b.Jobs[n-1-w.Rnd.IntN(young)]
	}
	return b.Jobs[w.Rnd.IntN(n)]
}

// tasks gives the tasks that were acknowledged.
func (b *Board) Acknowledged() (tasks []id.ID) {
	for _, j := range b.Jobs {
		if j.Acked && !j.Weak {
			tasks = append(tasks, j.ID)
		}
	}
	return tasks
}
