package nodes

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/sim/disk"
	"github.com/norn-dev/norn/jepsen/sim/plan"
	"github.com/norn-dev/norn/jepsen/sim/run"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/world"
	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/store"
)

// Node is one node: a process that comes and goes over a disk that stays. It
// keeps the contract of package node/core the way package node does.
type Node struct {
	world.Process
	S     *System
	Disk  *disk.Disk
	Cells *disk.Disk // the register's own disk
	Self  register.Member
	Index int     // in the cluster
	Peers *member // its part in the register's group; nil: it is alone and has a register of its own
	Away  bool    // it is out of the cluster for good

	Up       bool
	Core     *core.Core
	register *register.Local
	Conns    map[uint64]*Conn // open, as far as this process knows
	Asked    map[message.Origin]*question

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

	Steps    int             // steps of the contract until the crash; 0: none is set
	Armed    bool            // the crash comes a few steps after the next write
	Leaving  bool            // the cluster
	Asleep   time.Duration   // how much longer than usual it is down the next time, or now
	Hurt     bool            // its disks are not what it wrote
	Since    int64           // true time of that
	Draining bool            // it is being stopped
	paused   map[string]bool // queues that may be paused: somebody tried, and no resuming has been answered
}

// question is a request that was stepped and has no answer yet.
type question struct {
	At    int64 // true time
	Body  *message.Request
	Limit int64 // true time by which an answer is due
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

// NewNode makes a node that is alone, on empty disks.
func NewNode(s *System) *Node {
	n := &Node{S: s, Self: self, Disk: disk.New(), Cells: disk.New(), paused: map[string]bool{}}
	if err := register.Format(n.Cells, n.config().Cluster, self); err != nil {
		s.Broken("the register cannot be formatted: %v", err)
	}
	return n
}

// Start begins a new process on the disk as it is.
func (n *Node) Start() {
	s := n.S
	n.Life++
	n.Clock.Until = 0
	n.Clock.Began, n.Clock.First = s.Now, 1+s.Rnd.Int64N(1e12)
	n.Clock.Drift = s.Drift()
	if s.Fleet != nil {
		s.Fleet.Harm.SetRight()
	}
	n.Conns, n.Asked = map[uint64]*Conn{}, map[message.Origin]*question{}
	n.first, n.rest, n.before, n.waiting, n.flying = nil, nil, nil, nil, nil
	n.loop = n.turn
	n.turning, n.syncing, n.Draining, n.wake, n.synced, n.spins = false, false, false, run.Never, 0, 0
	if err := n.open(); err != nil {
		if s.Fleet != nil && s.Fleet.Harm.Expected(n, err) {
			return
		}
		s.Broken("%snode does not open: %v", n, err)
		return
	}
	n.Up, n.Asleep = true, 0
	s.Note("%snode starts, wall clock off by %v", n, time.Duration(n.Clock.Off))
	n.poke()
	if n.Peers != nil {
		n.Peers.begin()
	}
}

// Crash ends the process as power loss does: of what is not durable any prefix
// may survive.
func (n *Node) Crash() {
	s := n.S
	if !n.Up {
		return
	}
	n.Unanswered()
	n.Up, n.Steps, n.Armed = false, 0, false
	n.Life++
	keep := 0
	if u := n.Disk.AtRisk(); u > 0 && s.Chance(0.6) {
		keep = s.Rnd.IntN(u + 1)
	}
	s.Note("%snode crashes, %d of %d unsynced batches survive", n, keep, n.Disk.AtRisk())
	s.Stats[stats.Crashes]++
	if n.Disk.AtRisk() > keep {
		s.Stats[stats.CrashesWithLoss]++
	}
	n.down(keep)
}

// Stop ends the process after a drain: everything is synced.
func (n *Node) Stop() {
	if !n.Up {
		return
	}
	n.Unanswered()
	n.Up, n.Steps, n.Armed = false, 0, false
	n.Life++
	n.S.Note("%snode stops", n)
	n.S.Stats[stats.Stops]++
	n.down(n.Disk.AtRisk())
}

func (n *Node) down(keep int) {
	s := n.S
	n.Disk.Fail(keep)
	if s.Mutant.Crash != nil {
		s.Mutant.Crash(n)
	}
	if n.Peers != nil {
		Counted(n)
		s.Fleet.Harm.SetRight()
		n.Cells.Fail(s.Rnd.IntN(n.Cells.AtRisk() + 1))
	} else {
		n.Cells.Fail(0)
	}
	n.Core, n.register, n.Peers = nil, nil, nil
	n.Audit()
	s.Conns = slices.DeleteFunc(s.Conns, func(c *Conn) bool {
		if c.Node == n {
			c.broken()
		}
		return c.Node == n
	})
	wait := s.About(s.Plan.Crash.Down) + n.Asleep
	if d := s.Plan.Clock.Restart; d > 0 {
		n.Clock.Off = int64(s.Between(-d, d))
		s.Stats[stats.ClockSteps]++
		s.Note("%s", check.ClockStepped)
	}
	life := n.Life
	s.After(wait, func() {
		if !n.Up && !n.Away && n.Life == life {
			n.Start()
		}
	})
}

// Counted counts what the process has collected, at its end.
func Counted(n *Node) {
	if n.Core != nil {
		n.S.Stats[stats.Collected] += int(n.Core.Stats().Collected)
	}
}

// open opens what is on the disks.
func (n *Node) open() (err error) {
	defer caught(n.Disk, &err)
	defer caught(n.Cells, &err)
	if n.S.Fleet != nil {
		n.Peers, err = openMember(n)
	} else {
		n.register, err = register.OpenLocal(n.Cells)
	}
	if err == nil {
		n.Core, err = core.Open(n.config(), n.Disk, n.Clock.Time(n.S.Now))
	}
	return err
}

// String names the node in notes; of a node that is alone there is no name.
func (n *Node) String() string {
	if n.S.Fleet == nil {
		return ""
	}
	return n.Self.Node + ": "
}

// step passes one step of the contract and tells whether the process has died
// at it.
func (n *Node) step() bool {
	if n.Steps > 0 {
		if n.Steps--; n.Steps == 0 {
			n.S.Stats[stats.CrashesAtStep]++
			n.Crash()
			n.restarted()
		}
	}
	return !n.Up
}

// Put gives an event to the inbox; urgent ones come first, as in package node.
func (n *Node) Put(event any, urgent bool) {
	if urgent {
		n.first = append(n.first, event)
	} else {
		n.rest = append(n.rest, event)
	}
	n.poke()
}

// poke makes the loop look around soon.
func (n *Node) poke() {
	if n.turning || !n.Up {
		return
	}
	n.turning = true
	n.Later(n.S.About(n.S.Plan.Disk.Loop), n.loop)
}

// Later makes fn happen unless the process has ended by then.
func (n *Node) Later(d time.Duration, fn func()) {
	n.S.AfterIn(&n.Process, d, fn)
}

// receive takes in a request over a connection.
func (n *Node) receive(c *Conn, r *message.Request, urgent bool) {
	r.Received = n.Clock.Mono(n.S.Now)
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
	if n.S.Fleet != nil && n.S.Fleet.Witness != nil {
		n.S.Fleet.Witness.Received(r.Body)
	}
	n.Asked[r.From] = &question{At: n.S.Now, Body: r, Limit: max(n.S.Now, n.Clock.Until) + int64(wait) + int64(n.patience())}
	n.Put(r, urgent)
}

// patience is how long the node may take for an answer: a few syncs, some of
// which stall, turns of the loop, and answers of the register.
func (n *Node) patience() time.Duration {
	p := &n.S.Plan.Disk
	d := time.Second + 60*(p.Sync+p.Loop+p.Answer+p.Read) + n.S.Plan.Cluster.Patience()
	if n.S.Stalls {
		d += 4 * plan.StallFor
	}
	return d
}

// gone hears that a connection has closed.
func (n *Node) gone(c *Conn) {
	if n.Conns[c.ID] == nil {
		return
	}
	delete(n.Conns, c.ID)
	for _, from := range n.Questions() {
		if from.Conn == c.ID {
			delete(n.Asked, from)
		}
	}
	n.Put(message.Gone{Conn: c.ID}, true)
}

// Questions gives the requests without an answer, by connection and number.
func (n *Node) Questions() []message.Origin {
	return slices.SortedFunc(maps.Keys(n.Asked), func(a, b message.Origin) int {
		return cmp.Or(cmp.Compare(a.Conn, b.Conn), cmp.Compare(a.Request, b.Request))
	})
}

// Unanswered: a request whose connection is open gets its answer in time.
func (n *Node) Unanswered() {
	for _, from := range n.Questions() {
		if q := n.Asked[from]; q.Limit < n.S.Now {
			n.S.Violation("replies", "request %v of %.6fs (%T) has no answer", from, time.Duration(q.At).Seconds(), q.Body.Body)
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
func ends(n *Node) {
	switch r := recover(); r {
	case nil:
	case disk.ErrRotten:
		n.S.Fleet.fatal(n, disk.ErrRotten)
	default:
		panic(r)
	}
}

// Drain stops the node cleanly: it sends its clients away, answers what it has
// taken in, and ends.
func (n *Node) Drain() {
	n.Draining = true
	n.S.Note("node drains")
	n.Put(message.Drain{}, true)
	n.Later(n.S.Between(100*time.Millisecond, 2*time.Second), func() {
		n.Stop()
		n.restarted()
	})
}

// restarted has the next crash of a node that is alone planned, once this one is over.
func (n *Node) restarted() {
	if n.S.Next != nil {
		n.S.Next()
	}
}
