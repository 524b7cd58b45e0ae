package sim

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/sim/disk"
	"github.com/norn-dev/norn/jepsen/sim/plan"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/world"
	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/store"
)

// node is one node: a process that comes and goes over a disk that stays. It
// keeps the contract of package node/core the way package node does.
type node struct {
	world.Process
	s     *sim
	disk  *disk.Disk
	cells *disk.Disk // the register's own disk
	self  register.Member
	index int     // in the cluster
	peers *member // its part in the register's group; nil: it is alone and has a register of its own
	away  bool    // it is out of the cluster for good

	up       bool
	core     *core.Core
	register *register.Local
	conns    map[uint64]*conn // open, as far as this process knows
	asked    map[message.Origin]*question

	first, rest []any    // the inbox
	before      []any    // the one before this; its space is used again
	loop        func()   // its turn, made once: there is one for each message
	turning     bool     // a turn of the loop is on its way
	wake        int64    // true time at which the loop must look around
	spins       int      // turns in a row with nothing to do, each at once
	waiting     []*round // applied, for the next sync
	flying      []*round // under the present sync
	over        []*round // done; their space is used again
	syncing     bool
	synced      uint64 // the last round that is durable

	steps    int             // steps of the contract until the crash; 0: none is set
	armed    bool            // the crash comes a few steps after the next write
	leaving  bool            // the cluster
	asleep   time.Duration   // how much longer than usual it is down the next time, or now
	hurt     bool            // its disks are not what it wrote
	since    int64           // true time of that
	draining bool            // it is being stopped
	paused   map[string]bool // queues that may be paused: somebody tried, and no resuming has been answered
}

// question is a request that was stepped and has no answer yet.
type question struct {
	at    int64 // true time
	body  *message.Request
	limit int64 // true time by which an answer is due
	news  int64 // a log request: true time since when there is something new
}

// round is what one turn of the loop hands to the syncer.
type round struct {
	number   uint64
	dirty    bool
	mark     uint64 // batches applied up to and with this round
	replies  []message.Reply
	reads    []message.Read
	archives []message.Archive
	sends    []message.Send
	commit   []register.Request
	snapshot store.Snapshot
}

func newNode(s *sim) *node {
	n := &node{s: s, self: self, disk: disk.New(), cells: disk.New(), paused: map[string]bool{}}
	if err := register.Format(n.cells, n.config().Cluster, self); err != nil {
		s.broken("the register cannot be formatted: %v", err)
	}
	return n
}

// start begins a new process on the disk as it is.
func (n *node) start() {
	s := n.s
	n.Life++
	n.Clock.Until = 0
	n.Clock.Began, n.Clock.First = s.Now, 1+s.Rnd.Int64N(1e12)
	n.Clock.Drift = s.drift()
	if s.fleet != nil {
		nemesis{s.fleet}.setRight()
	}
	n.conns, n.asked = map[uint64]*conn{}, map[message.Origin]*question{}
	n.first, n.rest, n.before, n.waiting, n.flying = nil, nil, nil, nil, nil
	n.loop = n.turn
	n.turning, n.syncing, n.draining, n.wake, n.synced, n.spins = false, false, false, never, 0, 0
	if err := n.open(); err != nil {
		if s.fleet != nil && (nemesis{s.fleet}).expected(n, err) {
			return
		}
		s.broken("%snode does not open: %v", n, err)
		return
	}
	n.up, n.asleep = true, 0
	s.note("%snode starts, wall clock off by %v", n, time.Duration(n.Clock.Off))
	n.poke()
	if n.peers != nil {
		n.peers.begin()
	}
}

// crash ends the process as power loss does: of what is not durable any prefix
// may survive.
func (n *node) crash() {
	s := n.s
	if !n.up {
		return
	}
	n.unanswered()
	n.up, n.steps, n.armed = false, 0, false
	n.Life++
	keep := 0
	if u := n.disk.AtRisk(); u > 0 && s.Chance(0.6) {
		keep = s.Rnd.IntN(u + 1)
	}
	s.note("%snode crashes, %d of %d unsynced batches survive", n, keep, n.disk.AtRisk())
	s.stats[stats.Crashes]++
	if n.disk.AtRisk() > keep {
		s.stats[stats.CrashesWithLoss]++
	}
	n.down(keep)
}

// stop ends the process after a drain: everything is synced.
func (n *node) stop() {
	if !n.up {
		return
	}
	n.unanswered()
	n.up, n.steps, n.armed = false, 0, false
	n.Life++
	n.s.note("%snode stops", n)
	n.s.stats[stats.Stops]++
	n.down(n.disk.AtRisk())
}

func (n *node) down(keep int) {
	s := n.s
	n.disk.Fail(keep)
	if s.mutant.Crash != nil {
		s.mutant.Crash(n)
	}
	if n.peers != nil {
		counted(n)
		nemesis{s.fleet}.setRight()
		n.cells.Fail(s.Rnd.IntN(n.cells.AtRisk() + 1))
	} else {
		n.cells.Fail(0)
	}
	n.core, n.register, n.peers = nil, nil, nil
	n.audit()
	s.conns = slices.DeleteFunc(s.conns, func(c *conn) bool {
		if c.node == n {
			c.broken()
		}
		return c.node == n
	})
	wait := s.About(s.plan.Crash.Down) + n.asleep
	if d := s.plan.Clock.Restart; d > 0 {
		n.Clock.Off = int64(s.Between(-d, d))
		s.stats[stats.ClockSteps]++
		s.note("%s", check.ClockStepped)
	}
	life := n.Life
	s.After(wait, func() {
		if !n.up && !n.away && n.Life == life {
			n.start()
		}
	})
}

// counted counts what the process has collected, at its end.
func counted(n *node) {
	if n.core != nil {
		n.s.stats[stats.Collected] += int(n.core.Stats().Collected)
	}
}

// open opens what is on the disks.
func (n *node) open() (err error) {
	defer caught(n.disk, &err)
	defer caught(n.cells, &err)
	if n.s.fleet != nil {
		n.peers, err = openMember(n)
	} else {
		n.register, err = register.OpenLocal(n.cells)
	}
	if err == nil {
		n.core, err = core.Open(n.config(), n.disk, n.Clock.Time(n.s.Now))
	}
	return err
}

// String names the node in notes; of a node that is alone there is no name.
func (n *node) String() string {
	if n.s.fleet == nil {
		return ""
	}
	return n.self.Node + ": "
}

// step passes one step of the contract and tells whether the process has died
// at it.
func (n *node) step() bool {
	if n.steps > 0 {
		if n.steps--; n.steps == 0 {
			n.s.stats[stats.CrashesAtStep]++
			n.crash()
			n.s.nextCrash()
		}
	}
	return !n.up
}

// put gives an event to the inbox; urgent ones come first, as in package node.
func (n *node) put(event any, urgent bool) {
	if urgent {
		n.first = append(n.first, event)
	} else {
		n.rest = append(n.rest, event)
	}
	n.poke()
}

// poke makes the loop look around soon.
func (n *node) poke() {
	if n.turning || !n.up {
		return
	}
	n.turning = true
	n.later(n.s.About(n.s.plan.Disk.Loop), n.loop)
}

// later makes fn happen unless the process has ended by then.
func (n *node) later(d time.Duration, fn func()) {
	n.s.AfterIn(&n.Process, d, fn)
}

// receive takes in a request over a connection.
func (n *node) receive(c *conn, r *message.Request, urgent bool) {
	r.Received = n.Clock.Mono(n.s.Now)
	if r.Deadline != 0 {
		r.Deadline += r.Received
	}
	wait := time.Duration(0)
	switch m := r.Body.(type) {
	case *nornv1.ClaimRequest:
		wait = time.Duration(m.GetWaitSeconds() * 1e9)
	case *nornv1.LogRequest:
		wait = time.Duration(m.GetWaitSeconds() * 1e9)
	case *nornv1.SessionRequest:
		wait = time.Duration(m.GetWaitSeconds() * 1e9)
	}
	if n.s.fleet != nil && n.s.fleet.witness != nil {
		n.s.fleet.witness.Received(r.Body)
	}
	n.asked[r.From] = &question{at: n.s.Now, body: r, limit: max(n.s.Now, n.Clock.Until) + int64(wait) + int64(n.patience())}
	n.put(r, urgent)
}

// patience is how long the node may take for an answer: a few syncs, some of
// which stall, turns of the loop, and answers of the register.
func (n *node) patience() time.Duration {
	p := &n.s.plan.Disk
	d := time.Second + 60*(p.Sync+p.Loop+p.Answer+p.Read) + n.s.plan.Cluster.Patience()
	if n.s.stalls {
		d += 4 * plan.StallFor
	}
	return d
}

// gone hears that a connection has closed.
func (n *node) gone(c *conn) {
	if n.conns[c.id] == nil {
		return
	}
	delete(n.conns, c.id)
	for _, from := range n.questions() {
		if from.Conn == c.id {
			delete(n.asked, from)
		}
	}
	n.put(message.Gone{Conn: c.id}, true)
}

// questions gives the requests without an answer, by connection and number.
func (n *node) questions() []message.Origin {
	return slices.SortedFunc(maps.Keys(n.asked), func(a, b message.Origin) int {
		return cmp.Or(cmp.Compare(a.Conn, b.Conn), cmp.Compare(a.Request, b.Request))
	})
}

// unanswered: a request whose connection is open gets its answer in time.
func (n *node) unanswered() {
	for _, from := range n.questions() {
		if q := n.asked[from]; q.limit < n.s.Now {
			n.s.violation("replies", "request %v of %.6fs (%T) has no answer", from, time.Duration(q.at).Seconds(), q.body.Body)
			return
		}
	}
}

// caught turns the end of a process that has read a rotten record into an error.
func caught(d *disk.Disk, err *error) {
	if d.Bad == "" {
		return
	}
	switch r := recover(); r {
	case nil:
	case disk.ErrRotten:
		*err = disk.ErrRotten
	default:
		panic(r)
	}
}

// ends is the end of a process that has read a rotten record.
func ends(n *node) {
	switch r := recover(); r {
	case nil:
	case disk.ErrRotten:
		n.s.fleet.fatal(n, disk.ErrRotten)
	default:
		panic(r)
	}
}
