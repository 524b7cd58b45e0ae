package cron

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"

	"google.golang.org/protobuf/encoding/protowire"
	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// TestALongHistoryIsCommitted: a history of as many entries as there may be, each
// with a note as long as it may be, takes more than the register keeps of a
// schedule; the schedule goes on.
func TestALongHistoryIsCommitted(t *testing.T) {
	w := newWorld(t)
	s := spec("* * * * * *")
	s.History = MaxHistory
	w.put("a", s)
	w.refuse = proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, "queue q is draining: %s", strings.Repeat("x", maxNote))
	w.pass((MaxHistory + 100) * time.Second)
	if got := w.show("a"); got.GetLaunches() != MaxHistory+100 || got.GetOverdueSeconds() > 1 {
		t.Errorf("%d launches, the next one is %v s late", got.GetLaunches(), got.GetOverdueSeconds())
	}
}

// TestWhatTheHistoryHasForgottenRuns: the launch that keeps its schedule from the next one
// is shown as running, also when a short history has no place for it any more.
func TestWhatTheHistoryHasForgottenRuns(t *testing.T) {
	w := newWorld(t)
	s := spec("* * * * * *")
	s.Overlap, s.History = nornv1.Overlap_OVERLAP_SKIP, 1
	w.put("a", s)
	w.pass(5 * time.Second)
	if got := w.show("a"); got.GetLaunches() != 1 || got.GetRunning() != 1 || got.GetLast().GetStatus() != nornv1.LaunchStatus_LAUNCH_STATUS_RUNNING {
		t.Errorf("%d of %d launches run, the last one is %v", got.GetRunning(), got.GetLaunches(), got.GetLast())
	}
}

// TestAFullRegisterGoesOnLaunching: once users have filled it, each launch is noted in
// place of older ones.
func TestAFullRegisterGoesOnLaunching(t *testing.T) {
	w := newWorld(t)
	w.put("a", spec("* * * * * *"))
	w.pass(5 * time.Second)
	w.machine.full = 0 // it counts as full from now on
	most := w.state.Schedules.Bytes()
	w.pass(60 * time.Second)
	if got := w.show("a"); got.GetLaunches() != 65 || got.GetOverdueSeconds() > 1 || len(got.GetHistory()) == 0 {
		t.Errorf("%d launches, the next one is %v s late", got.GetLaunches(), got.GetOverdueSeconds())
	}
	if n := w.state.Schedules.Bytes(); n > most+16 {
		t.Errorf("schedules take %d bytes, and took %d", n, most)
	}
}

// TestAFailureBesideTheLastLaunchPauses: where tasks overlap, one that fails after
// the next one was launched pauses the schedule as well.
func TestAFailureBesideTheLastLaunchPauses(t *testing.T) {
	w := newWorld(t)
	s := spec("* * * * * *")
	s.PauseOnFailure = true
	w.put("a", s)
	w.pass(3 * time.Second)
	first := w.show("a").GetHistory()[2]
	w.machine.Finished(w.now, mustID(t, first.GetTaskId()), crdt.StateDead)
	w.turn()
	got := w.show("a")
	if !got.GetSpec().GetPaused() || !strings.Contains(got.GetSpec().GetNote(), first.GetTaskId()) {
		t.Errorf("%v", got)
	}
}

func mustID(t *testing.T, text string) id.ID {
	t.Helper()
	i, err := id.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// TestAnEditOfWhatCannotBeReadHere: a schedule in a zone that this release of the
// tz database does not have is given another one. Nothing of the past is launched
// then.
func TestAnEditOfWhatCannotBeReadHere(t *testing.T) {
	w := newWorld(t)
	w.put("a", spec("0 * * * * *"))
	rec := w.state.Schedules.Get("a")
	l, err := load(w.zones, rec.Definition)
	if err != nil {
		t.Fatal(err)
	}
	l.wire.Spec.TimeZone = "Europe/Atlantis"
	b, err := pack(l.wire, l.policy.Table)
	if err != nil {
		t.Fatal(err)
	}
	w.apply(&register.Request{Schedules: []register.ScheduleChange{{Name: "a", Old: rec.Revision, Definition: b}}})
	w.pass(5*time.Minute + 10*time.Second)
	if s := w.show("a"); s.GetProblem() == "" || s.GetLaunches() != 0 {
		t.Fatalf("%v", s)
	}
	w.put("a", spec("0 * * * * *"))
	w.pass(time.Second)
	if s := w.show("a"); s.GetProblem() != "" || s.GetLaunches() != 0 {
		t.Errorf("launched of the past: %v", s)
	}
	w.pass(time.Minute)
	if s := w.show("a"); s.GetLaunches() != 1 {
		t.Errorf("%v", s)
	}
}

// TestAnEditKeepsWhatANewerNodeHasWritten: what it keeps with a definition in fields that this
// build does not know is there after an edit, too.
func TestAnEditKeepsWhatANewerNodeHasWritten(t *testing.T) {
	w := newWorld(t)
	w.put("a", spec("0 * * * * *"))
	rec := w.state.Schedules.Get("a")
	l, err := load(w.zones, rec.Definition)
	if err != nil {
		t.Fatal(err)
	}
	newer := protowire.AppendVarint(protowire.AppendTag(nil, 1500, protowire.VarintType), 7)
	l.wire.ProtoReflect().SetUnknown(newer)
	b, err := pack(l.wire, l.policy.Table)
	if err != nil {
		t.Fatal(err)
	}
	w.apply(&register.Request{Schedules: []register.ScheduleChange{{Name: "a", Old: rec.Revision, Definition: b}}})
	w.put("a", spec("30 * * * * *"))
	l, err = load(w.zones, w.state.Schedules.Get("a").Definition)
	if err != nil || !bytes.Equal(l.wire.ProtoReflect().GetUnknown(), newer) || l.wire.GetVersion() != 2 || l.wire.GetSpec().GetCron() != "30 * * * * *" {
		t.Errorf("after the edit: %v, %v", l.wire, err)
	}
}

// TestPauseWhateverTheLimits: a schedule that was made when servers took larger
// payloads can be paused, and resumed.
func TestPauseWhateverTheLimits(t *testing.T) {
	w := newWorld(t)
	s := spec("0 * * * * *")
	s.Task.Payload = make([]byte, 1000)
	w.put("a", s)
	for _, paused := range []bool{true, false} {
		e := w.editor()
		e.MaxPayload = 100
		edit, err := e.Pause("a", w.state.Schedules.Get("a"), 0, &nornv1.PauseSchedule{Paused: paused, Note: "n"})
		if err != nil {
			t.Fatal(err)
		}
		w.apply(&register.Request{Schedules: []register.ScheduleChange{*edit.Change}})
	}
	long := &nornv1.PauseSchedule{Note: strings.Repeat("x", proto.MaxNoteBytes+1)}
	if _, err := w.editor().Pause("a", w.state.Schedules.Get("a"), 0, long); !errors.Is(err, ErrInvalid) {
		t.Errorf("a long note: %v", err)
	}
}

// TestABackfillFitsAFrame: its tasks may go to another node in one request, with all of
// their headers.
func TestABackfillFitsAFrame(t *testing.T) {
	w := newWorld(t)
	s := spec("* * * * * *")
	s.Task.Payload, s.Task.Headers = make([]byte, 16<<10), map[string]string{}
	for i := range 15 {
		s.Task.Headers[string(rune('a'+i))] = strings.Repeat("x", 1000)
	}
	w.put("a", s)
	largest := 0
	for n := time.Duration(39); n < MaxBackfill; n += 40 {
		from := time.Unix(0, w.now.Wall).Add(-(n + 1) * time.Second)
		h, err := w.editor().Backfill("a", w.state.Schedules.Get("a"), 0, &nornv1.BackfillSchedule{
			From: timestamppb.New(from), To: timestamppb.New(time.Unix(0, w.now.Wall)), Seed: make([]byte, id.Size),
		})
		if err == nil {
			largest = gproto.Size(&nornv1.EnqueueRequest{Tasks: h.Tasks})
		} else if !errors.Is(err, ErrInvalid) {
			t.Fatal(err)
		}
	}
	if largest > proto.MaxFrame || largest < proto.MaxFrame*9/10 {
		t.Errorf("the largest one has %d bytes, a frame %d", largest, proto.MaxFrame)
	}
}

// TestTheNameOfAScheduleIsInItsHeaders: a schedule whose launches would have more in their
// headers than a task may have is refused. It was made, and never launched anything.
func TestTheNameOfAScheduleIsInItsHeaders(t *testing.T) {
	w := newWorld(t)
	name := strings.Repeat("n", 128)
	most := proto.MaxHeaderBytes - len("a"+HeaderSchedule+name+HeaderInstant+"1970-01-01T00:00:00Z")
	edit := func(bytes int) (Edit, error) {
		s := spec("* * * * * *")
		s.Task.Headers = map[string]string{"a": strings.Repeat("x", bytes)}
		return w.editor().Put(name, nil, 0, &nornv1.PutSchedule{Spec: s})
	}
	if _, err := edit(most + 1); !errors.Is(err, ErrInvalid) {
		t.Errorf("a byte too many: %v", err)
	}
	made, err := edit(most)
	if err != nil {
		t.Fatal(err)
	}
	launch, err := w.editor().Trigger(name, made.Record, 0, id.ID{})
	if err != nil {
		t.Fatal(err)
	}
	if bad := proto.CheckSpec(launch.Tasks[0], proto.MaxPayload); bad != nil {
		t.Errorf("its launch: %v", bad)
	}
}

// TestABackfillOfNoTimeIsTold: the text says which end of it is no time that there may be.
func TestABackfillOfNoTimeIsTold(t *testing.T) {
	w := newWorld(t)
	w.put("a", spec("@daily"))
	day := func(text string) *timestamppb.Timestamp {
		at, err := time.Parse(time.DateOnly, text)
		if err != nil {
			t.Fatal(err)
		}
		return timestamppb.New(at)
	}
	const later = "a backfill goes from one time up to a later one"
	for _, c := range []struct {
		from, to *timestamppb.Timestamp
		want     string
	}{
		{day("1960-01-01"), day("2026-01-01"), "from is not a time between 1970 and 2262"},
		{day("2026-01-01"), day("2300-01-01"), "to is not a time between 1970 and 2262"},
		{day("2026-01-02"), day("2026-01-01"), later},
		{nil, day("2026-01-01"), later},
		{day("2026-01-01"), nil, later},
	} {
		_, err := w.editor().Backfill("a", w.state.Schedules.Get("a"), 0, &nornv1.BackfillSchedule{From: c.from, To: c.to, Seed: make([]byte, id.Size)})
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("from %v to %v: %v, want %s", c.from, c.to, err, c.want)
		}
	}
}
