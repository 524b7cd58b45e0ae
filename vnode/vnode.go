package vnode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode/recent"
	"github.com/norn-dev/norn/vnode/record"
	"github.com/norn-dev/norn/vnode/tally"
)

// Config is what a vnode needs to know beside its partition.
type Config struct {
	// Buffer is added to each lease before it may lapse; at least eta.
	Buffer time.Duration
	// Slack is how much later than its own rule says a leader ends a lapsed
	// claim: [SlackOf] the buffer where others vote on the next grant.
	Slack time.Duration
	// Partitions is the number of partitions of the cluster.
	Partitions int
	// HeadSize bounds the ready tasks kept in memory per queue. More costs 33
	// bytes each and makes filling up rarer.
	HeadSize int
	// MaxClaims bounds the tasks under a claim here, so that all that is known of claims
	// fits one message of an election: at the bound nothing is granted, and OnHead is told
	// of nothing. 0: [MaxClaimed].
	MaxClaims int
	// OnHead is told the best ready rank of a queue whenever it may have
	// changed; nil when nothing is ready.
	OnHead func(p ring.Partition, queue string, min *claim.Rank)
	// OnEnd is told each claim that has ended.
	OnEnd func(task id.ID, r *claim.Record)
	// OnExpire is told each claim that was decided here to have expired, and how its task stands.
	OnExpire func(b claim.Brief, r claim.Record, s crdt.State)
	// OnLapse is told that a claim has lapsed in a partition that is led here, and gives
	// whether nobody else could lead it. Else the claim ends with [Sole].
	OnLapse func(p ring.Partition) (alone bool)
	// OnStored is told each fact that is written here.
	OnStored func(p ring.Partition, f crdt.Fact)
	// OnFact is told each task that has a new fact after its enqueue.
	OnFact func(task id.ID)
	// OnFinish is told each task that is finished now, perhaps more than once,
	// and whether it has dependencies.
	OnFinish func(p ring.Partition, task id.ID, linked bool)
	// OnUnlink is told each task of which another replica has another spec that stays, or
	// that it was collected, with what it depended on by what was here.
	OnUnlink func(task id.ID, dependencies []id.ID)
	// OnEmpty is told each queue of which nothing is left in this partition.
	OnEmpty func(queue string)
	// Tally counts the tasks of queues whose names begin alike; nil: nobody wants to know.
	Tally *tally.Tally
	// Tree keeps the tree over the facts that replicas compare, from the first
	// fact on. Else it is kept from [Grow] on.
	Tree bool
	// History is how many failures and expiries of a task stay, of many; 0: 47.
	History int
	// Random draws from [0, 1): jitter of back-offs.
	Random func() float64

	shared  *Config // complete, see [Config.Shared]
	scratch *scratch
}

// scratch is space for what is written next. Vnodes that are used from one goroutine share it:
// nothing in it is used once something else is done with one of them.
type scratch struct {
	key   [256]byte
	claim []byte // a record
	value []byte // a stored fact
}

// Shared gives the configuration for many vnodes: those that are opened with it, or with a
// copy that differs in Tree, have one in memory together. They are used from one goroutine.
func (c Config) Shared() Config {
	c.complete()
	c.scratch = new(scratch)
	all := c
	c.shared = &all
	return c
}

// MaxClaimed is how many tasks of a partition may be under a claim. A claim takes up to 342
// bytes in a vote, with the longest name of a worker, and a message 96 MiB: in a vote past
// that nobody could lead the partition any more. The rest is for claims that members know
// besides.
const MaxClaimed = 250_000

// complete replaces the hooks that the caller does not need.
func (c *Config) complete() {
	if c.History == 0 {
		c.History = crdt.LastAttempts
	}
	if c.MaxClaims == 0 {
		c.MaxClaims = MaxClaimed
	}
	if c.OnHead == nil {
		c.OnHead = func(ring.Partition, string, *claim.Rank) {}
	}
	if c.OnEnd == nil {
		c.OnEnd = func(id.ID, *claim.Record) {}
	}
	if c.OnLapse == nil {
		c.OnLapse = func(ring.Partition) bool { return true }
	}
	if c.OnFinish == nil {
		c.OnFinish = func(ring.Partition, id.ID, bool) {}
	}
	if c.OnUnlink == nil {
		c.OnUnlink = func(id.ID, []id.ID) {}
	}
	if c.OnEmpty == nil {
		c.OnEmpty = func(string) {}
	}
	if c.OnStored == nil {
		c.OnStored = func(ring.Partition, crdt.Fact) {}
	}
	if c.OnFact == nil {
		c.OnFact = func(id.ID) {}
	}
}

// Vnode is one partition on one node. Make one with [Open].
//
// Invariant: what is in memory is what [Open] reads from the store once the batch under way is
// written: counters, claims, the first tasks of queues. A node that is started anew goes on as
// if it had not stopped (the simulator's crashes). What has no stored form, as the filter of
// recent IDs, may only make things slower.
//
// Invariant: nothing is granted and nothing decided about a lapse while epoch is 0: claims of a
// follower end by what a leader has written, or in an election.
//
// Invariant: nextDue is not later than the first scheduled task of the partition: it may be too
// early, which costs one look; too late, and a task would stay scheduled past its time until
// the next one comes due.
type Vnode struct {
	Partition ring.Partition
	// Edges are the dependents of this partition's tasks.
	Edges Edges

	cfg       *Config
	epoch     uint64 // 0 while not leading
	seq       uint32 // last claim number given out in this epoch
	claims    *claim.Table
	suspended *claim.Table // those that ended with their tasks, and may come back
	full      bool         // nothing is granted, because of Config.MaxClaims
	term      term
	releases  releases
	hot       *queue // where the last accepted task was ready; may be gone
	queues    map[string]*queue
	sorted    []string // names of queues; nil after a change
	recent    *recent.Filter
	shelf     shelf
	dirty     []*queue // queues whose counters changed since the last flush
	record    partitionRecord
	lows      lows
	aside     asides
	opened    int64             // wall ns
	came      [arrivalSize]byte // what [arrival] gives
	nextDue   int64             // wall ns of the first scheduled task, or math.MaxInt64
	keyspace  *[256]byte        // of scratch
}

// queue is one queue's part in this partition.
type queue struct {
	name   string
	counts Counts
	bytes  uint64       // that its tasks hold, where its name has a first part: see [Bytes]
	group  *tally.Group // of the tally; nil: there is none
	head   *claim.Head
	dirty  bool
}

// Open loads what a vnode keeps in memory: counters, claims that have not
// ended, the first scheduled time. It reads nothing that grows with the
// backlog. It returns ErrDamaged when a record cannot be read.
func Open(p ring.Partition, cfg Config, view store.Reader, now clock.Time) (*Vnode, error) {
	if cfg.shared == nil {
		cfg = cfg.Shared()
	}
	v := &Vnode{
		Partition: p, cfg: cfg.shared,
		claims: claim.NewTable(cfg.Buffer), suspended: claim.NewTable(cfg.Buffer),
		opened: now.Wall, keyspace: &cfg.scratch.key,
	}
	var newest id.ID // that anything is stored of
	for _, table := range []byte{tableFacts, tableActive, tableEnded} {
		prefix := appendPrefix(nil, table, p)
		if key, ok := view.Last(prefix, after(prefix)); ok && bytes.Compare(key[prefixSize:prefixSize+id.Size], newest[:]) > 0 {
			newest = id.ID(key[prefixSize:])
		}
	}
	v.Edges = Edges{p: p, record: &v.record}
	v.shelf.p, v.shelf.stored, v.shelf.scratch = p, v.cfg.OnStored, cfg.scratch
	if _, grown := view.Get(appendPrefix(nil, tableGrown, p)); grown || cfg.Tree {
		v.shelf.tree, v.shelf.whole = antientropy.NewTree(tableTree, p), true
		v.shelf.noted = grown
		v.shelf.load(view)
	}
	v.recent = recent.New(cfg.Partitions, newest)
	if b, ok := view.Get(appendPrefix(nil, tablePartition, p)); ok {
		r, err := decodePartitionRecord(b)
		if err != nil {
			return nil, err
		}
		v.record = r
	}
	prefix := appendPrefix(nil, tableQueues, p)
	for key, value := range view.Scan(prefix, after(prefix)) {
		counts, low, hasLow, err := record.Queue(value)
		if err != nil || len(key) <= prefixSize+1 {
			return nil, fmt.Errorf("partition %d: key %x: %w", p, key, err)
		}
		q := &queue{name: string(key[prefixSize : len(key)-1]), counts: counts, head: claim.NewHead(cfg.HeadSize)}
		if hasLow && counts[crdt.StateReady] > 0 {
			q.head = claim.OpenHead(cfg.HeadSize, low)
		}
		q.bytes = record.SizeUnder(view.Get, appendQueue(nil, tableSizes, p, q.name), &counts)
		q.group = cfg.Tally.Join(q.name, &counts, q.bytes)
		addQueue(v, q)
	}
	if err := v.loadClaims(view, now); err != nil {
		return nil, err
	}
	if err := loadSuspended(v, view, now); err != nil {
		return nil, err
	}
	if err := v.aside.load(view, p); err != nil {
		return nil, err
	}
	v.findDue(view)
	for _, name := range v.names() {
		v.fill(view, v.queues[name])
	}
	return v, nil
}

func (v *Vnode) loadClaims(view store.View, now clock.Time) error {
	all, err := Active(view, v.Partition)
	if err != nil {
		return err
	}
	for _, h := range all {
		t, err := LoadTask(view, v.Partition, h.Task)
		if err != nil {
			return err
		}
		var brief claim.Brief
		if t.Enqueued != nil {
			brief = briefOf(t)
		}
		v.claims.Recover(h.Task, brief, h.Record, now)
		expired := crdt.Key{Kind: crdt.KindExpired, A: h.Record.Token}
		if _, over := view.Get(appendFact(v.keyspace[:0], v.Partition, h.Task, expired)); over {
			v.claims.Expire(h.Task, h.Record.Token, now, false)
		}
	}
	return nil
}

// Active gives the claims of a partition that have not ended, as they are stored,
// by task and token. It returns ErrDamaged when one cannot be read.
func Active(view store.View, p ring.Partition) ([]Held, error) {
	return stored(view, tableActive, p)
}

func stored(view store.View, table byte, p ring.Partition) (all []Held, err error) {
	prefix := appendPrefix(nil, table, p)
	for key, value := range view.Scan(prefix, after(prefix)) {
		if len(key) != prefixSize+len(id.ID{})+8 {
			return nil, fmt.Errorf("%w: claim key %x", ErrDamaged, key)
		}
		r, err := claim.DecodeRecord(binary.BigEndian.Uint64(key[len(key)-8:]), value)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		all = append(all, Held{Task: id.ID(key[prefixSize:]), Record: r})
	}
	return all, nil
}

// Queues calls fn for every queue with a counter, by name.
func (v *Vnode) Queues(fn func(name string, c *Counts)) {
	for _, name := range v.names() {
		fn(name, &v.queues[name].counts)
	}
}

// Untally takes a vnode that is used no more off the tally.
func Untally(v *Vnode) {
	for _, q := range v.queues { // Any order: they are added up.
		v.cfg.Tally.Part(q.group, &q.counts, q.bytes)
		q.group = nil
	}
}

// Count gives the counters of a queue, or nil when it has none here.
func (v *Vnode) Count(name string) *Counts {
	if q := v.queues[name]; q != nil {
		return &q.counts
	}
	return nil
}

// names gives the queues in an order that does not depend on the run. Nobody may
// change the slice.
func (v *Vnode) names() []string {
	if len(v.sorted) != len(v.queues) {
		v.sorted = slices.Sorted(maps.Keys(v.queues))
	}
	return v.sorted
}

// Held calls fn for every claim that has not ended, in the order of tasks and
// tokens.
func (v *Vnode) Held(fn func(task id.ID, r *claim.Record)) { v.claims.Each(fn) }

// EntryOf gives the claims of a task that have not ended, until the next change; nil: none.
func EntryOf(v *Vnode, task id.ID) *claim.Entry { return v.claims.Lookup(task) }

// Best is the best ready rank of a queue, or nil.
func (v *Vnode) Best(name string) *claim.Rank {
	if q := v.queues[name]; q != nil && q.head.Min() != nil {
		return &q.head.Min().Rank
	}
	return nil
}

// Window gives the ready tasks of a queue that are in memory, the best first, and
// whether there may be others after them. They are valid until the next change.
func Window(v *Vnode, name string) (entries []claim.Ready, more bool) {
	if q := v.queues[name]; q != nil {
		return q.head.Entries(), q.head.Bounded()
	}
	return nil, false
}

// Oldest is when the oldest task of a queue that is ready here was admitted, wall ns,
// of those that are in memory: the best ones. ok is false when nothing is ready.
func Oldest(v *Vnode, name string) (admitted int64, ok bool) {
	q := v.queues[name]
	if q == nil {
		return 0, false
	}
	order, ok := q.head.Oldest()
	var t id.ID
	copy(t[:], order[:])
	return t.Nanos(), ok
}

// Claimed is the number of tasks under a claim here.
func (v *Vnode) Claimed() int { return v.claims.Len() }

// Flush writes the counters that changed since the last flush, and what the tree needs
// after a crash. It must be called before the batch with the changes is made durable.
func (v *Vnode) Flush(tx store.Tx) {
	for i, q := range v.dirty {
		key := appendQueue(v.keyspace[:0], tableQueues, v.Partition, q.name)
		if q.counts.Total() == 0 { // names must not pile up
			tx.Delete(key)
			delete(v.queues, q.name)
			v.cfg.Tally.Part(q.group, &q.counts, q.bytes)
			v.sorted = nil
			v.lows.drop(v.Partition, q.name)
			v.cfg.OnEmpty(q.name)
		} else {
			low, hasLow := q.head.Low()
			tx.Set(key, record.AppendQueue(nil, &q.counts, low, hasLow))
		}
		keepSize(v, tx, q)
		q.dirty = false
		v.dirty[i] = nil
	}
	v.dirty = v.dirty[:0]
	v.shelf.note(tx)
}

// Unflushed tells whether there is something for [Vnode.Flush] to write.
func Unflushed(v *Vnode) bool {
	return len(v.dirty) > 0 || v.shelf.tree != nil && v.shelf.tree.Unnoted()
}

func (v *Vnode) queue(name string) *queue {
	q := v.queues[name]
	if q == nil {
		q = &queue{name: name, head: claim.NewHead(v.cfg.HeadSize)}
		q.group = v.cfg.Tally.Join(name, &q.counts, 0)
		addQueue(v, q)
		v.sorted = nil
	}
	return q
}

// addQueue puts a queue among those with a counter.
func addQueue(v *Vnode, q *queue) {
	if v.queues == nil {
		v.queues = make(map[string]*queue)
	}
	v.queues[q.name] = q
}

// fill refills a queue's window from the ready index when it has run empty and
// tells the caller of the vnode about the new head.
func (v *Vnode) fill(view store.View, q *queue) {
	if q.head.Hungry() {
		low := q.head.After()
		from := append(appendReady(nil, v.Partition, q.name, &low), 0)
		prefix := appendQueue(nil, tableReady, v.Partition, q.name)
		to := after(prefix)
		q.head.Fill(func(yield func(claim.Ready) bool) {
			for key, value := range view.Scan(from, to) {
				e := claim.Ready{Rank: claim.Rank(key[len(prefix):]), Fresh: len(value) == 1 && value[0] == 1}
				if !yield(e) {
					return
				}
			}
		})
		prefetch(view, v.Partition, q.head.Entries())
	}
	v.announce(q)
}

func (v *Vnode) announce(q *queue) {
	if e := q.head.Min(); e != nil && v.epoch != 0 && !v.full {
		v.cfg.OnHead(v.Partition, q.name, &e.Rank)
		return
	}
	v.cfg.OnHead(v.Partition, q.name, nil)
}

// fills looks whether there is room for claims, and tells the heads of all queues when that
// has changed.
func (v *Vnode) fills() {
	if full := v.claims.Len()+v.suspended.Len() >= v.cfg.MaxClaims; full != v.full {
		v.full = full
		v.Announce()
	}
}

// Full gives how many claims there are when nothing is granted because of
// [Config.MaxClaims], else 0.
func Full(v *Vnode) int {
	if !v.full {
		return 0
	}
	return v.claims.Len() + v.suspended.Len()
}

// Announce tells the heads of all queues, after leadership began or ended.
func (v *Vnode) Announce() {
	for _, name := range v.names() {
		v.announce(v.queues[name])
	}
}
