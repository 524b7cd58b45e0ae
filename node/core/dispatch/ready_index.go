package dispatch

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/away"
	"github.com/norn-dev/norn/node/core/call"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/quota"
	"github.com/norn-dev/norn/node/core/waiting"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// Index brings work and those who ask for it together: the best ready tasks per
// queue, the claim requests that wait, and what each request was granted.
type Index struct {
	queues map[string]*queue // with ready tasks or waiters
	// Invariant: a queue is in dirty once if its own flag says so, and not at all otherwise. A
	// flag without the entry would keep its waiters from being served until something else
	// happens to the queue (Audit).
	dirty  []*queue // queues with waiters whose head may have changed
	byTime call.ByTime[*claimRequest]
	byConn map[uint64]map[uint64]*claimRequest
	lines  map[uint64]*line // clients' connections that have asked for work
	// Invariant: of several requests with one session and number one waits at most: each
	// request in byTime that has a number is the one of its key here. Two would be granted
	// twice what one may have (Audit).
	byAsk  map[message.AskKey]*claimRequest
	wait   func(*claimRequest) *waiting.Wait // has a request found by who gives it up
	asked  map[message.AskKey]*asked
	widest uint64 // see [widest]
	// Invariant: bytes are those of the requests in byTime, none of which is done.
	bytes   int                                                  // of the requests that wait
	came    uint64                                               // requests so far
	paused  map[string]bool                                      // queues of which nothing is handed out
	changed func(name string, ready bool)                        // hears of a queue whose best task is another one
	hides   func(p ring.Partition, name string, ready bool) bool // tells of which partitions nothing is handed out

	policy     Policy
	tenants    *quota.Machine
	away       away.Kept
	partitions int
	see        func(ring.Partition) *vnode.Vnode
	// Invariant: last has at most most names, so that clients cannot fill the memory by
	// inventing queues (Audit).
	last   map[string]int64 // wall ns at which a client last asked for tasks of a queue; as many as there may be queues
	most   int              // of those
	number uint64           // of the last answer to a claim request

	lookedAt int64 // when it was looked who has the most waits, mono ns
}

// newIndex makes an index without tasks and without waiters. Its hooks do nothing until [New]
// sets them.
func newIndex() *Index {
	return &Index{
		queues:  make(map[string]*queue),
		byConn:  make(map[uint64]map[uint64]*claimRequest),
		lines:   make(map[uint64]*line),
		byAsk:   make(map[message.AskKey]*claimRequest),
		wait:    func(*claimRequest) *waiting.Wait { return nil },
		asked:   make(map[message.AskKey]*asked),
		paused:  make(map[string]bool),
		last:    make(map[string]int64),
		most:    1000,
		changed: func(string, bool) {},
		hides:   func(ring.Partition, string, bool) bool { return false },
	}
}

// asks notes that a client asks for tasks of a queue.
func (d *Index) asks(now clock.Time, name string) {
	if _, known := d.last[name]; !known && len(d.last) >= d.most {
		clear(d.last) // who still asks is noted again
	}
	d.last[name] = now.Wall
}

// queue is what the node keeps per queue: the best heads of the partitions it
// leads, and who waits for them.
type queue struct {
	name  string
	heads *claim.Merge
	// Invariant: wait is in the order of arrival, by Number; a request that comes back from
	// another leader keeps its number and with it its place. Without that it would wait behind
	// all who came meanwhile (Audit).
	wait []*claimRequest // first come, first served; may hold done ones
	// Invariant: stale is how many in wait are done.
	stale int // done ones among them
	dirty bool

	looked int64 // when a request last looked at what is ready here, mono ns
}

// claimRequest is a claim request that waits for work.
type claimRequest struct {
	call.Deadline
	from     message.Origin
	waits    *waiting.Wait // for a task, or for the end of a pause
	names    []string
	ask      vnode.Ask
	max      int
	received int64 // mono ns
	deadline int64 // when its client has given up, mono ns; 0: not said
	done     bool
	now      int64  // mono ns when it was last looked at
	bytes    int    // about, in memory
	tenant   string // prefix of its sender's; empty: there is none

	cancelled bool // while what it was granted was on its way: it is not tried again

	body       *nornv1.ClaimRequest
	routed     bool    // another node asks
	mayDecline bool    // it is to be declined where much better tasks are elsewhere
	mustServe  bool    // it has been, and is not again
	parks      bool    // it waits when there is nothing
	prompt     bool    // see [message.Request]
	tried      []trial // where it was asked

	fails        int                              // how often what it would have been granted reached no majority
	failedQuorum bool                             // what it would have been granted reached no majority, or another node failed it
	doubts       map[register.Member]*proto.Error // of who was asked and has not said that there is nothing
}

// trial is a node that a request was sent to, and how often that had told by then
// that it has something.
type trial struct {
	at    register.Member
	fills uint64
}

// key names a request across connections and repetitions: the session of its worker and the
// number in it.
func (w *claimRequest) key() message.AskKey {
	return message.AskKey{Session: w.ask.Session, Request: w.ask.Request}
}

// asked remembers what a claim request was granted, so that the same request
// again gets the same grants (requirement 37). It lives as long as one of the
// claims does.
type asked struct {
	grants []message.GrantRef
	// Invariant: live is how many of the grants are not over, and more than none.
	live int
	// answers are the replies with these grants that are not known to have been
	// dropped: only when the last of them surely never left, nobody can have
	// heard of the grants.
	answers []uint64
}

// queue gives the entry of a queue and makes it where there is none. Whoever makes one sees to
// it that it goes again: names come from clients.
func (d *Index) queue(name string) *queue {
	q := d.queues[name]
	if q == nil {
		q = &queue{name: name, heads: claim.NewMerge()}
		d.queues[name] = q
	}
	return q
}

// OnHead hears from the vnodes which rank is their best in a queue.
func (d *Index) OnHead(p ring.Partition, name string, best *claim.Rank) {
	if d.hides(p, name, best != nil) {
		best = nil
	}
	q := d.queues[name]
	if q == nil && best == nil {
		return
	}
	q = d.queue(name)
	q.heads.Set(int(p), best)
	d.changed(name, best != nil)
	if best == nil && q.heads.Len() == 0 && len(q.wait) == 0 && !q.dirty {
		delete(d.queues, name) // names must not pile up
		return
	}
	if best != nil && !q.dirty && len(q.wait) > 0 {
		q.dirty = true
		d.dirty = append(d.dirty, q)
	}
}

// Pause stops a queue from being handed out, or lets it go on: then those who
// wait for it are looked at.
func (d *Index) Pause(name string, paused bool) {
	if paused {
		d.paused[name] = true
		return
	}
	if !d.paused[name] {
		return
	}
	delete(d.paused, name)
	q := d.queues[name]
	if q == nil {
		return
	}
	d.changed(name, q.heads.Len() > 0)
	if !q.dirty && len(q.wait) > 0 {
		q.dirty = true
		d.dirty = append(d.dirty, q)
	}
}

// wakeAll has every queue with waiting requests looked at.
func (d *Index) wakeAll() {
	for _, name := range slices.Sorted(maps.Keys(d.queues)) {
		if q := d.queues[name]; !q.dirty && len(q.wait) > 0 {
			q.dirty = true
			d.dirty = append(d.dirty, q)
		}
	}
}

// OnEnd hears from the vnodes that a claim has ended. A request that came twice
// may have been granted something by another leader too, whose claims are kept
// here as well: the end of those says nothing of what was granted here.
func (d *Index) OnEnd(task id.ID, r *claim.Record) {
	key := message.AskKey{Session: r.Session, Request: r.Request}
	a := d.asked[key]
	if a == nil {
		return
	}
	for i := range a.grants {
		if g := &a.grants[i]; g.Task == task && g.Token == r.Token && !g.Over {
			g.Over = true
			d.ended(key, a, 1)
			return
		}
	}
}

// ended counts claims of a request that are over, and forgets one that has none
// left.
func (d *Index) ended(key message.AskKey, a *asked, n int) {
	if a.live -= n; a.live <= 0 {
		delete(d.asked, key)
	}
}

// remember keeps what a request was granted.
func (d *Index) remember(g message.GrantRef) {
	if !g.Ask.Named() {
		return
	}
	a := d.asked[g.Ask]
	if a == nil {
		a = &asked{}
		d.asked[g.Ask] = a
	}
	a.grants = append(a.grants, g)
	a.live++
}

// answered numbers a reply with these grants of a request, and notes it.
func (d *Index) answered(key message.AskKey, refs []message.GrantRef) uint64 {
	d.number++
	for i := range refs {
		refs[i].Answer = d.number
	}
	if a := d.asked[key]; a != nil {
		a.answers = append(a.answers, d.number)
	}
	return d.number
}

// answeredBefore notes that the process before this one may have replied to a
// request. That answer has a number of none of this process's: it counts for ever
// as heard, whatever is said of it.
func (d *Index) answeredBefore(key message.AskKey) {
	if a := d.asked[key]; a != nil && len(a.answers) == 0 {
		a.answers = append(a.answers, 0)
	}
}

// unheard notes that a reply with this grant was dropped and tells whether now
// surely nobody has heard of what its request was granted.
func (d *Index) unheard(g message.GrantRef) bool {
	a := d.asked[g.Ask]
	switch {
	case a == nil:
		return true // not named, or it has ended and there is nothing to free
	case !slices.ContainsFunc(a.grants, g.Is):
		return false // what it carried has ended; the request came again since, and was granted anew
	}
	return a.dropped(g.Answer) && len(a.answers) == 0
}

// dropped notes that a reply will not be heard. It is false for one that was
// dropped before: then it says nothing new.
func (a *asked) dropped(answer uint64) bool {
	i := slices.Index(a.answers, answer)
	if i < 0 {
		return false
	}
	a.answers = slices.Delete(a.answers, i, i+1)
	return true
}

// Forget leaves a grant out that was taken back, whatever became of its claim:
// the same request again must not get it beside others.
func (d *Index) Forget(g message.GrantRef) {
	a := d.asked[g.Ask]
	if a == nil {
		return
	}
	n := 0
	a.grants = slices.DeleteFunc(a.grants, func(o message.GrantRef) bool {
		is := g.Is(o)
		if is && !o.Over {
			n++
		}
		return is
	})
	d.ended(g.Ask, a, n)
}

// granted gives what the same request was granted before and still holds.
func (d *Index) granted(w *claimRequest) []message.GrantRef {
	if a := d.asked[w.key()]; a != nil && w.key().Named() {
		return a.grants
	}
	return nil
}

// best finds the queue and partition with the best ready task that is not kept from the
// worker of a request.
//
// A queue counts where it is not paused and its tenant has room. It returns nil where nothing
// is ready for this worker.
func (d *Index) best(w *claimRequest) (best *queue, partition int, rank *claim.Rank) {
	kept := d.away.Of(takerOf(&w.ask))
	for _, name := range w.names {
		q := d.queues[name]
		if q == nil || len(d.paused) > 0 && d.paused[name] && !d.policy.PausedGranted {
			continue
		}
		p, r, ok := q.heads.Best()
		if ok && kept[r.Task()] > w.now {
			p, r, ok = d.beyond(q, kept, w.now)
		}
		if ok && (rank == nil || r.Compare(rank) < 0) && !d.tenants.Held(name) {
			best, partition, rank = q, p, r
		}
	}
	return best, partition, rank
}

// withdraw takes out the waiting request with this key, if there is one.
func (d *Index) withdraw(key message.AskKey) *claimRequest {
	w := d.byAsk[key]
	if w != nil {
		d.drop(w)
	}
	return w
}

// park makes a request wait. There is none with its key: see [Index.withdraw].
func (d *Index) park(w *claimRequest) {
	if w.key().Named() {
		d.byAsk[w.key()] = w
	}
	if d.byConn[w.from.Conn] == nil {
		d.byConn[w.from.Conn] = make(map[uint64]*claimRequest)
	}
	d.byConn[w.from.Conn][w.from.Request] = w
	if d.lines[w.from.Conn] == nil && w.from.Conn < message.OwnConns {
		d.lines[w.from.Conn] = &line{heard: w.received}
	}
	w.waits = d.wait(w)
	d.bytes += w.bytes
	d.tenants.Waits(w.tenant, true)
	d.byTime.Add(w)
	for _, name := range w.names {
		d.queue(name).line(w)
	}
}

// drop takes a waiter out; the queues' lists lose it when they come across it
// or when most of a list is done.
//
// It costs O(log n) for the heap and amortized O(1) for each line: a line is cleaned when more
// than half of its entries are done.
func (d *Index) drop(w *claimRequest) {
	w.done = true
	w.waits.Close()
	d.bytes -= w.bytes
	d.tenants.Waits(w.tenant, false)
	d.byTime.Remove(w)
	if d.byConn[w.from.Conn][w.from.Request] == w { // not so for a number used twice
		delete(d.byConn[w.from.Conn], w.from.Request)
	}
	if len(d.byConn[w.from.Conn]) == 0 {
		delete(d.byConn, w.from.Conn)
	}
	if d.byAsk[w.key()] == w {
		delete(d.byAsk, w.key())
	}
	for _, name := range w.names {
		q := d.queues[name]
		if q == nil {
			continue // it went while this request was dropped
		}
		if q.stale++; q.stale*2 > len(q.wait) {
			q.wait = slices.DeleteFunc(q.wait, func(w *claimRequest) bool { return w.done })
			q.stale = 0
		}
		if len(q.wait) == 0 && q.heads.Len() == 0 && !q.dirty {
			delete(d.queues, name) // waiting for names must not fill the memory
		}
	}
}

// WaitingFor is how many requests wait for a queue.
func (d *Index) WaitingFor(name string) uint32 {
	if q := d.queues[name]; q != nil {
		return uint32(len(q.wait) - q.stale)
	}
	return 0
}

// line puts a request where it belongs by its arrival: who was sent to another node in vain
// is still before those who have come since.
func (q *queue) line(w *claimRequest) {
	at, _ := slices.BinarySearchFunc(q.wait, w.Number+1, func(o *claimRequest, number uint64) int { return cmp.Compare(o.Number, number) })
	q.wait = slices.Insert(q.wait, at, w)
}

// due gives a waiter whose time is over, or nil.
func (d *Index) due(now clock.Time) *claimRequest {
	if len(d.byTime) > 0 && d.byTime[0].Until <= now.Mono {
		return d.byTime[0]
	}
	return nil
}

// nextDeadline is the first deadline of a waiter, mono ns.
func (d *Index) nextDeadline() int64 { return d.byTime.Next() }

// Recover remembers a claim that the process before this one has granted, and may have told of.
func (d *Index) Recover(g message.GrantRef) {
	d.remember(g)
	d.answeredBefore(g.Ask)
}

// Ready gives the queues of which a partition has something to hand out.
func (d *Index) Ready(p ring.Partition) (names []string) {
	for name, q := range d.queues { // Any order: it becomes a set.
		if q.heads.Has(int(p)) {
			names = append(names, name)
		}
	}
	return names
}

// KeepAway keeps a task from a worker that has no handler for it, for a while.
func (d *Index) KeepAway(now clock.Time, r *claim.Record, task id.ID, length time.Duration) {
	d.away.Add(now.Mono, away.Taker{Worker: r.Worker, Session: r.Session}, task, length)
}

// KeptFrom are the workers from whom a task is kept.
func (d *Index) KeptFrom(now clock.Time, task id.ID) []string { return d.away.From(now.Mono, task) }

// AskedAt is when a client has last asked for tasks of a queue, wall ns.
func (d *Index) AskedAt(name string) int64 { return d.last[name] }
