package core

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestOutOfWindowSaysWhatToDo: each refusal names the ID, what bound it passes and what
// to do, and nothing has happened.
func TestOutOfWindowSaysWhatToDo(t *testing.T) {
	r := newRig(t)
	cluster := [16]byte(r.core.cfg.Cluster.ID)
	at := func(d time.Duration) []byte {
		task := id.NewGenerator(8, r.rand.Uint64).Next(r.now.Add(d).Wall)
		return task.Bytes()
	}
	window := func(d time.Duration) []byte { // of an hour
		start := r.now.Add(d).Wall
		start -= start % int64(time.Hour)
		task := id.UniqueKey(cluster, "q", "key", start, 0)
		return task.Bytes()
	}
	stranger := id.UniqueKey(cluster, "q", "key", 0, 77)
	for _, x := range []struct {
		name string
		spec *nornv1.TaskSpec
		want []string
	}{
		{"an ID of the future", &nornv1.TaskSpec{Id: at(eta + time.Second)}, []string{"in the future", "eta (5s)", "set the clock of the client"}},
		{"an ID of long ago", &nornv1.TaskSpec{Id: at(-8 * 24 * time.Hour)}, []string{"gc-grace (168h0m0s)", "under a new ID"}},
		{"a window to come", &nornv1.TaskSpec{Id: window(3 * time.Hour), Key: "key", KeyWindowSeconds: 3600}, []string{"eta (5s)", "set the clock of the client"}},
		{"a window of long ago", &nornv1.TaskSpec{Id: window(-9 * 24 * time.Hour), Key: "key", KeyWindowSeconds: 3600}, []string{"gc-grace (168h0m0s)", "ask for the ID of the present window"}},
		{"a key that has another ID now", &nornv1.TaskSpec{Id: stranger.Bytes(), Key: "key"}, []string{"key \"key\"", "ask for it again"}},
	} {
		x.spec.Queue = "q"
		res := r.tryEnqueue(x.spec)
		e := res.GetError()
		if e.GetKind() != nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW || e.GetEffect() != nornv1.Effect_EFFECT_NONE {
			t.Errorf("%s: %v", x.name, res)
			continue
		}
		for _, words := range append(x.want, id.ID(x.spec.Id).String()) {
			if !strings.Contains(e.GetMessage(), words) {
				t.Errorf("%s: %q does not say %q", x.name, e.GetMessage(), words)
			}
		}
	}
	if n := r.core.Stats().Enqueued; n != 0 {
		t.Errorf("%d tasks were taken", n)
	}
	// Just inside of each bound it is taken.
	for _, spec := range []*nornv1.TaskSpec{
		{Id: at(eta - time.Second)}, {Id: at(-6 * 24 * time.Hour)},
		{Id: window(-6 * 24 * time.Hour), Key: "key", KeyWindowSeconds: 3600},
	} {
		spec.Queue = "q"
		if res := r.tryEnqueue(spec); res.GetError() != nil {
			t.Errorf("%v", res.GetError())
		}
	}
}
