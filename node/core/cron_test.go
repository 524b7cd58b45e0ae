package core

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/cron"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// everySecond is a schedule of one second that launches into a queue.
func everySecond(queue string) *nornv1.ScheduleSpec {
	return &nornv1.ScheduleSpec{Cron: "* * * * * *", Task: &nornv1.TaskSpec{Queue: queue, Payload: []byte("p"), Kind: "tick", Tags: []string{"often"}}}
}

func put(name string, s *nornv1.ScheduleSpec) *nornv1.ScheduleChange {
	return &nornv1.ScheduleChange{Name: name, Action: &nornv1.ScheduleChange_Put{Put: &nornv1.PutSchedule{Spec: s}}}
}

// lead tells the core that it leads the register's group.
func (r *rig) lead(leads bool) {
	r.t.Helper()
	r.register.Do(register.Request{}, func(res register.Result) { r.step(message.Changed{State: res.State, Leads: leads, Majority: true}) })
	r.turn()
}

// change asks for one change of a schedule.
func (r *rig) change(c *nornv1.ScheduleChange) *nornv1.ScheduleResult {
	r.t.Helper()
	return must[*nornv1.ChangeSchedulesReply](r, &nornv1.ChangeSchedulesRequest{Changes: []*nornv1.ScheduleChange{c}}).Results[0]
}

func (r *rig) schedule(name string) *nornv1.Schedule {
	r.t.Helper()
	return must[*nornv1.SchedulesReply](r, &nornv1.SchedulesRequest{Names: []string{name}, History: true}).Schedules[0]
}

// instants are the scheduled instants of the tasks of a queue, sorted; each is
// checked to be there once.
func instants(t testing.TB, tasks []*nornv1.Task) (all []string) {
	t.Helper()
	for _, task := range tasks {
		all = append(all, task.GetHeaders()[cron.HeaderInstant])
	}
	slices.Sort(all)
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] {
			t.Fatalf("%s was launched twice", all[i])
		}
	}
	return all
}

func parsed(t testing.TB, task *nornv1.Task) id.ID {
	t.Helper()
	i, err := id.Parse(task.GetId())
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// tasks are those of a queue.
func (r *rig) tasks(queue string) []*nornv1.Task {
	r.t.Helper()
	return must[*nornv1.ListReply](r, &nornv1.ListRequest{Queue: queue, Limit: 1000}).Tasks
}

// TestASchedulePutsOneTaskPerInstant: a schedule of one second makes one task a
// second, under the ID of its launch, and its history says so.
func TestASchedulePutsOneTaskPerInstant(t *testing.T) {
	r := newRig(t)
	r.lead(true)
	res := r.change(put("tick", everySecond("q")))
	if res.GetError() != nil || !res.GetCreated() || !res.GetChanged() {
		t.Fatalf("%v", res)
	}
	r.pass(5500 * time.Millisecond)
	tasks := r.tasks("q")
	if got := instants(t, tasks); len(got) != 5 || got[0] != "2026-01-01T00:00:01Z" || got[4] != "2026-01-01T00:00:05Z" {
		t.Fatalf("launched %v", got)
	}
	s := r.schedule("tick")
	if s.GetLaunches() != 5 || s.GetRunning() != 5 || len(s.GetHistory()) != 5 || s.GetLast().GetStatus() != nornv1.LaunchStatus_LAUNCH_STATUS_RUNNING {
		t.Fatalf("%v", s)
	}
	if at := s.GetNext().AsTime().UnixNano(); at != r.now.Wall/1e9*1e9+1e9 {
		t.Errorf("the next instant is %v", s.GetNext().AsTime())
	}
	for _, task := range tasks {
		if parsed(t, task).Kind() != id.KindLaunch || task.GetHeaders()[cron.HeaderSchedule] != "tick" || string(task.GetPayload()) != "p" || task.GetKind() != "tick" || !slices.Equal(task.GetTags(), []string{"often"}) {
			t.Errorf("%v", task)
		}
	}
	for _, g := range r.claim("q", 2) {
		if res := r.complete(parsed(t, g.Task), g.Token); res.Error != nil {
			t.Fatal(res.Error)
		}
	}
	r.pass(time.Second)
	if s := r.schedule("tick"); s.GetRunning() != 4 || s.GetHistory()[5].GetStatus() != nornv1.LaunchStatus_LAUNCH_STATUS_COMPLETED || s.GetHistory()[5].GetFinished() == nil {
		t.Fatalf("two of six are completed: %v", s)
	}
	r.audit()
}

// TestACrashLosesNoLaunch: whenever the only node dies, each instant has one
// task: what was begun is finished, what was not is launched late.
func TestACrashLosesNoLaunch(t *testing.T) {
	for step := range 8 {
		t.Run(fmt.Sprint(step), func(t *testing.T) {
			r := newRig(t)
			r.lead(true)
			r.change(put("tick", everySecond("q")))
			r.pass(1500 * time.Millisecond)
			r.manual = true // the register answers when told, so that the crash comes between two of them
			r.pass(600 * time.Millisecond)
			for range step {
				asked := r.waiting
				r.waiting = nil
				for _, req := range asked {
					r.register.Do(req, func(res register.Result) { r.step(message.Registered{Result: res}) })
				}
				r.turn()
			}
			r.manual, r.waiting = false, nil
			r.crash(300 * time.Millisecond)
			r.lead(true)
			r.pass(2 * time.Second)
			if got := instants(t, r.tasks("q")); len(got) != 4 {
				t.Fatalf("launched %v", got)
			}
			s := r.schedule("tick")
			if s.GetLaunches() != 4 || s.GetSkipped() != 0 || s.GetLast().GetStatus() != nornv1.LaunchStatus_LAUNCH_STATUS_RUNNING {
				t.Errorf("%v", s)
			}
		})
	}
}

// TestADeposedMasterChangesNothing: who has lost the mastership, and does not
// know, commits nothing, and what it enqueues is what its successor does.
func TestADeposedMasterChangesNothing(t *testing.T) {
	r := newTrio(t)
	r.leads = 0
	r.tell()
	r.settle()
	from := r.send(0, &nornv1.ChangeSchedulesRequest{Changes: []*nornv1.ScheduleChange{put("tick", everySecond("q"))}})
	if reply, ok := r.peers[0].replies[from]; !ok || reply.Err != nil {
		t.Fatalf("%v", reply)
	}
	r.tell()
	walk := func(d time.Duration) {
		for range int(d / (100 * time.Millisecond)) {
			r.pass(100 * time.Millisecond)
			r.settle()
		}
	}
	walk(3 * time.Second)
	r.peers[0].deaf = true // it goes on as master, for all it knows
	r.leads = 1
	r.tell()
	r.settle()
	first := r.peers[0].core.Stats().Cron.Launched
	walk(3 * time.Second)
	if s := r.peers[1].core.Stats().Cron; !s.Master || s.Launched < 2 {
		t.Fatalf("the successor: %+v", s)
	}
	if s := r.peers[0].core.Stats().Cron; s.Master || s.Launched > first {
		t.Errorf("the one before: %+v, %d launches when it was deposed", s, first)
	}
	var tasks []*nornv1.Task
	from = r.send(1, &nornv1.ListRequest{Queue: "q", Limit: 1000})
	r.settle()
	tasks = r.peers[1].replies[from].Message.(*nornv1.ListReply).Tasks
	if got := instants(t, tasks); len(got) != 6 {
		t.Errorf("launched %v", got)
	}
}

// TestOverlapPolicies: what becomes of an instant while the task before runs.
func TestOverlapPolicies(t *testing.T) {
	for _, tc := range []struct {
		overlap nornv1.Overlap
		tasks   int
		skipped uint64
	}{
		{nornv1.Overlap_OVERLAP_ALLOW, 4, 0}, {nornv1.Overlap_OVERLAP_SKIP, 1, 3},
		{nornv1.Overlap_OVERLAP_QUEUE_ONE, 1, 2}, {nornv1.Overlap_OVERLAP_REPLACE, 4, 0},
	} {
		t.Run(tc.overlap.String(), func(t *testing.T) {
			r := newRig(t)
			r.lead(true)
			s := everySecond("q")
			s.Overlap = tc.overlap
			r.change(put("tick", s))
			r.pass(4500 * time.Millisecond)
			tasks := r.tasks("q")
			if got := r.schedule("tick"); len(instants(t, tasks)) != tc.tasks || got.GetSkipped() != tc.skipped {
				t.Fatalf("%d tasks, %v", len(tasks), got)
			}
			cancelled := 0
			for _, task := range tasks {
				if task.GetState() == nornv1.State_STATE_CANCELLED {
					cancelled++
				}
			}
			if want := tc.tasks - 1; tc.overlap == nornv1.Overlap_OVERLAP_REPLACE && cancelled != want || tc.overlap != nornv1.Overlap_OVERLAP_REPLACE && cancelled != 0 {
				t.Errorf("%d tasks are cancelled", cancelled)
			}
			g := r.claim("q", 1)[0]
			r.complete(parsed(t, g.Task), g.Token)
			r.pass(600 * time.Millisecond)
			if tc.overlap == nornv1.Overlap_OVERLAP_QUEUE_ONE && len(r.tasks("q")) != 2 {
				t.Errorf("the one that waited is not launched: %v", r.schedule("tick"))
			}
		})
	}
}

// TestAFailedTaskPausesItsSchedule, if it is to.
func TestAFailedTaskPausesItsSchedule(t *testing.T) {
	r := newRig(t)
	r.lead(true)
	s := everySecond("q")
	s.PauseOnFailure, s.Overlap, s.Task.Retry = true, nornv1.Overlap_OVERLAP_SKIP, &nornv1.RetryPolicy{MaxAttempts: 1}
	r.change(put("tick", s))
	r.pass(1200 * time.Millisecond)
	g := r.claim("q", 1)[0]
	must[*nornv1.WriteReply](r, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: parsed(t, g.Task).Bytes(), Token: g.Token, Error: "no"}}})
	r.pass(3 * time.Second)
	got := r.schedule("tick")
	if !got.GetSpec().GetPaused() || got.GetSpec().GetNote() == "" || got.GetLaunches() != 1 || got.GetFailed() != 1 || got.GetNext() != nil {
		t.Fatalf("%v", got)
	}
	r.change(&nornv1.ScheduleChange{Name: "tick", Action: &nornv1.ScheduleChange_Pause{Pause: &nornv1.PauseSchedule{}}})
	r.pass(1500 * time.Millisecond)
	if got := r.schedule("tick"); got.GetSpec().GetPaused() || got.GetLaunches() < 2 || got.GetSkipped() == 0 {
		t.Errorf("after it was resumed: %v", got)
	}
}

// TestEditsOfSchedules: put, put again, versions, delete, and a successor of the
// name launches nothing that was launched.
func TestEditsOfSchedules(t *testing.T) {
	r := newRig(t)
	r.lead(true)
	first := r.change(put("tick", everySecond("q"))).GetSchedule()
	if res := r.change(put("tick", everySecond("q"))); res.GetChanged() || res.GetCreated() || res.GetSchedule().GetVersion() != 1 {
		t.Errorf("the same again: %v", res)
	}
	r.pass(2500 * time.Millisecond)
	other := everySecond("q")
	other.Cron = "@every 2s"
	c := put("tick", other)
	if c.IfVersion = 7; cmp.Compare(int(r.change(c).GetError().GetKind()), int(nornv1.ErrorKind_ERROR_KIND_CONFLICT)) != 0 {
		t.Errorf("version 7 is not there")
	}
	if c.IfVersion = 1; r.change(c).GetSchedule().GetVersion() != 2 {
		t.Errorf("%v", r.schedule("tick"))
	}
	r.pass(3 * time.Second) // at 4 s only
	if n := len(r.tasks("q")); n != 3 {
		t.Errorf("%d tasks", n)
	}
	gone := &nornv1.ScheduleChange{Name: "tick", Action: &nornv1.ScheduleChange_Delete{Delete: &nornv1.DeleteSchedule{}}}
	if res := r.change(gone); res.GetError() != nil || !res.GetChanged() {
		t.Fatal(res)
	}
	if res := r.change(gone); res.GetError().GetKind() != nornv1.ErrorKind_ERROR_KIND_NOT_FOUND {
		t.Errorf("deleted twice: %v", res)
	}
	if all := must[*nornv1.SchedulesReply](r, &nornv1.SchedulesRequest{}); len(all.Schedules) != 0 || all.GetStatus().GetSchedules() != 0 {
		t.Errorf("%v", all)
	}
	named := &nornv1.ScheduleChange{Name: "tick", Action: &nornv1.ScheduleChange_Delete{Delete: &nornv1.DeleteSchedule{Uuid: first.GetUuid()}}}
	if res := r.change(named); res.GetError() != nil || res.GetChanged() || res.GetSchedule() != nil {
		t.Errorf("the same one deleted again: %v", res)
	}
	again := r.change(put("tick", everySecond("q")))
	if !again.GetCreated() || again.GetSchedule().GetUuid() == first.GetUuid() {
		t.Errorf("%v", again)
	}
	r.pass(1100 * time.Millisecond)
	instants(t, r.tasks("q"))
	bad := everySecond("q")
	bad.Cron = "61 * * * *"
	if res := r.change(put("bad", bad)); res.GetError().GetKind() != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
		t.Errorf("%v", res)
	}
}

// TestALateDeleteLeavesTheNextScheduleAlone: a node was frozen with a delete, the
// client had it done elsewhere and has made the schedule again.
func TestALateDeleteLeavesTheNextScheduleAlone(t *testing.T) {
	r := newRig(t)
	r.lead(true)
	remove := func(uuid string) *nornv1.ScheduleResult {
		return r.change(&nornv1.ScheduleChange{Name: "tick", Action: &nornv1.ScheduleChange_Delete{Delete: &nornv1.DeleteSchedule{Uuid: uuid}}})
	}
	first := r.change(put("tick", everySecond("q"))).GetSchedule()
	if res := remove(first.GetUuid()); !res.GetChanged() {
		t.Fatal(res)
	}
	second := r.change(put("tick", everySecond("q"))).GetSchedule()
	if res := remove(first.GetUuid()); res.GetError() != nil || res.GetChanged() {
		t.Errorf("deleted late: %v", res)
	}
	if s := r.schedule("tick"); s.GetUuid() != second.GetUuid() {
		t.Errorf("what is there now: %v", s)
	}
	if res := remove(second.GetUuid()); !res.GetChanged() {
		t.Errorf("deleted in time: %v", res)
	}
}

// TestLaunchesByHand: a trigger and a backfill make tasks of their own, and the
// same request again makes no others.
func TestLaunchesByHand(t *testing.T) {
	r := newRig(t)
	r.lead(true)
	s := everySecond("q")
	s.Cron = "0 * * * *"
	created := r.change(put("hourly", s)).GetSchedule()
	trigger := &nornv1.ScheduleChange{Name: "hourly", Action: &nornv1.ScheduleChange_Trigger{Trigger: &nornv1.TriggerSchedule{TaskId: r.ids.Next(r.now.Wall).Bytes()}}}
	fill := &nornv1.BackfillSchedule{From: created.GetCreated(), To: created.GetNext(), Seed: r.ids.Next(r.now.Wall).Bytes()}
	fill.From = timestamppb.New(time.Unix(0, r.now.Wall-3*int64(time.Hour)))
	fill.To = timestamppb.New(time.Unix(0, r.now.Wall))
	backfill := &nornv1.ScheduleChange{Name: "hourly", Action: &nornv1.ScheduleChange_Backfill{Backfill: fill}}
	for range 2 {
		if res := r.change(trigger); len(res.GetTaskIds()) != 1 {
			t.Fatal(res)
		}
		if res := r.change(backfill); len(res.GetTaskIds()) != 3 {
			t.Fatal(res)
		}
	}
	if n := len(r.tasks("q")); n != 4 {
		t.Errorf("%d tasks", n)
	}
	kinds := map[nornv1.LaunchKind]int{}
	for _, e := range r.schedule("hourly").GetHistory() {
		kinds[e.GetKind()]++
	}
	if kinds[nornv1.LaunchKind_LAUNCH_KIND_TRIGGER] != 1 || kinds[nornv1.LaunchKind_LAUNCH_KIND_BACKFILL] != 3 {
		t.Errorf("the history has %v", kinds)
	}
}
