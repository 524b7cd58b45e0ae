package client

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"google.golang.org/protobuf/types/known/timestamppb"
)

const changeSchedules = nornv1.Method_METHOD_CHANGE_SCHEDULES

// changed answers a request for changes with one and the same result for each.
func changed(bad *proto.Error) fakenode.Script {
	return func(r fakenode.Request) fakenode.Answer {
		m := &nornv1.ChangeSchedulesReply{}
		for range r.Message.(*nornv1.ChangeSchedulesRequest).GetChanges() {
			x := &nornv1.ScheduleResult{}
			if bad != nil {
				x.Error = bad.Proto()
			}
			m.Results = append(m.Results, x)
		}
		return fakenode.Answer{Message: m}
	}
}

// A repeated change that finds its own version, or its own schedule, may have been
// made.
func TestChangeSchedulesAfterLostAnswer(t *testing.T) {
	for _, tt := range []struct {
		kind     nornv1.ErrorKind
		is       error
		o        PutOptions
		surelyNo bool
	}{
		{nornv1.ErrorKind_ERROR_KIND_CONFLICT, ErrConflict, PutOptions{IfVersion: 3}, false},
		{nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS, ErrAlreadyExists, PutOptions{Create: true}, false},
		{nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT, ErrInvalid, PutOptions{}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			refused := changed(proto.Refused(tt.kind, "no"))
			n := fakenode.New(t, only(changeSchedules, steps(hangUp, refused)))
			_, err := open(t, n).Schedules().Put(t.Context(), "s", &nornv1.ScheduleSpec{}, tt.o)
			if wantIs(t, err, tt.is); tt.surelyNo {
				wantIsNot(t, err, ErrUnknown)
			} else {
				wantIs(t, err, ErrUnknown)
			}
			_, err = open(t, fakenode.New(t, only(changeSchedules, refused))).Schedules().Put(t.Context(), "s", &nornv1.ScheduleSpec{}, tt.o)
			wantIs(t, err, tt.is)
			wantIsNot(t, err, ErrUnknown)
		})
	}
}

// Many schedules with large payloads take several requests.
func TestPutManyLargeSchedules(t *testing.T) {
	n := fakenode.New(t, only(changeSchedules, changed(nil)))
	var all []NamedSpec
	for i := range 300 { // of 128 KiB: more than a frame takes
		all = append(all, NamedSpec{Name: fmt.Sprint("s", i), Spec: &nornv1.ScheduleSpec{Task: &nornv1.TaskSpec{Payload: make([]byte, 128<<10)}}})
	}
	results, err := open(t, n).Schedules().PutMany(t.Context(), all)
	if err != nil || len(results) != len(all) {
		t.Fatalf("%d results, %v", len(results), err)
	}
	next := 0
	for _, r := range n.Seen(changeSchedules) {
		for _, c := range r.Message.(*nornv1.ChangeSchedulesRequest).GetChanges() {
			if c.GetName() != fmt.Sprint("s", next) {
				t.Fatalf("%s in place of s%d", c.GetName(), next)
			}
			next++
		}
	}
	if next != len(all) {
		t.Errorf("%d were sent", next)
	}
}

// Next asks again for more instants than one answer has, from the last one on, and
// ends where there are no more.
func TestNextOfASchedule(t *testing.T) {
	first := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	n := fakenode.New(t, only(nornv1.Method_METHOD_SCHEDULES, func(r fakenode.Request) fakenode.Answer {
		ask := r.Message.(*nornv1.SchedulesRequest)
		s := &nornv1.Schedule{Name: "s"}
		for at := ask.GetUpcomingFrom().AsTime().Truncate(time.Hour).Add(time.Hour); len(s.GetUpcoming()) < int(ask.GetUpcoming()) && at.Before(first.Add(2500*time.Hour)); at = at.Add(time.Hour) {
			s.Upcoming = append(s.Upcoming, &nornv1.Occurrence{At: timestamppb.New(at)})
		}
		return fakenode.Answer{Message: &nornv1.SchedulesReply{Schedules: []*nornv1.Schedule{s}}}
	}))
	c := open(t, n)
	for ask, want := range map[int]int{0: 0, 1: 1, 1500: 1500, 5000: 2500} {
		got, err := c.Schedules().Next(t.Context(), "s", first.Add(-1), ask)
		if err != nil || len(got) != want {
			t.Fatalf("%d of %d: %v", len(got), ask, err)
		}
		for i, o := range got {
			if !o.GetAt().AsTime().Equal(first.Add(time.Duration(i) * time.Hour)) {
				t.Fatalf("%d of %d is %s", i, ask, o.GetAt().AsTime())
			}
		}
	}
}

// TestPutManyAsksAgainForWhatAnAnswerHadNoRoomFor: it is told of each as it was, too, and how
// large that is a client does not know.
func TestPutManyAsksAgainForWhatAnAnswerHadNoRoomFor(t *testing.T) {
	full := proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "too large for one answer").Proto()
	refused := proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, "no").Proto()
	answer := func(room int) fakenode.Script {
		return func(r fakenode.Request) fakenode.Answer {
			m := &nornv1.ChangeSchedulesReply{}
			for i, x := range r.Message.(*nornv1.ChangeSchedulesRequest).GetChanges() {
				result := &nornv1.ScheduleResult{Schedule: &nornv1.Schedule{Name: x.GetName()}}
				switch {
				case x.GetName() == "s3":
					result.Error = refused
				case i >= room:
					result.Error = full
				}
				m.Results = append(m.Results, result)
			}
			return fakenode.Answer{Message: m}
		}
	}
	var all []NamedSpec
	for i := range 7 {
		all = append(all, NamedSpec{Name: fmt.Sprint("s", i), Spec: &nornv1.ScheduleSpec{}})
	}
	n := fakenode.New(t, only(changeSchedules, answer(2)))
	results, err := open(t, n).Schedules().PutMany(t.Context(), all)
	if err != nil || len(results) != len(all) {
		t.Fatalf("%d results, %v", len(results), err)
	}
	for i, r := range results {
		if r.GetSchedule().GetName() != all[i].Name || (r.GetError() != nil) != (i == 3) {
			t.Errorf("%d: %v", i, r)
		}
	}
	var sent []int
	for _, r := range n.Seen(changeSchedules) {
		sent = append(sent, len(r.Message.(*nornv1.ChangeSchedulesRequest).GetChanges()))
	}
	if !slices.Equal(sent, []int{7, 4, 2}) {
		t.Errorf("requests of %v changes", sent)
	}
	n = fakenode.New(t, only(changeSchedules, steps(answer(2), hangUp)))
	results, err = open(t, n, WithTimeout(time.Second)).Schedules().PutMany(t.Context(), all)
	if wantIs(t, err, ErrUnknown); len(results) != 2 {
		t.Errorf("of %d it is said what has become", len(results))
	}
	n = fakenode.New(t, only(changeSchedules, answer(0)))
	if results, err = open(t, n).Schedules().PutMany(t.Context(), all[:2]); err != nil || results[1].GetError() == nil || len(n.Seen(changeSchedules)) != 1 {
		t.Errorf("%v, %v", results, err)
	}
}
