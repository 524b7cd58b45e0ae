package replication

import (
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/call"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/waiting"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"

	gproto "google.golang.org/protobuf/proto"
)

const (
	// WriteTimeout is how long a write waits for its copies. Then its outcome is
	// unknown: the facts are here and may be elsewhere.
	WriteTimeout = 5 * time.Second
	// ResendAfter is the pause after which facts are sent again to who has not
	// answered, but has answered later ones, so that these were lost. Whoever is
	// behind with everything is not given more to do before ResendSlow is over.
	ResendAfter = 500 * time.Millisecond
	// ResendSlow is that pause.
	ResendSlow = 4 * ResendAfter
	// LookEvery is how far apart looks at open writes are: those that are due between
	// two of them are looked at together, so that the loop is not woken for each.
	LookEvery = ResendAfter / 4
	// MaxOpenBytes is how much may wait for copies before no more is taken, and MaxEndBytes
	// before completions are not either: they make room in the queue. From ShedBytes on
	// what waits for nobody but those out of reach is let go, see [Writes.shed].
	MaxOpenBytes = 64 << 20
	// MaxEndBytes is how much of them it may be for what ends tasks.
	MaxEndBytes = 2 * MaxOpenBytes
	// ShedBytes is from when on writes are let go.
	ShedBytes = MaxOpenBytes / 2
)

// Writes sees to it that facts written here get to the other members of their
// cohorts, and holds answers back until enough of them have their copies on
// disk (design 5). All facts of a round travel as one write, one message per
// peer; each request waits for its own partitions only.
//
// This node's own copy counts from the start, because answers never leave
// before the sync of their round. If it is no member of the cohort, which happens
// when none of them is in reach, what it keeps is a hint: durable, but no copy.
// It is handed over like whatever else lies where it does not belong ([transfer]).
type Writes struct {
	m     *Machine
	Quiet bool // facts of other coordinators are being merged

	round map[ring.Partition][]crdt.Fact // of this round, where others are to have them
	again map[factRef]bool               // of these, what was here before and is sent again
	newly id.ID                          // whose fact was stored last, until its item is bought

	Resent int // bytes of again
	// Invariant: items is empty between two requests. What were left would make the answer to
	// the next request wait for copies that are none of its own (Audit).
	items []item           // of the request that is being handled
	held  []*waitingAnswer // answers of this round that wait for it

	number uint64
	// Invariant: Open is in the order of numbers, and Bytes are at least those of its facts.
	Open  []*write
	Bytes int

	largest int  // cohort
	sole    bool // of some partition this node is the whole cohort
	// Invariant: a member's number in taker only goes up, in the order of wrapping numbers. It
	// tells a lost message (later ones were answered) from a slow member, which must not be
	// sent everything again.
	taker map[register.Member]uint64 // newest write that each has answered
}

// item is one result of a request: what it says of its copies follows when
// they are counted.
type item struct {
	partition ring.Partition
	receipt   *nornv1.Receipt
	result    gproto.Message // that the receipt is in
	epoch     uint64         // that this node is to lead in still when it has its copies; 0: whoever leads
}

// fail takes the receipt back: how many copies there are is not known.
func (it *item) fail(e *proto.Error) {
	switch r := it.result.(type) {
	case *nornv1.EnqueueResult:
		r.Receipt, r.Error = nil, e.Proto()
	case *nornv1.WriteResult:
		r.Receipt, r.Error = nil, e.Proto()
	}
}

// waitingAnswer is an answer that waits for copies.
type waitingAnswer struct {
	reply message.Reply
	items []item
	need  *nornv1.Durability
	until int64 // mono ns
	waits *waiting.Wait
}

// write is the facts of one round.
type write struct {
	Number uint64
	round  uint64 // that wrote the facts here
	parts  map[ring.Partition]*copies
	held   []*waitingAnswer
	Bytes  int
	began  int64 // mono ns
	again  int64 // mono ns at which it is looked whether it is to be sent again
	until  int64 // mono ns at which it is given up
	next   int64 // mono ns until which nothing is due about it
}

// copies counts who has the facts of one partition.
type copies struct {
	call.Quorum
	// Invariant: this node's own copy is counted exactly when hint is false. A copy that is not
	// of the cohort, or of a disk that may have forgotten promises, is durable and counts for
	// nothing (mutants OutsiderCounts, CountsForgotten).
	hint  bool // this node's copy does not count: it is not of the cohort, or may have forgotten something
	facts []crdt.Fact
}

// cohort is who keeps a partition.
func (w *Writes) cohort(p ring.Partition) []register.Member { return w.m.View.Cells[p].Cohort }

// Alone tells whether nobody else keeps the partition, or is about to.
func (w *Writes) Alone(p ring.Partition) bool {
	cohort := w.cohort(p)
	return len(cohort) == 0 || len(cohort) == 1 && cohort[0] == w.m.Self && len(w.m.Acceptors.All[p].Open) == 0
}

// Stored hears of every fact that is written here.
func (w *Writes) Stored(p ring.Partition, f crdt.Fact) {
	if !w.Quiet && !w.Alone(p) {
		w.newly = f.Task
		w.add(p, f)
	}
}

// add has a fact sent to the members of its partition at the end of this round.
func (w *Writes) add(p ring.Partition, f crdt.Fact) {
	if w.round == nil {
		w.round = make(map[ring.Partition][]crdt.Fact)
	}
	w.round[p] = append(w.round[p], f)
}

// Bought fills the receipt of an item that was accepted. Of what was here before,
// or has won against what came now, nobody knows who else has it: what the receipt
// promises is sent again, so that no answer leaves without copies. That is the fact of
// this key, or what is left of a task that was collected; without a key, or with that of
// a failure, of a decision, all that says where the task is. No more than that, and once a round, however often it
// is asked for: the payloads of a batch that is repeated may be larger than any message.
func (w *Writes) Bought(result gproto.Message, r *nornv1.Receipt, task id.ID, existed bool, about crdt.Key) {
	p := ring.Of(task, len(w.m.View.Cells))
	convert.FillReceipt(r, task, p, existed)
	if w.Alone(p) {
		return
	}
	it := item{partition: p, receipt: r, result: result}
	if (existed || w.newly != task) && !w.repeatWrite(p, task, about) {
		it.fail(crowdedOut())
		return
	}
	w.newly = id.ID{}
	w.items = append(w.items, it)
}

// Led has the item that was bought last acknowledged only if this node leads a partition
// in some epoch still when there are copies of it, see [Confirmations.awaitConfirmation].
func (w *Writes) Led(epoch uint64, r *nornv1.Receipt) {
	if n := len(w.items); n > 0 && w.items[n-1].receipt == r {
		w.items[n-1].epoch = epoch
	}
}

// Handles notes that a request is about to be handled: what is stored between requests is
// bought by none.
func (w *Writes) Handles() { w.newly = id.ID{} }

// Restored sends facts of a backup to the others who keep a partition, and has the answer to the
// request that is being handled wait for their copies.
func (w *Writes) Restored(p ring.Partition, facts []crdt.Fact) {
	if w.Alone(p) {
		return
	}
	for _, f := range facts {
		w.add(p, f)
	}
}

// Receipt has the answer to the request that is being handled wait for copies of what was
// restored.
func (w *Writes) Receipt(p ring.Partition, r *nornv1.Receipt, result gproto.Message) {
	if !w.Alone(p) {
		w.items = append(w.items, item{partition: p, receipt: r, result: result})
	}
}

// AwaitCopies keeps back the answer to the request that was just handled, if it waits
// for copies. first is the number of answers before it.
func (w *Writes) AwaitCopies(now clock.Time, r *message.Request, first int) {
	if len(w.items) == 0 {
		return
	}
	replies := w.m.Round.Ready.Replies
	if len(replies) != first+1 { // refused as a whole, after all
		w.items = w.items[:0]
		return
	}
	h := &waitingAnswer{reply: replies[first], items: w.items, until: now.Mono + int64(WriteTimeout)}
	if r.Deadline != 0 {
		h.until = min(h.until, r.Deadline)
	}
	if m, ok := r.Body.(interface{ GetDurability() *nornv1.Durability }); ok {
		h.need = m.GetDurability()
	}
	w.m.Round.Ready.Replies = replies[:first]
	w.items, w.held = nil, append(w.held, h)
	h.waits = w.m.Pending.Open(waiting.Copies, h.reply.To, func(why *proto.Error) {
		w.release(h)
		if why != nil {
			w.m.Round.Refuse(h.reply.To, refusal.GivenUp())
		}
	})
}

// release lets an answer go that nobody waits for any more. What it is about goes on its way.
func (w *Writes) release(h *waitingAnswer) {
	is := func(o *waitingAnswer) bool { return o == h }
	w.held = slices.DeleteFunc(w.held, is)
	for _, o := range w.Open {
		o.held = slices.DeleteFunc(o.held, is)
	}
}

// Work ends a round: its facts are sent, and old writes looked at.
func (w *Writes) Work(now clock.Time) {
	if len(w.round) > 0 || len(w.held) > 0 {
		w.begin(now)
	}
	w.again, w.Resent = nil, 0
	w.Open = slices.DeleteFunc(w.Open, func(o *write) bool {
		// While a member is out of reach thousands are open: little is looked at.
		if o.next > now.Mono {
			return false
		}
		w.due(now, o)
		over := o.until <= now.Mono || o.complete()
		if over {
			w.Bytes -= o.Bytes
		}
		return over
	})
	w.shed()
}

// lookAt is the first of the times of looks that is no earlier than at.
func lookAt(at int64) int64 {
	return (at + int64(LookEvery) - 1) / int64(LookEvery) * int64(LookEvery)
}

// due does what is due about an open write.
func (w *Writes) due(now clock.Time, o *write) {
	lonely := false
	if o.again <= now.Mono {
		o.again = lookAt(max(o.again, now.Mono-int64(LookEvery)) + int64(ResendAfter))
		w.send(o, now.Mono-o.began)
		w.fenced(now, o)
		lonely = now.Mono-o.began >= int64(ResendAfter) && w.lonely(o)
	}
	o.held = slices.DeleteFunc(o.held, func(h *waitingAnswer) bool {
		// Nobody is left who could answer, or who is left is out of reach for longer
		// than it takes to be asked again: another node may have more to say.
		over := h.until <= now.Mono || o.complete() || lonely && w.hopeless(o, h)
		if over {
			w.giveUp(o, h)
		}
		return over
	})
	o.next = min(o.again, o.until)
	for _, h := range o.held {
		o.next = min(o.next, h.until)
	}
}

// complete tells whether nothing is left to wait for.
func (o *write) complete() bool {
	for _, part := range o.parts { // Any order: all are looked at.
		if len(part.Left) > 0 {
			return false
		}
	}
	return true
}

// begin makes a write of what the round has gathered.
//
// A write that has nothing to be sent (all was there before and is on its way already) still
// has a number: answers of its round wait in it.
func (w *Writes) begin(now clock.Time) {
	if w.number == 0 {
		if w.number = w.m.Rand.Uint64(); w.m.Policy.OldSeries {
			w.number = 1
		} // answers to the process before this one match nothing
	}
	w.number++
	o := &write{Number: w.number, round: w.m.Round.This(), parts: make(map[ring.Partition]*copies), held: w.held, began: now.Mono, again: now.Mono, until: now.Mono + int64(WriteTimeout)}
	for _, p := range slices.Sorted(maps.Keys(w.round)) {
		part := &copies{Quorum: call.NewQuorum(&w.m.View.Cells[p], w.m.Self), facts: w.round[p], hint: true}
		for _, f := range part.facts {
			o.Bytes += len(f.Body) + FactBytes
		}
		w.own(p, part)
		if outside := !slices.Contains(part.Cohort, w.m.Self); outside || w.m.Standing.Disk.Forgetful(p) {
			w.m.Transfer.Hinted(now, p)
			if outside && w.m.Policy.OutsiderCounts {
				part.Add(part.Cohort[0])
			}
		}
		o.parts[p] = part
	}
	w.round, w.held = nil, nil
	w.Open = append(w.Open, o)
	w.Bytes += o.Bytes
	w.settle(o)
}

// own counts this node's copy once it may be counted, and gives who is to have the
// facts too because of what this node knows.
func (w *Writes) own(p ring.Partition, part *copies) (more []register.Member) {
	self := w.m.Self
	if !part.hint || !slices.Contains(part.Cohort, self) || w.m.Acceptors.Blind(p, part.Epoch) || !w.m.Standing.Disk.Counts(p, part.Epoch) {
		return nil
	}
	part.hint = false
	part.Add(self)
	if f, ok := w.m.Acceptors.Fence(p, part.Epoch); ok {
		more = part.Fence(&f, self) // it is an ack like any other
	}
	return more
}

// trusted looks again for this node's copies that may be counted by now.
func (w *Writes) trusted() {
	for _, o := range slices.Clone(w.Open) {
		more := false
		for p, part := range o.parts { // Any order: each is looked at for itself.
			more = len(w.own(p, part)) > 0 || more
		}
		if more {
			w.anew(o)
		}
		w.settle(o)
	}
}

// send sends the facts of a write, of some age, to those who have not answered.
func (w *Writes) send(o *write, age int64) {
	to := map[register.Member]*message.Facts{}
	var order []register.Member
	for _, p := range slices.Sorted(maps.Keys(o.parts)) {
		part := o.parts[p]
		for _, m := range part.Left {
			last, answers := w.taker[m]
			behind := !answers || int64(last-o.Number) <= 0
			if behind && age > 0 && age%int64(ResendSlow) >= int64(ResendAfter) {
				continue // it is on its way, or waits over there
			}
			if to[m] == nil {
				to[m] = &message.Facts{Write: o.Number}
				order = append(order, m)
			}
			to[m].Parts = append(to[m].Parts, message.PartFacts{Partition: p, Epoch: part.Epoch, Facts: part.facts})
		}
	}
	for _, m := range order { // a copy is asked for, nothing is promised
		w.m.Round.SendNow(m, to[m])
	}
}

// Taken counts an answer.
func (w *Writes) Taken(from register.Member, m *message.FactsTaken) {
	if int64(m.Write-w.taker[from]) > 0 || w.taker[from] == 0 {
		if w.taker == nil {
			w.taker = make(map[register.Member]uint64)
		}
		w.taker[from] = m.Write
	}
	i, found := slices.BinarySearchFunc(w.Open, m.Write, func(o *write, n uint64) int {
		return int(int64(o.Number - n))
	})
	if !found {
		return // late, or of the process before this one
	}
	if w.m.Policy.LostRound && i > 0 {
		w.skipped(from, m, w.Open[i-1])
	}
	o := w.Open[i]
	for p, part := range o.parts { // Any order: each is counted for itself.
		switch {
		case !part.Take(from):
		case slices.Contains(m.Refused, p) && !w.m.Policy.RefusalIgnored:
			part.Refuse(from) // an error is no ack
		default:
			part.Add(from)
		}
	}
	w.fence(o, m.Fences)
	w.settle(o)
	switch {
	case !o.complete():
	case len(o.held) > 0:
		o.next = 0 // they are given up
	default:
		w.forget(o)
		w.Bytes -= o.Bytes
	}
}

// fence has a write reach the cohorts, too, that those who keep it have voted for
// or know of. What it asks somebody for may be more than it has asked for so far, and
// answers do not say what they are about: it goes on under a new number, which answers
// to what was asked for before do not bear.
func (w *Writes) fence(o *write, fences []message.Fence) {
	more := false
	for i := range fences {
		if part := o.parts[fences[i].Partition]; part != nil && !w.m.Policy.FenceIgnored {
			more = len(part.Fence(&fences[i], w.m.Self)) > 0 || more
		}
	}
	if more {
		w.anew(o)
	}
}

// anew sends a write under a new number.
func (w *Writes) anew(o *write) {
	w.forget(o)
	w.number++
	o.Number, w.Open = w.number, append(w.Open, o)
	w.send(o, 0)
}

// forget takes a write out, whatever has become of it. Its bytes are subtracted by the caller,
// as one that is sent anew keeps them.
func (w *Writes) forget(o *write) {
	w.Open = slices.DeleteFunc(w.Open, func(x *write) bool { return x == o })
}

// fenced has partitions elected anew whose proposed cohort does not come to be:
// else every write would have to reach it. Who stands for it is given the time, unless an
// answer waits for that cohort by now: to elect anew is to have it lose.
func (w *Writes) fenced(now clock.Time, o *write) {
	waits := len(o.held) > 0 && now.Mono-o.began >= int64(ResendAfter)
	for _, p := range slices.Sorted(maps.Keys(o.parts)) {
		part := o.parts[p]
		if part.Fenced() && part.Epoch == w.m.View.Cells[p].Epoch && (waits || !w.m.Leadership.Expects(now, p)) {
			w.m.Leadership.RequestElection(now, p, 0)
		}
	}
}

// settle lets go the answers that have their copies.
func (w *Writes) settle(o *write) {
	o.held = slices.DeleteFunc(o.held, func(h *waitingAnswer) bool {
		for _, it := range h.items {
			if !o.enough(it.partition, h.need) {
				return false
			}
		}
		for _, it := range h.items {
			it.count(o)
		}
		h.reply.After = w.m.Round.After(o.round)
		w.answer(h)
		return true
	})
}

// answer lets an answer go, unless it has to be confirmed first.
func (w *Writes) answer(h *waitingAnswer) {
	h.waits.Close()
	if !w.m.Confirms.awaitConfirmation(h) {
		w.m.Round.Answer(h.reply)
	}
}

// enough tells whether a partition's facts are on as many disks as asked for.
func (o *write) enough(p ring.Partition, need *nornv1.Durability) bool {
	part := o.parts[p]
	if part == nil || part.hint && need.GetLevel() == nornv1.WriteLevel_WRITE_LEVEL_ONE {
		return true
	}
	return part.Reached(level(need, len(part.Cohort)))
}

// count says in the receipt how many copies are on disk, and stay there: who is of one
// cohort and not of another drops what it has once that other one is in force. A disk at
// least has it all the while.
func (it *item) count(o *write) {
	if part := o.parts[it.partition]; part != nil {
		n := uint32(max(part.Least(), min(part.Count(), 1)))
		it.receipt.Copies, it.receipt.DurableCopies = n, n
		if it.receipt.Hinted = 0; part.hint {
			it.receipt.Hinted = uint32(len(part.Left))
		}
	}
}

// Due is when something is due, mono ns.
func (w *Writes) Due() int64 {
	at := clock.Never
	for _, o := range w.Open {
		at = min(at, o.next)
	}
	return at
}

// Changed notes that the cells have changed.
func (w *Writes) Changed() {
	w.largest, w.sole = 0, false
	for p := range w.m.View.Cells {
		cohort := w.cohort(ring.Partition(p))
		w.largest = max(w.largest, len(cohort))
		w.sole = w.sole || len(cohort) == 1 && cohort[0] == w.m.Self
	}
}

// unsure tells whether this node may take itself for a majority and be wrong: until
// the register has answered this process, what is known of it is what the disk says,
// which may be of before there was company. With others in the cohort these are asked,
// and know better.
func (w *Writes) unsure(l nornv1.WriteLevel) bool {
	few := l == nornv1.WriteLevel_WRITE_LEVEL_ONE || l == nornv1.WriteLevel_WRITE_LEVEL_COUNT
	return w.sole && !w.m.View.Current && !few
}

// Check refuses a write level that no cohort can give, and writes altogether
// while too much waits for its copies.
func (w *Writes) Check(d *nornv1.Durability) *proto.Error { return w.within(d, MaxOpenBytes) }

// CheckEnd does so for what ends tasks.
func (w *Writes) CheckEnd(d *nornv1.Durability) *proto.Error { return w.within(d, MaxEndBytes) }

// limit is how many bytes of facts may wait for copies. Errors: INVALID for a level that makes
// no sense or that the cluster can never give, UNAVAILABLE for one that the present cohorts
// cannot, OVERLOADED past the limit.
func (w *Writes) within(d *nornv1.Durability, limit int) *proto.Error {
	cohort := max(1, w.largest)
	switch l := d.GetLevel(); {
	case l < 0 || l > nornv1.WriteLevel_WRITE_LEVEL_COUNT:
		return proto.Invalid("durability has the unknown level %d", l)
	case d.GetCopies() != 0 && l != nornv1.WriteLevel_WRITE_LEVEL_COUNT: // else fewer copies would do than were asked for
		return proto.Invalid("durability has %d copies, and not the level for them, count", d.GetCopies())
	}
	switch need := level(d, cohort); {
	case need < 1:
		return proto.Invalid("a write needs at least one copy")
	case w.unsure(d.GetLevel()):
		return refusal.RegisterUnheard("durable copies")
	case w.m.View.Joined && need > max(cohort, w.m.Transfer.Replicas()): // no node that joins or comes back changes that
		return proto.Invalid("%d durable copies were asked for, and the cluster keeps %d of each task; ask for fewer", need, max(cohort, w.m.Transfer.Replicas()))
	case need > cohort:
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "%d durable copies were asked for, the cohort has %d; ask for fewer or add nodes", need, cohort).Keeping("durable copies").ForGood()
	case w.Bytes > limit:
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "%d MiB of facts wait for their copies, the limit of this node; other nodes are slow or out of reach", w.Bytes>>20).Again(ResendAfter)
	}
	return nil
}

// FactBytes is about what a fact takes beside its body.
const FactBytes = 96

// level is how many copies a write level means in a cohort.
// It gives 0 for COUNT without copies, which the caller refuses.
func level(d *nornv1.Durability, cohort int) int {
	switch d.GetLevel() {
	case nornv1.WriteLevel_WRITE_LEVEL_ONE:
		return 1
	case nornv1.WriteLevel_WRITE_LEVEL_ALL:
		return cohort
	case nornv1.WriteLevel_WRITE_LEVEL_COUNT:
		return int(d.GetCopies())
	}
	return quorum.Majority(cohort)
}
