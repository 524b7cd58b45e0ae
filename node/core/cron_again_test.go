package core

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/schedules"
	"github.com/norn-dev/norn/node/core/scope"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// launchAgain has a node enqueue a launch as a master would.
func (r *rig) launchAgain(t *nornv1.TaskSpec, begun int64) *nornv1.EnqueueResult {
	r.t.Helper()
	var got *nornv1.EnqueueResult
	m := &nornv1.LaunchRequest{Tasks: []*nornv1.TaskSpec{t}, Begun: []int64{begun}}
	r.core.routes.Do(r.now, r.core.schedules.Origin(nornv1.Method_METHOD_LAUNCH), schedules.LaunchItems(m), m, enqueued(func(res *nornv1.EnqueueResult) { got = res }))
	r.turn()
	if got == nil {
		r.t.Fatal("there is no answer")
	}
	return got
}

// TestACollectedLaunchStaysGone: whoever enqueues a launch again is told that it
// is known while its tombstone is there, and refused when it may be forgotten.
func TestACollectedLaunchStaysGone(t *testing.T) {
	r := newRig(t)
	r.collect = 10 * time.Minute
	r.crash(0)
	begun := r.now.Wall
	spec := spec("q")
	spec.Id = id.Launch([16]byte{9}, [16]byte{1}, begun).Bytes()
	if res := r.launchAgain(spec, begun); res.GetError() != nil || res.GetReceipt().GetExisted() {
		t.Fatal(res)
	}
	g := r.claim("q", 1)[0]
	r.complete(parsed(t, g.Task), g.Token)
	r.pass(3 * time.Hour) // over its retention
	if n := len(r.tasks("q")); n != 0 {
		t.Fatalf("%d tasks are left", n)
	}
	if res := r.launchAgain(spec, begun); res.GetError() != nil || !res.GetReceipt().GetExisted() {
		t.Errorf("with a tombstone: %v", res)
	}
	r.pass(15 * 24 * time.Hour)
	if res := r.launchAgain(spec, begun); res.GetError().GetKind() != nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW {
		t.Errorf("without: %v", res)
	}
	if n := len(r.tasks("q")); n != 0 {
		t.Errorf("%d tasks are back", n)
	}
	r.audit()
}

// TestALaunchThatComesAgainIsTheSameTask, by whichever master and however much later, and
// comes before what was enqueued since it was begun.
func TestALaunchThatComesAgainIsTheSameTask(t *testing.T) {
	r := newRig(t)
	begun := r.now.Wall
	launch := spec("q")
	launch.Id = id.Launch([16]byte{9}, [16]byte{1}, begun).Bytes()
	r.pass(10 * time.Second)
	must[*nornv1.EnqueueReply](r, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{spec("q")}})
	for _, existed := range []bool{false, true} {
		r.pass(10 * time.Second)
		if res := r.launchAgain(launch, begun); res.GetError() != nil || res.GetReceipt().GetExisted() != existed {
			t.Errorf("%v", res)
		}
	}
	if n := len(r.tasks("q")); n != 2 {
		t.Errorf("%d tasks", n)
	}
	if first := r.claim("q", 1)[0]; parsed(t, first.Task) != id.ID(launch.Id) {
		t.Errorf("%v is first", first.Task)
	}
}

// TestClientsDoNotLaunch: the IDs and the message of launches are for nodes only.
func TestClientsDoNotLaunch(t *testing.T) {
	r := newRig(t)
	s := spec("q")
	s.Id = id.Launch([16]byte{9}, [16]byte{1}, r.now.Wall).Bytes()
	if res := must[*nornv1.EnqueueReply](r, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}}).Results[0]; res.GetError().GetKind() != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
		t.Errorf("enqueued: %v", res)
	}
	if reply := r.ask(&nornv1.LaunchRequest{Tasks: []*nornv1.TaskSpec{s}, Begun: []int64{r.now.Wall}}); reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_UNIMPLEMENTED {
		t.Errorf("launched: %v", reply)
	}
	for name, m := range map[string]*nornv1.LaunchRequest{
		"no launch": {Tasks: []*nornv1.TaskSpec{{Id: r.ids.Next(r.now.Wall).Bytes(), Queue: "q"}}, Begun: []int64{1}},
		"no time":   {Tasks: []*nornv1.TaskSpec{s}, Begun: []int64{0}},
	} {
		if res := r.launchAgain(m.Tasks[0], m.Begun[0]); res.GetError().GetKind() != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
			t.Errorf("%s: %v", name, res)
		}
	}
}

// TestALaunchThatIsDoneIsRecognised: the master dies after the task was enqueued
// and before that is committed; the task is completed meanwhile. The successor
// finds it done and makes no other.
func TestALaunchThatIsDoneIsRecognised(t *testing.T) {
	r := newRig(t)
	r.lead(true)
	s := everySecond("q")
	s.MaxLaunches = 1
	r.change(put("once", s))
	r.manual = true
	r.pass(1100 * time.Millisecond)
	for len(r.tasks("q")) == 0 { // begin is committed, and the task enqueued; end is held back
		asked := r.waiting
		r.waiting = nil
		for _, req := range asked {
			r.register.Do(req, func(res register.Result) { r.step(message.Registered{Result: res}) })
		}
		r.turn()
	}
	g := r.claim("q", 1)[0]
	r.complete(parsed(t, g.Task), g.Token)
	r.manual, r.waiting = false, nil
	r.crash(10 * time.Second)
	r.lead(true)
	r.pass(3 * time.Second)
	got := r.schedule("once")
	if tasks := r.tasks("q"); len(tasks) != 1 || got.GetLaunches() != 1 || got.GetLast().GetStatus() != nornv1.LaunchStatus_LAUNCH_STATUS_COMPLETED || !got.GetEnded() {
		t.Errorf("%d tasks, %v", len(tasks), got)
	}
}

// TestAForgottenLaunchIsConcluded: the task of a launch is completed, collected
// and forgotten while nobody is master. The next master, which may not keep its
// partition, finds that nobody knows it, and its schedule, which waits for the end
// of each task, goes on.
func TestAForgottenLaunchIsConcluded(t *testing.T) {
	for _, nodes := range []int{3, 5} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			r := newCluster(t, nodes, 0).collecting()
			walk := func(d time.Duration) {
				for range int(d / (100 * time.Millisecond)) {
					r.tell()
					r.pass(100 * time.Millisecond)
					r.settle()
				}
			}
			shown := func() *nornv1.Schedule {
				from := r.send(1, &nornv1.SchedulesRequest{Names: []string{"slow"}, History: true})
				r.settle()
				return r.peers[1].replies[from].Message.(*nornv1.SchedulesReply).Schedules[0]
			}
			r.leads = 0
			walk(time.Second)
			s := everySecond("q")
			s.Overlap = nornv1.Overlap_OVERLAP_SKIP
			r.send(0, &nornv1.ChangeSchedulesRequest{Changes: []*nornv1.ScheduleChange{put("slow", s)}})
			walk(3 * time.Second)
			first := shown()
			if first.GetLaunches() != 1 || first.GetRunning() != 1 {
				t.Fatal(first)
			}
			r.leads = -1
			r.tell()
			task, err := id.Parse(first.GetLast().GetTaskId())
			r.check(err)
			r.done(0, task)
			r.wantGone(shortGrace + 3*time.Minute)
			r.leads = 2
			walk(8 * time.Second)
			got := shown()
			if got.GetLaunches() != 2 || got.GetRunning() != 1 {
				t.Fatalf("%v", got)
			}
			for _, l := range got.GetHistory() {
				if l.GetTaskId() == task.String() && l.GetStatus() != nornv1.LaunchStatus_LAUNCH_STATUS_UNKNOWN {
					t.Errorf("it is shown as %v", l)
				}
			}
		})
	}
}

// TestEveryReplicaHasTheList: each node knows each schedule and what is open, so
// that whoever becomes master has nothing to load.
func TestEveryReplicaHasTheList(t *testing.T) {
	r := newTrio(t)
	r.leads = 0
	r.tell()
	r.settle()
	var changes []*nornv1.ScheduleChange
	for _, name := range []string{"a", "b", "c"} {
		changes = append(changes, put(name, everySecond("q")))
	}
	r.send(2, &nornv1.ChangeSchedulesRequest{Changes: changes}) // any node takes it
	for range 25 {
		r.tell()
		r.pass(100 * time.Millisecond)
		r.settle()
	}
	var masters []bool
	for _, p := range r.peers {
		s := p.core.Stats().Cron
		if s.Schedules != 3 || s.Running < 3 {
			t.Errorf("%s: %+v", p.self.Node, s)
		}
		masters = append(masters, s.Master)
	}
	if !slices.Equal(masters, []bool{true, false, false}) {
		t.Errorf("masters: %v", masters)
	}
}

// enqueued hears of the one task of a request.
func enqueued(then func(*nornv1.EnqueueResult)) func(clock.Time, gproto.Message, *proto.Error) {
	return func(_ clock.Time, m gproto.Message, err *proto.Error) {
		switch reply, ok := m.(*nornv1.EnqueueReply); {
		case err != nil:
			then(&nornv1.EnqueueResult{Error: err.Proto()})
		case ok && len(reply.GetResults()) == 1:
			then(reply.GetResults()[0])
		}
	}
}

// TestPagesOfSchedules: the names of a page are the first after one, sorted, of
// the schedules that are not deleted, and all are counted.
func TestPagesOfSchedules(t *testing.T) {
	s := register.State{}
	for i := range 1000 {
		c := register.ScheduleChange{Name: fmt.Sprintf("s%03d", i*7%1000), Definition: []byte{1}}
		if i%10 == 0 {
			c = register.ScheduleChange{Name: c.Name, State: []byte{1}} // deleted
		}
		s, _, _ = s.Apply(&register.Request{Schedules: []register.ScheduleChange{c}})
	}
	var all []string
	for after := ""; ; after = all[len(all)-1] {
		names, count := scope.First(s.Schedules, after, 32, func(*register.Schedule) bool { return true })
		if count != 900 || len(names) > 32 {
			t.Fatalf("%d names of %d schedules", len(names), count)
		}
		if all = append(all, names...); len(names) < 32 {
			break
		}
	}
	if len(all) != 900 || !slices.IsSorted(all) || len(slices.Compact(all)) != 900 {
		t.Errorf("%d names: %v", len(all), all)
	}
}

// TestAPauseWhileALaunchIsOpen: its task is on a majority, and the successor has not heard of
// it, or on the lost master only. In between the schedule is paused. The one is there, the
// other is not made again, and said to be in doubt.
func TestAPauseWhileALaunchIsOpen(t *testing.T) {
	for on, want := range map[int]nornv1.LaunchStatus{
		2: nornv1.LaunchStatus_LAUNCH_STATUS_RUNNING, 1: nornv1.LaunchStatus_LAUNCH_STATUS_NOT_ENQUEUED,
	} {
		r := newTrio(t)
		walk := func(d time.Duration) {
			for range int(d / (100 * time.Millisecond)) {
				r.tell()
				r.pass(100 * time.Millisecond)
				r.settle()
			}
		}
		r.leads = 0
		walk(2 * time.Second)
		s := everySecond("q")
		s.Cron = "0 * * * * *"
		r.send(0, &nornv1.ChangeSchedulesRequest{Changes: []*nornv1.ScheduleChange{put("a", s)}})
		walk(50 * time.Second)
		for to := range 3 { // nobody hears the others but for the second node, which may hear the first
			for from := range 3 {
				r.cut[[2]int{from, to}] = from != to && (from != 0 || to != 1 || on == 1)
			}
		}
		walk(10 * time.Second)
		r.leads = -1
		walk(time.Second)
		r.cut[[2]int{1, 2}], r.cut[[2]int{2, 1}] = false, false
		walk(time.Second)
		r.send(2, &nornv1.ChangeSchedulesRequest{Changes: []*nornv1.ScheduleChange{{Name: "a", Action: &nornv1.ScheduleChange_Pause{Pause: &nornv1.PauseSchedule{Paused: true}}}}})
		r.settle()
		r.leads = 2
		walk(10 * time.Second)
		from := r.send(2, &nornv1.SchedulesRequest{Names: []string{"a"}, History: true})
		r.settle()
		got := r.peers[2].replies[from].Message.(*nornv1.SchedulesReply).Schedules[0]
		if last := got.GetLast(); !got.GetSpec().GetPaused() || got.GetLaunches() != 1 || last.GetStatus() != want {
			t.Errorf("the task is on %d: %v", on, got)
		}
		task, err := id.Parse(got.GetLast().GetTaskId())
		r.check(err)
		there := 0
		for _, p := range r.peers {
			if vnode.Known(p.core.round.Tx, ring.Of(task, testPartitions), task) {
				there++
			}
		}
		if (want == nornv1.LaunchStatus_LAUNCH_STATUS_RUNNING) != (there > 1) {
			t.Errorf("the task was on %d nodes, and is on %d", on, there)
		}
	}
}

// TestALaunchAfterItsTime is refused where it is not known, and the same task where it is.
func TestALaunchAfterItsTime(t *testing.T) {
	r := newRig(t)
	launch := func(n byte, until int64) *nornv1.EnqueueResult {
		t.Helper()
		s := spec("q")
		s.Id = id.Launch([16]byte{9}, [16]byte{n}, 1e9).Bytes()
		var got *nornv1.EnqueueResult
		m := &nornv1.LaunchRequest{Tasks: []*nornv1.TaskSpec{s}, Begun: []int64{r.now.Wall}, Until: []int64{until}}
		r.core.routes.Do(r.now, r.core.schedules.Origin(nornv1.Method_METHOD_LAUNCH), schedules.LaunchItems(m), m, enqueued(func(res *nornv1.EnqueueResult) { got = res }))
		r.turn()
		return got
	}
	early, late := r.now.Wall-int64(time.Second), r.now.Wall+int64(time.Minute)
	for _, tc := range []struct {
		n     byte
		until int64
		want  string
	}{{1, late, "false"}, {1, early, "true"}, {2, early, "ERROR_KIND_OUT_OF_WINDOW"}, {3, 0, "false"}} {
		got := launch(tc.n, tc.until)
		text := fmt.Sprint(got.GetReceipt().GetExisted())
		if e := got.GetError(); e != nil {
			text = e.GetKind().String()
		}
		if text != tc.want {
			t.Errorf("%d until %d: %v", tc.n, tc.until, got)
		}
	}
}
