package worker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/session"
)

// pushing is a session without a stream: the test says what its node says, and sees what
// it would send. What is reported without the session goes to a queue.
type pushing struct {
	*pushed
	t    *testing.T
	w    *Worker
	q    *queue
	sent []session.Body
	echo int64
}

// newPushing makes one that is healthy. Its clock is a bubble's, after move.
func newPushing(t *testing.T, cfg Config, move func(stamp) stamp) *pushing {
	t.Helper()
	q := newQueue(t)
	c, err := client.Dial(context.Background(), []string{"x"}, client.WithDialer(q.node.Dial))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	w := New(c, cfg)
	w.Handle("q", untilDone)
	w.stamp = func() stamp {
		now := time.Now()
		return move(stamp{at: now, wall: now.Round(0)})
	}
	if err := w.start(); err != nil {
		t.Fatal(err)
	}
	p := &pushing{t: t, w: w, q: q, pushed: newPushed(c, w.cfg, w.grace, keeping{w}, func() stamp { return w.stamp() }, w.direct)}
	p.config.Capacity.Queues = []session.QueueSlots{{Queue: "q"}}
	p.began = p.clock()
	if err := p.rebirth(); err != nil {
		t.Fatal(err)
	}
	w.source = p.pushed
	p.use(func(m *session.Worker, now clock.Time) {
		m.Turn(now)
		p.echo = m.Stamp(now)
	})
	good := session.HeartbeatReply{Echo: p.echo, Version: session.MaxVersion, Good: true, Timeouts: session.DefaultTimeouts}
	checked := good
	checked.Checked = 1
	p.say(&good)
	p.say(&session.RunTask{Push: 1, Check: 1, Echo: p.echo})
	p.say(&checked)
	return p
}

func still(s stamp) stamp { return s }

// say has the node say something.
func (p *pushing) say(b session.Body) {
	p.use(func(m *session.Worker, now clock.Time) {
		m.Step(now, session.Message{Instance: p.config.Identity.Instance, Association: 1, Body: b})
	})
	p.look()
}

// look has the machine's wishes carried out, and keeps what it sends.
func (p *pushing) look() {
	synctest.Wait() // for checks
	p.use(func(m *session.Worker, now clock.Time) {
		send, _ := p.carry(now)
		for _, s := range send {
			p.sent = append(p.sent, s.Body)
		}
	})
	synctest.Wait()
}

// push hands a task over.
func (p *pushing) push(n byte, lease time.Duration) client.Ref {
	p.echo = 0
	p.use(func(m *session.Worker, now clock.Time) { p.echo = m.Stamp(now) })
	c := client.Ref{ID: id.ID{n}, Token: 100 + uint64(n)}
	grant := &nornv1.Grant{Task: &nornv1.Task{Id: c.ID.String(), Queue: "q"}, Token: c.Token, LeaseSeconds: lease.Seconds()}
	p.say(&session.RunTask{Push: 1 + uint64(n), Claim: claimOfRef(c), Queue: "q", Echo: p.echo, Lease: lease, Grant: grant})
	return c
}

// taken takes what was pushed.
func (p *pushing) taken(room int) []granted {
	p.t.Helper()
	got, err := p.take(p.t.Context(), demand{room: room, queues: []appetite{{Queue: "q", Room: 10}}})
	if err != nil {
		p.t.Fatal(err)
	}
	return got
}

// end is the end of a claim that was sent last; nil: none was.
func (p *pushing) end(c client.Ref) *session.End {
	p.look()
	for i := len(p.sent) - 1; i >= 0; i-- {
		if u, is := p.sent[i].(*session.UpdateStatus); is && u.Claim == claimOfRef(c) {
			return &u.End
		}
	}
	return nil
}

// TestADeadlineCountsFromWhenItWasRead: a process that stands still between two looks at its
// clocks takes no claim for longer than it is; nor does a handler that needs long to stop
// make it longer.
func TestADeadlineCountsFromWhenItWasRead(t *testing.T) {
	for _, pause := range []time.Duration{0, 7 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			const lease = 10 * time.Minute
			var step, stood time.Duration
			p := newPushing(t, Config{Lease: lease, Grace: time.Minute}, func(s stamp) stamp {
				s.at, s.wall, s.boot = s.at.Add(stood), s.wall.Add(stood), s.boot+stood
				stood += step // before the next look
				return s
			})
			p.push(1, lease)
			end := p.began.at.Add(time.Duration(p.echo-1) + lease)
			step = pause
			got := p.taken(1)
			if over := got[0].Deadline.Sub(end); len(got) != 1 || over > 0 || over < -time.Minute {
				t.Errorf("looks that are %v apart: a claim that is over at most at %v is taken to end %v later", pause, end, over)
			}
			if got[0].before.at.After(p.seen.at) {
				t.Errorf("counted from %v, after it was read", got[0].before.at)
			}
		})
	}
}

// TestTheSessionGoesByTheClockThatIsAhead, and never back: a machine that was suspended, or
// a wall clock that was set.
func TestTheSessionGoesByTheClockThatIsAhead(t *testing.T) {
	for name, move := range map[string]func(s *stamp, d time.Duration){
		"boot": func(s *stamp, d time.Duration) { s.boot += d },
		"wall": func(s *stamp, d time.Duration) { s.wall = s.wall.Add(d) },
	} {
		synctest.Test(t, func(t *testing.T) {
			var ahead time.Duration
			p := newPushing(t, Config{}, func(s stamp) stamp {
				s.boot = time.Since(time.Time{})
				move(&s, ahead)
				return s
			})
			first := p.now().Mono
			ahead = time.Minute
			second := p.now().Mono
			ahead = 0
			if third := p.now().Mono; time.Duration(second-first) != time.Minute || third != second {
				t.Errorf("%s: from %d by %d, then by %d", name, first, second-first, third-second)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		var boot, wall time.Duration
		began := time.Now()
		p := newPushing(t, Config{}, func(s stamp) stamp {
			return stamp{at: s.at, wall: s.wall.Add(wall), boot: time.Since(began) + boot}
		})
		wall = time.Minute
		p.now()
		wall = 0 // it is put right
		before := p.now().Mono
		boot, wall = 30*time.Second, 30*time.Second // a suspend
		if after := p.now().Mono; time.Duration(after-before) != 30*time.Second {
			t.Errorf("over a suspend of 30 s after a step of the wall clock: by %v", time.Duration(after-before))
		}
	})
}

// TestNoMoreIsTakenThanThereIsRoomFor of what was pushed.
func TestNoMoreIsTakenThanThereIsRoomFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPushing(t, Config{Slots: 3}, still)
		p.push(1, 30*time.Second)
		p.push(2, 30*time.Second)
		if got := p.taken(1); len(got) != 1 || got[0].Token != 101 {
			t.Errorf("took %v", got)
		}
		if got := p.taken(1); len(got) != 1 || got[0].Token != 102 {
			t.Errorf("then took %v", got)
		}
	})
}

// TestWhatASessionReports: how a task ended travels as it is, and what the node says of it
// comes back.
func TestWhatASessionReports(t *testing.T) {
	seq := uint64(3)
	in := client.FailOptions{Error: "e", RetryIn: time.Hour}
	for name, tt := range map[string]struct {
		o    outcome
		want func(now time.Time) session.End
	}{
		"completed":  {outcome{done: client.CompleteOptions{Seq: &seq}}, func(time.Time) session.End { return session.End{Kind: session.EndCompleted, Seq: 3} }},
		"not surely": {outcome{}, func(time.Time) session.End { return session.End{Kind: session.EndCompleted, AutoSeq: true} }},
		"retried": {outcome{failed: &in}, func(now time.Time) session.End {
			return session.End{Kind: session.EndFailed, Error: "e", RetryAt: now.Add(time.Hour).UnixNano(), RetryIn: time.Hour}
		}},
		"snoozed":      {outcome{failed: &client.FailOptions{Uncounted: true}}, func(time.Time) session.End { return session.End{Kind: session.EndFailed, Uncounted: true} }},
		"thrown away":  {outcome{failed: &client.FailOptions{Discard: true}}, func(time.Time) session.End { return session.End{Kind: session.EndFailed, Discard: true} }},
		"at some time": {outcome{failed: &client.FailOptions{RetryAt: time.Unix(9e9, 0)}}, func(time.Time) session.End { return session.End{Kind: session.EndFailed, RetryAt: 9e18} }},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newPushing(t, Config{Slots: 2}, still)
			c := p.push(1, 30*time.Second)
			p.taken(1)
			told := make(chan error, 1)
			go func() {
				_, err := p.report(t.Context(), c, tt.o)
				told <- err
			}()
			synctest.Wait()
			got, want := p.end(c), tt.want(time.Now())
			if got == nil || got.Kind != want.Kind || got.Seq != want.Seq || got.AutoSeq != want.AutoSeq || got.Error != want.Error || got.RetryAt != want.RetryAt || got.RetryIn != want.RetryIn || got.Uncounted != want.Uncounted || got.Discard != want.Discard {
				t.Errorf("%s: it says %+v, want %+v", name, got, want)
			}
			select {
			case err := <-told:
				t.Errorf("%s: reported before anybody has heard of it: %v", name, err)
			default:
			}
			p.say(&session.StatusAck{Claim: claimOfRef(c), Lost: tt.o.failed != nil})
			if err := <-told; errors.Is(err, ErrClaimLost) != (tt.o.failed != nil) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestWhatTheSessionDoesNotHoldIsReportedWithoutIt: it may have been lost meanwhile.
func TestWhatTheSessionDoesNotHoldIsReportedWithoutIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPushing(t, Config{}, still)
		if _, err := p.report(t.Context(), client.Ref{ID: id.ID{1}, Token: 7}, outcome{}); err != nil {
			t.Error(err)
		}
		if err := p.release(t.Context(), client.Ref{ID: id.ID{2}, Token: 8}); err != nil {
			t.Error(err)
		}
		if got := p.q.log(); len(got) != 2 || got[0] != "complete 1@7" || got[1] != "release 2@8" {
			t.Errorf("heard %v", got)
		}
	})
}

// TestALostSessionEndsThoughAnEndIsNotAcknowledged: what was to be reported by it goes on
// without it, and what nobody reports is given back.
func TestALostSessionEndsThoughAnEndIsNotAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPushing(t, Config{Slots: 2}, still)
		c, d := p.push(1, time.Minute), p.push(2, time.Minute)
		p.taken(2)
		p.say(&session.Suicide{})
		told := make(chan error, 1)
		go func() {
			_, err := p.report(t.Context(), c, outcome{})
			told <- err
		}()
		p.over(d)
		ctx, cancel := context.WithCancel(t.Context())
		defer p.ended.Wait()
		defer cancel()
		for range 30 {
			time.Sleep(time.Second)
			p.use(func(_ *session.Worker, now clock.Time) { p.forsake(ctx, now) })
			p.look()
		}
		if all := p.q.log(); len(all) != 2 || !slices.Contains(all, "complete 1@101") || !slices.Contains(all, "release 2@102") {
			t.Fatalf("heard %v", all)
		}
		if err := <-told; err != nil {
			t.Error(err)
		}
		if !slices.ContainsFunc(p.sent, func(b session.Body) bool { _, is := b.(*session.Leave); return is }) {
			t.Error("it does not leave")
		}
	})
}

// TestNothingIsKeptOfAReportNobodyWaitsFor, nor of a claim of which nothing will be reported:
// that the node is told, or it would be renewed for ever.
func TestNothingIsKeptOfAReportNobodyWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPushing(t, Config{Slots: 2}, still)
		c, d := p.push(1, 30*time.Second), p.push(2, 30*time.Second)
		p.taken(2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.report(ctx, c, outcome{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nobody has acknowledged it: %v", err)
		}
		if len(p.acks) != 0 {
			t.Errorf("%d acknowledgements are waited for", len(p.acks))
		}
		p.over(d)
		p.use(func(m *session.Worker, now clock.Time) {
			for _, r := range m.Info().Running {
				if r == claimOfRef(d) {
					t.Error("a claim that is over runs on")
				}
			}
		})
	})
}

// TestClosingGivesBackWhatWasNotBegun: what waits here, and what comes after it.
func TestClosingGivesBackWhatWasNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPushing(t, Config{Slots: 2}, still)
		c := p.push(1, 30*time.Second)
		p.close(t.Context())
		if e := p.end(c); e == nil || e.Kind != session.EndReleased || len(p.starts) != 0 {
			t.Errorf("of a task that waited: %+v, and %d wait", e, len(p.starts))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		p := newPushing(t, Config{Slots: 2}, still)
		p.use(func(*session.Worker, clock.Time) { p.closed = true }) // the node has not heard of it
		c := p.push(1, 30*time.Second)
		if e := p.end(c); e == nil || e.Kind != session.EndReleased || len(p.starts) != 0 {
			t.Errorf("of a task that came late: %+v, and %d wait", e, len(p.starts))
		}
	})
}

// TestATaskThatIsKilledBeforeItIsTaken never begins.
func TestATaskThatIsKilledBeforeItIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPushing(t, Config{Slots: 2}, still)
		c, d := p.push(1, 30*time.Second), p.push(2, 30*time.Second)
		p.say(&session.KillTask{Claim: claimOfRef(c), Cause: session.CauseCancelled})
		if e := p.end(c); e == nil || e.Kind != session.EndReleased {
			t.Errorf("it says %+v", e)
		}
		if got := p.taken(2); len(got) != 1 || got[0].Token != d.Token {
			t.Errorf("took %v", got)
		}
	})
}

// TestATaskThatWaitedGoesByItsNewestLease: it was renewed all the time that there was no
// room for it here.
func TestATaskThatWaitedGoesByItsNewestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lease = 30 * time.Second
		p := newPushing(t, Config{Slots: 2, Lease: lease}, still)
		c := p.push(1, lease)
		for range 3 {
			time.Sleep(lease / 3)
			p.use(func(m *session.Worker, now clock.Time) { p.echo = m.Stamp(now) })
			p.say(&session.Renewed{Echo: p.echo, Items: []session.Renewal{{Claim: claimOfRef(c), Lease: lease}}})
		}
		got := p.taken(1)
		if len(got) != 1 || time.Until(got[0].Deadline) < lease-lease/100 || time.Until(got[0].Deadline) > lease {
			t.Fatalf("took %v", got)
		}
		if j := p.w.adopt(t.Context(), got[0]); j.left() < p.w.cfg.MinLease {
			t.Errorf("%v are left of it", j.left())
		}
	})
}
