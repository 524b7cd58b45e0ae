package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/session"
)

// TestSessionRenewalsGather: workers that do nothing but hold a claim cost one request
// each per heartbeat, whose answer brings the renewal too, and the renewals of those
// that beat at about the same time are asked for together.
func TestSessionRenewalsGather(t *testing.T) {
	r := newTrio(t)
	var hands []*hand
	var beats, renewed int
	for i := range 20 {
		h := r.newHand(string(rune('a'+i)), 0, 1, func(c *session.WorkerConfig) { c.Capacity.Lease = time.Minute })
		h.deaf = func(m session.Message) bool {
			switch b := m.Body.(type) {
			case *session.HeartbeatReply:
				beats++
			case *session.Renewed:
				renewed += len(b.Items)
			}
			return false
		}
		hands = append(hands, h)
		r.stock(1, 1)
		r.days(10*time.Second, 20*time.Millisecond, func() bool { return len(h.running) == 1 }, hands...)
	}
	calls := func() (n int) {
		for _, h := range hands {
			n += h.calls
		}
		return n
	}
	began := r.now.Mono
	r.days(time.Minute, 20*time.Millisecond, func() bool { return r.now.Mono-began > int64(15*time.Second) }, hands...)
	beats, renewed = 0, 0
	before, asked := calls(), r.peers[0].core.sessions.Asks.Number
	began = r.now.Mono
	r.days(2*time.Minute, 20*time.Millisecond, func() bool { return r.now.Mono-began > int64(time.Minute) }, hands...)
	made, asks := calls()-before, r.peers[0].core.sessions.Asks.Number-asked
	t.Logf("%d heartbeats, %d renewals, %d requests of workers, %d of the node", beats, renewed, made, asks)
	// A health check now and then is a request of its own, and its answer.
	if beats < 200 || renewed < beats-20 || made > beats+beats/2 || asks > uint64(beats)*2/3 {
		t.Errorf("%d heartbeats, %d renewals, %d requests of workers, %d of the node", beats, renewed, made, asks)
	}
	for _, h := range hands {
		if len(h.stops) > 0 {
			t.Errorf("a claim was stopped: %v", h.stops)
		}
	}
}

// TestSessionShortLeaseIsNotGathered: what is renewed often is renewed at once, and a
// renewal that does not come holds up no answer for long.
func TestSessionShortLeaseIsNotGathered(t *testing.T) {
	r := newTrio(t)
	task := r.stock(1, 1)[0]
	h := r.newHand("w", (r.leader(r.part(task))+1)%3, 1, func(c *session.WorkerConfig) { c.Capacity.Lease, c.Stop = 5*time.Second, 200*time.Millisecond })
	r.days(10*time.Second, 20*time.Millisecond, func() bool { return len(h.running) == 1 }, h)
	began := r.now.Mono
	r.days(2*time.Minute, 20*time.Millisecond, func() bool { return r.now.Mono-began > int64(20*time.Second) }, h)
	if len(h.stops) > 0 {
		t.Fatalf("a claim was stopped: %v", h.stops)
	}
	// Its leader dies: heartbeats are answered, without the renewals.
	r.kill(r.leader(r.part(task)))
	heard := h.m.Info().Heard
	took := r.days(10*time.Second, 20*time.Millisecond, func() bool { return h.m.Info().Heard > heard+int64(2*time.Second) }, h)
	if t.Logf("heard again after %v", took); took > 5*time.Second {
		t.Errorf("heard again after %v", took)
	}
}
