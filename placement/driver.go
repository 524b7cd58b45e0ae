package placement

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// Config is what a driver needs to know. A zero stands for the default.
type Config struct {
	// Self is this node; it counts as alive.
	Self register.Member
	// DeadAfter is for how long a leader must not have been alive before its
	// cells go to others; 10 s.
	DeadAfter time.Duration
	// StableFor is for how long the preferred leader must have been alive
	// before its cells return to it; 1 s. Whoever has died more than once lately
	// waits five times as long, doubling.
	StableFor time.Duration
	// Returns is how many cells at most return to their preferred leaders in
	// each ReturnEvery; an eighth of all, and 64 at least.
	Returns int
	// AtOnce is how many of them are on their way at one moment, for each has no leader for
	// some syncs; a 32nd of all, and half as many while newcomers come into cohorts; 1 at least.
	AtOnce int
	// ReturnEvery is a second.
	ReturnEvery time.Duration
	// Settle is for how long a cohort must have been as it is, and those of it
	// that live alive, before it loses a member that nobody replaces: the time
	// in which replicas compare each partition once; 10 s.
	Settle time.Duration
	// Linger is for how long a leaving node stays a member after the last cell
	// has lost it, unless it asks for its removal ([View.Leave]): it must learn
	// of that and hand over what it has, so time counts only while it lives and
	// every partition takes tasks; 30 s.
	Linger time.Duration
	// Gather is for how long the first plan waits for the next one of the nodes that are
	// expected, once there are as many as replicas; 5 s.
	Gather time.Duration
	// Abandon is for how long a node that joins must not have been alive before it
	// counts as one that does not come; 1 h.
	Abandon time.Duration
	// Retry is after what time a request that shows nowhere is asked again;
	// 3 s.
	Retry time.Duration
	// MaxChanges is the most cells changed by one request; 2,048, some 80 kB.
	MaxChanges int
	// Rand gives nonces; there is no default.
	Rand *rand.Rand
}

func (c Config) withDefaults() Config {
	c.DeadAfter = cmp.Or(c.DeadAfter, 10*time.Second)
	c.StableFor = cmp.Or(c.StableFor, time.Second)
	c.ReturnEvery = cmp.Or(c.ReturnEvery, time.Second)
	c.Settle = cmp.Or(c.Settle, 10*time.Second)
	c.Linger = cmp.Or(c.Linger, 30*time.Second)
	c.Gather = cmp.Or(c.Gather, 5*time.Second)
	c.Abandon = cmp.Or(c.Abandon, time.Hour)
	c.Retry = cmp.Or(c.Retry, 3*time.Second)
	c.MaxChanges = cmp.Or(c.MaxChanges, 2048)
	return c
}

// Input is what a driver is told: everything each time, changed or not. It must
// not change afterwards.
type Input struct {
	// State is the register as the node last heard of it. An older one than
	// before is passed over.
	State register.State
	// Leads says that this node's member leads the register's group. Others
	// ask for nothing.
	Leads bool
	// Alive is the hint who can be reached. Two of different order are
	// different.
	Alive []register.Member
	// Expected is with how many nodes the cluster is being made, as the state says; 0: it has been.
	Expected int
}

// Driver is the machine of the node that leads the register. It is made with
// [New].
type Driver struct {
	cfg   Config
	view  *View
	alive []register.Member // as given
	leads bool
	// expected is as given.
	expected int
	health   health
	// whole is by partition since when the cohort is as it is, mono ns.
	whole []int64
	// idle is for each leaving node since when nothing names it, mono ns.
	idle    map[register.Member]int64
	planned planned
	credit  int   // cells that may return to their preferred leaders
	refill  int64 // when credit is filled up again
	// returning are the cells that were asked to return and have not yet.
	returning map[ring.Partition]returning
	// from is the partition with which the next look begins: those that cannot return
	// keep no others from it.
	from int

	flight *flight
	dirty  bool
	wake   int64
}

// returning is a cell on its way to its preferred leader.
type returning struct {
	cell register.Cell // as it was
	busy int64         // until when it counts as on its way, mono ns
	lost int64         // when it is asked for again
}

// returnPatience is for how long others wait for one: an election on a busy machine.
const returnPatience = time.Second

// flight is the one request under way, but for cells that return.
type flight struct {
	request register.Request
	until   int64 // when it counts as lost
}

// New makes a driver.
func New(cfg Config) *Driver {
	cfg = cfg.withDefaults()
	return &Driver{
		cfg: cfg, view: See(register.State{}, nil), wake: clock.Never,
		health: newHealth(&cfg), idle: map[register.Member]int64{}, returning: map[ring.Partition]returning{},
	}
}

// returns is how many cells at most return in each ReturnEvery: all of a cluster that has just
// formed are home within some seconds, however many there are.
func (d *Driver) returns() int {
	return cmp.Or(d.cfg.Returns, max(64, len(d.view.state.Cells)/8))
}

// atOnce is how many cells return at one moment.
func (d *Driver) atOnce() int {
	cells := len(d.view.state.Cells)
	if d.cfg.AtOnce > 0 {
		return d.cfg.AtOnce
	}
	for p := range d.view.state.Cells {
		for _, m := range d.view.Planned(ring.Partition(p)) {
			if d.view.isAlive(m) && d.view.newcomer(ring.Partition(p), m) {
				return max(1, cells/64)
			}
		}
	}
	return max(1, cells/32)
}

// arrived forgets the cells that have returned, or have changed otherwise, and those that are
// to be asked for again. It gives how many are on their way.
func (d *Driver) arrived(now int64) (n int) {
	for p, r := range d.returning { // Any order: they are counted.
		switch {
		case !d.view.cell(p).Same(&r.cell) || r.lost <= now:
			delete(d.returning, p)
		case r.busy > now:
			n++
			d.at(r.busy)
		default:
			d.at(r.lost)
		}
	}
	return n
}

// View is the state and the hint that the driver was told last, on every node,
// whether it leads or not.
func (d *Driver) View() *View { return d.view }

// Step tells the driver how things are. It costs next to nothing when they are
// as they were.
func (d *Driver) Step(now clock.Time, in Input) {
	newer := in.State.Generation != d.view.state.Generation || in.State.Revision > d.view.state.Revision
	hint := !slices.Equal(in.Alive, d.alive)
	began := in.Leads && !d.leads
	d.leads, d.expected = in.Leads, in.Expected
	if !newer && !hint && !began {
		return
	}
	old := d.view
	state := old.state
	if newer {
		state = in.State
	}
	if hint {
		d.alive = in.Alive
	}
	d.view = old.Next(state, d.living())
	d.dirty = true
	if began {
		d.begin()
	}
	if !d.leads {
		return
	}
	d.health.note(now.Mono, d.view)
	d.noteCohorts(now.Mono, old.state.Cells, began)
	if d.flight != nil && d.flight.settled(d.view) {
		d.flight = nil
	}
}

// living is the hint with this node.
func (d *Driver) living() []register.Member {
	if slices.Contains(d.alive, d.cfg.Self) {
		return d.alive
	}
	return append(slices.Clone(d.alive), d.cfg.Self)
}

// begin forgets what was known of the others: a node that was cut off believes
// that everybody is dead.
func (d *Driver) begin() {
	d.health = newHealth(&d.cfg)
	d.whole, d.planned, d.flight = nil, planned{}, nil
	d.credit, d.refill = 0, 0
	clear(d.idle)
	clear(d.returning)
}

// noteCohorts notes which cohorts have changed.
func (d *Driver) noteCohorts(now int64, old []register.Cell, all bool) {
	cells := d.view.state.Cells
	if all = all || len(d.whole) != len(cells) || len(old) != len(cells); all {
		d.whole = make([]int64, len(cells))
	}
	for p := range cells {
		if all || !cells[p].Same(&old[p]) && !slices.Equal(cells[p].Cohort, old[p].Cohort) {
			d.whole[p] = now
		}
	}
}

// settled says that everything that a request asks for shows in the register,
// or something else in its place.
func (f *flight) settled(v *View) bool {
	for i := range f.request.Changes {
		c := &f.request.Changes[i]
		if v.cell(c.Partition).Same(&c.Old) {
			return false
		}
	}
	for i := range f.request.Nodes {
		c := &f.request.Nodes[i]
		if n, _ := v.state.Find(c.New.Member); n.Version == c.Old {
			return false
		}
	}
	return f.request.Plan == nil || v.state.Plan.Version != f.request.Plan.Old
}

// Ready gives what to ask the register for, if anything, and when to call again
// at the latest though nothing has changed, mono ns; clock.Never for never. The
// request has no tag. There is one under way at
// most, but for cells that return.
func (d *Driver) Ready(now clock.Time) (requests []register.Request, wake int64) {
	if !d.leads || d.view.state.Cluster.Partitions == 0 {
		return nil, clock.Never
	}
	if d.flight != nil {
		if now.Mono < d.flight.until {
			return nil, d.flight.until
		}
		d.flight, d.dirty = nil, true
	}
	if !d.dirty && now.Mono < d.wake {
		return nil, d.wake
	}
	d.dirty, d.wake = false, clock.Never
	r := d.scan(now.Mono)
	if r.Reads() {
		return nil, d.wake
	}
	waits := r
	waits.Changes = slices.DeleteFunc(slices.Clone(r.Changes), func(c register.Change) bool {
		_, is := d.returning[c.Partition]
		return is
	})
	if waits.Reads() { // nothing else waits for those
		return []register.Request{r}, d.wake
	}
	d.flight = &flight{request: waits, until: now.Add(d.cfg.Retry).Mono}
	return []register.Request{r}, d.flight.until
}

// at asks to be called at an instant.
func (d *Driver) at(mono int64) { d.wake = min(d.wake, mono) }

// scan looks at everything once.
func (d *Driver) scan(now int64) register.Request {
	var r register.Request
	r.Plan = d.replan(now)
	s := d.survey(now, r.Plan != nil)
	first, cells := d.from, len(d.view.state.Cells)
	for i := range cells {
		if len(r.Changes) == d.cfg.MaxChanges {
			break // the rest follows with the next state
		}
		p := (first + i) % cells
		cell := &d.view.state.Cells[p]
		next, ok := s.next(ring.Partition(p), cell)
		if !ok {
			continue
		}
		next.Epoch, next.Nonce = cell.Epoch+1, d.cfg.Rand.Uint64()
		r.Changes = append(r.Changes, register.Change{Partition: ring.Partition(p), Old: *cell, New: next})
	}
	r.Nodes = append(d.retire(now), d.abandon(now)...)
	return r
}
