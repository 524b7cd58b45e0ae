package register

import (
	"errors"
	"testing"

	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store/memstore"
)

func open(t *testing.T, s *memstore.Mem) *Local {
	t.Helper()
	l, err := OpenLocal(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func formatted(t *testing.T) (*memstore.Mem, Member) {
	t.Helper()
	s, self := memstore.New(), Member{Node: "n1", Incarnation: Incarnation{1}}
	if _, err := OpenLocal(s); !errors.Is(err, ErrNotFormatted) {
		t.Fatalf("opening an empty store: %v, want ErrNotFormatted", err)
	}
	if err := Format(s, Cluster{ID: UUID{7}, Partitions: 4, Replicas: 3}, self); err != nil {
		t.Fatal(err)
	}
	return s, self
}

func do(l *Local, changes ...Change) (res Result) {
	l.Do(Request{Tag: 5, Changes: changes}, func(r Result) { res = r })
	return res
}

func TestCompareAndSetIsExact(t *testing.T) {
	s, self := formatted(t)
	l := open(t, s)
	old := do(l).State.Cells[2]
	first := Cell{Epoch: 1, Cohort: old.Cohort, Leader: self, Nonce: 11}
	rival := Cell{Epoch: 1, Cohort: old.Cohort, Leader: self, Nonce: 12}
	res := do(l, Change{ring.Partition(2), old, first}, Change{ring.Partition(2), old, rival}, Change{ring.Partition(99), old, rival})
	if res.Tag != 5 || !res.Won[0] || res.Won[1] || res.Won[2] {
		t.Fatalf("won %v with tag %d, want the first change only", res.Won, res.Tag)
	}
	// Same epoch, other nonce: not the value that was read.
	if r := do(l, Change{2, rival, Cell{Epoch: 9, Nonce: 1}}); r.Won[0] {
		t.Fatal("a change from a value that never stood in the cell was written")
	}
	// An epoch that does not grow (K1).
	if r := do(l, Change{2, first, Cell{Epoch: 1, Nonce: 13}}); r.Won[0] {
		t.Fatal("an epoch that does not increase was written")
	}
	if got := do(l).State.Cells[2]; !got.Same(&first) || got.Leader != self {
		t.Fatalf("the cell is %+v, want %+v", got, first)
	}
}

func TestStateSurvivesACrash(t *testing.T) {
	s, self := formatted(t)
	l := open(t, s)
	old := do(l).State.Cells[0]
	won := Cell{Epoch: 1, Cohort: old.Cohort, Leader: self, Nonce: 3}
	if !do(l, Change{0, old, won}).Won[0] {
		t.Fatal("the change was not written")
	}
	l = open(t, s.Crash(0))
	if got := do(l).State.Cells[0]; !got.Same(&won) {
		t.Fatalf("after a crash the cell is %+v, want %+v", got, won)
	}
	if c := l.Cluster(); c.Partitions != 4 || c.ID != (UUID{7}) {
		t.Fatalf("after a crash the cluster is %+v", c)
	}
}

func TestSubscribersHearChangesOnly(t *testing.T) {
	s, _ := formatted(t)
	l := open(t, s)
	heard := 0
	l.Subscribe(func(State) { heard++ })
	old := do(l).State.Cells[0]
	if do(l, Change{0, old, Cell{Epoch: 1, Nonce: 1}}); heard != 1 {
		t.Fatalf("heard %d changes, want 1", heard)
	}
	if do(l, Change{0, old, Cell{Epoch: 2, Nonce: 2}}); heard != 1 {
		t.Fatalf("heard %d changes after a lost one, want 1", heard)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if r := do(l); !errors.Is(r.Err, ErrClosed) {
		t.Fatalf("after closing: %v, want ErrClosed", r.Err)
	}
}

func TestQueueSettingsAreComparedAndSet(t *testing.T) {
	s, _ := formatted(t)
	l := open(t, s)
	set := func(old uint64, value string) (res Result) {
		l.Do(Request{Queues: []QueueChange{{Name: "mail", Old: old, Settings: []byte(value)}}}, func(r Result) { res = r })
		return res
	}
	first := set(0, "a")
	if !first.QueuesWon[0] || first.State.Queues["mail"].Version != 1 {
		t.Fatalf("the first settings were not written: %+v", first)
	}
	if r := set(0, "b"); r.QueuesWon[0] || string(r.State.Queues["mail"].Settings) != "a" {
		t.Fatalf("settings were written over a version that was not read: %+v", r.State.Queues)
	}
	if r := set(1, "c"); !r.QueuesWon[0] {
		t.Fatal("a change from the present version was not written")
	}
	if string(first.State.Queues["mail"].Settings) != "a" {
		t.Fatal("a change reached a state that was handed out before")
	}
	l = open(t, s.Crash(0))
	if q := do(l).State.Queues["mail"]; q.Version != 2 || string(q.Settings) != "c" {
		t.Fatalf("after a crash the settings are %+v", q)
	}
}
