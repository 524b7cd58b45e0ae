package sim

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/sim/clients"
	"github.com/norn-dev/norn/jepsen/sim/nodes"
	"github.com/norn-dev/norn/jepsen/sim/plan"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

var backups = flag.Uint64("backups", 3, "number of seeds of clusters of which backups are taken")

// saver takes a full backup of a cluster at a random moment, and then incremental ones, as
// package backup/job does.
type saver struct {
	*clients.Caller
	bad      error
	most     int                     // backups that it takes
	taken    int                     // backups that are whole
	must     []id.ID                 // enqueues that were acknowledged before the newest one
	done     map[id.ID]bool          // completions likewise
	tasks    []map[id.ID]backup.Task // as read, by partition
	ranges   [][]backup.Range        // of the newest one
	reread   int                     // ranges that were read again
	same     int                     // ranges that were not
	nextMust []id.ID
	nextDone map[id.ID]bool
}

// again asks until it is answered.
func (v *saver) again(m *nornv1.BackupRequest, then func(*nornv1.BackupReply)) {
	v.Leave() // another node may be in reach
	v.Send(m, nil, 3*time.Second, func(a *clients.Answer) {
		reply, ok := a.Message.(*nornv1.BackupReply)
		if !ok || a.Refused != nil {
			m.WholeCohort = true
			v.After(500*time.Millisecond, func() { v.again(m, then) })
			return
		}
		then(reply)
	})
}

// begin takes one, and then the next one.
func (v *saver) begin() {
	s := v.S
	v.nextMust, v.nextDone = s.Board.Acknowledged(), make(map[id.ID]bool)
	for _, e := range s.Events {
		if e.Func != history.Complete || e.Phase != history.OK {
			continue
		}
		for i := range e.Items {
			if e.Items[i].Error == "" && !e.Items[i].Unsure {
				v.nextDone[e.Items[i].Task] = true
			}
		}
	}
	if v.tasks == nil {
		v.tasks, v.ranges = make([]map[id.ID]backup.Task, s.Plan.Partitions), make([][]backup.Range, s.Plan.Partitions)
	}
	v.partition(0)
}

func (v *saver) partition(p int) {
	if p == len(v.tasks) {
		v.taken++
		v.must, v.done = v.nextMust, v.nextDone
		if v.taken == v.most {
			return
		}
		v.After(v.S.Between(0, 5*time.Second), v.begin)
		return
	}
	next := func() {
		ranger := backup.NewRanger(id.ID{})
		for _, task := range slices.SortedFunc(maps.Keys(v.tasks[p]), id.ID.Compare) {
			t := v.tasks[p][task]
			seen, err := backup.See(&t)
			if err != nil {
				v.bad = err
				return
			}
			ranger.Saw(&seen)
		}
		ranger.End()
		v.ranges[p] = ranger.Ranges()
		v.partition(p + 1)
	}
	if v.ranges[p] == nil {
		v.tasks[p] = make(map[id.ID]backup.Task)
		v.pages(p, []backup.Span{{}}, next)
		return
	}
	v.again(&nornv1.BackupRequest{Partition: uint32(p), Bounds: backup.Bounds(v.ranges[p]), Claims: true}, func(m *nornv1.BackupReply) {
		spans, err := backup.Changed(v.ranges[p], m.GetSums())
		if err != nil {
			v.bad = err
			return
		}
		page, err := backup.DecodePage(m.GetTasks(), m.GetNext())
		if err != nil {
			v.bad = err
			return
		}
		v.reread, v.same = v.reread+len(spans), v.same+len(v.ranges[p])-len(spans)
		for task, t := range v.tasks[p] {
			t.Claims = nil
			if v.tasks[p][task] = t; backup.InSpans(spans, task) {
				delete(v.tasks[p], task)
			}
		}
		for _, held := range page.Tasks {
			if t, ok := v.tasks[p][held.ID]; ok && !backup.InSpans(spans, held.ID) {
				t.Claims = held.Claims
				v.tasks[p][held.ID] = t
			}
		}
		v.pages(p, spans, next)
	})
}

// pages reads spans, one after the other.
func (v *saver) pages(p int, spans []backup.Span, then func()) {
	if len(spans) == 0 {
		then()
		return
	}
	m := &nornv1.BackupRequest{Partition: uint32(p), From: spans[0].From.Bytes()}
	if !spans[0].To.IsZero() {
		m.Before = spans[0].To.Bytes()
	}
	whole := &backup.Assembler{}
	var page func(*nornv1.BackupReply)
	page = func(reply *nornv1.BackupReply) {
		last := len(reply.GetNext()) == 0
		err := whole.Add(reply.GetTasks(), last, func(t *backup.Task) error {
			v.tasks[p][t.ID] = t.Clone()
			return nil
		})
		if err != nil {
			v.bad = err
			return
		}
		if last {
			v.pages(p, spans[1:], then)
			return
		}
		v.again(&nornv1.BackupRequest{Partition: m.Partition, From: m.From, Before: m.Before, After: reply.GetNext()}, page)
	}
	v.again(m, page)
}

// TestBackupsOfAStorm: backups that are taken at random moments of a storm have what was
// acknowledged before they began: each task, and that it was completed. Restored in a node
// with other partitions they give a state in which indexes follow from facts, no task runs that was
// completed, none twice, none before what it depends on, and all that can be done is done.
//
// Long because: it is one story.
func TestBackupsOfAStorm(t *testing.T) {
	judged, same, seen := 0, 0, false
	for n := uint64(0); judged < int(*backups) && n < 20**backups; n++ {
		var v *saver
		forgets := false
		r := runCluster(*seed+n, Many{Cluster: true, also: func(s *sim) {
			if forgets = s.Plan.Collect > 0 || s.Rights != nil; forgets {
				s.Ended = true // what was forgotten cannot be asked for
				return
			}
			v = &saver{Caller: s.NewCaller(), most: 1 + int(n%3)}
			v.After(s.Between(5*time.Second, 40*time.Second), v.begin)
		}})
		if forgets || r.Calm != "" || v == nil || v.taken == 0 {
			continue
		}
		if r.Violation != nil || v.bad != nil {
			t.Fatalf("seed %d: %v, %v", *seed+n, r.Violation, v.bad)
		}
		judged, same = judged+1, same+v.same
		var all []backup.Task
		states := make(map[id.ID]*crdt.Task)
		for p := range v.tasks {
			for task, one := range v.tasks[p] {
				view, err := crdt.View(task, slices.Values(one.Facts))
				if err != nil || one.Check() != nil {
					t.Fatalf("seed %d: task %s: %v, %v", *seed+n, task, err, one.Check())
				}
				states[task] = view
				all = append(all, one)
			}
		}
		for _, task := range v.must {
			if states[task] == nil {
				t.Fatalf("seed %d: task %s was acknowledged, and is not in backup %d", *seed+n, task, v.taken)
			}
		}
		for task := range v.done {
			if view := states[task]; view == nil || view.Outcome() != crdt.StateCompleted {
				t.Fatalf("seed %d: the completion of %s was acknowledged, and is not in backup %d", *seed+n, task, v.taken)
			}
		}
		t.Logf("seed %d: %d backups, %d tasks, %d completed; %d ranges were read again, %d not", *seed+n, v.taken, len(states), len(v.done), v.reread, v.same)
		if bad := restored(t, *seed+n, all, states); bad != "" {
			t.Fatalf("seed %d, restored: %s", *seed+n, bad)
		}
		if len(v.done) == 0 || seen {
			continue
		}
		for i := range all { // what a backup would give that loses completions
			all[i].Facts = slices.DeleteFunc(slices.Clone(all[i].Facts), func(f crdt.Fact) bool { return f.Key.Kind == crdt.KindCompleted })
		}
		all = slices.DeleteFunc(all, func(one backup.Task) bool { return len(one.Facts) == 0 })
		if bad := restored(t, *seed+n, all, states); !strings.Contains(bad, "it was completed, and runs again") {
			t.Errorf("seed %d, restored without completions: %q", *seed+n, bad)
		}
		seen = true
	}
	if !seen {
		t.Error("no seed had completions to lose")
	}
	if judged < int(*backups) {
		t.Errorf("only %d seeds could be judged", judged)
	}
}

// restored gives a node of its own all tasks, and does them; it says what is wrong then.
//
// Long because: it is one story.
func restored(t *testing.T, seed uint64, all []backup.Task, states map[id.ID]*crdt.Task) string {
	t.Helper()
	s := newSim(seed, nodes.Mutant{})
	s.Rights = nil
	s.Plan = plan.Draw(&s.World)
	s.Plan.Partitions, s.Plan.Collect = s.Plan.Partitions+3, 0
	s.Plan.Net, s.Plan.Disk = plan.NetPlan{Delay: time.Millisecond}, plan.DiskPlan{Sync: time.Millisecond, Depth: 4}
	s.Plan.MaxClaims = 1 << 20
	s.Node = nodes.NewNode(s.System)
	s.Node.Start()
	c := s.NewCaller()
	c.Pin = s.Node
	slices.SortFunc(all, func(a, b backup.Task) int { return a.ID.Compare(b.ID) })
	done := make(map[id.ID]bool)
	for task, view := range states {
		if view.Outcome() == crdt.StateCompleted {
			done[task] = true
		}
	}
	before, names := len(done), make(map[string]bool)
	for _, view := range states {
		if view.Enqueued != nil {
			names[view.Enqueued.Queue] = true
		}
	}
	queues := slices.Sorted(maps.Keys(names))
	var bad string
	idle := 0
	var work func()
	work = func() {
		c.Send(&nornv1.ClaimRequest{Queues: queues, MaxTasks: 20, Worker: "w", LeaseSeconds: 3600}, nil, 3*time.Second, func(a *clients.Answer) {
			m, ok := a.Message.(*nornv1.ClaimReply)
			if !ok || len(m.GetGrants()) == 0 {
				if idle++; idle < 200 { // what is put off comes in the end
					c.After(5*time.Second, work)
				} else {
					s.Ended = true
				}
				return
			}
			idle = 0
			complete := &nornv1.CompleteRequest{}
			for _, g := range m.GetGrants() {
				task, err := id.Parse(g.GetTask().GetId())
				view := states[task]
				switch {
				case err != nil || view == nil:
					bad = "a task that is in no backup was granted: " + task.String()
				case done[task]:
					bad = "it was completed, and runs again: " + task.String()
				}
				// One that was released by what has finished while the backup was under way has no need to
				// wait again: that it had finished may not be in there.
				if view != nil && view.UnblockedAt() == 0 {
					for _, d := range view.Enqueued.Dependencies {
						if on := states[d]; on != nil && !done[d] && on.Outcome() == crdt.StateUnknown {
							bad = "it runs before " + d.String() + ", on which it depends: " + task.String()
						}
					}
				}
				done[task] = true
				complete.Completions = append(complete.Completions, &nornv1.Completion{Id: task.Bytes(), Token: g.GetToken(), AutoSeq: true})
			}
			c.Send(complete, nil, 3*time.Second, func(*clients.Answer) { work() })
		})
	}
	var give func(i int)
	give = func(i int) {
		if i == len(all) {
			work()
			return
		}
		one := all[i]
		one.Free(time.Second)
		p := ring.Of(one.ID, s.Plan.Partitions)
		c.Send(&nornv1.RestoreRequest{Partition: uint32(p), Tasks: backup.AppendTask(nil, &one)}, nil, 3*time.Second, func(a *clients.Answer) {
			if _, ok := a.Message.(*nornv1.RestoreReply); !ok {
				if a.Refused != nil && a.Refused.Kind == nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
					bad, s.Ended = "task "+one.ID.String()+" is refused: "+a.Refused.Message, true
					return
				}
				c.After(100*time.Millisecond, func() { give(i) })
				return
			}
			give(i + 1)
		})
	}
	s.After(time.Second, func() { give(0) })
	s.Run()
	if s.Node.Audit(); s.Found != nil || bad != "" {
		return fmt.Sprint(s.Found, " ", bad)
	}
	left := 0
	for task, view := range states {
		open := view.Enqueued != nil && view.Outcome() == crdt.StateUnknown && !done[task]
		for _, d := range depsOf(view) {
			open = open && done[d] // else it waits, or was cancelled with that
		}
		if open {
			left++
			t.Logf("seed %d: task %s is not done: %+v", seed, task, view.Enqueued)
		}
	}
	t.Logf("seed %d, restored: %d were completed, %d more are", seed, before, len(done)-before)
	if left > 0 {
		return fmt.Sprintf("%d tasks are never done, of %d", left, len(states))
	}
	return ""
}

func depsOf(v *crdt.Task) []id.ID {
	if v.Enqueued == nil {
		return nil
	}
	return v.Enqueued.Dependencies
}
