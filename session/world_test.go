package session

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
)

var (
	simSeed  = flag.Uint64("seed", 0, "run this seed of TestWorlds only, and print what happens")
	simSeeds = flag.Int("seeds", 60, "seeds of TestWorlds")
)

// show is a frame in traces.
func (w *world) show(b Body) string {
	switch b := b.(type) {
	case *Heartbeat:
		return fmt.Sprintf("heartbeat claims=%d checked=%d", len(b.Claims), b.Checked)
	case *HeartbeatReply:
		return fmt.Sprintf("heartbeat-reply good=%v %v checked=%d", b.Good, b.Refused, b.Checked)
	case *RunTask:
		if b.Check != 0 {
			return fmt.Sprintf("run-task check=%d", b.Check)
		}
		return "run-task " + w.name(b.Claim)
	case *RunReply:
		return "run-reply " + w.name(b.Claim) + " " + b.Refused.String()
	case *UpdateStatus:
		return "update-status " + w.name(b.Claim) + " " + b.End.Kind.String()
	case *StatusAck:
		return "status-ack " + w.name(b.Claim)
	case *Notify:
		text := fmt.Sprintf("notify %d", b.Seq)
		for _, q := range b.Claims {
			text += " " + w.name(q.Claim)
		}
		return text
	}
	return b.Kind().String()
}

// newWorld makes nodes, workers and tasks; everything follows from the seed.
func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 7)), check: newCheck()}
	w.net.seen = map[Kind]int{}
	w.cp = &simCP{world: w, names: map[string]*simName{}}
	for range 2 {
		w.addNode()
	}
	for n := range 3 {
		lock := ""
		if n == 1 {
			lock = "/run/worker"
		}
		w.addWorker(fmt.Sprintf("shard-%d", n), fmt.Sprintf("m%d", n), lock)
	}
	for n := range 40 {
		t := &simTask1{no: n, queue: "q"}
		if n%4 == 0 {
			t.queue = "narrow"
		}
		w.cp.tasks = append(w.cp.tasks, t)
	}
	w.every(50*time.Millisecond, w.cp.serve)
	return w
}

func (w *world) every(d time.Duration, f func()) {
	w.after(d, func() {
		f()
		w.every(d, f)
	})
}

// trouble does things to processes at random times.
func (w *world) trouble() {
	s := w.workers[w.rng.IntN(len(w.workers))]
	if w.healed || s.dead {
		return
	}
	switch w.rng.IntN(12) {
	case 0:
		s.freeze(w.span(7 * time.Second))
	case 1:
		s.freeze(w.span(500 * time.Millisecond))
	case 2:
		s.kill()
	case 3:
		w.nodes[w.rng.IntN(len(w.nodes))].crash()
	case 4:
		s.do(func(worker *Worker, now clock.Time) { worker.Drain(now) })
	case 5:
		if s.node != nil {
			s.node.do(func(d *Dispatcher, now clock.Time) { d.Kill(now, s.instance(), "operator") })
		}
	case 6:
		if s.node != nil {
			s.node.do(func(d *Dispatcher, now clock.Time) { d.Closed(now, s.instance(), s.w.association) })
		}
	case 7:
		if all := s.w.has.live(); len(all) > 0 && s.node != nil {
			t := w.cp.tasks[all[0].Task[19]]
			t.cancel = true
			s.node.do(func(d *Dispatcher, now clock.Time) { d.Cancel(now, s.instance(), all[0], CauseCancelled) })
		}
	default:
		s.turn()
	}
}

// cut silences a node for some workers: neither hears the other for a while.
func (w *world) run(trouble bool) {
	if trouble {
		w.every(400*time.Millisecond, w.trouble)
	}
	w.until(int64(15 * time.Second))
	w.healed = true
	// Who gave up waits for its name, which may be held for a while.
	w.until(w.now + int64(30*time.Second))
	if len(w.check.broken) == 0 {
		w.check.quiet(w)
	}
}

// TestWorlds runs both machines over a bad network, with processes that are frozen,
// killed and restarted, nodes that crash, and clocks of different rates.
func TestWorlds(t *testing.T) {
	first, n := uint64(1), *simSeeds
	if testing.Short() {
		n = 20
	}
	if *simSeed != 0 {
		first, n = *simSeed, 1
	}
	counts := map[string]int{}
	for seed := first; seed < first+uint64(n); seed++ {
		w := newWorld(seed)
		w.net.drop, w.net.double, w.net.late = 0.05, 0.1, 0.1
		if *simSeed != 0 {
			w.trace = &strings.Builder{}
		}
		w.run(true)
		if w.trace != nil {
			t.Log("\n" + w.trace.String())
		}
		if len(w.check.broken) > 0 {
			t.Fatalf("seed %d: %s", seed, strings.Join(w.check.broken, "\n"))
		}
		for k, v := range w.check.counts {
			counts[k] += v
		}
	}
	t.Logf("%d seeds: %v", n, counts)
	if *simSeed != 0 || testing.Short() {
		return
	}
	for _, k := range []string{"started", "denied", "lapsed", "lost", "settled unsent", "settled refused", "settled not-running", "settled ended", "settled lost", "settled left"} {
		if counts[k] == 0 {
			t.Errorf("nothing was %s: the simulation does not go there", k)
		}
	}
}
