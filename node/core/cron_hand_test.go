package core

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/cron"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// backfill is one of a schedule over a time before now.
func (r *rig) backfill(name string, before time.Duration) *nornv1.ScheduleChange {
	return &nornv1.ScheduleChange{Name: name, Action: &nornv1.ScheduleChange_Backfill{Backfill: &nornv1.BackfillSchedule{
		From: timestamppb.New(time.Unix(0, r.now.Wall-int64(before))), To: timestamppb.New(time.Unix(0, r.now.Wall)), Seed: r.ids.Next(r.now.Wall).Bytes(),
	}}}
}

// TestATriggerAgain: the answer to a trigger got lost, and the client asks again,
// seconds later, after the schedule was edited: it is the same task, and in the
// history once.
func TestATriggerAgain(t *testing.T) {
	r := newRig(t)
	r.lead(true)
	s := everySecond("q")
	s.Cron = "0 0 1 1 *"
	r.change(put("yearly", s))
	trigger := &nornv1.ScheduleChange{Name: "yearly", Action: &nornv1.ScheduleChange_Trigger{Trigger: &nornv1.TriggerSchedule{TaskId: r.ids.Next(r.now.Wall).Bytes()}}}
	for i := range 3 {
		if res := r.ask(&nornv1.ChangeSchedulesRequest{Changes: []*nornv1.ScheduleChange{trigger}}); res.Err != nil {
			t.Fatalf("%d: %v", i, res.Err)
		}
		r.pass(2 * time.Second)
		if i == 1 {
			s.Task.Payload = []byte("other")
			r.change(put("yearly", s))
		}
	}
	if n := len(r.tasks("q")); n != 1 {
		t.Errorf("%d tasks", n)
	}
	if h := r.schedule("yearly").GetHistory(); len(h) != 1 {
		t.Errorf("%v", h)
	}
}

// TestABackfillThatIsRefused says so, also where it is of several tasks.
func TestABackfillThatIsRefused(t *testing.T) {
	r := newRig(t)
	r.lead(true)
	s := everySecond("q")
	s.Cron = "0 * * * *"
	r.change(put("hourly", s))
	r.set("q", &nornv1.QueueSettings{Draining: true}, "draining")
	for _, hours := range []time.Duration{1, 3} {
		reply := r.ask(&nornv1.ChangeSchedulesRequest{Changes: []*nornv1.ScheduleChange{r.backfill("hourly", hours*time.Hour)}})
		if reply.Err == nil {
			t.Errorf("%d hours: %v", hours, reply.Message)
		}
	}
}

// TestABackfillInPart: there is room for two of three tasks. The client is told,
// and once there is room it has the third one by asking again.
func TestABackfillInPart(t *testing.T) {
	r := newRig(t)
	r.lead(true)
	s := everySecond("q")
	s.Cron = "0 * * * *"
	r.change(put("hourly", s))
	r.set("q", &nornv1.QueueSettings{MaxTasks: 2}, "max_tasks")
	fill := &nornv1.ChangeSchedulesRequest{Changes: []*nornv1.ScheduleChange{r.backfill("hourly", 3*time.Hour)}}
	reply := r.ask(fill)
	if reply.Err == nil || reply.Err.Effect != nornv1.Effect_EFFECT_PARTIAL || len(r.tasks("q")) != 2 || len(r.schedule("hourly").GetHistory()) != 2 {
		t.Fatalf("%v, %v", reply, r.schedule("hourly"))
	}
	r.set("q", &nornv1.QueueSettings{}, "max_tasks")
	if got := must[*nornv1.ChangeSchedulesReply](r, fill).Results[0]; len(got.GetTaskIds()) != 3 || len(r.tasks("q")) != 3 || len(r.schedule("hourly").GetHistory()) != 3 {
		t.Errorf("again: %v, %v", got, r.schedule("hourly"))
	}
}

// TestABackfillThatIsTooLarge for one request is refused whole.
func TestABackfillThatIsTooLarge(t *testing.T) {
	r := newRig(t)
	r.lead(true)
	s := everySecond("q")
	s.Cron, s.Task.Payload = "0 * * * *", make([]byte, cron.MaxPayload)
	r.change(put("hourly", s))
	for hours, fits := range map[time.Duration]bool{128: true, 129: false} { // of 128 KiB, in 16 MiB
		fill := r.backfill("hourly", hours*time.Hour)
		fill.GetBackfill().DryRun = true
		if reply := r.ask(&nornv1.ChangeSchedulesRequest{Changes: []*nornv1.ScheduleChange{fill}}); (reply.Err == nil) != fits {
			t.Errorf("%d: %v", hours, reply.Err)
		}
	}
}

// TestABackfillIsNotedOnce: one of more instants than the history has entries.
func TestABackfillIsNotedOnce(t *testing.T) {
	r := newRig(t)
	r.lead(true)
	s := everySecond("q")
	s.Cron = "0 0 * * *"
	r.change(put("daily", s))
	r.pass(time.Second)
	before := r.registered().Revision
	if res := r.change(r.backfill("daily", 100*24*time.Hour)); len(res.GetTaskIds()) != 100 {
		t.Fatal(res)
	}
	h := r.schedule("daily").GetHistory()
	after := r.registered().Revision
	if len(h) != 20 || h[0].GetInstant().AsTime().Sub(h[19].GetInstant().AsTime()) != 19*24*time.Hour || after-before != 1 {
		t.Errorf("written %d times: %v", after-before, h)
	}
}

func (r *rig) registered() (s register.State) {
	r.register.Do(register.Request{}, func(res register.Result) { s = res.State })
	return s
}

// TestAChangeOfNothingIsTold: a change that has no action, or one of a newer client, is not
// said to be about an invalid schedule and no more.
func TestAChangeOfNothingIsTold(t *testing.T) {
	r := newRig(t)
	r.lead(true)
	r.change(put("tick", everySecond("q")))
	bad := r.change(&nornv1.ScheduleChange{Name: "tick"}).GetError()
	if bad.GetKind() != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT || !strings.Contains(bad.GetMessage(), "nothing to do") {
		t.Errorf("%v", bad)
	}
}
