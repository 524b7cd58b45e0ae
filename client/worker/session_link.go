package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/clock"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/session"
)

const (
	// linkWait is how long a node may hold a request of a session, and linkSlack how
	// much longer it may take before its stream is given up.
	linkWait  = 20 * time.Second
	linkSlack = 15 * time.Second
	// linkPause is the pause after all nodes were tried in vain, or one had all the workers
	// it takes, on average.
	linkPause = 500 * time.Millisecond
	// silentPeriods is after how many periods without an answer to a heartbeat another
	// node is tried.
	silentPeriods = 3
	// declineWait is the shortest time after which another one is tried when a node answers
	// and does not get as far as keeping the session.
	declineWait = 10 * time.Second
	// firstLook and maxLook bound the pauses between attempts to find another node than one
	// that is cut off.
	firstLook = time.Second
	maxLook   = 30 * time.Second
	// linkPatience is after how long without a node it is told, once.
	linkPatience = 2 * time.Second
)

// link is the way of a session to its dispatcher: one stream at a time, and the loop
// that drives the machine. All of it belongs to one goroutine.
type link struct {
	p       *pushed
	nth     int       // address to try next
	tried   int       // in a row, in vain
	refused int       // of those: that keep no sessions with us
	useless int       // of those: whose answer no retry changes
	why     error     // the newest of these answers
	since   time.Time // of the first miss since an answer; zero: there was none
	missed  bool      // it was told that there is no node
	dying   time.Time // since when the session is lost and something still runs; zero: it is not so
	waits   bool      // it was told that a new one waits for that
	shut    bool      // the client is closed
	retryAt time.Time
	stream  *client.Stream
	turned  int64 // mono ns at which the stream began
	come    int64 // bytes of an unfinished frame that had come when that was looked at last
	moved   int64 // mono ns at which they were seen to become more
	calls   context.Context
	hangUp  context.CancelFunc
	open    int
	dialing bool
	dialed  chan dialed
	results chan result
	told    string // the newest refusal that was logged
	cut     bool   // it was told that the node is cut off
	looks   time.Duration
	lookAt  time.Time // when another node is looked for again
}

type dialed struct {
	stream *client.Stream
	errs   []error // without a stream, one for each address
}

// result is what came of one request.
type result struct {
	stream *client.Stream
	reply  *nornv1.SessionReply
	err    error
}

func newLink(p *pushed) *link {
	return &link{p: p, nth: rand.N(p.client.Workers().Addresses()), dialed: make(chan dialed, 1), results: make(chan result, 16)}
}

// run drives the machine until its session has ended, or ctx.
func (l *link) run(ctx context.Context) {
	defer l.drop()
	for {
		info, wake, more := l.step(ctx)
		if !more || ctx.Err() != nil {
			break
		}
		l.look()
		l.keep(ctx, info)
		l.elsewhere(ctx)
		var gone <-chan struct{}
		if l.stream != nil {
			gone = l.stream.Done()
		}
		t := time.NewTimer(wake)
		select {
		case <-ctx.Done():
		case <-l.p.kick:
		case <-t.C:
		case <-gone:
			l.drop()
		case d := <-l.dialed:
			l.connected(d)
		case r := <-l.results:
			l.answered(r)
		}
		t.Stop()
	}
	if l.dialing {
		<-l.dialed
	}
}

// step lets the machine work and sends what it wants sent.
func (l *link) step(ctx context.Context) (info session.WorkerInfo, wake time.Duration, more bool) {
	p := l.p
	wake = linkWait
	p.mu.Lock()
	now := p.now()
	if l.stream != nil { // or they were not repeated to anybody
		p.forsake(ctx, now)
	}
	p.machine.Tick(now)
	send, wakeAt := p.carry(now)
	info = p.machine.Info()
	l.judge(now, info)
	switch {
	case errors.Is(p.failed, errNoSessions):
	case !info.Left:
		more = true
	case !p.closed && p.failed == nil && !info.Draining:
		p.log.Warn("the session was lost, beginning a new one", "why", info.Why)
		l.drop()
		more = true
		if err := p.rebirth(); err != nil { // of the lock file
			p.log.Error("a new session cannot begin, trying again", "error", err)
			wake, l.retryAt = linkPause, time.Now().Add(linkPause) // nor does a stream begin before, which would be dropped at once
		}
		info = p.machine.Info()
	}
	p.mu.Unlock()
	l.send(ctx, send)
	if wakeAt != clock.Never {
		wake = min(wake, max(0, time.Duration(wakeAt-now.Mono)))
	}
	if l.stream == nil && !l.dialing {
		wake = min(wake, max(0, time.Until(l.retryAt)))
	}
	return info, wake, more
}

// judge sees what the machine's state means for the worker. The lock is held.
func (l *link) judge(now clock.Time, info session.WorkerInfo) {
	p := l.p
	if info.Refused != session.Accepted && info.Text != l.told {
		p.log.Warn("the node does not take this worker yet", "why", info.Text)
	}
	l.told = info.Text
	if !l.shut && errors.Is(l.why, client.ErrClosed) {
		l.shut = true
		close(p.shut)
	}
	switch {
	case info.State == session.MustDie && info.Final:
		if p.failed == nil && !p.closed {
			p.log.Warn("the worker was told to stop", "why", info.Why)
		}
		p.give(ErrKilled)
		p.keeper.kill()
	case info.Draining && !p.closed:
		p.giveBack(now)
		p.give(errDrained)
	case l.refused >= p.client.Workers().Addresses() && len(info.Running) == 0 && info.Unacked == 0:
		p.give(errNoSessions)
	case errors.Is(l.why, client.ErrClosed), l.useless >= p.client.Workers().Addresses() && len(info.Running) == 0 && info.Unacked == 0:
		p.give(l.why)
	}
}

// keep sees to it that there is a stream, with a request open on it.
func (l *link) keep(ctx context.Context, info session.WorkerInfo) {
	l.outlived(info)
	if l.stream != nil && l.silent(info) {
		l.p.log.Warn("no heartbeat is answered, turning to another node", "node", l.stream.Addr())
		l.drop()
	}
	if l.stream != nil && l.declined(info) {
		l.p.log.Warn("the node does not get as far as keeping the session, turning to another", "node", l.stream.Addr())
		l.drop()
	}
	if l.stream != nil && info.Refused == session.RefusedBacklog {
		l.drop()
		l.pause() // which all workers do whom nobody takes
	}
	if l.stream == nil && !l.dialing && !time.Now().Before(l.retryAt) {
		l.dial(ctx)
	}
	if l.stream != nil && l.open == 0 {
		l.call(nil)
	}
}

// dial connects to the next node.
func (l *link) dial(ctx context.Context) {
	l.dialing = true
	nth := l.nth
	l.nth++
	go func() {
		s, errs := l.p.client.Workers().Stream(ctx, nth)
		l.dialed <- dialed{s, errs}
	}()
}

// elsewhere looks for another node while this one reaches the leader of no partition, and so
// can hand out nothing. The stream stays until there is a better one: they may all be cut off.
// Behind the same address the client looks.
func (l *link) elsewhere(ctx context.Context) {
	switch now := time.Now(); {
	case l.stream == nil:
	case !l.stream.CutOff():
		l.cut, l.looks, l.lookAt = false, 0, time.Time{}
	case !l.cut:
		l.cut = true
		l.p.log.Warn("the node reaches the leader of no partition and can hand out nothing, looking for another", "node", l.stream.Addr())
		l.lookAt = now
	case !l.dialing && !now.Before(l.lookAt) && l.p.client.Workers().Addresses() > 1:
		l.looks = min(max(2*l.looks, firstLook), maxLook)
		l.lookAt = now.Add(l.looks/2 + rand.N(l.looks))
		l.dial(ctx)
	}
}

// better tells whether a stream is to take the place of one to a node that is cut off.
func (l *link) better(s *client.Stream) bool {
	return s != nil && s.Addr() != l.stream.Addr() && !s.CutOff()
}

// outlived tells, once, that a lost session is outlived by handlers that do not return: the
// next one begins with the word that nothing runs of this one.
func (l *link) outlived(info session.WorkerInfo) {
	switch now := time.Now(); {
	case info.State != session.MustDie || info.Final || len(info.Running) == 0:
		l.dying, l.waits = time.Time{}, false
	case l.dying.IsZero():
		l.dying = now
	case !l.waits && now.Sub(l.dying) > l.p.grace:
		l.waits = true
		l.p.log.Error("the session was lost, and handlers do not return: the worker takes nothing until they do", "why", info.Why, "handlers", len(info.Running))
	}
}

// look sees whether more has come of an unfinished frame: the answers to heartbeats are
// behind it.
func (l *link) look() {
	if l.stream == nil {
		return
	}
	if come := l.stream.Arriving(); come != l.come {
		if l.come = come; come > 0 {
			l.p.mu.Lock()
			l.moved = l.p.now().Mono
			l.p.mu.Unlock()
		}
	}
}

// silent tells whether heartbeats stay unanswered on this stream.
func (l *link) silent(info session.WorkerInfo) bool {
	if info.State == session.MustDie {
		return false // it sends none; a node that is gone is known by its pings
	}
	period := info.Period
	if period == 0 {
		period = time.Second
	}
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	since := max(info.Heard, l.turned, l.moved)
	return l.p.now().Mono-since > int64(silentPeriods*period+time.Second)
}

// declined tells whether the node answers heartbeats and still does not have the worker's
// name: it may be cut off from those who keep names, and others not. It is no reason to go
// when it is known who has the name, which is the same everywhere.
func (l *link) declined(info session.WorkerInfo) bool {
	if info.State == session.MustDie || info.Refused != session.Accepted || l.p.client.Workers().Addresses() == 1 {
		return false
	}
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	since := max(info.Confirmed, l.turned, l.moved)
	return l.p.now().Mono-since > int64(max(silentPeriods*info.Period+time.Second, declineWait))
}

// connected begins a stream.
func (l *link) connected(d dialed) {
	l.dialing = false
	if l.stream != nil {
		if !l.better(d.stream) {
			return
		}
		l.p.log.Warn("turning to another node", "node", d.stream.Addr())
		l.drop()
	}
	if d.stream == nil {
		for _, err := range d.errs {
			l.miss(err)
		}
		return
	}
	l.stream, l.open = d.stream, 0
	l.calls, l.hangUp = context.WithCancel(context.Background())
	p := l.p
	p.mu.Lock()
	now := p.now()
	l.turned = now.Mono
	p.machine.Turn(now)
	p.mu.Unlock()
}

// miss counts a node that did not do; after all of them there is a pause.
func (l *link) miss(err error) {
	if errors.Is(err, client.ErrUnimplemented) {
		l.refused++
	} else {
		l.refused = 0
	}
	if useless := !errors.Is(err, client.ErrUnimplemented) && hopeless(err); !useless {
		l.useless, l.why = 0, nil
		l.goesOn(err)
	} else {
		if l.useless++; l.why == nil {
			l.p.log.Warn("the session cannot be kept with this node", "error", err)
		}
		l.why = err
	}
	if l.tried++; l.tried >= l.p.client.Workers().Addresses() {
		l.tried = 0
		l.pause()
	}
}

// goesOn tells, once and not at once, that no node keeps the session: it is tried again for
// ever, also where the address is wrong.
func (l *link) goesOn(err error) {
	now := time.Now()
	if l.since.IsZero() {
		l.since = now
	}
	if !l.missed && now.Sub(l.since) >= linkPatience {
		l.missed = true
		l.p.log.Warn("no node keeps the session, trying again", "error", err)
	}
}

// pause puts the next connection off.
func (l *link) pause() { l.retryAt = time.Now().Add(linkPause/2 + rand.N(linkPause)) }

// drop gives the stream up.
func (l *link) drop() {
	if l.stream != nil {
		l.hangUp()
		l.stream, l.open = nil, 0
	}
}

// send sends messages. Without a stream they are lost: the machine repeats what
// matters.
func (l *link) send(ctx context.Context, all []session.Message) {
	for len(all) > 0 && l.stream != nil && ctx.Err() == nil {
		n := session.Fit(all)
		l.call(all[:n])
		all = all[n:]
	}
}

// call makes one request, which stays open until the node has something to say.
func (l *link) call(some []session.Message) {
	p, stream, calls := l.p, l.stream, l.calls
	p.mu.Lock()
	info := p.machine.Info()
	m := session.Bundle(p.config.Identity.Instance, info.Association, p.machine.Stamp(p.now()), some, linkWait)
	p.mu.Unlock()
	l.open++
	p.ended.Go(func() {
		ctx, cancel := context.WithTimeout(calls, linkWait+linkSlack)
		defer cancel()
		reply, err := stream.Session(ctx, m)
		select {
		case l.results <- result{stream, reply, err}:
		case <-calls.Done():
		}
	})
}

// answered takes the answer to a request.
func (l *link) answered(r result) {
	if r.stream != l.stream {
		return
	}
	l.open--
	p := l.p
	if r.err != nil {
		p.log.Debug("a stream of the session has ended", "node", r.stream.Addr(), "error", r.err)
		l.drop()
		l.miss(r.err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all, err := session.UnbundleReply(p.config.Identity.Instance, r.reply)
	if err != nil {
		p.log.Error("the node says what makes no sense", "node", r.stream.Addr(), "error", err)
		return
	}
	now := p.now()
	renewed := false
	for _, m := range all {
		p.machine.Step(now, m)
		if r, is := m.Body.(*session.Renewed); is {
			renewed = true
			p.count(r)
		}
	}
	if renewed {
		p.extendAll(now)
	}
	if info := p.machine.Info(); info.Refused == session.RefusedVersion || info.Refused == session.RefusedInvalid {
		l.drop() // others may be of another version, or have other settings
		l.miss(fmt.Errorf("%w: %s", client.ErrUnimplemented, info.Text))
		return
	}
	l.tried, l.refused, l.useless, l.why = 0, 0, 0, nil
	l.since, l.missed = time.Time{}, false
}
