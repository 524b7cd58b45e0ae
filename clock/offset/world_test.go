package offset

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"pgregory.net/rapid"
)

const (
	ms     = int64(time.Millisecond)
	second = int64(time.Second)
	epoch  = int64(1_700_000_000) * second
)

// local is the two clocks of one node, as functions of real time.
type local struct {
	wall, mono int64 // at real time 0
	ppm        int64
}

func (l *local) at(real int64) clock.Time {
	passed := real + real/1_000_000*l.ppm + real%1_000_000*l.ppm/1_000_000
	return clock.Time{Wall: l.wall + passed, Mono: l.mono + passed}
}

// world is some nodes' clocks and the real time. Node 0 asks, the others
// answer.
type world struct {
	now   int64
	nodes []local
	p     *Peers
}

// drift is the relative one of two clocks of a world at most, ppm.
const drift = 200

func newWorld(nodes int) *world {
	w := &world{p: New(Config{Self: 0, Drift: drift})}
	for i := range nodes {
		w.nodes = append(w.nodes, local{wall: epoch, mono: int64(i) * 1000 * second})
	}
	return w
}

// drawWorld has clocks that are up to skew off real time, and drift.
func drawWorld(t *rapid.T, nodes int, skew int64) *world {
	w := newWorld(nodes)
	for i := range w.nodes {
		w.nodes[i].wall += rapid.Int64Range(-skew, skew).Draw(t, "skew")
		w.nodes[i].ppm = rapid.Int64Range(-drift/2+1, drift/2-1).Draw(t, "ppm")
	}
	return w
}

// exchange asks node i: there, held and back are the real times of the ways
// and of the wait in between.
func (w *world) exchange(i int, there, held, back int64) error {
	x := Exchange{Peer: uint64(i), Boot: 1, Sent: w.nodes[0].at(w.now)}
	w.now += there
	x.Received = w.nodes[i].at(w.now).Wall
	w.now += held
	x.Answered = w.nodes[i].at(w.now).Wall
	w.now += back
	x.Back = w.nodes[0].at(w.now)
	return w.p.Answered(x)
}

func (w *world) mustExchange(t testing.TB, i int, there, held, back int64) {
	t.Helper()
	if err := w.exchange(i, there, held, back); err != nil {
		t.Fatal(err)
	}
}

func (w *world) here() clock.Time { return w.nodes[0].at(w.now) }

// truth is node i's wall clock minus that of node 0.
func (w *world) truth(i int) int64 { return w.nodes[i].at(w.now).Wall - w.here().Wall }

// known gives what is known of a peer.
func (w *world) known(i int) (Offset, bool) {
	for _, o := range w.p.Offsets(w.here()) {
		if o.Peer == uint64(i) {
			return o, true
		}
	}
	return Offset{}, false
}

// holds tells whether an offset's bound includes the truth.
func (o Offset) holds(truth int64) bool {
	return o.OffsetNs-o.ErrorNs <= truth && truth <= o.OffsetNs+o.ErrorNs
}

func drawWay(t *rapid.T, name string) int64 {
	// Mostly quick, at times very slow, never alike.
	return rapid.OneOf(rapid.Int64Range(0, ms), rapid.Int64Range(0, 3*second)).Draw(t, name)
}
