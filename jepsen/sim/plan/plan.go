package plan

import (
	"time"

	"github.com/norn-dev/norn/jepsen/sim/world"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Plan is what a seed draws before it begins: the shape of the cluster, how
// much is done to it, and how much goes wrong. Every kind of trouble is absent
// in some seeds, so that none hides what another one would show.
type Plan struct {
	Partitions int
	Queues     []string
	HeadSize   int
	MaxClaims  int
	MaxWaiters int
	Eta        time.Duration
	Lease      time.Duration // workers ask for about this much
	Storm      time.Duration

	What                     nornv1.Retention
	Retention, DeadRetention time.Duration
	Collect                  time.Duration // 0: nothing is collected
	Grace                    time.Duration

	Tasks                                      int // at most about so many
	Producers, Workers, Readers, Admins, Hands int

	Cluster clusterPlan // zero: there is one node

	Net   NetPlan
	Disk  DiskPlan
	Crash crashPlan
	Clock clockPlan
	Work  workPlan
}

// NetPlan says how the network behaves.
type NetPlan struct {
	Delay time.Duration // mean, each way
	Spike float64       // chance of a frame to take up to a second
	Cut   time.Duration // mean time between cuts of a client's connection; 0: never
	Again float64       // chance that a request comes once more, much later
	Late  time.Duration // how much later at most
	Idle  float64       // chance that a node is slow to hear of a cut
}

// DiskPlan says how the disk and the loop behave.
type DiskPlan struct {
	Sync   time.Duration // mean
	Stall  float64       // chance of a sync that takes up to stallFor
	Loop   time.Duration // mean delay of a turn of the loop
	Read   time.Duration // mean delay of a read
	Depth  int           // rounds that may wait for a sync
	Full   time.Duration // mean time between episodes of a nearly full disk; 0: never
	Answer time.Duration // mean delay of the register
	Doubt  float64       // chance that the register's answer gets lost
}

// StallFor is how long a sync that stalls takes at most.
const StallFor = 2 * time.Second

// crashPlan says how often the node goes down.
type crashPlan struct {
	Every   time.Duration // mean time between crashes; 0: never
	Down    time.Duration // mean time until the restart
	Steps   bool          // crash at a step of the contract instead of a time
	Drained float64       // chance of a clean stop instead
}

// clockPlan says what clocks do.
type clockPlan struct {
	Drift   int64         // at most so many millionths
	Restart time.Duration // a restart sets the wall clock by at most this much, either way
	Set     time.Duration // mean time between settings while running; 0: never
	Nap     time.Duration // mean time between machines that are suspended; 0: never
}

// workPlan says what clients do.
type workPlan struct {
	Think    time.Duration // mean pause of a client
	Fails    float64       // share of jobs that fail
	Dies     float64       // chance of a worker to die per job
	Lazy     float64       // share of jobs that are not renewed
	Delayed  float64       // share of tasks with a not-before time
	Depends  float64       // share of tasks with dependencies
	Keyed    float64       // share of tasks with a unique key
	Attempts uint32
	Quick    bool // jobs are short, and workers do nothing but work on them
	Settings bool // admins change queues
}

// Draw makes the plan of a seed.
func Draw(w *world.World) Plan {
	p := Plan{
		Partitions: world.Pick(w, []int{1, 2, 4}),
		Queues:     world.Pick(w, [][]string{{"a"}, {"a", "b"}, {"a", "b", "c"}}),
		HeadSize:   world.Pick(w, []int{2, 3, 8, 64}),
		Eta:        world.Pick(w, []time.Duration{500 * time.Millisecond, 2 * time.Second}),
		Lease:      world.Pick(w, []time.Duration{2 * time.Second, 5 * time.Second, 15 * time.Second}),
		Storm:      w.Between(20*time.Second, 60*time.Second),
		Tasks:      20 + w.Rnd.IntN(60), Producers: 1 + w.Rnd.IntN(2), Workers: 2 + w.Rnd.IntN(3), Readers: 1, Admins: 1,
	}
	p.Net.Delay = world.Pick(w, []time.Duration{200 * time.Microsecond, 5 * time.Millisecond, 50 * time.Millisecond})
	if w.Chance(0.6) {
		p.Net.Spike = 0.05
		p.Net.Cut = world.Pick(w, []time.Duration{3 * time.Second, 20 * time.Second})
		p.Net.Idle = 0.3
	}
	if w.Chance(0.5) {
		p.Net.Again, p.Net.Late = world.Pick(w, []float64{0.02, 0.1}), w.Between(time.Second, 15*time.Second)
	}
	p.Disk = DiskPlan{
		Sync:  world.Pick(w, []time.Duration{200 * time.Microsecond, 5 * time.Millisecond, 100 * time.Millisecond}),
		Loop:  world.Pick(w, []time.Duration{20 * time.Microsecond, time.Millisecond, 20 * time.Millisecond}),
		Read:  world.Pick(w, []time.Duration{20 * time.Microsecond, time.Millisecond, 100 * time.Millisecond}),
		Depth: 1 + w.Rnd.IntN(3), Answer: world.Pick(w, []time.Duration{time.Millisecond, 200 * time.Millisecond}),
	}
	if w.Chance(0.3) {
		p.Disk.Stall, p.Disk.Doubt = 0.02, 0.2
	}
	if w.Chance(0.2) {
		p.Disk.Full = 15 * time.Second
	}
	if w.Chance(0.7) {
		p.Crash = crashPlan{
			Every: world.Pick(w, []time.Duration{3 * time.Second, 10 * time.Second, 30 * time.Second}),
			Down:  world.Pick(w, []time.Duration{50 * time.Millisecond, time.Second, 5 * time.Second}),
			Steps: w.Chance(0.5), Drained: world.Pick(w, []float64{0, 0.3}),
		}
	}
	p.MaxClaims, p.MaxWaiters = 10_000, 1000
	if w.Chance(0.15) {
		p.MaxClaims, p.MaxWaiters = 1+w.Rnd.IntN(4), 1+w.Rnd.IntN(2)
	}
	if w.Chance(0.7) {
		p.Clock.Drift = 400
	}
	if w.Chance(0.4) {
		p.Clock.Restart = world.Pick(w, []time.Duration{time.Second, time.Minute})
	}
	if w.Chance(0.2) {
		p.Clock.Set = 15 * time.Second
	}
	p.Work = workPlan{
		Think: world.Pick(w, []time.Duration{300 * time.Millisecond, 1500 * time.Millisecond}),
		Fails: world.Pick(w, []float64{0, 0.2, 0.5}), Dies: world.Pick(w, []float64{0, 0.05, 0.15}), Lazy: world.Pick(w, []float64{0, 0.3}),
		Delayed: world.Pick(w, []float64{0, 0.3}), Depends: world.Pick(w, []float64{0, 0.3}), Keyed: world.Pick(w, []float64{0, 0.2}),
		Attempts: world.Pick(w, []uint32{1, 3, 10}), Settings: w.Chance(0.5),
	}
	drawRetention(w, &p)
	return p
}

// drawRetention draws what becomes of finished tasks. What is forgotten soon
// needs clocks that do not run away: a node whose clock steps by more than
// gc-grace cannot tell old from young.
func drawRetention(w *world.World, p *Plan) {
	p.What, p.Grace = nornv1.Retention_RETENTION_DELETE, 24*time.Hour
	p.Retention = time.Hour
	if w.Chance(0.5) {
		return
	}
	p.Collect = world.Pick(w, []time.Duration{200 * time.Millisecond, 3 * time.Second})
	p.Retention = world.Pick(w, []time.Duration{5 * time.Second, 20 * time.Second})
	if w.Chance(0.3) {
		p.DeadRetention = p.Retention
	}
	if w.Chance(0.3) {
		p.What = nornv1.Retention_RETENTION_ARCHIVE
	}
	if p.Clock.Set == 0 && p.Clock.Restart <= time.Second && w.Chance(0.5) {
		p.Grace = 40 * time.Second
	}
}

// Steps is how far apart two readings of a node's wall clock may be put.
func (p *Plan) Steps() time.Duration {
	return 2*p.Clock.Restart + map[bool]time.Duration{true: 2 * SetBy}[p.Clock.Set > 0]
}

// SetBy is by how much a running node's wall clock is set at most.
const SetBy = 10 * time.Second

// Calm takes all trouble away.
func (p *Plan) Calm() {
	p.Net.Spike, p.Net.Cut, p.Net.Again, p.Net.Idle = 0, 0, 0, 0
	p.Net.Delay = min(p.Net.Delay, 5*time.Millisecond)
	p.Disk.Stall, p.Disk.Doubt, p.Disk.Full = 0, 0, 0
	p.Disk.Sync, p.Disk.Read = min(p.Disk.Sync, 5*time.Millisecond), min(p.Disk.Read, 5*time.Millisecond)
	p.Crash, p.Clock.Set, p.Clock.Nap = crashPlan{}, 0, 0
	p.Work.Fails, p.Work.Dies, p.Work.Lazy = 0, 0, 0
}
