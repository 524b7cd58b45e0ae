package core

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// TestWaits: the first claim of a task counts, from when the task could have begun;
// later ones, and tasks that depend on others, do not.
func TestWaits(t *testing.T) {
	r := newRig(t)
	want := func(what string, class, n int, sum time.Duration) {
		t.Helper()
		got := r.core.Stats().Waits
		all := uint64(0)
		for _, c := range got.Counts {
			all += c
		}
		if got.Counts[class] == 0 || all != uint64(n) || got.Sum.Round(time.Second) != sum {
			t.Errorf("%s: %v", what, got)
		}
	}
	task := r.enqueue(spec("q"))[0]
	r.pass(3 * time.Second)
	g := r.claim("q", 1)
	want("3 s", 6, 1, 3*time.Second)
	delayed := spec("q")
	delayed.NotBefore = timestamppb.New(time.Unix(0, r.now.Wall).Add(time.Hour))
	r.enqueue(delayed)
	r.complete(task, g[0].GetToken())
	after := spec("q")
	after.Dependencies = [][]byte{task.Bytes()}
	r.enqueue(after)
	r.pass(time.Minute)
	if len(r.claim("q", 1)) != 1 {
		t.Fatal("the task that waited for another is not ready")
	}
	want("after another", 6, 1, 3*time.Second)
	r.pass(time.Hour)
	if len(r.claim("q", 1)) != 1 {
		t.Fatal("the delayed task is not ready")
	}
	want("delayed", 7, 2, 63*time.Second)
}
