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
	simSeed   = flag.Uint64("seed", 0, "print what happens in this seed of TestPairs or TestWorlds, which runs no other")
	simSeeds  = flag.Int("seeds", 15, "seeds of TestWorlds")
	pairSeeds = flag.Int("pair-seeds", 1, "seeds of each case of TestPairs")
)

// shown prints a frame, when it is printed at all.
type shown struct{ Body }

func (w *world) show(b Body) shown { return shown{b} }

func (b shown) String() string {
	switch b := b.Body.(type) {
	case *Heartbeat:
		return fmt.Sprintf("heartbeat claims=%d checked=%d", len(b.Claims), b.Checked)
	case *HeartbeatReply:
		return fmt.Sprintf("heartbeat-reply good=%v %v checked=%d", b.Good, b.Refused, b.Checked)
	case *RunTask:
		if b.Check != 0 {
			return fmt.Sprintf("run-task check=%d", b.Check)
		}
		return "run-task " + named(b.Claim).String()
	case *RunReply:
		return "run-reply " + named(b.Claim).String() + " " + b.Refused.String()
	case *UpdateStatus:
		return "update-status " + named(b.Claim).String() + " " + b.End.Kind.String()
	case *StatusAck:
		return "status-ack " + named(b.Claim).String()
	case *Notify:
		text := fmt.Sprintf("notify %d", b.Seq)
		for _, q := range b.Claims {
			text += " " + named(q.Claim).String()
		}
		return text
	}
	return b.Kind().String()
}

// newWorld makes two nodes, three workers and 40 tasks.
func newWorld(seed uint64) *world { return newWorldOf(seed, 3, 40) }

// newWorldOf makes two nodes, workers and tasks; everything follows from the seed.
func newWorldOf(seed uint64, workers, tasks int) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 7)), check: newCheck()}
	w.net.seen = map[Kind]int{}
	w.cp = &simCP{world: w, names: map[string]*simName{}, lease: time.Second}
	if w.chance(0.3) {
		w.cp.lease = 20 * time.Second
	}
	for range 2 {
		w.addNode()
	}
	for n := range workers {
		lock := ""
		if n == 1 {
			lock = "/run/worker"
		}
		w.addWorker(fmt.Sprintf("shard-%d", n), fmt.Sprintf("m%d", n), lock)
	}
	w.moreTasks(tasks)
	w.every(50*time.Millisecond, w.cp.serve)
	return w
}

// badNet loses 5 % of the frames, doubles 10 %, and delays 10 %; every fourth network
// is much worse, and every fourth only slow.
func (w *world) badNet() {
	switch w.rng.IntN(4) {
	case 0:
		w.net.drop, w.net.double, w.net.late = 0.3, 0.3, 0.3
	case 1:
		w.net.late = 0.5
	default:
		w.net.drop, w.net.double, w.net.late = 0.05, 0.1, 0.1
	}
}

// moreTasks adds tasks, at most 256 in all.
func (w *world) moreTasks(n int) {
	for range n {
		t := &simTask1{no: len(w.cp.tasks), queue: "q"}
		if t.no%4 == 0 {
			t.queue = "narrow"
		}
		w.cp.tasks = append(w.cp.tasks, t)
	}
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
	switch w.rng.IntN(17) {
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
	case 8:
		s.cut = w.now + int64(w.span(6*time.Second))
	case 9: // deaf from the moment it has turned
		s.turn()
		w.after(w.span(20*time.Millisecond), func() { s.cut = w.now + int64(6*time.Second) })
	case 10:
		n := w.nodes[w.rng.IntN(len(w.nodes))]
		n.apart = max(n.apart, w.now+int64(w.span(10*time.Second)))
	case 12: // nobody is heard
		for _, o := range w.workers {
			o.cut = w.now + int64(w.span(6*time.Second))
		}
	case 11: // somebody else wants its name
		if len(w.workers) < 12 {
			w.addWorker(s.name, s.machine+"°", "")
		}
	default:
		s.turn()
	}
}

// run has some time of trouble, and then time for everything to settle.
func (w *world) run(length time.Duration) {
	w.every(400*time.Millisecond, w.trouble)
	w.until(int64(length))
	w.healed = true
	// Who gave up waits for its name, which may be held for a while. Then there is
	// time for what goes by time-outs, and no more than that.
	w.until(w.now + int64(12*time.Second))
	for n := 0; n < 300 && !w.cp.finished(); n++ {
		w.until(w.now + int64(time.Second))
	}
	w.until(w.now + int64(3*time.Second))
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
		w.badNet()
		if *simSeed != 0 {
			w.trace = &strings.Builder{}
		}
		w.run(15 * time.Second)
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
	if n < 200 {
		return
	}
	for _, k := range []string{"started", "denied", "lapsed", "lost", "settled unsent", "settled refused", "settled not-running", "settled ended", "settled lost", "settled left"} {
		if counts[k] == 0 {
			t.Errorf("nothing was %s: the simulation does not go there", k)
		}
	}
}

// TestSameSeed: a seed gives the same history each time, or nobody could look into
// a failure.
func TestSameSeed(t *testing.T) {
	var traces [2]string
	for n := range traces {
		w := newWorld(5)
		w.badNet()
		w.trace = &strings.Builder{}
		w.run(10 * time.Second)
		traces[n] = w.trace.String()
	}
	if traces[0] != traces[1] || len(traces[0]) < 10_000 {
		t.Errorf("two runs of a seed differ, in %d and %d bytes", len(traces[0]), len(traces[1]))
	}
}
