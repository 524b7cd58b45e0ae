package core

import (
	"fmt"
	"math"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/arrivals"
	"github.com/norn-dev/norn/node/core/decided"
	"github.com/norn-dev/norn/node/core/dependency"
	"github.com/norn-dev/norn/node/core/dispatch"
	"github.com/norn-dev/norn/node/core/explain"
	"github.com/norn-dev/norn/node/core/follow"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/intake"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/operator"
	"github.com/norn-dev/norn/node/core/partitions"
	"github.com/norn-dev/norn/node/core/queues"
	"github.com/norn-dev/norn/node/core/quota"
	"github.com/norn-dev/norn/node/core/registercall"
	"github.com/norn-dev/norn/node/core/repair"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/node/core/retention"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/node/core/schedules"
	"github.com/norn-dev/norn/node/core/settle"
	"github.com/norn-dev/norn/node/core/sharedconfig"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/core/status"
	"github.com/norn-dev/norn/node/core/transfer"
	"github.com/norn-dev/norn/node/core/uniquekeys"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/node/core/waiting"
	"github.com/norn-dev/norn/node/core/workers"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"
)

// Open makes a core over the contents of a store. It returns an error when the
// store is damaged.
func Open(cfg Config, view store.Reader, now clock.Time) (*Core, error) {
	g := &ground.Ground{Self: cfg.Self, Cluster: cfg.Cluster.ID, Eta: cfg.Eta, GCGrace: cfg.GCGrace, View: newView(&cfg), Round: round.New(view), Tenants: quota.New(), Pending: waiting.New(), Rand: cfg.Rand}
	c := &Core{base: base{ground: g, view: g.View, round: g.Round}, cfg: cfg}
	c.register = registercall.New(registercall.Env{Ground: c.ground})
	c.logs = follow.New(follow.Env{
		Ground: c.ground, Partitions: cfg.Cluster.Partitions,
		Gone: func(p ring.Partition) *proto.Error { return c.transfer.Gone(p) },
	})
	c.replication = replication.New(replication.Env{
		Ground: c.ground, Policy: cfg.Policy.Replication,
	})
	c.routes = router.New(router.Env{
		Ground: c.ground, Policy: cfg.Policy.Router, IDs: id.NewGenerator(cfg.Rand.Uint32(), cfg.Rand.Uint64),
	})
	c.dispatch = dispatch.New(dispatch.Env{
		Ground: c.ground, Policy: cfg.Policy.Dispatch, PartitionCount: cfg.Cluster.Partitions,
		MaxClaims: cfg.MaxClaims, MaxQueues: cfg.MaxQueues, MaxWaiters: cfg.MaxWaiters,
		Routes: c.routes, Readers: c.logs,
	})
	openFronts(c)
	vcfg := vnodes(c).Shared()
	c.transfer = transfer.New(transfer.Env{
		Ground: c.ground, Policy: cfg.Policy.Transfer,
		DeadAfter: cfg.DeadAfter, Settle: max(10*time.Second, cfg.Repair),
		MaxAside: cfg.Quarantine, Replicas: cfg.Cluster.Replicas,
	})
	boot := cfg.Rand.Uint64()
	c.schedules = schedules.New(schedules.Env{
		Ground: c.ground, Policy: cfg.Policy.Cron, Grace: cfg.GCGrace, MaxPayload: cfg.MaxPayload,
		Routes: c.routes,
	})
	return c, open(c, vcfg, boot, view, now)
}

// openFronts makes the machines that only need what they are given in [connect].
func openFronts(c *Core) {
	cfg := &c.cfg
	c.sharedConfig = sharedconfig.New(sharedconfig.Env{
		Ground: c.ground, Retention: cfg.Retention, Buffer: cfg.Buffer, Write: cfg.Common,
		Send: c.register.Send,
	})
	c.queues = queues.New(queues.Env{
		Ground: c.ground, Policy: cfg.Policy.Query, Retry: cfg.Retry, Lease: cfg.Lease, MaxQueues: cfg.MaxQueues, HasArchive: cfg.Archive,
		Routes: c.routes, Register: c.register, Dispatch: c.dispatch,
		Rule:    func(queue string) retention.Rule { return c.retention.Rule(queue) },
		Copying: func(p ring.Partition) bool { return c.transfer.Incoming[p] != nil },
		Origin:  func(m nornv1.Method) message.Origin { return c.schedules.Origin(m) },
	})
	c.keys = uniquekeys.New(uniquekeys.Env{
		Ground: c.ground, Policy: cfg.Policy.UniqueKeys,
	})
	c.arrivals = arrivals.New(arrivals.Env{
		Ground: c.ground, Keys: c.keys, Queues: c.queues, Replication: c.replication,
	})
	c.settle = settle.New(settle.Env{
		Ground: c.ground, Policy: cfg.Policy.Lease,
		Replication: c.replication, Index: c.dispatch.Index, Clashes: &c.arrivals.Clashes,
	})
	c.intake = intake.New(intake.Env{
		Ground: c.ground, MaxPayload: cfg.MaxPayload,
		Routes: c.routes, Replication: c.replication, Queues: c.queues, Keys: c.keys, Settle: c.settle,
	}, intake.Disk{Least: cfg.DiskReserve, Free: math.MaxUint64})
	c.status = status.New(status.Env{
		Ground: c.ground, Cluster: cfg.Cluster, Address: cfg.Address, Zone: cfg.Zone,
		Routes: c.routes, Disk: &c.intake.Disk, Clashes: &c.arrivals.Clashes,
	})
	c.explain = explain.New(explain.Env{
		Ground: c.ground, Routes: c.routes, Dispatch: c.dispatch,
		Replication: c.replication, Queues: c.queues,
	})
}

// vnodes is how partitions are opened, and who hears what happens in them.
func vnodes(c *Core) vnode.Config {
	cfg := &c.cfg
	return vnode.Config{
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
		Tally:    c.ground.Tenants.Tally,
		Tree:     cfg.Tree,
		Slack:    cfg.Slack,
		OnEmpty:  c.queues.Emptied,
		Random:   cfg.Rand.Float64,
	}
}

// open reads what the store has, and makes the machines that go by it.
func open(c *Core, vcfg vnode.Config, boot uint64, view store.Reader, now clock.Time) (err error) {
	cfg := &c.cfg
	elections := &leadership.Env{Ground: c.ground, Policy: cfg.Policy.Leadership, Register: registering{c.register}}
	if c.acceptors, err = leadership.OpenAcceptors(elections, cfg.Cluster.Partitions, view); err != nil {
		return err
	}
	c.round.Now = now
	if err := openVnodes(c, vcfg, view, now); err != nil {
		return err
	}
	c.ground.Partitions = c.vnodes
	if c.sessions, err = workers.New(workers.Env{
		Ground: c.ground, Policy: cfg.Policy.Workers, Buffer: cfg.Buffer, Sessions: cfg.Sessions,
	}); err != nil {
		return fmt.Errorf("core: %w", err)
	}
	c.dependency = dependency.New(dependency.Env{
		Ground: c.ground, Policy: cfg.Policy.Dependency,
		WatchFor: cfg.WatchFor,
		Hold:     func() time.Duration { return c.retention.Tombstones.Hold() },
	}, boot)
	c.retention = retention.New(retention.Env{
		Ground: c.ground, Policy: cfg.Policy.Retention,
		Interval: cfg.CollectInterval, HasArchive: cfg.Archive,
		Queues: retaining{c.queues, c.sharedConfig}, References: c.dependency,
		Alone: c.replication.Writes.Alone, Taken: func() uint64 { return c.taken }, Number: c.register.Number, PassKey: c.keys.Pass,
	}, now)
	compared := &repairing{facts: c.arrivals, tombstones: c.retention.Tombstones, acceptors: c.acceptors, transfer: c.transfer}
	c.repairs = repair.New(repair.Env{
		Ground: c.ground, Every: cfg.Repair, Scrub: cfg.Scrub, Moving: transfer.Comparisons(),
		Proofs: c.retention.Tombstones, Others: compared,
	})
	if c.standing, err = openStanding(c, boot, view, now); err != nil {
		return err
	}
	c.elector = leadership.New(c.acceptors, c.standing)
	compared.elector = c.elector
	c.leases = lease.New(lease.Env{
		Ground: c.ground, Policy: cfg.Policy.Lease,
		Standing: c.standing, Leadership: c.elector, Acceptors: c.acceptors,
		Others:  leasing{c.dispatch, c.arrivals, &c.replication.Confirms, c.dependency},
		Planned: func(p ring.Partition) []register.Member { return c.transfer.Driver.View().Planned(p) },
	})
	c.operator = operator.New(operator.Env{
		Ground: c.ground, Standing: c.standing,
		Acceptors: c.acceptors, Transfer: c.transfer, Repairs: c.repairs, Routes: c.routes, Retention: c.retention,
		Replication: c.replication, Node: operating{c.register, c.intake, c.arrivals},
	})
	connect(c, vcfg)
	elections.Others = leading{c.dependency, c.dispatch, c.repairs, &c.replication.Confirms, c.leases, c.transfer}
	c.dependency.Recover()
	c.register.Ask(nil)
	return nil
}

// newView is the view of a node that has heard of nothing yet.
func newView(cfg *Config) *view.View { return view.New(cfg.Self, cfg.Cluster.Partitions) }

// openStanding reads what the disk says of what this node may stand for.
func openStanding(c *Core, boot uint64, view store.Reader, now clock.Time) (*standing.Machine, error) {
	epochs := make([]uint64, len(c.acceptors.All))
	for p := range epochs {
		epochs[p] = c.acceptors.All[p].Seen
	}
	return standing.New(standing.Env{
		Ground: c.ground, Policy: c.cfg.Policy.Standing,
		Mark: c.cfg.Mark, SetBack: c.cfg.SetBack, Boot: boot,
	}, epochs, view, now)
}

// openVnodes reads what the store has of each partition.
func openVnodes(c *Core, vcfg vnode.Config, view store.Reader, now clock.Time) error {
	all := make([]*vnode.Vnode, c.cfg.Cluster.Partitions)
	for p := range c.cfg.Cluster.Partitions {
		open := vnode.Open
		if vnode.Dropping(view, ring.Partition(p)) {
			open = func(p ring.Partition, cfg vnode.Config, view store.Reader, now clock.Time) (*vnode.Vnode, error) {
				return vnode.Blank(p, cfg, view, now)
			}
			c.transfer.Recover(ring.Partition(p))
		}
		v, err := open(ring.Partition(p), vcfg, view, now)
		if err != nil {
			return fmt.Errorf("core: partition %d: %w", p, err)
		}
		if partitions.Idle(v, view) && !c.view.Dropping[ring.Partition(p)] {
			continue // it is opened when it is used, or is to be kept here
		}
		all[p] = v
		v.Queues(func(name string, _ *vnode.Counts) { c.queues.Use(name, now) })
		v.Held(func(task id.ID, r *claim.Record) {
			key := message.AskKey{Session: r.Session, Request: r.Request}
			c.dispatch.Index.Recover(message.GrantRef{Partition: ring.Partition(p), Task: task, Token: r.Token, Ask: key})
		})
	}
	seen := vcfg
	seen.Tree = false // it stands for all that are not open: its tree would be one of another partition
	blank, err := vnode.Blank(0, seen, view, now)
	c.vnodes = partitions.New(all, blank, func(p ring.Partition) *vnode.Vnode { // there was nothing of it when the node began, or since it was deleted
		cfg := vcfg
		cfg.Tree = cfg.Tree || !c.view.Alone || c.view.Company() // from the first fact on
		v, err := partitions.Open(p, cfg, c.round.Tx, c.round.Now)
		if !c.round.Check(err) {
			v = blank // the node stops
		}
		return v
	})
	return err
}
