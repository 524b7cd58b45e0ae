package core

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/cron"
	"github.com/norn-dev/norn/node/core/decided"
	"github.com/norn-dev/norn/node/core/dependency"
	"github.com/norn-dev/norn/node/core/dispatch"
	"github.com/norn-dev/norn/node/core/follow"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/operator"
	"github.com/norn-dev/norn/node/core/partitions"
	"github.com/norn-dev/norn/node/core/policy"
	"github.com/norn-dev/norn/node/core/query"
	"github.com/norn-dev/norn/node/core/quota"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/repair"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/node/core/retention"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/node/core/schedules"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/core/transfer"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/node/core/workers"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/session"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// Config is what a core needs to know. Durations are checked by the caller.
type Config struct {
	Self    register.Member  // this node in this incarnation
	Policy  policy.Policy    // rules that are left out: none but in the hunt
	Address string           // client address, for status
	Zone    string           // failure domain, for status
	Cluster register.Cluster // what is fixed for all nodes
	Mark    uint64           // how far the disk was at least, by what is kept beside it: see [standing.Disk]
	SetBack bool             // the disk was set back, by what is kept beside it

	Eta      time.Duration // bound on clock difference and delay
	Buffer   time.Duration // added to a lease before it may lapse; >= Eta
	Slack    time.Duration // how much later than its own rule says a leader ends a lapsed claim: its followers heard of it later
	GCGrace  time.Duration // older unknown IDs are refused
	Lease    time.Duration // default lease
	Retry    crdt.Retry    // default retry policy
	HeadSize int           // ready tasks in memory per queue and partition

	MaxPayload  int    // bytes
	MaxWaiters  int    // waiting claim and log requests
	MaxQueues   int    // queue names
	MaxClaims   int    // tasks under a claim
	PartClaims  int    // of those in one partition; 0: [vnode.MaxClaimed]
	DiskReserve uint64 // bytes: enqueues are refused below

	Retention       retention.Rule // of queues that do not say
	CollectInterval time.Duration  // in which every partition is looked at once; 0: nothing is collected
	Archive         bool           // there is somewhere to archive to
	Common          bool           // what is to be configured alike on all nodes is kept in the register and compared

	Tree       bool          // keep the trees that replicas compare from the first fact on, not from the second node on
	Quarantine int64         // bytes of facts that are kept aside at most; 0: 256 MiB
	Repair     time.Duration // in which each partition is compared once with each other member of its cohort; 0: never
	Scrub      time.Duration // between two looks of the scrubber at the trees; 0: a second
	WatchFor   time.Duration // how long a replica remembers who asked about a task; 0: a minute

	Sessions session.DispatcherConfig // of workers; the zero value has defaults

	DeadAfter time.Duration // for how long a leader is not alive before others lead; 0: 10 s

	// History gives what was decided here by [message.Ready.Decided], beside the loop: a request
	// that [history.Check] has made whole is answered. nil: nobody remembers it.
	History func(*nornv1.HistoryRequest) *nornv1.HistoryReply

	// Rand is the only source of randomness.
	Rand *rand.Rand
}

// Stats counts what the core did since it was made.
type Stats struct {
	Enqueued, Duplicates, Claimed, Renewed, Updated uint64
	Completed, Failed, Released, Undelivered        uint64
	Cancelled, Retried, Collected, Archived         uint64
	Refused, Clashes                                uint64
	Clashed                                         id.ID  // the task of the last clash
	Stale                                           uint64 // times that facts of a task were left with a node outside the cohort: below the horizon and unknown here
	Quarantined                                     uint64 // tasks of which facts were put aside here
	QuarantinedLast                                 id.ID
	QuarantinedTasks                                int    // tasks of which facts are kept aside
	QuarantinedBytes                                int64  // of those facts
	QuarantineFull                                  uint64 // times that there was no room for more
	Unread                                          uint64 // times that claims of an election could not be read, so that a vote did not count
	UnreadLast                                      leadership.Unread
	HandoversLeft                                   int    // partitions that others keep and this node has not handed over yet
	Differs                                         string // what this node is configured with that the node that leads the register has otherwise; empty: nothing
	RegisterBack                                    string // how it shows that the register has gone back; empty: it has not
	Forgot                                          bool   // this disk has lost what it had acknowledged
	ClockFault                                      string // why this node's clock is no good for some partitions; empty: it is good
	ClockBad                                        int    // how many those are
	ClockAlone                                      bool   // the reason is that too few of the others answer, and nothing is known against the clock
	ClockRight                                      int64  // by how much its wall clock is to be put right, as far as the others have told, ns
	Skewed                                          uint64 // times that a member refused a claim because its clock is far from ours
	Elected, Defeated                               uint64 // candidacies of this node
	Passed                                          uint64 // grants taken back because they did not reach a majority
	Scrubbed                                        uint64 // nodes of trees that were not what the facts say
	RankErrors                                      dispatch.RankErrors
	Waits                                           decided.Waits
	Waiting                                         int // requests that wait
	Claims                                          int // tasks under a claim
	Full                                            int // partitions led of which nothing is granted, because so many of their tasks are
	Cron                                            cron.Stats
	Sessions                                        int // of workers, with this node
	SessionCounts                                   session.Counts
}

// Core is one node as a pure machine. It is used from one goroutine.
type Core struct {
	ground
	cluster
	work
	fronts

	cfg     Config
	vcfg    vnode.Config
	closed  *proto.Error       // why no requests are taken any more; nil: they are
	dropped []message.GrantRef // grants of ours that nobody will hear of
	taken   uint64             // requests taken in
	stats   Stats
	disk    uint64 // free bytes, when they were looked at, less what was written since
	reserve uint64 // bytes below which enqueues are refused; 0: as configured
	space   []byte // for the further fields of a completion
}

// ground is what all machines of a node read, and write to.
type ground struct {
	vnodes  *partitions.Set
	view    *view.View
	round   *round.Writer
	tenants *quota.Machine
}

// cluster are the machines that keep partitions together with other nodes.
type cluster struct {
	standing     *standing.Machine
	acceptors    *leadership.Acceptors
	elector      *leadership.Machine
	leases       *lease.Machine
	replication  *replication.Machine
	repairs      *repair.Machine
	transfer     *transfer.Machine
	asked        registerAsks // of the register
	sharedConfig sharedConfig
	filling      filling
}

// work are those that take tasks in, hand them out, and let them go.
type work struct {
	queues     *queues
	dependency *dependency.Machine
	dispatch   *dispatch.Machine
	retention  *retention.Machine
	schedules  *schedules.Machine
}

// fronts are those that answer clients, workers and operators.
type fronts struct {
	routes   *router.Machine
	sessions *workers.Machine
	logs     *follow.Machine
	operator *operator.Machine
}

// Open makes a core over the contents of a store. It returns an error when the
// store is damaged.
func Open(cfg Config, view store.Reader, now clock.Time) (*Core, error) {
	c := &Core{
		ground:  ground{round: round.New(view), view: newView(&cfg), tenants: quota.New()},
		cluster: cluster{asked: registerAsks{pending: make(map[uint64]registerRequest)}},
		cfg:     cfg, disk: math.MaxUint64,
	}
	c.logs = follow.New(follow.Env{
		Partitions: cfg.Cluster.Partitions, View: c.view, Round: c.round, Tenants: c.tenants,
		Gone: func(p ring.Partition) *proto.Error { return c.transfer.Gone(p) },
	})
	c.queues = &queues{c: c, sets: make(map[string]*setting), known: make(map[string]int64), remoteCounts: newRemoteCounts(c)}
	c.replication, c.routes = newReplication(c), newRouter(c)
	c.dispatch = newDispatch(c)
	vcfg := vnode.Config{
		Partitions: cfg.Cluster.Partitions, Buffer: cfg.Buffer, HeadSize: cfg.HeadSize, MaxClaims: cfg.PartClaims,
		OnHead: c.dispatch.Index.OnHead,
		OnEnd: func(task id.ID, r *claim.Record) {
			c.dispatch.Index.OnEnd(task, r)
			c.sessions.Known.Ended(task, r)
		},
		OnExpire: func(b claim.Brief, r claim.Record, s crdt.State) {
			decided.End(c.round, message.DecidedExpired, decided.OfClaim(c.round.Now, &b, &r), s)
		},
		OnLapse:  func(p ring.Partition) bool { return c.leases.Lapsed(p) },
		OnFact:   c.logs.Wake,
		OnFinish: func(p ring.Partition, task id.ID, linked bool) { c.dependency.Finished(p, task, linked) },
		OnUnlink: func(task id.ID, dependencies []id.ID) { c.dependency.Unlink(task, dependencies) },
		OnStored: c.replication.Writes.Stored,
		Tally:    c.tenants.Tally,
		Tree:     cfg.Tree,
		Slack:    cfg.Slack,
		OnEmpty:  c.queues.emptied,
		Random:   cfg.Rand.Float64,
	}
	c.filling.c = c
	c.vcfg, c.transfer = vcfg, newTransfer(c)
	boot := cfg.Rand.Uint64()
	c.schedules, c.sharedConfig.c = newSchedules(c), c
	var err error
	if err = openAcceptors(c, view); err != nil {
		return nil, err
	}
	c.round.Now = now
	if err := openVnodes(c, view, now); err != nil {
		return nil, err
	}
	if c.sessions, err = newWorkers(c); err != nil {
		return nil, fmt.Errorf("core: %w", err)
	}
	c.dependency = newDependencies(c, boot)
	c.retention = newRetention(c, now)
	c.repairs = newRepairs(c)
	openTransfer(c)
	if c.standing, err = openStanding(c, boot, view, now); err != nil {
		return nil, err
	}
	c.routes.Partitions, c.routes.Standing = c.vnodes, c.standing
	c.elector = leadership.New(c.acceptors, c.vnodes, c.standing)
	c.leases = newLeases(c)
	c.replication.Partitions, c.replication.Standing, c.replication.Acceptors = c.vnodes, c.standing, c.acceptors
	c.replication.Leadership, c.replication.Leases, c.replication.Transfer = c.elector, c.leases, c.transfer
	c.operator = newOperator(c)
	c.schedules.Standing, c.schedules.Dependency = c.standing, c.dependency
	c.dispatch.Partitions, c.dispatch.Standing, c.dispatch.Leases = c.vnodes, c.standing, c.leases
	c.dependency.Recover()
	c.ask(nil)
	return c, nil
}

// openStanding reads what the disk says of what this node may stand for.
func openStanding(c *Core, boot uint64, view store.Reader, now clock.Time) (*standing.Machine, error) {
	epochs := make([]uint64, len(c.acceptors.All))
	for p := range epochs {
		epochs[p] = c.acceptors.All[p].Seen
	}
	return standing.New(standing.Env{
		Policy: c.cfg.Policy.Standing,
		Self:   c.cfg.Self, Eta: c.cfg.Eta, Mark: c.cfg.Mark, SetBack: c.cfg.SetBack, Boot: boot,
		View: c.view, Round: c.round, Partitions: c.vnodes,
	}, epochs, view, now)
}

// stand passes on what has changed in what this node stands for.
func (c *Core) stand() {
	for _, e := range c.standing.Drain() {
		switch e.Kind {
		case standing.Review:
			c.elector.Look()
		case standing.Recount:
			c.replication.Acks.Look = true
		case standing.Lost:
			c.elector.StepDown(e.Partition)
			c.elector.Runs.Abort(e.Partition, "this disk has lost what it had acknowledged")
		case standing.Unfit:
			c.elector.Pass(e.Partition)
		}
	}
}

// MarkOf is how far a core's disk is once what was last asked to be written is on
// it.
func MarkOf(c *Core) uint64 { return c.standing.Disk.Durable }

// Forgotten says what the disk of a node has lost while the others cannot do
// without what it still has; nil: nothing, or they can, and it ends.
func Forgotten(c *Core) error { return c.standing.Disk.LostButNeeded() }

// Attest gives the witness as it is now; nil: as it was. It is asked for with each round.
func Attest(c *Core, was *standing.Attestation) *standing.Attestation { return c.standing.Attest(was) }

// Step takes in one event. An error means that the node must stop.
func (c *Core) Step(now clock.Time, event any) error {
	c.round.Now = now
	c.standing.Clocks.Stepped(now)
	c.stand()
	switch e := event.(type) {
	case *message.Request:
		c.dispatch.Hear(now, e.From.Conn, false)
		c.request(now, e)
	case message.Tick:
	case message.Cancel:
		c.cancel(e.From)
	case message.Heard:
		c.dispatch.Hear(now, e.Conn, !e.Part)
	case message.Gone:
		c.gone(e.Conn)
	case message.Undelivered:
		c.dispatch.Undelivered(now, c.sessions.Unsent(now, e.Grants))
	case message.ReadDone:
		c.logs.ReadDone(e)
	case message.Drain:
		c.standing.Disk.Hurry()
		c.elector.Retreat(now)
		c.drain(refusal.Stopping())
	case message.Forgot:
		c.standing.Disk.Found(e.Why, e.Asked)
		c.stand()
	case message.Dismissed:
		c.dismissed(now)
	case message.DiskStalled:
		c.elector.Stall(e.Is)
	case message.DiskSpace:
		c.disk, c.reserve = e.Free, e.Reserve
	case message.Registered:
		c.registered(now, e.Result)
	case *message.FromPeer:
		peers{c}.take(now, e)
	case message.Archived:
		c.retention.ArchiveDone(now, e)
	case message.Answered:
		c.round.Answer(e.Reply)
	case message.Changed:
		c.changed(now, e)
	case message.Alive:
		c.heard(e.Members)
		c.standing.Disk.Peers.Reach()
		c.view.Members, c.view.Clients = e.Members, e.Clients
		c.transfer.Learn(now)
		c.standing.Clocks.Met()
		c.elector.Look()
		c.leases.Met(now)
	default:
		return fmt.Errorf("core: unknown event %T", event)
	}
	return c.round.Fatal()
}

// Ready lets due things happen and hands over what is to be done. The batch in
// Persist is the caller's until it gives it back with [Core.Recycle].
func (c *Core) Ready(now clock.Time) (message.Ready, error) {
	c.round.Now = now
	c.standing.Clocks.Stepped(now)
	c.stand()
	c.tick(now)
	c.standing.Work(now)
	c.stand()
	c.elector.Work(now)
	c.retention.Work(now)
	c.dependency.Work(now)
	c.dependency.Watches.Work(now)
	c.dependency.Forgotten.Work(now)
	c.schedules.Work(now)
	c.sessions.Work(now)
	c.dispatch.Free(now)
	c.leases.Retry(now)
	c.dispatch.ServeHeld(now)
	c.queues.remoteCounts.work(now)
	c.dispatch.Serve(now)
	c.dispatch.Ask(now)
	c.dispatch.Tell(now)
	leasing{c}.work(now)
	c.replication.Acks.Work(now)
	c.replication.Reads.Work(now) // what goes on then may write
	c.replication.Writes.Work(now)
	c.repairs.Work(now)
	c.transfer.Work(now)
	c.transfer.Quarantine.Work(now)
	c.transfer.Former.Work(now)
	c.repairs.Tend(now)
	c.routes.Work(now)
	c.routes.Deliver()
	c.sessions.Late(now)
	if dropped := c.dropped; len(dropped) > 0 {
		c.dropped = nil
		c.dispatch.Undelivered(now, dropped)
	}
	if err := c.round.Fatal(); err != nil {
		return message.Ready{}, err
	}
	c.vnodes.Flush(c.round.Tx)
	c.standing.Close(now)
	r := c.round.Take()
	if r.Persist != nil {
		c.disk -= min(c.disk, writtenTwice*uint64(r.Persist.Size()))
	}
	r.WakeWall, r.WakeMono = c.wake()
	return r, nil
}

// Recycle gives a batch back for reuse once it is applied.
func (c *Core) Recycle(b *store.Batch) { c.round.Tx.Release(b) }

// Stats gives the counters.
func (c *Core) Stats() Stats {
	s := c.stats
	s.Refused, s.Collected, s.Archived = c.round.Refused, c.retention.Collected, c.retention.Archived
	s.Claimed, s.RankErrors, s.Waits = c.dispatch.Claimed, c.dispatch.RankErrors, c.dispatch.Waits
	s.Waiting = c.dispatch.Waiting() + c.logs.Count()
	s.Claims, s.Full = c.vnodes.Claimed(), c.vnodes.Full()
	s.Cron = c.schedules.Stats(c.round.Now)
	s.Sessions, s.SessionCounts = c.sessions.Dispatcher.Open(), c.sessions.Dispatcher.Counts()
	s.QuarantinedTasks, s.QuarantinedBytes = c.vnodes.Aside()
	s.Quarantined, s.QuarantinedLast, s.QuarantineFull = c.transfer.Quarantine.Count, c.transfer.Quarantine.Last, c.transfer.Quarantine.Full
	s.HandoversLeft = c.transfer.HandoversLeft()
	s.Differs = c.sharedConfig.diff
	s.ClockFault, s.ClockBad, s.ClockAlone = c.standing.Clocks.Why, len(c.standing.Clocks.Bad), c.standing.Clocks.Alone
	s.ClockRight = c.standing.Clocks.Wall(c.round.Now) - c.round.Now.Wall
	s.RegisterBack, s.Forgot = c.standing.Rollback.Why, c.standing.Disk.Lost != 0
	s.Scrubbed, s.Skewed, s.Undelivered = c.repairs.Mended(), c.leases.Skewed, c.leases.Undelivered
	s.Elected, s.Defeated, s.Passed = c.elector.Won, c.elector.Defeats, c.dispatch.Passed()
	s.Unread, s.UnreadLast = c.elector.Unread, c.elector.UnreadLast
	return s
}

// Leading is the number of partitions led.
func (c *Core) Leading() int { return c.vnodes.Led() }

func (c *Core) tick(now clock.Time) {
	if s := c.asked.behind; s != nil && c.asked.behindAt <= now.Mono {
		c.learn(now, s)
	}
	if c.asked.askAt != 0 && c.asked.askAt <= now.Mono {
		c.asked.askAt = 0
		c.ask(nil)
	}
	for v := range c.vnodes.Due(now) {
		c.round.Check(v.Tick(c.round.Tx, now))
	}
	c.timeouts(now)
}

func (c *Core) wake() (wall, mono int64) {
	wall, mono = c.vnodes.Next()
	mono = min(mono, c.dispatch.Due(), c.logs.Due())
	if c.asked.behind != nil {
		mono = min(mono, c.asked.behindAt)
	}
	if c.asked.askAt != 0 {
		mono = min(mono, c.asked.askAt)
	}
	launchWall, launchMono := c.schedules.Due()
	return min(wall, launchWall), min(mono, launchMono, c.retention.Due(), c.replication.Due(), c.repairs.Due(), c.routes.Due(), c.queues.remoteCounts.next(), c.transfer.Due(), c.dependency.Due(), c.leases.Due(), c.elector.Next(), c.standing.Due(), c.sessions.Due())
}

// Audit tells what the core would overlook: a vnode that something was done with
// behind its back, and invariants of its machines that do not hold. It is for tests; none of
// what it reads comes from a disk.
func (c *Core) Audit() error {
	return errors.Join(c.vnodes.Audit(), c.tenants.Audit(len(c.view.Cells), c.vnodes.See),
		c.dispatch.Audit(), router.Audit(c.routes), c.replication.Audit(), c.logs.Audit(),
		c.transfer.Audit(), c.elector.Audit(), lease.Audit(c.leases), c.standing.Audit(), c.dependency.Audit(),
		c.retention.Audit(), c.repairs.Audit(), c.sessions.Audit())
}

func (c *Core) vnode(task id.ID) *vnode.Vnode {
	return c.vnodes.Use(ring.Of(task, len(c.view.Cells)))
}

// handle carries out a request that is for this node, and gives its answer, an error, or neither
// while the answer is still to come.
func (c *Core) handle(now clock.Time, r *message.Request) (gproto.Message, *proto.Error) {
	c.taken++
	if c.closed != nil && !(observer{c}).shows(r) {
		return nil, c.closed
	}
	if !c.view.Joined {
		return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "the node is starting; try again").Again(50 * time.Millisecond)
	}
	if c.replication.Reads.ReadBeforeDecide(now, r, nil) || c.replication.Confirms.ReadIndex(now, r) {
		return nil, nil
	}
	c.replication.Reads.TooFewAnswered = r.Unsure
	switch m := r.Body.(type) {
	case *nornv1.EnqueueRequest:
		return enqueuing{c, r.Scope}.enqueue(now, r.From, m)
	case *nornv1.LaunchRequest:
		return enqueuing{Core: c}.launch(now, r, m)
	case *nornv1.ClaimRequest:
		return c.dispatch.Claim(now, r, m)
	case *nornv1.RenewRequest:
		return settling{c}.renew(now, r, m)
	case *nornv1.UpdateRequest:
		return settling{c}.update(now, r, m)
	case *nornv1.CompleteRequest:
		return settling{c}.complete(now, r, m)
	case *nornv1.FailRequest:
		return settling{c}.fail(now, r, m)
	case *nornv1.ReleaseRequest:
		return settling{c}.release(now, r, m)
	case *nornv1.WorkRequest:
		return c.routes.WorkRequest(now, r, m)
	case *nornv1.CancelRequest:
		return bulk{c}.cancel(now, m)
	case *nornv1.RetryRequest:
		return bulk{c}.retry(now, m)
	case *nornv1.BulkRequest:
		return byFilter(c, now, r, m)
	}
	return c.other(now, r)
}

// other carries out what neither adds nor finishes work.
func (c *Core) other(now clock.Time, r *message.Request) (gproto.Message, *proto.Error) {
	if e := (observer{c}).moved(r); e != nil {
		return nil, e
	}
	switch m := r.Body.(type) {
	case *nornv1.GetRequest:
		if takes, err := c.replication.Reads.Get(now, r, m); takes || err != nil {
			return nil, err
		}
		return c.round.Read(query.NewGet(r, m, len(c.view.Cells)))
	case *nornv1.ListRequest:
		return c.round.Read(query.NewList(r, m, c.about(r), len(c.view.Cells)))
	case *nornv1.CountRequest:
		return c.count(r, m)
	case *nornv1.LogRequest:
		return c.log(now, r, m)
	case *nornv1.StatusRequest:
		return observer{c}.status(now, r, m)
	case *nornv1.ClusterRequest:
		return c.operator.Handle(now, r, m)
	case *nornv1.VerifyRequest:
		return c.operator.Verify(now, r, m)
	case *nornv1.BackupRequest:
		return c.operator.Page(r, m)
	case *nornv1.RestoreRequest:
		return c.operator.Restore(now, r, m)
	case *nornv1.HistoryRequest:
		return remembered(c, now, r, m)
	case *nornv1.ExplainRequest:
		return c.round.Read(newExplain(c, r, m))
	case *nornv1.KeyRequest:
		return keys{c}.answer(now, m)
	case *nornv1.QueuesRequest:
		return c.queues.list(now, r, m)
	case *nornv1.SetQueueRequest:
		return c.queues.change(r.From, m, false)
	case *nornv1.SchedulesRequest:
		return c.schedules.List(r, m)
	case *nornv1.ChangeSchedulesRequest:
		return c.schedules.Change(r, m)
	case *nornv1.SessionRequest:
		return c.sessions.Request(now, r, m)
	case *nornv1.WorkersRequest:
		return c.sessions.List(now, r, m)
	case *nornv1.SetWorkerRequest:
		return c.sessions.Set(now, r, m)
	case *nornv1.LinesRequest:
		return c.sessions.Lines(now, r, m)
	}
	return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNIMPLEMENTED, "this server cannot do that")
}

// about are the partitions that an answer is to be about.
func (c *Core) about(r *message.Request) []ring.Partition {
	if r.Partitions != nil {
		return r.Partitions
	}
	all := make([]ring.Partition, 0, len(c.view.Cells))
	for p := range c.view.Cells {
		if p := ring.Partition(p); !r.Led || c.vnodes.See(p).Leading() != 0 {
			all = append(all, p)
		}
	}
	return all
}

// damaged tells errors that stop the node from those a client hears of.
func damaged(err error) bool { return errors.Is(err, vnode.ErrDamaged) }
