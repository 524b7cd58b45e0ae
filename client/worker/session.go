package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"github.com/norn-dev/norn/session"
	gproto "google.golang.org/protobuf/proto"
)

var (
	// ErrKilled is returned by Run when an operator has stopped the worker
	// (`norn worker kill`).
	ErrKilled = errors.New("worker: an operator has stopped it")

	// errDrained ends fetch: an operator wants the worker to finish and leave.
	errDrained = errors.New("worker: an operator drains it")
	// errNoSessions means that no node keeps sessions with this worker.
	errNoSessions = errors.New("worker: no node keeps sessions with it")
)

// maxStop bounds the part of Grace by which a worker is lost earlier than its node
// knows: a node refuses workers that take over half of that time. What goes beyond
// is taken off the deadlines here, and the node waits for it before it hands on what
// a lost worker ran.
const maxStop = 10 * time.Second

// lastLeave is how long the end of a session is waited for: without it its name is
// free only after its lease.
const lastLeave = 2 * time.Second

// pushed is the source that keeps a session: a node hands it tasks, and renews all
// that it holds by one message per period. Package session decides; this carries.
type pushed struct {
	client *client.Client
	keeper keeper
	log    *slog.Logger
	clock  func() stamp
	began  stamp
	grace  time.Duration
	stop   time.Duration // the part of the grace that the session knows of
	config session.WorkerConfig
	lock   *lockFile // nil: none
	direct *pull     // for what is not the session's any more

	kick   chan struct{} // holds a token when the machine was used
	ending context.CancelFunc
	ended  sync.WaitGroup
	broke  chan struct{} // closed when failed is set
	shut   chan struct{} // closed when the client is: nothing is acknowledged any more

	mu      sync.Mutex // guards the fields below
	machine *session.Worker
	slept   time.Duration // by how much the boot clock was ahead at most
	ahead   time.Duration // and the wall clock, of the others
	seen    stamp         // what the newest now was read from
	starts  []session.Start
	changed chan struct{} // closed when there are starts, or no more will come
	acks    map[client.Ref]chan session.StatusAck
	missed  map[client.Ref]error // causes of stops that came between take and the beginning of the task
	closed  bool                 // nothing is taken any more
	failed  error                // why; nil: we wanted it
}

// keeper is whoever runs the tasks.
type keeper interface {
	// extend moves the end of a claim.
	extend(c client.Ref, deadline time.Time, before stamp)
	// stop ends a task whose claim may not go on; cause is that of its context. It is
	// false when the task has not begun yet, or is over.
	stop(c client.Ref, cause error) bool
	// held lists the claims that run.
	held() []client.Ref
	// counted hears what became of renewals.
	counted(result string, n int)
	// kill ends all that runs, because an operator wants it.
	kill()
}

func newPushed(c *client.Client, cfg Config, grace time.Duration, k keeper, read func() stamp, direct *pull) *pushed {
	p := &pushed{
		client: c, keeper: k, log: cfg.Logger, clock: read, grace: grace, stop: min(grace, maxStop), direct: direct,
		kick: make(chan struct{}, 1), changed: make(chan struct{}), acks: make(map[client.Ref]chan session.StatusAck), broke: make(chan struct{}), shut: make(chan struct{}), missed: make(map[client.Ref]error),
	}
	host, _ := os.Hostname() // for people, and to tell locks apart
	p.config = session.WorkerConfig{
		Identity: session.Identity{Name: cfg.Name, Machine: host},
		Capacity: session.Capacity{Slots: cfg.Slots, Prefetch: cfg.Prefetch, Lease: cfg.Lease}, Stop: p.stop, Grace: min(grace, proto.MaxSessionStop),
	}
	return p
}

// start begins the session, for tasks of these queues.
func (p *pushed) start(ctx context.Context, cfg Config, queues []string) error {
	for _, q := range queues {
		o := cfg.PerQueue[q]
		p.config.Capacity.Queues = append(p.config.Capacity.Queues, session.QueueSlots{Queue: q, Slots: o.Slots, Weight: o.Weight})
	}
	p.began = p.clock()
	if err := p.rebirth(); err != nil {
		return err
	}
	ctx, p.ending = context.WithCancel(context.WithoutCancel(ctx))
	l := newLink(p)
	p.ended.Go(func() { l.run(ctx) })
	return nil
}

// rebirth draws a new instance: at the start, and when the one before had to die.
func (p *pushed) rebirth() error {
	if _, err := rand.Read(p.config.Identity.Instance[:]); err != nil {
		return fmt.Errorf("worker: no randomness: %w", err)
	}
	p.config.Identity.Started = time.Now().UnixNano()
	if p.lock != nil {
		began, err := p.lock.begin(time.Now())
		if err != nil {
			return err
		}
		p.config.Identity.Lock, p.config.Identity.Started = "file "+p.lock.name, began
	}
	m, err := session.NewWorker(p.config)
	if err != nil {
		return err
	}
	if p.machine != nil {
		session.Inherit(m, p.machine)
	}
	p.machine = m
	return nil
}

// now is the time of the session: it goes by the clock that is ahead, as far as that
// is ahead of the others since the beginning, and never back. So a suspend, or a step
// of the wall clock, counts once, and each by itself: a suspend counts also after a step
// that was put right. What jitter there is between clocks does not add up. The lock is held.
func (p *pushed) now() clock.Time {
	s := p.clock()
	p.seen = s
	at := s.at.Sub(p.began.at)
	boot := s.boot - p.began.boot
	p.slept = max(p.slept, boot-at)
	p.ahead = max(p.ahead, s.wall.Sub(p.began.wall)-max(boot, at)) // where there is no boot clock, a suspend too
	return clock.Time{Wall: s.wall.UnixNano(), Mono: 1 + int64(at+p.slept+p.ahead)}
}

// deadline is when the claim of a handler ends, told in the time of the process: the
// machine takes off the time that a handler needs to stop, so does the job. now is the
// newest one: it counts from the very clocks that now was read from, because a process
// that stands still between two readings would be late by as much. The lock is held.
func (p *pushed) deadline(mono int64, now clock.Time) (time.Time, stamp) {
	return p.seen.at.Add(time.Duration(mono-now.Mono) + p.stop), p.seen
}

func (p *pushed) wake() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// change tells take to look again. The lock is held.
func (p *pushed) change() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// use does something with the machine, and has its wishes carried out.
func (p *pushed) use(f func(m *session.Worker, now clock.Time)) {
	p.mu.Lock()
	now := p.now()
	f(p.machine, now)
	p.mu.Unlock()
	p.wake()
}

// take gives tasks that were pushed here.
func (p *pushed) take(ctx context.Context, d demand) ([]granted, error) {
	over := time.NewTimer(d.wait)
	defer over.Stop()
	for {
		got, changed, err := p.pick(d)
		if len(got) > 0 || err != nil {
			return got, err
		}
		select {
		case <-changed:
		case <-over.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (p *pushed) broken() <-chan struct{} { return p.broke }

// pick takes out what there is room for.
func (p *pushed) pick(d demand) (got []granted, changed <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil {
		return nil, nil, p.failed
	}
	room := make(map[string]int, len(d.queues))
	for _, q := range d.queues {
		room[q.Queue] = q.Room
	}
	now := p.now()
	p.starts = slices.DeleteFunc(p.starts, func(s session.Start) bool {
		if len(got) == d.room || room[s.Queue] == 0 {
			return false
		}
		room[s.Queue]--
		until := s.Deadline
		if newest, holds := p.machine.Holds(now, s.Claim); holds {
			until = newest // it was renewed while it waited here
		}
		deadline, before := p.deadline(until, now)
		proto.FillKind(s.Grant.GetTask())
		got = append(got, granted{&client.Claim{Grant: s.Grant, ID: s.Claim.Task, Token: s.Claim.Token, Deadline: deadline}, before})
		return true
	})
	return got, p.changed, nil
}

func claimOfRef(r client.Ref) session.Claim { return session.Claim{Task: r.ID, Token: r.Token} }

func (p *pushed) report(ctx context.Context, c client.Ref, o outcome) (nornv1.State, error) {
	end := session.End{Kind: session.EndCompleted, Result: o.done.Result}
	if o.done.Seq != nil {
		end.Seq = *o.done.Seq
	} else {
		end.AutoSeq = true
	}
	if f := o.failed; f != nil {
		end = session.End{Kind: session.EndFailed, Error: f.Error, Uncounted: f.Uncounted, Discard: f.Discard}
		if f.KeepAway > 0 {
			end.Further, _ = gproto.Marshal(&nornv1.Failure{KeepAwaySeconds: f.KeepAway.Seconds()}) // a number can be encoded
		}
		if at := f.RetryAt; !at.IsZero() {
			end.RetryAt = at.UnixNano()
		} else if f.RetryIn > 0 {
			end.RetryIn, end.RetryAt = f.RetryIn, time.Now().Add(f.RetryIn).UnixNano() // for nodes that do not know the first one
		}
	}
	ack, ours, err := p.tell(ctx, c, end)
	if !ours {
		return p.direct.report(ctx, c, o)
	}
	return ack.State, err
}

func (p *pushed) release(ctx context.Context, claims ...client.Ref) error {
	var errs []error
	for _, c := range claims {
		_, ours, err := p.tell(ctx, c, session.End{Kind: session.EndReleased})
		if !ours {
			err = p.direct.release(ctx, c)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// tell reports the end of a claim, and waits until that is acknowledged. ours is
// false when the session does not hold the claim any more.
func (p *pushed) tell(ctx context.Context, c client.Ref, end session.End) (ack session.StatusAck, ours bool, err error) {
	acked := make(chan session.StatusAck, 1)
	p.use(func(m *session.Worker, now clock.Time) {
		delete(p.missed, c)
		if ours = m.Ended(now, claimOfRef(c), end); ours {
			p.acks[c] = acked
		}
	})
	if !ours {
		return ack, false, nil
	}
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.acks, c)
	}()
	select {
	case ack, ours = <-acked:
		if !ours { // the session ends before
			return ack, false, nil
		}
		if ack.Lost {
			err = ErrClaimLost
		}
		return ack, true, err
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-p.shut:
		err = client.ErrClosed
	}
	return ack, true, fmt.Errorf("what came of task %s was not acknowledged: %w", c.ID, err)
}

// forsake lets a lost session end though not all ends are acknowledged: what is to be
// reported goes on without it, and what nobody reports is given back. The lock is held.
func (p *pushed) forsake(ctx context.Context, now clock.Time) {
	var rest []client.Ref
	for _, c := range session.Forsake(p.machine, now) {
		ref := client.Ref{ID: c.Task, Token: c.Token}
		if acked := p.acks[ref]; acked != nil {
			close(acked)
			delete(p.acks, ref)
		} else {
			rest = append(rest, ref)
		}
	}
	if len(rest) == 0 {
		return
	}
	p.ended.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, reportFor)
		defer cancel()
		if err := p.direct.release(ctx, rest...); err != nil {
			p.log.Debug("not all claims of a lost session could be given back", "error", err) // or are over
		}
	})
}

// over hears that a task has ended and nothing will be reported any more.
func (p *pushed) over(c client.Ref) {
	p.use(func(m *session.Worker, now clock.Time) {
		m.Ended(now, claimOfRef(c), session.End{Kind: session.EndReported})
		delete(p.missed, c)
	})
}

// stuck hears of a handler that does not return, or has after all.
func (p *pushed) stuck(c client.Ref, stuck bool) {
	p.use(func(m *session.Worker, now clock.Time) {
		if jammed := session.Stuck(m, now, claimOfRef(c), stuck); jammed {
			p.giveBack(now) // none would be begun
		}
	})
}

// trouble tells the node why tasks cannot be begun, and gives back what was not begun.
func (p *pushed) trouble(why string, resting bool) {
	p.use(func(m *session.Worker, now clock.Time) {
		session.Trouble(m, now, why, resting)
		if resting {
			p.giveBack(now)
		}
	})
}

// remember keeps a line of output of a claim that is held.
func (p *pushed) remember(c client.Ref, line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.machine.Log(p.now(), claimOfRef(c), line)
}

// close gives back what was not begun; nothing is taken any more.
func (p *pushed) close(context.Context) {
	p.use(func(m *session.Worker, now clock.Time) {
		p.closed = true
		p.giveBack(now)
		m.Drain(now)
	})
}

// giveBack ends what was not taken. The lock is held.
func (p *pushed) giveBack(now clock.Time) {
	for _, s := range p.starts {
		p.machine.Ended(now, s.Claim, session.End{Kind: session.EndReleased})
	}
	p.starts = nil
}

// end leaves the cluster: the name is free, and nothing runs here. It waits a little
// for that to be known.
func (p *pushed) end(ctx context.Context) {
	p.mu.Lock()
	gone := p.failed != nil && !errors.Is(p.failed, errDrained) && !errors.Is(p.failed, ErrKilled)
	p.mu.Unlock()
	if !gone {
		done := make(chan struct{})
		go func() {
			p.ended.Wait()
			close(done)
		}()
		t := time.NewTimer(lastLeave)
		defer t.Stop()
		select {
		case <-done:
		case <-t.C:
		case <-ctx.Done():
		}
	}
	p.ending()
	p.ended.Wait()
}

// carry does what the machine wants but sending. The lock is held.
func (p *pushed) carry(now clock.Time) (send []session.Message, wake int64) {
	for {
		r := p.machine.Ready()
		for _, s := range r.Stop {
			p.halt(now, s)
		}
		for _, s := range r.Start {
			switch {
			case s.Check > 0:
				p.check(s.Check)
			case p.closed:
				p.machine.Ended(now, s.Claim, session.End{Kind: session.EndReleased})
			default:
				p.starts = append(p.starts, s)
				p.change()
			}
		}
		for _, a := range r.Acked {
			if acked := p.acks[client.Ref{ID: a.Claim.Task, Token: a.Claim.Token}]; acked != nil {
				acked <- a
				delete(p.acks, client.Ref{ID: a.Claim.Task, Token: a.Claim.Token})
			}
		}
		send = append(send, r.Send...)
		if len(r.Stop)+len(r.Start) == 0 {
			return send, r.WakeAt
		}
	}
}

// halt stops one task. The lock is held.
func (p *pushed) halt(now clock.Time, s session.Stop) {
	if i := slices.IndexFunc(p.starts, func(o session.Start) bool { return o.Claim == s.Claim }); i >= 0 {
		p.starts = slices.Delete(p.starts, i, i+1)
		p.machine.Ended(now, s.Claim, session.End{Kind: session.EndReleased})
		return
	}
	cause := ErrClaimLost
	switch {
	case s.Cause == session.CauseCancelled, s.Cause == session.CauseKilled:
		cause = ErrCancelled
	case s.Cause == session.CauseShutdown && p.machine.Info().Final:
		cause = ErrShutdown
	}
	if ref := (client.Ref{ID: s.Claim.Task, Token: s.Claim.Token}); !p.keeper.stop(ref, cause) {
		p.missed[ref] = cause
	}
}

// stopMissed tells a task that has just begun what it was told before.
func (p *pushed) stopMissed(c client.Ref) {
	p.mu.Lock()
	cause := p.missed[c]
	delete(p.missed, c)
	p.mu.Unlock()
	if cause != nil {
		p.keeper.stop(c, cause)
	}
}

// check runs a health check the way tasks are run: on a goroutine of its own, by the
// code that calls handlers.
func (p *pushed) check(number uint64) {
	p.ended.Go(func() {
		healthy := func(context.Context, *Task) error { return nil }
		if call(context.Background(), healthy, nil) == nil {
			p.use(func(m *session.Worker, now clock.Time) { m.CheckPassed(now, number) })
		}
	})
}

// extendAll moves the ends of the claims that run. The lock is held.
func (p *pushed) extendAll(now clock.Time) {
	for _, c := range p.keeper.held() {
		if mono, ok := p.machine.Holds(now, claimOfRef(c)); ok {
			deadline, before := p.deadline(mono, now)
			p.keeper.extend(c, deadline, before)
		}
	}
}

// count tells what became of renewals.
func (p *pushed) count(r *session.Renewed) {
	var ok, lost, cancelled int
	for _, i := range r.Items {
		switch i.Lost {
		case session.CauseNone:
			ok++
		case session.CauseCancelled:
			cancelled++
		default:
			lost++
		}
	}
	for result, n := range map[string]int{"ok": ok, "lost": lost, "cancelled": cancelled} { // Any order: each has its own counter
		if n > 0 {
			p.keeper.counted(result, n)
		}
	}
}

// give ends the taking of tasks for a reason. The lock is held.
func (p *pushed) give(reason error) {
	if p.failed == nil && !p.closed {
		p.failed = reason
		close(p.broke)
		p.change()
	}
}
