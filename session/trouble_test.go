package session

import (
	"testing"
	"time"
)

// TestATroubledWorkerIsHandedOneAtATime, and none while it rests.
func TestATroubledWorkerIsHandedOneAtATime(t *testing.T) {
	w, err := NewWorker(WorkerConfig{Identity: Identity{Name: "w", Instance: Instance{1}}, Capacity: Capacity{Slots: 5, Queues: []QueueSlots{{"q", 0, 0}}}})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, w, DispatcherConfig{})
	for _, step := range []struct {
		why     string
		resting bool
		want    int
	}{{"", false, 5}, {"no room", true, 0}, {"no room", false, 1}, {"", false, 5}} {
		r.now.Mono += int64(time.Second)
		Trouble(w, r.now, step.why, step.resting)
		r.flow()
		s := r.d.sessions[w.cfg.Identity.Instance]
		if got := s.room(); got != step.want || s.info(r.now).Trouble != step.why {
			t.Errorf("%+v: it is handed %d, for %q", step, got, s.info(r.now).Trouble)
		}
	}
}
