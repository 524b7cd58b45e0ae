package sim

import (
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// plan is what a seed draws before it begins: the shape of the cluster, how
// much is done to it, and how much goes wrong. Every kind of trouble is absent
// in some seeds, so that none hides what another one would show.
type plan struct {
	partitions int
	queues     []string
	headSize   int
	maxClaims  int
	maxWaiters int
	eta        time.Duration
	lease      time.Duration // workers ask for about this much
	storm      time.Duration

	what                     nornv1.Retention
	retention, deadRetention time.Duration
	collect                  time.Duration // 0: nothing is collected
	grace                    time.Duration

	tasks                                      int // at most about so many
	producers, workers, readers, admins, hands int

	cluster clusterPlan // zero: there is one node

	net   netPlan
	disk  diskPlan
	crash crashPlan
	clock clockPlan
	work  workPlan
}

// netPlan says how the network behaves.
type netPlan struct {
	delay time.Duration // mean, each way
	spike float64       // chance of a frame to take up to a second
	cut   time.Duration // mean time between cuts of a client's connection; 0: never
	again float64       // chance that a request comes once more, much later
	late  time.Duration // how much later at most
	idle  float64       // chance that a node is slow to hear of a cut
}

// diskPlan says how the disk and the loop behave.
type diskPlan struct {
	sync   time.Duration // mean
	stall  float64       // chance of a sync that takes up to stallFor
	loop   time.Duration // mean delay of a turn of the loop
	read   time.Duration // mean delay of a read
	depth  int           // rounds that may wait for a sync
	full   time.Duration // mean time between episodes of a nearly full disk; 0: never
	answer time.Duration // mean delay of the register
	doubt  float64       // chance that the register's answer gets lost
}

const stallFor = 2 * time.Second

// crashPlan says how often the node goes down.
type crashPlan struct {
	every   time.Duration // mean time between crashes; 0: never
	down    time.Duration // mean time until the restart
	steps   bool          // crash at a step of the contract instead of a time
	drained float64       // chance of a clean stop instead
}

// clockPlan says what clocks do.
type clockPlan struct {
	drift   int64         // at most so many millionths
	restart time.Duration // a restart sets the wall clock by at most this much, either way
	set     time.Duration // mean time between settings while running; 0: never
	nap     time.Duration // mean time between machines that are suspended; 0: never
}

// workPlan says what clients do.
type workPlan struct {
	think    time.Duration // mean pause of a client
	fails    float64       // share of jobs that fail
	dies     float64       // chance of a worker to die per job
	lazy     float64       // share of jobs that are not renewed
	delayed  float64       // share of tasks with a not-before time
	depends  float64       // share of tasks with dependencies
	keyed    float64       // share of tasks with a unique key
	attempts uint32
	quick    bool // jobs are short, and workers do nothing but work on them
	settings bool // admins change queues
}

// draw makes the plan of a seed.
func (w *world) draw() plan {
	p := plan{
		partitions: pick(w, []int{1, 2, 4}),
		queues:     pick(w, [][]string{{"a"}, {"a", "b"}, {"a", "b", "c"}}),
		headSize:   pick(w, []int{2, 3, 8, 64}),
		eta:        pick(w, []time.Duration{500 * time.Millisecond, 2 * time.Second}),
		lease:      pick(w, []time.Duration{2 * time.Second, 5 * time.Second, 15 * time.Second}),
		storm:      w.between(20*time.Second, 60*time.Second),
		tasks:      20 + w.rnd.IntN(60), producers: 1 + w.rnd.IntN(2), workers: 2 + w.rnd.IntN(3), readers: 1, admins: 1,
	}
	p.net.delay = pick(w, []time.Duration{200 * time.Microsecond, 5 * time.Millisecond, 50 * time.Millisecond})
	if w.chance(0.6) {
		p.net.spike = 0.05
		p.net.cut = pick(w, []time.Duration{3 * time.Second, 20 * time.Second})
		p.net.idle = 0.3
	}
	if w.chance(0.5) {
		p.net.again, p.net.late = pick(w, []float64{0.02, 0.1}), w.between(time.Second, 15*time.Second)
	}
	p.disk = diskPlan{
		sync:  pick(w, []time.Duration{200 * time.Microsecond, 5 * time.Millisecond, 100 * time.Millisecond}),
		loop:  pick(w, []time.Duration{20 * time.Microsecond, time.Millisecond, 20 * time.Millisecond}),
		read:  pick(w, []time.Duration{20 * time.Microsecond, time.Millisecond, 100 * time.Millisecond}),
		depth: 1 + w.rnd.IntN(3), answer: pick(w, []time.Duration{time.Millisecond, 200 * time.Millisecond}),
	}
	if w.chance(0.3) {
		p.disk.stall, p.disk.doubt = 0.02, 0.2
	}
	if w.chance(0.2) {
		p.disk.full = 15 * time.Second
	}
	if w.chance(0.7) {
		p.crash = crashPlan{
			every: pick(w, []time.Duration{3 * time.Second, 10 * time.Second, 30 * time.Second}),
			down:  pick(w, []time.Duration{50 * time.Millisecond, time.Second, 5 * time.Second}),
			steps: w.chance(0.5), drained: pick(w, []float64{0, 0.3}),
		}
	}
	p.maxClaims, p.maxWaiters = 10_000, 1000
	if w.chance(0.15) {
		p.maxClaims, p.maxWaiters = 1+w.rnd.IntN(4), 1+w.rnd.IntN(2)
	}
	if w.chance(0.7) {
		p.clock.drift = 400
	}
	if w.chance(0.4) {
		p.clock.restart = pick(w, []time.Duration{time.Second, time.Minute})
	}
	if w.chance(0.2) {
		p.clock.set = 15 * time.Second
	}
	p.work = workPlan{
		think: pick(w, []time.Duration{300 * time.Millisecond, 1500 * time.Millisecond}),
		fails: pick(w, []float64{0, 0.2, 0.5}), dies: pick(w, []float64{0, 0.05, 0.15}), lazy: pick(w, []float64{0, 0.3}),
		delayed: pick(w, []float64{0, 0.3}), depends: pick(w, []float64{0, 0.3}), keyed: pick(w, []float64{0, 0.2}),
		attempts: pick(w, []uint32{1, 3, 10}), settings: w.chance(0.5),
	}
	w.drawRetention(&p)
	return p
}

// drawRetention draws what becomes of finished tasks. What is forgotten soon
// needs clocks that do not run away: a node whose clock steps by more than
// gc-grace cannot tell old from young.
func (w *world) drawRetention(p *plan) {
	p.what, p.grace = nornv1.Retention_RETENTION_DELETE, 24*time.Hour
	p.retention = time.Hour
	if w.chance(0.5) {
		return
	}
	p.collect = pick(w, []time.Duration{200 * time.Millisecond, 3 * time.Second})
	p.retention = pick(w, []time.Duration{5 * time.Second, 20 * time.Second})
	if w.chance(0.3) {
		p.deadRetention = p.retention
	}
	if w.chance(0.3) {
		p.what = nornv1.Retention_RETENTION_ARCHIVE
	}
	if p.clock.set == 0 && p.clock.restart <= time.Second && w.chance(0.5) {
		p.grace = 40 * time.Second
	}
}

// steps is how far apart two readings of a node's wall clock may be put.
func (p *plan) steps() time.Duration {
	return 2*p.clock.restart + map[bool]time.Duration{true: 2 * setBy}[p.clock.set > 0]
}

// setBy is by how much a running node's wall clock is set at most.
const setBy = 10 * time.Second

// calm takes all trouble away.
func (p *plan) calm() {
	p.net.spike, p.net.cut, p.net.again, p.net.idle = 0, 0, 0, 0
	p.net.delay = min(p.net.delay, 5*time.Millisecond)
	p.disk.stall, p.disk.doubt, p.disk.full = 0, 0, 0
	p.disk.sync, p.disk.read = min(p.disk.sync, 5*time.Millisecond), min(p.disk.read, 5*time.Millisecond)
	p.crash, p.clock.set, p.clock.nap = crashPlan{}, 0, 0
	p.work.fails, p.work.dies, p.work.lazy = 0, 0, 0
}
