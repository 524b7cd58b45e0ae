package cron

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/schedule"
	"github.com/norn-dev/norn/schedule/policy"

	gproto "google.golang.org/protobuf/proto"
)

func compileSpec(t testing.TB, text string) (*schedule.Timetable, error) {
	t.Helper()
	s, err := schedule.Parse(text)
	if err != nil {
		return nil, err
	}
	return s.Compile([16]byte{}, nil)
}

// grace is for how long it is kept how a task has ended.
const grace = time.Hour

// world is a register and what enqueues, around one machine after another.
type world struct {
	t        testing.TB
	now      clock.Time
	state    register.State
	machine  *Machine
	nonce    uint64
	zones    *schedule.Zones
	tasks    map[id.ID]*nornv1.TaskSpec
	begun    map[id.ID]int64
	open     map[id.ID]bool // launches that are begun, as committed
	cancels  []id.ID
	asked    map[id.ID]int
	refuse   *proto.Error // what enqueues are answered with
	noCancel *proto.Error // what cancels are answered with
	unheard  *proto.Error // what looks for a task are answered with
	finds    int
	lost     bool // commits have no answer
	made     bool // what is refused is made all the same
	reset    bool // somebody has asked for launches that may have been
	commits  int
	sought   int // looks for tasks that may be forgotten
	maker    *nornv1.ScheduleMaker
	barred   string // why the maker may not launch any more
}

func newWorld(t testing.TB) *world {
	w := &world{
		t: t, zones: schedule.NewZones(), tasks: map[id.ID]*nornv1.TaskSpec{}, begun: map[id.ID]int64{}, open: map[id.ID]bool{}, asked: map[id.ID]int{},
		now:   clock.Time{Wall: time.Date(2026, 3, 1, 0, 0, 0, 5e8, time.UTC).UnixNano(), Mono: 1},
		state: register.First(register.Cluster{ID: register.UUID{1}, Partitions: 1, Replicas: 1}, register.Node{Member: register.Member{Node: "n1", Incarnation: register.Incarnation{1}}}),
	}
	w.succeed()
	return w
}

// succeed makes another machine the master: a process that has just started.
func (w *world) succeed() {
	left := Policy{NotPlacedAnew: mutant.NotPlacedAnew.On(), RestoreLaunches: mutant.RestoreLaunches.On(), DoubtFinal: mutant.DoubtFinal.On()}
	w.machine = New(Config{Policy: left, Self: register.Member{Node: "n1"}, Cluster: [16]byte{1}, Grace: grace, Nonce: func() uint64 { w.nonce++; return w.nonce },
		Barred: func(map[string]register.Value, *nornv1.ScheduleMaker, string) string { return w.barred }})
	w.machine.Observe(w.now, &w.state)
	w.machine.Lead(w.now, true)
}

func (w *world) editor() *Editor {
	return &Editor{Zones: w.zones, Generation: w.state.Generation, Now: w.now.Wall, MaxPayload: 1 << 20, Maker: w.maker, UUID: func() (u [16]byte) {
		w.nonce++
		u[0], u[1], u[2] = byte(w.nonce>>16), byte(w.nonce>>8), byte(w.nonce)
		return u
	}}
}

// put makes or edits a schedule.
func (w *world) put(name string, s *nornv1.ScheduleSpec) {
	w.t.Helper()
	edit, err := w.editor().Put(name, w.state.Schedules.Get(name), 0, &nornv1.PutSchedule{Spec: s})
	if err != nil {
		w.t.Fatal(err)
	}
	if edit.Change != nil {
		w.apply(&register.Request{Schedules: []register.ScheduleChange{*edit.Change}})
	}
}

func (w *world) apply(q *register.Request) register.Result {
	next, res, _ := w.state.Apply(q)
	w.state = next
	for _, c := range q.Schedules {
		x := w.state.Schedules.Get(c.Name)
		if x == nil || len(x.Definition) == 0 {
			continue
		}
		d := &nornv1.ScheduleDefinition{}
		r, err := decode(x.State)
		if err == nil && gproto.Unmarshal(x.Definition, d) == nil && r.policy.Last.Status == policy.Open {
			w.open[id.Launch([16]byte{1}, [16]byte(d.GetUuid()), r.policy.Last.Instant)] = true
		}
	}
	w.machine.Observe(w.now, &w.state)
	return res
}

// turn does what the machine wants until it wants nothing more.
func (w *world) turn() {
	w.t.Helper()
	for range 10_000 {
		out := w.machine.Work(w.now)
		if len(out.Commits)+len(out.Launches)+len(out.Cancels)+len(out.Finds)+len(out.Ask) == 0 {
			if _, mono := w.machine.Next(w.now); mono > w.now.Mono {
				if len(w.machine.items) < 100 {
					w.audit()
				}
				return
			}
		}
		for _, task := range out.Ask {
			w.asked[task]++
		}
		for _, task := range out.Seek {
			w.sought++
			if _, there := w.tasks[task]; !there {
				w.machine.Forgotten(w.now, task)
			}
		}
		for i := range out.Cancels {
			w.cancels = append(w.cancels, out.Cancels[i].Tasks...)
			w.machine.Cancelled(w.now, out.Cancels[i].Tag, w.noCancel)
		}
		for i := range out.Launches {
			w.launch(&out.Launches[i])
		}
		for _, f := range out.Finds {
			w.find(f)
		}
		for i := range out.Commits {
			w.commits++
			res := w.apply(&out.Commits[i].Request)
			if w.lost {
				res = register.Result{Err: register.ErrClosed}
			}
			w.machine.Committed(w.now, &out.Commits[i], res)
		}
	}
	w.t.Fatal("the machine never comes to rest")
}

func (w *world) audit() {
	w.t.Helper()
	if err := Audit(w.machine); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) launch(l *Launches) {
	errs := make([]*proto.Error, len(l.Request.Tasks))
	for i, t := range l.Request.Tasks {
		task := id.ID(t.Id)
		if !w.open[task] {
			w.t.Fatalf("%s is enqueued, and not committed as begun", task)
		}
		if all := l.Request.Until; len(all) > 0 && (len(all) != len(errs) || all[i] < w.now.Wall) {
			w.t.Fatalf("%s is to be enqueued until %d of %d", task, i, all)
		}
		if errs[i] = w.refuse; w.refuse != nil {
			if w.made {
				w.tasks[task], w.begun[task] = t, l.Request.Begun[i]
			}
			continue
		}
		if old, ok := w.begun[task]; ok && old != l.Request.Begun[i] && !w.reset {
			w.t.Fatalf("%s was begun at %d and at %d", task, old, l.Request.Begun[i])
		}
		w.tasks[task], w.begun[task] = t, l.Request.Begun[i]
	}
	for _, task := range w.machine.Launched(w.now, l.Tag, errs) {
		w.asked[task]++
	}
}

func (w *world) find(f Find) {
	w.finds++
	switch _, there := w.tasks[f.Task]; {
	case w.unheard != nil:
		w.machine.Found(w.now, f.Tag, w.unheard)
	case !there:
		w.machine.Found(w.now, f.Tag, proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, "it is not there"))
	default:
		w.machine.Found(w.now, f.Tag, nil)
	}
}

// pass lets time go by.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	end := w.now.Add(d)
	for w.now.Mono < end.Mono {
		wallAt, monoAt := w.machine.Next(w.now)
		step := min(end.Mono-w.now.Mono, max(1, monoAt-w.now.Mono))
		if wallAt != math.MaxInt64 {
			step = min(step, max(1, wallAt-w.now.Wall))
		}
		w.now = w.now.Add(time.Duration(step))
		w.turn()
	}
}

func (w *world) show(name string) *nornv1.Schedule {
	w.t.Helper()
	s := Show(w.zones, [16]byte{1}, w.state.Schedules.Get(name), w.now.Wall, true)
	if s == nil {
		w.t.Fatalf("there is no schedule %s", name)
	}
	return s
}

func spec(cron string) *nornv1.ScheduleSpec {
	return &nornv1.ScheduleSpec{Cron: cron, Task: &nornv1.TaskSpec{Queue: "q"}}
}

// TestASuccessorFinishesWhatIsOpen, first, under the same ID, however far the one
// before had come.
func TestASuccessorFinishesWhatIsOpen(t *testing.T) {
	for _, enqueued := range []bool{false, true} {
		w := newWorld(t)
		w.put("a", spec("* * * * * *"))
		w.turn()
		w.now = w.now.Add(time.Second)
		for len(w.show("a").GetHistory()) == 0 { // until it is begun
			out := w.machine.Work(w.now)
			for i := range out.Commits {
				w.machine.Committed(w.now, &out.Commits[i], w.apply(&out.Commits[i].Request))
			}
		}
		out := w.machine.Work(w.now)
		if len(out.Launches) != 1 {
			t.Fatalf("%+v", out)
		}
		if enqueued {
			w.launch(&out.Launches[0])
		}
		w.succeed()
		w.turn()
		s := w.show("a")
		if len(w.tasks) != 1 || s.GetLaunches() != 1 || s.GetLast().GetStatus() != nornv1.LaunchStatus_LAUNCH_STATUS_RUNNING || s.GetSkipped() != 0 {
			t.Errorf("enqueued %v: %d tasks, %v", enqueued, len(w.tasks), s)
		}
		if late := w.machine; late.Stats(w.now).Takeovers != 1 {
			t.Errorf("%+v", late.Stats(w.now))
		}
	}
}

// TestNothingIsLaunchedBeforeItsBeginIsCommitted: of each launch is looked at that its begin
// is, here and in all other tests.
func TestNothingIsLaunchedBeforeItsBeginIsCommitted(t *testing.T) {
	w := newWorld(t)
	w.put("a", spec("* * * * * *"))
	w.turn()
	w.now = w.now.Add(time.Second)
	begin := w.machine.Work(w.now)
	if len(begin.Commits) != 1 || len(begin.Launches) != 0 {
		t.Fatalf("%+v", begin)
	}
	for range 3 { // the answer takes long
		w.now = w.now.Add(time.Second)
		if out := w.machine.Work(w.now); len(out.Commits)+len(out.Launches) != 0 {
			t.Fatalf("%+v", out)
		}
	}
	w.machine.Committed(w.now, &begin.Commits[0], w.apply(&begin.Commits[0].Request))
	if out := w.machine.Work(w.now); len(out.Launches) != 1 {
		t.Fatalf("%+v", out)
	}
}

// TestASuccessorOfTheNameBeginsWhereTheOneBeforeHasEnded, also where that is ahead of the
// clock: what that one has launched is not launched again.
func TestASuccessorOfTheNameBeginsWhereTheOneBeforeHasEnded(t *testing.T) {
	w := newWorld(t)
	w.put("a", spec("* * * * * *"))
	w.now.Wall += int64(time.Hour) // for a moment
	w.pass(2 * time.Second)
	last := w.show("a").GetLast().GetInstant().AsTime()
	edit, err := w.editor().Delete("a", w.state.Schedules.Get("a"), 0, "")
	if err != nil {
		t.Fatal(err)
	}
	w.apply(&register.Request{Schedules: []register.ScheduleChange{*edit.Change}})
	w.now.Wall -= int64(time.Hour)
	w.put("a", spec("* * * * * *"))
	if next := w.show("a").GetNext().AsTime(); !next.After(last) {
		t.Errorf("%v was launched, and the next one is of %v", last, next)
	}
}

// TestAnUnknownCommitIsLookedUp: when the answer to a commit is lost, the launch
// is made once.
func TestAnUnknownCommitIsLookedUp(t *testing.T) {
	w := newWorld(t)
	w.put("a", spec("* * * * * *"))
	w.turn()
	w.lost = true
	w.pass(1200 * time.Millisecond)
	w.lost = false
	w.pass(2 * time.Second)
	if s := w.show("a"); s.GetLaunches() != 3 || len(w.tasks) != 3 || s.GetSkipped() != 0 {
		t.Errorf("%d tasks, %v", len(w.tasks), s)
	}
}

// TestARefusedLaunchEnds as not enqueued: at once where trying again is no use,
// else after a while; and the schedule goes on.
func TestARefusedLaunchEnds(t *testing.T) {
	final := proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, "queue q is draining")
	again := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "nobody is there")
	again.Effect = nornv1.Effect_EFFECT_UNKNOWN
	for _, tc := range []struct {
		err  *proto.Error
		wait time.Duration
		note string
	}{{final, time.Second, "queue q is draining"}, {again, patience + 3*time.Second, "in doubt: nobody is there"}} {
		w := newWorld(t)
		w.put("a", spec("0 * * * * *"))
		w.turn()
		w.refuse = tc.err
		w.pass(59500*time.Millisecond + tc.wait)
		s := w.show("a")
		if s.GetLast().GetStatus() != nornv1.LaunchStatus_LAUNCH_STATUS_NOT_ENQUEUED || s.GetLast().GetNote() != tc.note || s.GetFailed() != 1 || len(w.tasks) != 0 {
			t.Errorf("%v: %v", tc.err, s)
		}
		if n := w.machine.Stats(w.now); n.NotEnqueued != 1 || n.Launched != 1 {
			t.Errorf("%+v", n)
		}
		w.refuse = nil
		w.pass(time.Minute)
		if s := w.show("a"); s.GetLast().GetStatus() != nornv1.LaunchStatus_LAUNCH_STATUS_RUNNING || s.GetLaunches() != 2 {
			t.Errorf("the next one: %v", s)
		}
	}
}

// TestARefusalAfterAnAttemptThatIsUnclear: the first attempt may have made the task, the
// next one is refused for good; or a successor is refused that cannot know whether the one
// before had made an attempt. The history says that it is in doubt.
func TestARefusalAfterAnAttemptThatIsUnclear(t *testing.T) {
	again := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "nobody is there")
	for _, what := range []string{"unclear", "surely not", "of another master"} {
		if again.Effect = nornv1.Effect_EFFECT_UNKNOWN; what == "surely not" {
			again.Effect = nornv1.Effect_EFFECT_NONE
		}
		w := newWorld(t)
		w.put("a", spec("0 * * * * *"))
		w.turn()
		w.refuse = again
		w.pass(60 * time.Second)
		if what == "of another master" {
			w.succeed()
		}
		w.refuse = proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, "queue q is draining")
		w.pass(5 * time.Second)
		want := "in doubt: queue q is draining"
		if what == "surely not" {
			want = "queue q is draining"
		}
		if last := w.show("a").GetLast(); last.GetStatus() != nornv1.LaunchStatus_LAUNCH_STATUS_NOT_ENQUEUED || last.GetNote() != want {
			t.Errorf("%s: %v", what, last)
		}
	}
}

// TestARestoreLaunchesNothingAgain: with a register of an older life, what may
// have been launched since is skipped, in doubt, and what was open too.
func TestARestoreLaunchesNothingAgain(t *testing.T) {
	w := newWorld(t)
	w.put("a", spec("* * * * * *"))
	w.pass(3 * time.Second)
	snapshot, before := w.state, len(w.tasks)
	w.pass(5 * time.Second)
	after := len(w.tasks)
	w.state = snapshot.Restored(register.Node{Member: register.Member{Node: "n1", Incarnation: register.Incarnation{1}}})
	w.succeed()
	w.turn()
	s := w.show("a")
	if len(w.tasks) != after || s.GetHistory()[0].GetReason() != nornv1.SkipReason_SKIP_REASON_IN_DOUBT || s.GetHistory()[0].GetCount() != uint32(after-before) {
		t.Fatalf("%d tasks after %d: %v", len(w.tasks), after, s)
	}
	w.pass(2 * time.Second)
	if len(w.tasks) != after+2 {
		t.Errorf("%d tasks", len(w.tasks))
	}
}

// TestManyAtOnce: 10,000 launches of one second are begun, enqueued and ended in
// batches, and cost a few commits.
func TestManyAtOnce(t *testing.T) {
	const n = 10_000
	w := newWorld(t)
	w.fill(n, "0 * * * * *")
	w.turn()
	w.commits = 0
	w.now = w.now.Add(time.Minute)
	w.turn()
	if len(w.tasks) != n {
		t.Fatalf("%d tasks", len(w.tasks))
	}
	if w.commits > 40 {
		t.Errorf("%d commits", w.commits)
	}
	if s := w.machine.Stats(w.now); s.Launched != n || s.Running != n || s.Overdue != 0 {
		t.Errorf("%+v", s)
	}
}

// fill makes many schedules.
func (w *world) fill(n int, cron string) {
	w.t.Helper()
	e := w.editor()
	req := &register.Request{}
	for i := range n {
		name := fmt.Sprintf("team-%02d/job-%06d", i%30, i)
		edit, err := e.Put(name, nil, 0, &nornv1.PutSchedule{Spec: spec(cron)})
		if err != nil {
			w.t.Fatal(err)
		}
		req.Schedules = append(req.Schedules, *edit.Change)
	}
	w.apply(req)
}

// TestEveryRunningTaskIsAskedAbout in turn, when there are more than one look
// takes.
func TestEveryRunningTaskIsAskedAbout(t *testing.T) {
	const n = 2500
	w := newWorld(t)
	w.fill(n, "0 * * * * *")
	w.pass(time.Minute)
	clear(w.asked)
	w.pass(3500 * time.Millisecond)
	if len(w.asked) != n {
		t.Fatalf("%d of %d were asked about", len(w.asked), n)
	}
	for task, k := range w.asked {
		if k > 2 {
			t.Fatalf("%s was asked about %d times", task, k)
		}
	}
	for task := range w.tasks {
		w.machine.Finished(w.now, task, crdt.StateCompleted)
	}
	w.turn()
	if s := w.machine.Stats(w.now); s.Running != 0 {
		t.Errorf("%+v", s)
	}
}

// TestClockJumps: an hour or a year to and fro, and a day of suspension: policies
// are kept, a decision comes within a second, and there is no loop over what lies
// between.
func TestClockJumps(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, jump := range []time.Duration{time.Hour, -time.Hour, 24 * time.Hour, year, -year} {
		t.Run(jump.String(), func(t *testing.T) {
			w := newWorld(t)
			w.put("minute", spec("0 * * * * *"))
			w.put("second", spec("* * * * * *"))
			w.pass(2 * time.Minute)
			before, commits := len(w.tasks), w.commits
			w.now.Wall += int64(jump)
			w.pass(1500 * time.Millisecond)
			made := len(w.tasks) - before
			switch {
			case jump > 0 && (made < 1 || made > 64): // the newest, and those within the grace
				t.Errorf("%d launches after the jump", made)
			case jump < 0 && made != 0:
				t.Errorf("%d launches again", made)
			}
			if n := w.commits - commits; n > 200 {
				t.Errorf("%d commits", n)
			}
			for _, s := range []string{"minute", "second"} {
				if jump < 0 && w.show(s).GetAheadSeconds() < -jump.Seconds()-120 {
					t.Errorf("%s does not say that the clock is behind: %v", s, w.show(s).GetAheadSeconds())
				}
			}
			w.now.Wall -= int64(jump) // and back
			w.pass(2 * time.Minute)
			if jump > 0 && len(w.tasks) < before+made+100 {
				t.Errorf("%d launches in two minutes after the clock came back", len(w.tasks)-before-made)
			}
		})
	}
}

// TestResetDoesNotWaitForTheClock: what the clock had decided while it was ahead,
// an operator takes back.
func TestResetDoesNotWaitForTheClock(t *testing.T) {
	w := newWorld(t)
	w.put("a", spec("* * * * * *"))
	w.pass(2 * time.Second)
	w.now.Wall += int64(30 * time.Second) // too little for a gap: all of it is launched
	w.pass(2 * time.Second)
	w.now.Wall -= int64(30 * time.Second)
	before := len(w.tasks)
	w.pass(3 * time.Second)
	if len(w.tasks) != before || w.show("a").GetAheadSeconds() < 20 {
		t.Fatalf("%d tasks after %d: %v", len(w.tasks), before, w.show("a"))
	}
	edit, err := w.editor().Pause("a", w.state.Schedules.Get("a"), 0, &nornv1.PauseSchedule{FromNow: true})
	if err != nil {
		t.Fatal(err)
	}
	w.reset = true
	w.apply(&register.Request{Schedules: []register.ScheduleChange{*edit.Change}})
	w.turn()
	launches := w.show("a").GetLaunches()
	w.pass(3 * time.Second)
	if got := w.show("a"); got.GetLaunches() != launches+3 || got.GetAheadSeconds() != 0 {
		t.Errorf("%d launches before: %v", launches, got)
	}
}

// TestMemoryOfManySchedules: what schedules with full histories take, in the
// register's state and the machine: 100,000 at most 200 MiB.
func TestMemoryOfManySchedules(t *testing.T) {
	n := 10_000
	if os.Getenv("NORN_TEST_CLUSTER") != "" {
		n = 100_000
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	w := newWorld(t)
	for range 10 {
		w.remembered(n / 10)
	}
	w.turn()
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / int64(n)
	if w.machine.Stats(w.now).Schedules != n || each > 1000 {
		t.Errorf("%d schedules take %d bytes each", w.machine.Stats(w.now).Schedules, each)
	}
	t.Logf("%d schedules take %d bytes each", n, each)
	runtime.KeepAlive(w)
}

// remembered makes schedules with full histories.
func (w *world) remembered(n int) {
	w.t.Helper()
	e, req := w.editor(), &register.Request{}
	for range n {
		w.nonce++
		name := fmt.Sprintf("team-%02d/job-%06d", w.nonce%30, w.nonce)
		edit, err := e.Put(name, nil, 0, &nornv1.PutSchedule{Spec: spec("? ? * * *")})
		if err != nil {
			w.t.Fatal(err)
		}
		r, err := decode(edit.Change.State)
		if err != nil {
			w.t.Fatal(err)
		}
		for i := range int64(DefaultHistory) {
			at := w.now.Wall/1e9*1e9 - (20-i)*int64(24*time.Hour)
			r.add(entry{kind: launched, instant: at, begun: at + 123_456_000, enqueued: at + 234_567_000, finished: at + 5_678_901_000, late: 123_456_000, status: 3}, DefaultHistory)
		}
		edit.Change.State = r.encode()
		req.Schedules = append(req.Schedules, *edit.Change)
	}
	w.apply(req)
}
