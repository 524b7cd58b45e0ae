package crdt

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/id"
)

// What the cluster fills in makes no other task of it, what the client asks
// for does; the digest says the same.
func TestSameSpec(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEnqueued(t)
		filled := e
		filled.Admission = drawTime(t, "another admission")
		if filled.Retry.FromQueue {
			filled.Retry = drawRetry(t)
			filled.Retry.FromQueue = true
		}
		if !SameSpec(e, filled) || e.SpecDigest() != filled.SpecDigest() {
			t.Fatalf("%+v and %+v are different tasks", e, filled)
		}
		other := drawEnqueued(t)
		if SameSpec(e, other) != (e.SpecDigest() == other.SpecDigest()) {
			t.Fatalf("%+v and %+v: spec and digest disagree", e, other)
		}
	})
	base := Enqueued{Queue: "q", Payload: []byte("p"), Retry: Retry{MaxAttempts: 3}}
	for name, change := range map[string]func(*Enqueued){
		"queue":         func(e *Enqueued) { e.Queue = "r" },
		"priority":      func(e *Enqueued) { e.Priority = 1 },
		"payload":       func(e *Enqueued) { e.Payload = []byte("q") },
		"not before":    func(e *Enqueued) { e.NotBefore = 1 },
		"dependencies":  func(e *Enqueued) { e.Dependencies = []id.ID{{1}} },
		"policy":        func(e *Enqueued) { e.OnDepFailure = DepFailureRun },
		"attempts":      func(e *Enqueued) { e.Retry.MaxAttempts = 4 },
		"default retry": func(e *Enqueued) { e.Retry.FromQueue = true },
		"headers":       func(e *Enqueued) { e.Headers = []Header{{"a", "b"}} },
		"key":           func(e *Enqueued) { e.Key = "k" },
		"window":        func(e *Enqueued) { e.KeyWindow = 1 },
	} {
		e := base
		change(&e)
		if SameSpec(base, e) || SameSpec(e, base) || base.SpecDigest() == e.SpecDigest() {
			t.Errorf("another %s makes the same task", name)
		}
	}
}
