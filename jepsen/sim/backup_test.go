package sim

import (
	"flag"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

var backups = flag.Uint64("backups", 3, "number of seeds of clusters of which backups are taken")

// saver takes a full backup of a cluster at a random moment, and then incremental ones, as
// package backup/job does.
type saver struct {
	*caller
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
	v.leave() // another node may be in reach
	v.send(m, nil, 3*time.Second, func(a *answer) {
		reply, ok := a.message.(*nornv1.BackupReply)
		if !ok || a.refused != nil {
			m.WholeCohort = true
			v.after(500*time.Millisecond, func() { v.again(m, then) })
			return
		}
		then(reply)
	})
}

// begin takes one, and then the next one.
func (v *saver) begin() {
	s := v.s
	v.nextMust, v.nextDone = s.board.acknowledged(), make(map[id.ID]bool)
	for _, e := range s.events {
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
		v.tasks, v.ranges = make([]map[id.ID]backup.Task, s.plan.partitions), make([][]backup.Range, s.plan.partitions)
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
		v.after(v.s.between(0, 5*time.Second), v.begin)
		return
	}
	next := func() {
		ranger := backup.NewRanger(id.ID{})
		for _, task := range slices.SortedFunc(maps.Keys(v.tasks[p]), id.ID.Compare) {
			t := v.tasks[p][task]
			ranger.Saw(&t)
		}
		v.ranges[p] = ranger.Ranges()
		v.partition(p + 1)
	}
	if v.ranges[p] == nil {
		v.tasks[p] = make(map[id.ID]backup.Task)
		v.pages(p, []backup.Span{{}}, next)
		return
	}
	v.again(&nornv1.BackupRequest{Partition: uint32(p), Bounds: backup.Bounds(v.ranges[p])}, func(m *nornv1.BackupReply) {
		spans, err := backup.Changed(v.ranges[p], m.GetSums())
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
		v.pages(p, spans, func() {
			v.again(&nornv1.BackupRequest{Partition: uint32(p), Claims: true}, func(m *nornv1.BackupReply) {
				page, err := backup.DecodePage(m.GetTasks(), m.GetNext())
				if err != nil {
					v.bad = err
					return
				}
				for _, held := range page.Tasks {
					if t, ok := v.tasks[p][held.ID]; ok && !backup.InSpans(spans, held.ID) {
						t.Claims = held.Claims
						v.tasks[p][held.ID] = t
					}
				}
				next()
			})
		})
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
		got, err := backup.DecodePage(reply.GetTasks(), reply.GetNext())
		last := len(reply.GetNext()) == 0
		var tasks []backup.Task
		if err == nil {
			tasks, err = whole.Add(&got, last)
		}
		if err != nil {
			v.bad = err
			return
		}
		for _, t := range tasks {
			v.tasks[p][t.ID] = t
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
// acknowledged before they began: each task, and that it was completed.
//
// Long because: it is one story.
func TestBackupsOfAStorm(t *testing.T) {
	judged, same := 0, 0
	for n := uint64(0); judged < int(*backups) && n < 20**backups; n++ {
		var v *saver
		forgets := false
		r := runCluster(*seed+n, Many{Cluster: true, also: func(s *sim) {
			if forgets = s.plan.collect > 0 || s.rights != nil; forgets {
				s.ended = true // what was forgotten cannot be asked for
				return
			}
			v = &saver{caller: s.newCaller(), most: 1 + int(n%3)}
			v.after(s.between(5*time.Second, 40*time.Second), v.begin)
		}})
		if forgets || r.Calm != "" || v == nil || v.taken == 0 {
			continue
		}
		if r.Violation != nil || v.bad != nil {
			t.Fatalf("seed %d: %v, %v", *seed+n, r.Violation, v.bad)
		}
		judged, same = judged+1, same+v.same
		states := make(map[id.ID]*crdt.Task)
		for p := range v.tasks {
			for task, one := range v.tasks[p] {
				view, err := crdt.View(task, slices.Values(one.Facts))
				if err != nil || one.Check() != nil {
					t.Fatalf("seed %d: task %s: %v, %v", *seed+n, task, err, one.Check())
				}
				states[task] = view
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
	}
	if judged < int(*backups) {
		t.Errorf("only %d seeds could be judged", judged)
	}
}
