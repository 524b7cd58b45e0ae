package verdict

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/record"
	"github.com/norn-dev/norn/jepsen/lab/workloads"
	"github.com/norn-dev/norn/ring"
)

// tale is a history that a test makes up: operations that follow each other, a
// second apart, each done at once.
type tale struct {
	events []*history.Event
	now    int64
	op     uint64
}

func (s *tale) next() int64 {
	s.now += int64(time.Second)
	return s.now
}

// says adds an operation and what came of it.
func (s *tale) says(process int, asked, answer history.Event) {
	s.op++
	asked.Op, asked.Process, asked.Phase, asked.At = s.op, process, history.Invoke, s.next()
	answer.Op, answer.Process, answer.Func, answer.At = s.op, process, asked.Func, s.next()
	answer.Session, answer.Request = asked.Session, asked.Request
	if answer.Phase == history.Note {
		answer.Phase = history.OK
	}
	s.events = append(s.events, &asked, &answer)
}

func (s *tale) settled() {
	s.events = append(s.events, &history.Event{At: s.next(), Phase: history.Note, Text: check.Settled})
}

func (s *tale) enqueues(n int, spec history.Spec) {
	s.says(1, history.Event{Func: history.Enqueue, Items: []history.Item{{Task: task(n), Spec: &spec}}}, history.Event{Items: []history.Item{{Task: task(n)}}})
}

// grants hands a task to a worker, for so long from now on.
func (s *tale) grants(process, n int, token uint64, lease time.Duration, spec history.Spec) {
	s.says(process, history.Event{Func: history.Claim, Queues: []string{spec.Queue}, Max: 1, Session: uint64(process), Request: token},
		history.Event{Items: []history.Item{{Task: task(n), Token: token, State: history.Claimed, Spec: &spec, Until: s.now + int64(2*time.Second+lease)}}})
}

func (s *tale) completes(process, n int, token uint64) {
	s.says(process, history.Event{Func: history.Complete, Items: []history.Item{{Task: task(n), Token: token}}}, history.Event{Items: []history.Item{{Task: task(n)}}})
}

func (s *tale) updates(process, n int, token, seq uint64, weak bool) {
	s.says(process, history.Event{Func: history.Update, Weak: weak, Items: []history.Item{{Task: task(n), Token: token, Seq: seq}}}, history.Event{Items: []history.Item{{Task: task(n)}}})
}

func (s *tale) reads(n int, spec *history.Spec, state history.State) {
	s.says(1, history.Event{Func: history.Get, Items: record.Items([]id.ID{task(n)})}, history.Event{Items: []history.Item{{Task: task(n), State: state, Spec: spec}}})
}

func (s *tale) swaps(process int, from, to history.Cell) {
	s.says(process, history.Event{Func: history.CellSwap, From: &from, Cell: &to}, history.Event{})
}

func (s *tale) looks(node string, cell history.Cell) {
	s.says(1, history.Event{Func: history.Look, Text: node}, history.Event{Cells: []history.Cell{cell}})
}

// token is that of a claim in an epoch.
func token(epoch, n uint64) uint64 { return epoch<<32 | n }

// TestEachWorkloadCanFail: a run of each workload that tells of a broken promise
// is a violation, and the same without that is none.
//
// Long because: a table, one history after the other.
func TestEachWorkloadCanFail(t *testing.T) {
	spec, waits := history.Spec{Queue: "q0"}, history.Spec{Queue: "q0", Deps: []id.ID{task(1)}}
	cell := func(epoch, nonce uint64) history.Cell {
		return history.Cell{Partition: cluster.Partitions, Epoch: epoch, Leader: "w", Nonce: nonce}
	}
	leads := func(epoch uint64, leader string) history.Cell {
		return history.Cell{Partition: 0, Epoch: epoch, Leader: leader, Cohort: []string{"n1", "n2", "n3"}}
	}
	for _, c := range []struct {
		workload, what, want string
		tell                 func(s *tale, wrong bool)
	}{
		{"enqueue", "an acknowledged task is gone", check.Lost, func(s *tale, wrong bool) {
			s.enqueues(1, spec)
			s.says(1, history.Event{Func: history.Cancel, Items: record.Items([]id.ID{task(1)})}, history.Event{Items: []history.Item{{Task: task(1), State: history.Cancelled}}})
			s.settled()
			if wrong {
				s.reads(1, nil, history.Absent)
			} else {
				s.reads(1, &spec, history.Cancelled)
			}
		}},
		{"claims", "a completed task is renewed", check.Undone, func(s *tale, wrong bool) {
			s.enqueues(1, spec)
			s.grants(2, 1, token(1, 1), time.Hour, spec)
			if wrong {
				s.completes(2, 1, token(1, 1))
			}
			s.says(2, history.Event{Func: history.Renew, Items: []history.Item{{Task: task(1), Token: token(1, 1)}}},
				history.Event{Items: []history.Item{{Task: task(1), Token: token(1, 1), Until: s.now + int64(time.Hour)}}})
		}},
		{"claims", "a result is not what was sent", check.Content, func(s *tale, wrong bool) {
			s.enqueues(1, spec)
			s.grants(2, 1, token(1, 1), time.Hour, spec)
			s.says(2, history.Event{Func: history.Complete, Items: []history.Item{{Task: task(1), Token: token(1, 1), Data: 7}}}, history.Event{Items: []history.Item{{Task: task(1)}}})
			shown := history.Item{Task: task(1), State: history.Completed, Spec: &spec, Data: 7}
			if wrong {
				shown.Data = 8
			}
			s.says(1, history.Event{Func: history.Get, Items: record.Items([]id.ID{task(1)})}, history.Event{Items: []history.Item{shown}})
		}},
		{"claims", "what has ended by one copy is granted when all were equal", check.Undone, func(s *tale, wrong bool) {
			s.enqueues(1, spec)
			s.grants(2, 1, token(1, 1), time.Hour, spec)
			s.says(2, history.Event{Func: history.Complete, Weak: true, Items: []history.Item{{Task: task(1), Token: token(1, 1)}}}, history.Event{Items: []history.Item{{Task: task(1)}}})
			if wrong {
				s.events = append(s.events, &history.Event{At: s.next(), Phase: history.Note, Text: check.Equal})
			}
			s.grants(3, 1, token(1, 2), time.Second, spec)
		}},
		{"hot", "two hold it at once", check.Overlap, func(s *tale, wrong bool) {
			s.enqueues(1, spec)
			lease := time.Second
			if wrong {
				lease = time.Minute
			}
			s.grants(2, 1, token(1, 1), lease, spec)
			s.grants(3, 1, token(1, 2), time.Second, spec)
		}},
		{"updates", "what was seen of a log is not shown", check.Contiguous, func(s *tale, wrong bool) {
			s.enqueues(1, spec)
			s.grants(2, 1, token(1, 1), time.Hour, spec)
			s.updates(2, 1, token(1, 1), 0, true)
			seen, log := history.Entry{Token: token(1, 1)}, []history.Entry{{Token: token(1, 1)}}
			if wrong {
				log = nil
			}
			s.says(3, history.Event{Func: history.Get, Weak: true, Items: record.Items([]id.ID{task(1)}), After: &seen},
				history.Event{Items: []history.Item{{Task: task(1), State: history.Claimed, Spec: &spec, Log: log}}})
		}},
		{"updates", "what majorities have acknowledged a majority does not show", check.Lost, func(s *tale, wrong bool) {
			s.enqueues(1, spec)
			s.grants(2, 1, token(1, 1), time.Hour, spec)
			s.updates(2, 1, token(1, 1), 0, !wrong)
			s.updates(2, 1, token(1, 1), 1, false)
			s.reads(1, &spec, history.Claimed)
		}},
		{"dependencies", "it runs before what it waits for", check.Dependency, func(s *tale, wrong bool) {
			s.enqueues(2, waits)
			s.enqueues(1, spec)
			if !wrong {
				s.grants(2, 1, token(1, 1), time.Second, spec)
				s.completes(2, 1, token(1, 1))
			}
			s.grants(3, 2, token(1, 2), time.Second, waits)
		}},
		{"dependencies", "what is to run when another one fails runs before that", check.Dependency, func(s *tale, wrong bool) {
			after := history.Spec{Queue: "q0", Deps: []id.ID{task(1)}, OnFailure: "run"}
			s.enqueues(1, spec)
			s.enqueues(2, after)
			s.grants(2, 1, token(1, 1), time.Second, spec)
			if !wrong {
				s.says(2, history.Event{Func: history.FailTask, Items: []history.Item{{Task: task(1), Token: token(1, 1), Discard: true}}},
					history.Event{Items: []history.Item{{Task: task(1), State: history.Dead}}})
			}
			s.grants(3, 2, token(1, 2), time.Second, after)
		}},
		{"again", "an enqueue that comes twice runs twice", check.Undone, func(s *tale, wrong bool) {
			s.enqueues(1, spec)
			s.grants(2, 1, token(1, 1), time.Second, spec)
			s.completes(2, 1, token(1, 1))
			s.enqueues(1, spec)
			if wrong {
				s.grants(3, 1, token(1, 2), time.Second, spec)
			}
		}},
		{"again", "two tasks of a key are handed out", check.UniqueKey, func(s *tale, wrong bool) {
			unique := history.Spec{Queue: "q0", Key: "k"}
			s.enqueues(1, unique)
			s.grants(2, 1, token(1, 1), time.Second, unique)
			if !wrong {
				s.completes(2, 1, token(1, 1))
			}
			s.enqueues(2, unique)
			s.grants(3, 2, token(1, 2), time.Second, unique)
		}},
		{"collected", "a collected task comes back", check.Collected, func(s *tale, wrong bool) {
			s.enqueues(1, spec)
			s.grants(2, 1, token(1, 1), time.Second, spec)
			s.completes(2, 1, token(1, 1))
			s.now += int64(time.Minute)
			s.settled()
			s.reads(1, nil, history.Completed)
			if wrong {
				s.reads(1, &spec, history.Completed)
			}
		}},
		{"collected", "a task is collected too early", check.Collected, func(s *tale, wrong bool) {
			s.enqueues(1, spec)
			s.grants(2, 1, token(1, 1), time.Second, spec)
			s.completes(2, 1, token(1, 1))
			s.now -= int64(900 * time.Millisecond) // the reading begins and ends at once
			if !wrong {
				s.now += int64(workloads.KeptFor)
			}
			s.reads(1, nil, history.Completed)
			s.events[len(s.events)-1].At -= int64(900 * time.Millisecond)
		}},
		{"register", "two follow one value", check.Register, func(s *tale, wrong bool) {
			s.swaps(1, cell(1, 1), cell(2, 2))
			if wrong {
				s.swaps(2, cell(1, 1), cell(2, 3))
			} else {
				s.swaps(2, cell(2, 2), cell(3, 3))
			}
		}},
		{"register", "an epoch has two leaders", check.Register, func(s *tale, wrong bool) {
			s.looks("n1", leads(4, "n1"))
			if wrong {
				s.looks("n2", leads(4, "n2"))
			} else {
				s.looks("n2", leads(4, "n1"))
			}
		}},
		{"register", "a node forgets an epoch", check.Register, func(s *tale, wrong bool) {
			s.looks("n1", leads(4, "n1"))
			if wrong {
				s.looks("n1", leads(3, "n2"))
			} else {
				s.looks("n1", leads(5, "n2"))
			}
		}},
		{"heavy", "a payload is not what was sent", check.Content, func(s *tale, wrong bool) {
			shown := spec
			s.enqueues(1, spec)
			if wrong {
				shown.Payload = 7
			}
			s.grants(2, 1, token(1, 1), time.Second, shown)
		}},
		{"ranked", "a better task waits while others are granted", check.Order, func(s *tale, wrong bool) {
			best, worse := history.Spec{Queue: workloads.RankedQueue, Priority: 2}, history.Spec{Queue: workloads.RankedQueue}
			var all []int // in one partition
			for n := 1; len(all) < 13; n++ {
				if ring.Of(task(n), cluster.Partitions) == ring.Of(task(1), cluster.Partitions) {
					all = append(all, n)
				}
			}
			for _, n := range all[1:] {
				s.enqueues(n, worse)
			}
			s.enqueues(all[0], best)
			if !wrong {
				s.grants(2, all[0], token(1, 1), time.Second, best)
			}
			for i, n := range all[1:] {
				s.grants(2, n, token(1, uint64(i+2)), time.Second, worse)
			}
		}},
		{"schedules", "a launched task is gone", check.Lost, func(s *tale, wrong bool) {
			launched := history.Spec{Queue: workloads.CronQueue}
			for n := range 10 {
				s.enqueues(n, launched)
				s.grants(2, n, token(1, uint64(n+1)), time.Second, launched)
				s.completes(2, n, token(1, uint64(n+1)))
			}
			s.settled()
			for n := range 10 {
				if wrong && n == 7 {
					s.reads(n, nil, history.Absent)
				} else {
					s.reads(n, &launched, history.Completed)
				}
			}
		}},
	} {
		for _, wrong := range []bool{false, true} {
			s := &tale{}
			c.tell(s, wrong)
			_, known := workloads.Named(c.workload)
			r := &Result{Config: cluster.Config{Workload: c.workload, Duration: time.Second}, Events: s.events, Claims: c.workload != "enqueue"}
			if c.workload == "ranked" {
				r.Calm = []cluster.Window{{To: time.Hour}}
			}
			r.judge()
			found := slices.ContainsFunc(r.Findings, func(f string) bool { return strings.Contains(f, c.want) })
			if !known || found != wrong || len(r.Findings) > 0 != wrong {
				t.Errorf("%s, %s (%v): findings are %q, want one of %s", c.workload, c.what, wrong, r.Findings, c.want)
			}
		}
	}
	for _, w := range workloads.Workloads() {
		if w.About == "" || w.Begin == nil || w.Least == 0 && w.Lacks == nil {
			t.Errorf("workload %s: nothing about it, nobody does it, or a run in which nothing happens passes", w.Name)
		}
	}
}

// TestNothingHappened: of each workload a run with an empty history is invalid.
func TestNothingHappened(t *testing.T) {
	for _, w := range workloads.Workloads() {
		r := &Result{Config: cluster.Config{Workload: w.Name, Duration: 10 * time.Second}, Claims: w.Claims}
		r.judge()
		if r.Verdict != Invalid {
			t.Errorf("%s: %s", w.Name, r.Verdict)
		}
	}
}

// TestTheVectorTellsOfTwoHolders: a writing between another one's reading and
// writing gets lost, and is missed; one that comes too late is not made.
func TestTheVectorTellsOfTwoHolders(t *testing.T) {
	v, later := workloads.NewVector(), time.Now().Add(time.Hour)
	v.Write(task(1), v.Read(task(1))+1, later)
	v.Write(task(1), v.Read(task(1))+1, later)
	v.Write(task(1), 99, time.Now().Add(-time.Second))
	if why := v.Lost(); why != "" {
		t.Errorf("one after the other: %s", why)
	}
	one, other := v.Read(task(1)), v.Read(task(1))
	v.Write(task(1), one+1, later)
	v.Write(task(1), other+1, later)
	if v.Lost() == "" {
		t.Error("two at once: nothing is missed")
	}
}
