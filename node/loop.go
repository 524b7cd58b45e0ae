package node

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/internal/portion"
	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/inbox"
	"github.com/norn-dev/norn/node/queuestats"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/transport"
)

// round is what one turn of the loop hands to the syncer.
type round struct {
	number   uint64
	durable  func() // waits until what was applied is; nil: nothing was
	replies  []message.Reply
	sends    []message.Send
	commit   []register.Request
	reads    []message.Read
	snapshot store.Snapshot // for the reads; nil without
	mark     uint64         // for the superblock; 0: it is not due
}

// loop steps the core with what has come in and applies what it wants written.
// While the syncer waits for the disk one further round is prepared; what comes
// in meanwhile becomes the round after it. Under load the loop gathers before it
// cuts a round, see [pacing]. That is all there is to batching.
func (n *Node) loop(ctx context.Context) {
	defer close(n.rounds)
	timer := time.NewTimer(math.MaxInt64)
	defer timer.Stop()
	var in intake
	wall, mono := int64(math.MinInt64), int64(math.MinInt64) // look around at once
	var pace pacing
	ended := n.clock.Now()
	for {
		if !n.await(ctx, timer, wall, mono) {
			return
		}
		woken, err := n.clock.Now(), error(nil)
		in.events, in.bytes = 0, 0
		if pace.gathers() {
			err = gather(n, &in, timer)
		}
		if err == nil {
			err = in.step(n)
		}
		var ready message.Ready
		if err == nil {
			ready, err = n.core.Ready(n.clock.Now())
		}
		if err != nil {
			n.members.end(err)
			return
		}
		now := n.clock.Now()
		wall, mono = ready.WakeWall, ready.WakeMono
		n.publish()
		n.decided.Add(now.Wall, ready.Decided)
		n.perform(&ready)
		before := ended
		ended = n.clock.Now()
		pace.took(time.Duration(woken.Mono-before.Mono), time.Duration(ended.Mono-before.Mono), in.events, in.bytes)
		if is := pace.loaded(); is != n.loaded.Load() {
			n.loaded.Store(is)
		}
	}
}

// intake is what the loop takes from the inbox for one round.
type intake struct {
	first, rest   []any // kept for their memory
	events, bytes int   // that were taken
}

// full tells whether a round has enough: one sync covers much, and what it holds is bounded.
func (in *intake) full() bool {
	return in.events >= inbox.TakeEvents || in.bytes >= inbox.TakeBytes
}

// step steps the core with what has come in, unless the round is full.
func (in *intake) step(n *Node) error {
	if in.full() {
		return nil
	}
	select {
	case <-n.inbox.Wake: // for what is taken now
	default:
	}
	bytes := 0
	in.first, in.rest, bytes = n.inbox.Take(in.first, in.rest)
	in.events, in.bytes = in.events+len(in.first)+len(in.rest), in.bytes+bytes
	now := n.clock.Now()
	for _, events := range [][]any{in.first, in.rest} {
		for _, e := range events {
			if asked, is := e.(queuestats.TenantsAsked); is {
				asked <- core.Tenants(n.core)
				continue
			}
			if err := n.core.Step(now, e); err != nil {
				return err
			}
			if _, is := e.(message.Drain); is {
				n.drained.Store(true)
			}
		}
		clear(events)
	}
	return nil
}

// gather steps what comes in while the round before is made durable, and then lets others run
// for as long as that brings more. A round that is cut while the one before it is being synced
// has to wait for that anyway. Answers that wait for no sync leave at once, so that the requests
// that they bring about are in this round. A disk that takes its time is not waited for: the core
// has to hear of that.
func gather(n *Node, in *intake, timer *time.Timer) (err error) {
	timer.Reset(gatherMost)
	for waits := true; waits && err == nil && n.handed > n.synced.Load(); {
		wake := n.inbox.Wake
		if in.full() {
			wake = nil
		}
		select {
		case <-n.settled:
		case <-wake:
			err = in.early(n)
		case <-timer.C:
			waits = false
		case <-n.ctx.Done():
			waits = false
		}
	}
	for times, before := 0, 0; err == nil && !in.full() && times < yieldsMost && (times < yieldsLeast || in.events > before); times++ {
		before = in.events
		yield()
		err = in.early(n)
	}
	return err
}

// early steps what has come in and sends the answers that wait for no sync.
func (in *intake) early(n *Node) error {
	if err := in.step(n); err != nil {
		return err
	}
	answers{n}.sendAll(n.core.Due(n.synced.Load()))
	return nil
}

// perform applies a Ready and passes on what must wait for the disk.
func (n *Node) perform(ready *message.Ready) {
	r := round{number: ready.Round, commit: ready.Commit, reads: ready.Reads}
	var due []message.Send
	due, r.sends, r.replies = n.letGo(ready.Send, ready.Replies, n.synced.Load())
	// Before this node writes: others do so meanwhile.
	sendAll(n, slices.Concat(due, ready.Early))
	if ready.Persist != nil {
		n.stall.wait(factsWrite, func() { r.durable = n.facts.Commit(ready.Persist) })
		n.core.Recycle(ready.Persist)
		if mark := core.MarkOf(n.core); mark >= n.marked+markStep {
			n.marked, r.mark = mark, mark
		}
	}
	if len(r.reads) > 0 {
		r.snapshot = n.facts.Snapshot()
	}
	for i := range ready.Archives {
		view := n.facts.Snapshot()
		n.running.Go(func() { n.writeArchive(n.ctx, view, &ready.Archives[i]) })
	}
	n.ask(ready.Register)
	if ready.Reborn {
		n.running.Go(func() {
			if err := (oldLife{n}).beginAgain(); err != nil {
				n.fatal(err)
			} else {
				n.giveWay()
			}
		})
	}
	if r.durable != nil || len(r.replies) > 0 || len(r.sends) > 0 || len(r.reads) > 0 || len(r.commit) > 0 {
		n.handed = r.number
		n.rounds <- r
	}
}

// sendAll sends messages to other nodes.
func sendAll(n *Node, messages []message.Send) {
	n.metrics.Sent.Add(uint64(n.members.network.SendAll(messages)))
}

// ask gives requests to the register.
func (n *Node) ask(requests []register.Request) {
	for _, request := range requests {
		n.running.Go(func() {
			n.register.Do(request, func(result registerResult) {
				n.inbox.Post(message.Registered{Result: result})
			})
		})
	}
}

// await waits for events or for the time the core wants to be looked at. It
// returns false when the loop must end.
func (n *Node) await(ctx context.Context, timer *time.Timer, wall, mono int64) bool {
	now := n.clock.Now()
	wait := time.Duration(math.MaxInt64)
	if mono != clock.Never {
		wait = time.Duration(mono - now.Mono)
	}
	if wall != math.MaxInt64 {
		wait = min(wait, time.Duration(wall-now.Wall))
	}
	if mono < now.Mono || wall < now.Wall {
		wait = 0
	}
	if wait <= 0 {
		select {
		case <-ctx.Done():
			return false
		default:
			return true
		}
	}
	timer.Reset(n.clock.Real(wait))
	select {
	case <-ctx.Done():
		return false
	case <-n.inbox.Wake:
	case <-timer.C:
	}
	return true
}

// syncer makes rounds durable and lets their replies and reads go, in order.
func (n *Node) syncer() {
	for r := range n.rounds {
		if r.durable != nil {
			var due []message.Send
			due, r.sends, r.replies = n.letGo(r.sends, r.replies, r.number-1) // all before it are durable
			sendAll(n, due)
			n.stall.wait(factsSync, r.durable)
			n.metrics.Syncs.Add(1)
		}
		n.synced.Store(r.number)
		if r.mark != 0 {
			n.running.Go(func() { n.dir.super.keep(r.mark, n.fatal) })
		}
		select {
		case n.settled <- struct{}{}:
		default:
		}
		n.release(&r)
	}
}

// letGo gives what waits for no later round than the last one that is durable, and the
// rest: what others have acknowledged depends on what was written here when they were asked,
// not on what is being written now. Replies that are due it sends.
func (n *Node) letGo(sends []message.Send, replies []message.Reply, synced uint64) (due, kept []message.Send, keptReplies []message.Reply) {
	isDue := func(after uint64) bool { return after != 0 && after <= synced }
	for _, s := range sends {
		if isDue(s.After) {
			due = append(due, s)
		} else {
			kept = append(kept, s)
		}
	}
	var out []message.Reply
	keptReplies = replies[:0]
	for _, r := range replies {
		if isDue(r.After) {
			out = append(out, r)
		} else {
			keptReplies = append(keptReplies, r)
		}
	}
	answers{n}.sendAll(out)
	return due, kept, keptReplies
}

// release lets one durable round go.
func (n *Node) release(r *round) {
	n.ask(r.commit)
	sendAll(n, r.sends) // first: others wait for them, too
	answers{n}.sendAll(r.replies)
	if r.snapshot == nil {
		return
	}
	var left sync.WaitGroup
	for i := range r.reads {
		held := readsOf(n, r.reads[i].From)
		if !portion.Fits(maxQueuedReads, n.queued.Load(), held.Load(), 1) {
			n.turnAway(&r.reads[i])
			continue
		}
		n.queued.Add(1)
		held.Add(1)
		left.Add(1)
		n.running.Go(func() {
			defer left.Done()
			defer n.queued.Add(-1)
			defer held.Add(-1)
			n.read(r.snapshot, &r.reads[i])
		})
	}
	n.running.Go(func() {
		left.Wait()
		r.snapshot.Close()
	})
}

// readsOf counts the reads of a client that wait for their turn. Whoever is none, or is gone,
// has no others.
func readsOf(n *Node, from message.Origin) *atomic.Int64 {
	if at, ok := n.conns.Load(from.Conn); ok {
		return &at.(*transport.Conn).Attachment().(*client).reads
	}
	return new(atomic.Int64)
}

// turnAway answers a read that is one too many.
func (n *Node) turnAway(r *message.Read) {
	e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "%d reads wait already, of at most %d on this node, and no connection may have more than its share", n.queued.Load(), maxQueuedReads).Again(100 * time.Millisecond)
	n.send(&message.Reply{To: r.From, Err: e})
	if r.Waits {
		n.inbox.Post(message.ReadDone{From: r.From})
	}
}

// read runs one read beside the loop.
func (n *Node) read(view store.View, r *message.Read) {
	n.reading <- struct{}{}
	defer func() { <-n.reading }()
	if r.AsOf != nil {
		if held, done, ok := n.held.Use(*r.AsOf); ok {
			defer done()
			view = held
		}
	}
	reply, empty, err := r.Run(view, n.clock.Now())
	if err != nil {
		n.fatal(err)
		return
	}
	if !empty {
		n.send(&reply)
	}
	if r.Waits {
		n.inbox.Post(message.ReadDone{From: r.From, Empty: empty})
	}
}
