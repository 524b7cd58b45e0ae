package core

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/hunt/policies"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/query"
	"github.com/norn-dev/norn/node/core/transfer"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/vnode"
)

// TestPagesOfTasksLoseNone: a page of several nodes ends where the first of those that have
// more has ended; the task at which it has is on it.
func TestPagesOfTasksLoseNone(t *testing.T) {
	g := id.NewGenerator(1, func() uint64 { return 1 })
	var ids []id.ID
	for range 6 {
		ids = append(ids, g.Next(time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC).UnixNano()))
	}
	page := func(more bool, at ...int) *nornv1.ListReply {
		p := &nornv1.ListReply{}
		for _, i := range at {
			p.Tasks = append(p.Tasks, &nornv1.Task{Id: ids[i].String()})
		}
		if last := ids[at[len(at)-1]]; more {
			p.NextCursor = query.TaskCursor.Seal(last[:])
		}
		return p
	}
	for what, c := range map[string]struct {
		limit int
		parts []*nornv1.ListReply
		want  int // tasks on the page, from the first on
		more  bool
	}{
		"one has more":       {5, []*nornv1.ListReply{page(true, 0, 2), page(false, 1, 3)}, 3, true},
		"both have more":     {5, []*nornv1.ListReply{page(true, 0, 2), page(true, 1, 4)}, 3, true},
		"nobody has more":    {6, []*nornv1.ListReply{page(false, 0, 2, 4), page(false, 1, 3, 5)}, 6, false},
		"as many as fit":     {2, []*nornv1.ListReply{page(true, 0, 2), page(true, 1, 3)}, 2, true},
		"one has shown less": {4, []*nornv1.ListReply{page(true, 0), page(false, 1, 2, 3)}, 1, true},
	} {
		l := &query.Lists{Policy: policies.Chosen().Query, Limit: c.limit}
		for _, p := range c.parts {
			l.Take(nil, p)
		}
		m, err := l.Answer()
		if err != nil {
			t.Fatal(err)
		}
		reply := m.(*nornv1.ListReply)
		var got []string
		for _, task := range reply.GetTasks() {
			got = append(got, task.GetId())
		}
		var want []string
		for _, task := range ids[:c.want] {
			want = append(want, task.String())
		}
		if last, err := query.AfterTask(reply.GetNextCursor()); err != nil || !slices.Equal(got, want) || c.more != !last.IsZero() || c.more && last != ids[c.want-1] {
			t.Errorf("%s: %v, then after %s, want %v", what, got, last, want)
		}
	}
}

// TestAPageThatIsFullByItsBytesIsNotTheLast: large tasks end a page before its limit does.
func TestAPageThatIsFullByItsBytesIsNotTheLast(t *testing.T) {
	r := newRig(t)
	var want []id.ID
	for range 9 {
		s := spec("q")
		s.Payload = make([]byte, 1<<20)
		want = append(want, r.enqueue(s)...)
	}
	var got []id.ID
	for cursor := []byte(nil); ; {
		m := must[*nornv1.ListReply](r, &nornv1.ListRequest{Queue: "q", Limit: 100, Cursor: cursor})
		for _, task := range m.GetTasks() {
			got = append(got, parse(t, task.GetId()))
		}
		if cursor = m.GetNextCursor(); len(cursor) == 0 {
			break
		}
	}
	if slices.SortFunc(want, id.ID.Compare); !slices.Equal(got, want) {
		t.Errorf("listed are %d of %d tasks", len(got), len(want))
	}
}

// TestWhatNoArchiveHasStays: an archive may have taken fewer tasks than were due.
func TestWhatNoArchiveHasStays(t *testing.T) {
	r := newCollecting(t)
	r.set("a", &nornv1.QueueSettings{Retention: nornv1.Retention_RETENTION_ARCHIVE, RetentionSeconds: 3600}, "retention", "retention_seconds")
	var tasks []id.ID
	for range 3 {
		s := spec("a")
		for s.Id = nil; s.Id == nil; {
			if task := r.ids.Next(r.now.Wall); r.core.vnode(task).Partition == 0 {
				s.Id = task.Bytes()
			}
		}
		tasks = append(tasks, r.enqueue(s)...)
		r.finish("a")
	}
	r.now = r.now.Add(2 * time.Hour)
	k := r.core.retention
	k.Archive(r.now, r.core.vnode(tasks[0]))
	if len(k.Archiving.Dues) != len(tasks) {
		t.Fatalf("%d tasks are due", len(k.Archiving.Dues))
	}
	first := k.Archiving.Dues[0].Task
	r.core.round.Ready.Archives = nil             // it is written, with one of them
	k.Archiving.Again = r.now.Add(time.Hour).Mono // and no other one is
	r.step(message.Archived{Tag: k.Archiving.Tag, Tasks: 1})
	r.turn()
	r.pass(time.Second)
	for _, task := range tasks {
		if gone := r.get(task).Queue == ""; gone != (task == first) {
			t.Errorf("task %s, of an archive that has only %s, is gone: %t", task, first, gone)
		}
	}
}

// TestAWindowLongerThanTheGraceIsOpenToItsEnd: a key is refused gc-grace after its window has
// ended, not after it has begun.
func TestAWindowLongerThanTheGraceIsOpenToItsEnd(t *testing.T) {
	r := newRig(t)
	const window = 30 * 24 * time.Hour
	start := r.now.Wall - r.now.Wall%int64(window)
	r.now = r.now.Add(time.Duration(start + int64(window) - r.now.Wall - int64(time.Hour))) // an hour before its end
	try := func() *nornv1.Error {
		task := id.UniqueKey([16]byte(r.core.cfg.Cluster.ID), "q", fmt.Sprint(r.now.Wall), start, 0)
		return r.tryEnqueue(&nornv1.TaskSpec{Id: task.Bytes(), Queue: "q", Key: fmt.Sprint(r.now.Wall), KeyWindowSeconds: window.Seconds()}).GetError()
	}
	if e := try(); e != nil {
		t.Errorf("an hour before the end of its window: %v", e)
	}
	r.now = r.now.Add(time.Hour + r.core.cfg.GCGrace - time.Minute)
	if e := try(); e != nil {
		t.Errorf("a minute before gc-grace after its end: %v", e)
	}
	r.now = r.now.Add(2 * time.Minute)
	if e := try(); e.GetKind() != nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW {
		t.Errorf("later: %v", e)
	}
}

// TestAComparisonIsAsOldAsWhoBeganItSays: its first message may have been sent again for long
// before it was heard of here, as it was.
func TestAComparisonIsAsOldAsWhoBeganItSays(t *testing.T) {
	r := newTrio(t).collecting()
	p, from := r.peers[1].core.retention.Tombstones, r.peers[0].self
	k := message.Pair{Partition: 0, Peer: from}
	p.Heard(r.now, k, 7)
	p.Completed(r.now.Add(time.Second), from, &message.RepairCompleted{Partition: 0, Session: 7, Age: time.Minute})
	if m, latest := p.Marks[k], r.now.Add(time.Second-time.Minute).Mono-p.Margin(); m == nil || m.Latest != latest || m.Waiting != latest {
		t.Errorf("it proves what was there at %+v, want %d", m, latest)
	}
}

// TestARefusedClaimIsNotOnAMajority: who answers for a round and refuses a claim of it has not
// taken that claim.
func TestARefusedClaimIsNotOnAMajority(t *testing.T) {
	r := newTrio(t)
	task := r.put(0, 1)
	i := r.leader(1)
	from := r.send(i, claimUpTo(1))
	for o := range r.peers {
		if o != i {
			r.refuse(o, message.PartTaken{Refused: []message.Refusal{{Verdict: vnode.SkewedClock}}})
		}
	}
	r.settle()
	if grants, _ := r.granted(i, from); len(grants) > 0 {
		t.Errorf("task %s is handed out though both others refuse it: %v", task, grants)
	}
}

// TestACohortIsAskedBeforeAPartitionGoes: a majority of it has to say first that it has voted
// for no other one, which may count on what is here.
func TestACohortIsAskedBeforeAPartitionGoes(t *testing.T) {
	r := newTrio(t)
	c := r.peers[0].core
	m := &transfer.Move{Cell: c.view.Cells[0]}
	before := len(c.round.Ready.Send)
	if c.transfer.Sure(r.now, 0, m) || len(c.round.Ready.Send) != before+2 || m.Probe == 0 {
		t.Fatalf("nobody is asked: %d messages", len(c.round.Ready.Send)-before)
	}
	m.Clear = append(m.Clear, r.peers[1].self)
	if c.transfer.Sure(r.now, 0, m) {
		t.Error("one of three is enough")
	}
	m.Clear = append(m.Clear[:0], r.peers[1].self, r.peers[2].self)
	if !c.transfer.Sure(r.now, 0, m) {
		t.Error("two of three are not")
	}
}
