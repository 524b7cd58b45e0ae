package crdt

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
)

type held bool

func (h held) Held(clock.Time) bool { return bool(h) }

func TestStateOf(t *testing.T) {
	spec := Enqueued{Queue: "q"}
	later := Enqueued{Queue: "q", NotBefore: 200}
	dependent := Enqueued{Queue: "q", Dependencies: []id.ID{{1}}}
	const now = 100
	for _, c := range []struct {
		name  string
		facts []content
		held  bool
		want  State
	}{
		{"nothing is known", nil, true, StateUnknown},
		{"updates before the enqueue", []content{Update{Token: 1}}, true, StateUnknown},
		{"dead before the enqueue", []content{Dead{}}, false, StateUnknown},
		{"cancelled by a dependency before the enqueue", []content{DependencyCancelled{}}, false, StateUnknown},
		{"completed before the enqueue", []content{Completed{Token: 1}}, false, StateCompleted},
		{"cancelled before the enqueue", []content{Cancelled{}}, false, StateCancelled},
		{"enqueued", []content{spec}, false, StateReady},
		{"claimed", []content{spec}, true, StateClaimed},
		{"its time has not come", []content{later}, false, StateScheduled},
		{"claimed all the same", []content{later}, true, StateClaimed},
		{"its time has come", []content{Enqueued{NotBefore: now}}, false, StateReady},
		{"waits for a dependency", []content{dependent}, false, StateWaiting},
		{"its dependencies are done", []content{dependent, Unblocked{}}, false, StateReady},
		{"unblocked, then its time has not come", []content{Enqueued{NotBefore: 200, Dependencies: []id.ID{{1}}}, Unblocked{}}, false, StateScheduled},
		{"backs off", []content{spec, Failed{Token: 1, RetryAt: 101, Counted: true}}, false, StateScheduled},
		{"has backed off", []content{spec, Failed{Token: 1, RetryAt: 100, Counted: true}}, false, StateReady},
		{"the newest failure says when", []content{spec, Failed{Token: 1, RetryAt: 900}, Failed{Token: 2, RetryAt: 50}}, false, StateReady},
		{"expired", []content{spec, Expired{Token: 1}}, false, StateReady},
		{"dead", []content{spec, Dead{}}, false, StateDead},
		{"dead and held", []content{spec, Dead{}}, true, StateDead},
		{"dead, requeued", []content{spec, Dead{}, Requeued{Generation: 1}}, false, StateReady},
		{"requeued without back-off", []content{spec, Failed{Token: 1, RetryAt: 900}, Dead{}, Requeued{Generation: 1, AfterToken: 1}}, false, StateReady},
		{"dead again", []content{spec, Dead{}, Requeued{Generation: 1}, Dead{Generation: 1}}, false, StateDead},
		{"dead again, the requeue is on its way", []content{spec, Dead{Generation: 1}}, false, StateDead},
		{"a dependency failed", []content{dependent, DependencyCancelled{}}, false, StateCancelled},
		{"a dependency failed, requeued", []content{dependent, DependencyCancelled{}, Requeued{Generation: 1}}, false, StateWaiting},
		{"cancelled", []content{spec, Cancelled{}}, true, StateCancelled},
		{"cancelled is not undone by a requeue", []content{spec, Cancelled{}, Requeued{Generation: 1}}, false, StateCancelled},
		{"completed late", []content{spec, Dead{}, Cancelled{}, DependencyCancelled{}, Completed{Token: 1}}, false, StateCompleted},
		{"collected", []content{Tombstone{Outcome: StateDead}}, false, StateDead},
		{"collected, then completed late", []content{Tombstone{Outcome: StateDead}, Completed{Token: 1}}, false, StateCompleted},
		{"collected as completed, cancelled late", []content{Tombstone{Outcome: StateCompleted}, Cancelled{}}, false, StateCompleted},
		{"collected as cancelled, enqueued again", []content{Tombstone{Outcome: StateCancelled}, spec}, false, StateCancelled},
	} {
		s := NewSet(someTask())
		for _, f := range c.facts {
			if _, _, err := s.Add(factOf(someTask(), f)); err != nil {
				t.Fatal(err)
			}
		}
		task := view(t, s)
		if got := task.State(held(c.held), clock.Time{Wall: now}); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if task.Finished() != c.want.Finished() || c.want.Finished() && task.Outcome() != c.want {
			t.Errorf("%s: finished %v, outcome %s", c.name, task.Finished(), task.Outcome())
		}
	}
}

// Requirement 52: a late completion wins, and nothing that comes after undoes
// it.
func TestCompletionWinsAndSticks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := drawFacts(t, "before"), drawFacts(t, "after")
		s := setOf(t, before)
		if _, _, err := s.Add(Completed{Token: 2, At: 3}.Fact(someTask())); err != nil {
			t.Fatal(err)
		}
		for _, f := range after {
			if _, _, err := s.Add(f); err != nil {
				t.Fatal(err)
			}
			task := view(t, s)
			now := clock.Time{Wall: rapid.Int64Range(0, 10).Draw(t, "now")}
			if got := task.State(held(rapid.Bool().Draw(t, "held")), now); got != StateCompleted {
				t.Fatalf("completed, and then %v makes it %s", f.Key, got)
			}
			if c := task.Completion(); c == nil || c.At > 3 || task.CompletedAt() != c.At || task.FinishedAt() != c.At {
				t.Fatalf("completed at 3, and now at %d: %+v", task.CompletedAt(), c)
			}
		}
	})
}

// byKind gives what is decoded of one kind, ascending by key.
func byKind[T content](s *Set) []T {
	var out []T
	for f := range s.Facts() {
		if c, err := codecOf(f.Key.Kind).decode(f.Body); err == nil {
			if v, ok := c.(T); ok {
				out = append(out, v)
			}
		}
	}
	return out
}

// The numbers of a task, computed the way they are defined.
func TestTaskAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := setOf(t, drawFacts(t, "facts"))
		task := view(t, s)
		generation, after := uint64(0), uint64(0)
		for _, q := range byKind[Requeued](s) {
			if q.Generation > generation {
				generation, after = q.Generation, q.AfterToken
			}
		}
		counted, notBefore, lastError := map[uint64]bool{}, int64(0), ""
		for _, e := range byKind[Enqueued](s) {
			notBefore = e.NotBefore
		}
		for _, e := range byKind[Expired](s) {
			counted[e.Token] = true
		}
		failed := byKind[Failed](s)
		for i, f := range failed {
			counted[f.Token] = counted[f.Token] || f.Counted
			if i == len(failed)-1 && f.Token > after {
				notBefore = max(notBefore, f.RetryAt)
			}
			lastError = f.Error
		}
		attempts := 0
		for token, counts := range counted {
			if counts && token > after {
				attempts++
			}
		}
		if task.Generation() != generation || task.Attempts() != attempts || task.NotBefore() != notBefore {
			t.Fatalf("generation %d, attempts %d, not before %d; want %d, %d, %d", task.Generation(), task.Attempts(), task.NotBefore(), generation, attempts, notBefore)
		}
		if s := task.Outcome(); (s == StateUnknown || s == StateCompleted) && task.Error() != lastError {
			t.Fatalf("error %q, want %q", task.Error(), lastError)
		}
		if (task.FinishedAt() == 0) == task.Finished() { // all times drawn are above 0
			t.Fatalf("%s, finished at %d", task.Outcome(), task.FinishedAt())
		}
		if (task.CompletedAt() != 0) != (task.Outcome() == StateCompleted) {
			t.Fatalf("%s, completed at %d", task.Outcome(), task.CompletedAt())
		}
		if c := byKind[Completed](s); len(c) > 0 {
			want := slices.MinFunc(c, func(a, b Completed) int { return int(a.At - b.At) }) // the first of equals
			if got := task.Completion(); got == nil || got.Token != want.Token || got.At != want.At {
				t.Fatalf("completion %+v, want %+v", got, want)
			}
		} else if task.Completion() != nil {
			t.Fatal("a completion out of nothing")
		}
	})
}

func TestErrorSaysWhy(t *testing.T) {
	dep := id.ID{1}
	failed := Failed{Token: 1, Error: "boom"}
	for _, c := range []struct {
		facts []content
		want  string
		at    int64
	}{
		{[]content{Enqueued{}}, "", 0},
		{[]content{Enqueued{}, failed, Failed{Token: 2, Error: "bang"}}, "bang", 0},
		{[]content{Enqueued{}, failed, Dead{At: 7, Reason: "out of attempts"}}, "out of attempts", 7},
		{[]content{Enqueued{}, failed, Dead{At: 7, Reason: "out of attempts"}, Requeued{Generation: 1}}, "boom", 0},
		{[]content{Enqueued{}, failed, Cancelled{At: 8, Reason: "not needed"}}, "not needed", 8},
		{[]content{Enqueued{}, DependencyCancelled{At: 9, Dependency: dep}}, "dependency " + dep.String() + " died, was cancelled or is forgotten", 9},
		{[]content{Tombstone{Outcome: StateDead, At: 10}}, "", 10},
		{[]content{Tombstone{Outcome: StateCompleted, At: 11}}, "", 11},
		{[]content{Enqueued{}, failed, Completed{Token: 2, At: 12}}, "boom", 12},
	} {
		s := NewSet(someTask())
		for _, f := range c.facts {
			if _, _, err := s.Add(factOf(someTask(), f)); err != nil {
				t.Fatal(err)
			}
		}
		task := view(t, s)
		if got, at := task.Error(), task.FinishedAt(); got != c.want || at != c.at {
			t.Errorf("%+v: %q at %d, want %q at %d", c.facts, got, at, c.want, c.at)
		}
	}
}

func TestAdmission(t *testing.T) {
	if got := NewTask(someTask(), &Enqueued{}).Admission(); got != someTask().Nanos() {
		t.Errorf("without a time of its own: %d", got)
	}
	if got := NewTask(someTask(), &Enqueued{Admission: 5}).Admission(); got != 5 {
		t.Errorf("with one: %d", got)
	}
	if got := NewTask(someTask(), nil).Admission(); got != someTask().Nanos() {
		t.Errorf("without an enqueue: %d", got)
	}
}

func TestStateNames(t *testing.T) {
	want := []string{"unknown", "waiting", "scheduled", "ready", "claimed", "completed", "dead", "cancelled", "unknown"}
	for s, name := range want {
		if got := State(s).String(); got != name {
			t.Errorf("state %d is %q, want %q", s, got, name)
		}
		if got := State(s).Finished(); got != (s >= 5 && s <= 7) {
			t.Errorf("%s is finished: %v", name, got)
		}
	}
}

// One claim is one attempt, also when two leaders have said different things
// about its end.
func TestAttemptsCountClaims(t *testing.T) {
	for _, c := range []struct {
		facts []content
		want  int
	}{
		{nil, 0},
		{[]content{Failed{Token: 1, Counted: true}, Expired{Token: 2}, Failed{Token: 3}}, 2},
		{[]content{Failed{Token: 1, Counted: true}, Expired{Token: 1}}, 1},
		{[]content{Failed{Token: 1}, Expired{Token: 1}}, 1},
		{[]content{Failed{Token: 1, Counted: true}, Expired{Token: 2}, Requeued{Generation: 1, AfterToken: 2}, Expired{Token: 3}}, 1},
		{[]content{Requeued{Generation: 1, AfterToken: 9}, Requeued{Generation: 2, AfterToken: 1}, Expired{Token: 1}, Expired{Token: 2}}, 1},
	} {
		s := NewSet(someTask())
		for _, f := range c.facts {
			if _, _, err := s.Add(factOf(someTask(), f)); err != nil {
				t.Fatal(err)
			}
		}
		if got := view(t, s).Attempts(); got != c.want {
			t.Errorf("%+v: %d attempts, want %d", c.facts, got, c.want)
		}
	}
}

// TestUndoable: only what a leader has given up for this generation, or for a later
// one whose retry has not arrived, a retry undoes. What a worker, somebody or the
// collector has said stays.
func TestUndoable(t *testing.T) {
	spec := Enqueued{Queue: "q", Dependencies: []id.ID{{1}}}
	for _, c := range []struct {
		name  string
		facts []content
		want  bool
	}{
		{"not finished", []content{spec}, false},
		{"dead", []content{spec, Dead{}}, true},
		{"a dependency failed", []content{spec, DependencyCancelled{}}, true},
		{"dead, the retry is on its way", []content{spec, Dead{Generation: 1}}, true},
		{"dead and retried", []content{spec, Dead{}, Requeued{Generation: 1}}, false},
		{"completed", []content{spec, Completed{Token: 1}}, false},
		{"dead and completed", []content{spec, Dead{}, Completed{Token: 1}}, false},
		{"cancelled", []content{spec, Cancelled{}}, false},
		{"dead and cancelled", []content{spec, Dead{}, Cancelled{}}, false},
		{"collected", []content{Tombstone{Outcome: StateDead}}, false},
		{"dead and collected", []content{spec, Dead{}, Tombstone{Outcome: StateDead}}, false},
	} {
		s := NewSet(someTask())
		for _, f := range c.facts {
			if _, _, err := s.Add(factOf(someTask(), f)); err != nil {
				t.Fatal(err)
			}
		}
		if got := view(t, s).Undoable(); got != c.want {
			t.Errorf("%s: undoable %v, want %v", c.name, got, c.want)
		}
	}
}

// TestFailures: of the present generation, whether they count or not.
func TestFailures(t *testing.T) {
	s := NewSet(someTask())
	for _, f := range []content{
		Enqueued{Queue: "q"}, Failed{Token: 1, Counted: true}, Failed{Token: 2}, Expired{Token: 3},
		Requeued{Generation: 1, AfterToken: 3}, Failed{Token: 4, Counted: true}, Failed{Token: 5}, Failed{Token: 6}, Expired{Token: 7},
	} {
		if _, _, err := s.Add(factOf(someTask(), f)); err != nil {
			t.Fatal(err)
		}
	}
	task := view(t, s)
	if task.Failures() != 3 || task.Attempts() != 2 {
		t.Errorf("%d failures, %d attempts", task.Failures(), task.Attempts())
	}
}

// TestWhatATombstoneIsRaisedTo: the better end stays, in whatever order it is heard,
// and how long the tombstone stays counts from the same time.
func TestWhatATombstoneIsRaisedTo(t *testing.T) {
	ends := []State{StateDead, StateCancelled, StateCompleted}
	for i, a := range ends {
		for j, b := range ends {
			x, y := Tombstone{Outcome: a, At: 1, Collected: 5}, Tombstone{Outcome: b, At: 2, Collected: 6}
			if i != j && x.Over(y) != (i > j) {
				t.Errorf("%s over %s: %v", a, b, x.Over(y))
			}
			if x.Over(y) == y.Over(x) {
				t.Errorf("%s and %s: which one stays depends on who is asked", a, b)
			}
		}
		late := map[State]content{StateCancelled: Cancelled{At: 7}, StateCompleted: Completed{Token: 1, At: 8}}
		for j, b := range ends[1:] {
			was := Tombstone{Outcome: a, At: 1, Collected: 5}
			got := was.Raised(factOf(someTask(), late[b]))
			if got.Collected != 5 {
				t.Errorf("%s raised by %s: collected at %d", a, b, got.Collected)
			}
			if better := j+1 > i; better && got.Outcome != b || !better && got.Outcome != a {
				t.Errorf("%s raised by %s is %s", a, b, got.Outcome)
			}
		}
	}
}

// TestGivenUpIn: what was given up stays so when a retry of it becomes known that begins a
// generation up to that one, and one above all that are known undoes it.
func TestGivenUpIn(t *testing.T) {
	task := id.NewGenerator(7, func() uint64 { return 1 }).Next(1)
	for name, end := range map[string]Fact{
		"dead":                      Dead{Generation: 2, At: 5, Reason: "why"}.Fact(task),
		"cancelled by a dependency": DependencyCancelled{Generation: 2, At: 5}.Fact(task),
		"completed":                 Completed{Token: 1, At: 5}.Fact(task),
	} {
		s := NewSet(task)
		add := func(f Fact) *Task {
			if _, _, err := s.Add(f); err != nil {
				t.Fatal(err)
			}
			got, err := s.Task()
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		enqueued := Enqueued{Queue: "q"}
		add(Fact{Task: task, Key: Key{Kind: KindEnqueued}, Body: enqueued.Encode()})
		add(Requeued{Generation: 1}.Fact(task))
		was := add(end)
		f, ok := was.GivenUpIn(7)
		if ok != (name != "completed") {
			t.Fatalf("%s: %t", name, ok)
		}
		if !ok {
			continue
		}
		add(f)
		late := add(Requeued{Generation: 7}.Fact(task))
		if late.Outcome() != was.Outcome() || late.FinishedAt() != was.FinishedAt() || late.Error() != was.Error() || late.Retries() != 2 {
			t.Errorf("%s: %v at %d, %q, after %d retries", name, late.Outcome(), late.FinishedAt(), late.Error(), late.Retries())
		}
		if n := late.NextGeneration(); n != 8 || add(Requeued{Generation: n}.Fact(task)).Finished() {
			t.Errorf("%s: generation %d does not undo it", name, n)
		}
	}
}
