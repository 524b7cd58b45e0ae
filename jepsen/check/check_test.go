package check

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// script writes a history by hand: every call is one operation, one second
// after the one before, that takes a tenth of a second.
type script struct {
	t      *testing.T
	c      *Checker
	at     int64
	op     uint64
	serial uint64
	found  *Violation
}

const second = int64(time.Second)

func newScript(t *testing.T) *script {
	return &script{t: t, c: New(Options{Partitions: 1, Slack: second})}
}

func (s *script) event(e history.Event) {
	if v := s.c.Event(&e); v != nil && s.found == nil {
		s.found = v
	}
}

// do is an operation that goes well.
func (s *script) do(asked, got history.Event) { s.ends(history.OK, asked, got) }

func (s *script) ends(phase history.Phase, asked, got history.Event) {
	s.at += second
	s.op++
	asked.At, asked.Op, asked.Phase = s.at, s.op, history.Invoke
	s.event(asked)
	got.At, got.Op, got.Phase, got.Func, got.Process = s.at+second/10, s.op, phase, asked.Func, asked.Process
	s.event(got)
}

// task draws an ID; later ones are younger.
func (s *script) task() id.ID {
	s.serial++
	return id.NewGenerator(1, func() uint64 { return s.serial }).Next(int64(1_800_000_000+s.serial) * second)
}

func (s *script) enqueue(spec history.Spec) id.ID {
	task := s.task()
	s.again(task, spec, false)
	return task
}

func (s *script) again(task id.ID, spec history.Spec, existed bool) {
	if spec.Queue == "" {
		spec.Queue = "q"
	}
	s.do(history.Event{Func: history.Enqueue, Items: []history.Item{{Task: task, Spec: &spec}}},
		history.Event{Items: []history.Item{{Task: task, Existed: existed}}})
}

// claimed is one task as a claim grants it for ten seconds.
func (s *script) granted(task id.ID, token uint64, claims ...history.ClaimSeen) history.Item {
	spec := history.Spec{Queue: "q"}
	if t := s.c.tasks[task]; t != nil && t.spec != nil {
		spec = *t.spec
	}
	attempts := uint32(0)
	for _, c := range claims {
		if c.Outcome == "failed" || c.Outcome == "expired" {
			attempts++
		}
	}
	return history.Item{
		Attempts: attempts, Task: task, Token: token, Spec: &spec, State: history.Claimed, Until: s.at + 11*second, Start: 1_800_000_000*second + s.at,
		Claims: append(claims, history.ClaimSeen{Token: token, Outcome: "active"}),
	}
}

// claim grants tasks to a process, with tokens from the given one on.
func (s *script) claim(process int, token uint64, tasks ...id.ID) {
	var got []history.Item
	for n, task := range tasks {
		got = append(got, s.granted(task, token+uint64(n)))
	}
	s.claimAs(process, got...)
}

func (s *script) claimAs(process int, got ...history.Item) {
	s.serial++
	s.do(history.Event{Func: history.Claim, Process: process, Queues: []string{"q"}, Max: 9, Session: uint64(process), Request: s.serial},
		history.Event{Session: uint64(process), Request: s.serial, Items: got})
}

func (s *script) write(f history.Func, i history.Item) {
	got := history.Item{Task: i.Task, State: i.State}
	i.State = ""
	s.do(history.Event{Func: f, Items: []history.Item{i}}, history.Event{Items: []history.Item{got}})
}

// refused is a write of which its answer says that it surely has not happened.
func (s *script) refused(f history.Func, i history.Item) {
	s.ends(history.Fail, history.Event{Func: f, Items: []history.Item{i}}, history.Event{Error: "UNAVAILABLE"})
}

// read is a get that shows the task like this.
func (s *script) read(task id.ID, state history.State, change func(*history.Item)) {
	i := history.Item{Task: task, State: state}
	if t := s.c.tasks[task]; t != nil && t.spec != nil && state != history.Absent {
		spec := *t.spec
		i.Spec = &spec
		for _, h := range t.holds {
			i.Claims = append(i.Claims, history.ClaimSeen{Token: h.token, Outcome: "active"})
		}
	}
	if change != nil {
		change(&i)
	}
	s.do(history.Event{Func: history.Get, Items: []history.Item{{Task: task}}}, history.Event{Items: []history.Item{i}})
}

func (s *script) set(change history.Change) {
	got := change
	got.Version = change.IfVersion + 1
	s.do(history.Event{Func: history.SetQueue, Change: &change}, history.Event{Change: &got})
}

func (s *script) settle() {
	s.at += second
	s.event(history.Event{At: s.at, Text: Settled})
}

// finish ends the script and gives the name of the broken promise.
func (s *script) finish() string {
	if s.found == nil {
		s.found = s.c.Finish()
	}
	if s.found == nil {
		return ""
	}
	s.t.Log(s.found)
	return s.found.Invariant
}

func TestAGoodLifeBreaksNothing(t *testing.T) {
	s := newScript(t)
	a := s.enqueue(history.Spec{Priority: 1})
	b := s.enqueue(history.Spec{Deps: []id.ID{a}})
	s.again(a, history.Spec{Priority: 1}, true)
	s.read(b, history.Waiting, nil)
	s.claim(1, 1, a)
	s.read(a, history.Claimed, nil)
	s.write(history.Update, history.Item{Task: a, Token: 1, Seq: 0, Data: 7})
	s.read(a, history.Claimed, func(i *history.Item) { i.Log = []history.Entry{{Token: 1, Data: 7}} })
	s.write(history.Complete, history.Item{Task: a, Token: 1, Seq: 1})
	s.claim(2, 2, b)
	s.write(history.FailTask, history.Item{Task: b, Token: 2, State: history.Ready})
	failed := history.ClaimSeen{Token: 2, Outcome: "failed"}
	s.claimAs(1, s.granted(b, 3, failed))
	s.write(history.Complete, history.Item{Task: b, Token: 3})
	s.settle()
	s.read(a, history.Completed, func(i *history.Item) { i.Log = []history.Entry{{Token: 1, Data: 7}} })
	s.read(b, history.Completed, func(i *history.Item) { i.Claims[0].Outcome, i.Attempts = "failed", 1 })
	s.do(history.Event{Func: history.Count}, history.Event{Tallies: []history.Tally{
		{Total: 2, Counts: map[history.State]uint64{history.Completed: 2}},
		{Queue: "q", Total: 2, Counts: map[history.State]uint64{history.Completed: 2}},
	}})
	s.do(history.Event{Func: history.List}, history.Event{Items: []history.Item{{Task: a, State: history.Completed}, {Task: b, State: history.Completed}}})
	if v := s.finish(); v != "" {
		t.Fatalf("a good history is found to break %s", v)
	}
}
