package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/dispatch"
	"github.com/norn-dev/norn/node/core/leadership"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestWhoWaitsAtANodeThatIsCutOffIsSentAway: it would wait there for nothing, while the
// others hand out what comes. Where another node fails it goes on waiting.
func TestWhoWaitsAtANodeThatIsCutOffIsSentAway(t *testing.T) {
	for _, c := range []struct {
		name string
		cut  [][2]int
		away bool
	}{
		{"cut off", [][2]int{{0, 1}, {1, 0}, {0, 2}, {2, 0}}, true},
		{"another one is", [][2]int{{1, 0}, {0, 1}, {1, 2}, {2, 1}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newTrio(t)
			from := r.send(0, &nornv1.ClaimRequest{Queues: []string{"q"}, WaitSeconds: 300})
			r.live(time.Second, 100*time.Millisecond, nothing)
			for _, link := range c.cut {
				r.cut[link] = true
			}
			r.live(leadership.Lonely+2*dispatch.StrandedAfter, 100*time.Millisecond, nothing)
			reply, is := r.peers[0].replies[from]
			if is != c.away {
				t.Fatalf("answered: %t, with %+v", is, reply)
			}
			if !is {
				return
			}
			if e := reply.Err; e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || e.Guarantee != "exclusive claims" || e.Effect != nornv1.Effect_EFFECT_NONE {
				t.Errorf("it hears %v", e)
			}
		})
	}
}
