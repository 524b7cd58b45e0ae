package sim

import (
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/world"
)

// job is a task as its producer knows it.
type job struct {
	id        id.ID
	queue     string
	payload   []byte
	priority  int32
	notBefore int64
	deps      []id.ID
	onFailure nornv1.DependencyFailure
	attempts  uint32
	key       string
	window    time.Duration
	sent      bool // somebody has asked for it
	acked     bool
	weak      bool // acknowledged with one copy, in a run in which disks get lost
}

// spec makes the message anew: what is sent is the receiver's.
func (j *job) spec() *nornv1.TaskSpec {
	t := &nornv1.TaskSpec{
		Id: j.id.Bytes(), Queue: j.queue, Payload: append([]byte(nil), j.payload...), Priority: j.priority,
		OnDependencyFailure: j.onFailure, Key: j.key, KeyWindowSeconds: j.window.Seconds(),
	}
	if j.notBefore != 0 {
		t.NotBefore = timestamppb.New(time.Unix(0, j.notBefore))
	}
	if j.attempts != 0 {
		t.Retry = &nornv1.RetryPolicy{MaxAttempts: j.attempts, InitialSeconds: 0.5, MaxSeconds: maxBackoff.Seconds()}
	}
	for _, d := range j.deps {
		t.Dependencies = append(t.Dependencies, d.Bytes())
	}
	if n := len(j.payload); n > 0 && j.payload[n-1]%4 == 0 { // its client is newer than all nodes
		t.ProtoReflect().SetUnknown(newerField(j.payload))
		if t.Retry != nil {
			t.Retry.ProtoReflect().SetUnknown(newerField(j.payload[n-1:]))
		}
	}
	return t
}

// newerField is a field that no message has.
func newerField(value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, 1500, protowire.BytesType), value)
}

// board is what the clients of a run know of each other's tasks: they act on
// the same ones, on purpose.
type board struct {
	jobs []*job
	byID map[id.ID]*job
	hot  []id.ID // claimed last
}

// claimed notes a task that somebody works on now.
func (b *board) claimed(task id.ID) {
	if b.hot = append(b.hot, task); len(b.hot) > 4 {
		b.hot = b.hot[1:]
	}
}

func (b *board) add(j *job) {
	if b.byID == nil {
		b.byID = make(map[id.ID]*job)
	}
	if b.byID[j.id] == nil {
		b.byID[j.id] = j
		b.jobs = append(b.jobs, j)
	}
}

// some draws a task, most often a young one; nil when there is none.
func (b *board) some(w *world.World) *job {
	n := len(b.jobs)
	if n == 0 {
		return nil
	}
	if young := min(n, 12); w.Chance(0.7) {
		return b.jobs[n-1-w.Rnd.IntN(young)]
	}
	return b.jobs[w.Rnd.IntN(n)]
}

// cannot tells whether the server has said that it cannot do something yet.
func (s *sim) cannot(what history.Func) bool { return s.missing[what] }

// refused counts refusals and notes what the server cannot do.
func (s *sim) refused(asked *history.Event, kind string) {
	s.stats[stats.Refusals]++
	if kind != "UNIMPLEMENTED" {
		return
	}
	what := asked.Func
	if what == history.Enqueue {
		what = "rich-enqueue" // dependencies or keys; plain ones are always there
	}
	s.missing[what] = true
	s.stats[stats.Unimplemented]++
}
