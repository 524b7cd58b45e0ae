package worker

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/session"
)

// A stop that comes after a task was taken from the session and before it begins is not
// lost: it is said once, and after it the claim is renewed no more.
func TestAStopBeforeATaskBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := client.Dial(t.Context(), []string{"x"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		w := New(c, Config{})
		w.Handle("q", untilDone)
		if err := w.start(); err != nil {
			t.Fatal(err)
		}
		p := newPushed(c, w.cfg, w.grace, keeping{w}, readClocks, w.direct)
		p.config.Capacity.Queues = []session.QueueSlots{{Queue: "q"}}
		p.began = readClocks()
		if err := p.rebirth(); err != nil {
			t.Fatal(err)
		}
		w.source = p
		say := func(b session.Body) {
			p.use(func(m *session.Worker, now clock.Time) {
				m.Step(now, session.Message{Instance: p.config.Identity.Instance, Association: 1, Body: b})
				p.carry(now)
			})
			synctest.Wait()
		}
		var echo int64
		p.use(func(m *session.Worker, now clock.Time) {
			m.Turn(now)
			echo = m.Stamp(now)
		})
		task := session.Claim{Task: id.ID{1}, Token: 101}
		grant := &nornv1.Grant{Task: &nornv1.Task{Id: task.Task.String(), Queue: "q"}, Token: task.Token, LeaseSeconds: 30}
		good := session.HeartbeatReply{Echo: echo, Version: session.MaxVersion, Good: true, Timeouts: session.DefaultTimeouts}
		checked := good
		checked.Checked = 1
		say(&good)
		say(&session.RunTask{Push: 1, Check: 1, Echo: echo})
		say(&checked)
		say(&session.RunTask{Push: 2, Claim: task, Queue: "q", Echo: echo, Lease: 30 * time.Second, Grant: grant})
		d, _, _ := w.room.demand(time.Second)
		got, err := p.take(t.Context(), d)
		if err != nil || len(got) != 1 {
			t.Fatalf("took %v, %v", got, err)
		}
		say(&session.KillTask{Claim: task, Cause: session.CauseCancelled})
		w.accept(t.Context(), got[0])
		j := <-w.queue
		wantIs(t, context.Cause(j.ctx), ErrCancelled)
		w.drop(j)
		if len(p.missed) != 0 {
			t.Errorf("%v is remembered", p.missed)
		}
	})
}

// A lock file that cannot be written when a session was lost is tried again: nothing else
// would bring tasks here any more.
func TestANewSessionIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := client.Dial(t.Context(), []string{"x"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		w := New(c, Config{Name: "w", Queues: []string{"q"}})
		p := newPushed(c, w.cfg, w.grace, keeping{w}, readClocks, w.direct)
		p.config.Capacity.Queues = []session.QueueSlots{{Queue: "q"}}
		p.began = readClocks()
		if p.lock, err = openLock(filepath.Join(t.TempDir(), "lock")); err != nil {
			t.Fatal(err)
		}
		defer p.lock.close()
		if err := p.rebirth(); err != nil {
			t.Fatal(err)
		}
		old := p.machine
		p.use(func(m *session.Worker, now clock.Time) {
			m.Turn(now)
			for _, b := range []session.Body{&session.Suicide{}, &session.LeaveAck{}} {
				m.Step(now, session.Message{Instance: p.config.Identity.Instance, Association: 1, Body: b})
			}
		})
		whole := p.lock.f
		if p.lock.f, err = os.Open(whole.Name()); err != nil { // for reading alone
			t.Fatal(err)
		}
		l := newLink(p)
		info, wake, more := l.step(t.Context())
		if !more || wake > time.Second {
			t.Errorf("it goes on: %v, in %v", more, wake)
		}
		if l.keep(t.Context(), info); l.dialing {
			t.Error("it connects at once, and so tries again without a pause")
		}
		p.lock.close()
		p.lock.f = whole
		if _, _, more := l.step(t.Context()); !more || p.machine == old {
			t.Error("no new session has begun")
		}
	})
}

// A node that has all the workers it takes is left, and the next one is not tried at once:
// where all are full each round would take no longer than the answers do.
func TestNodesThatAreFullAreGivenTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := client.Dial(t.Context(), []string{"x"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		w := New(c, Config{Name: "w", Queues: []string{"q"}})
		p := newPushed(c, w.cfg, w.grace, keeping{w}, readClocks, w.direct)
		p.config.Capacity.Queues = []session.QueueSlots{{Queue: "q"}}
		p.began = readClocks()
		if err := p.rebirth(); err != nil {
			t.Fatal(err)
		}
		l := newLink(p)
		l.stream, l.open, l.turned, l.hangUp = &client.Stream{}, 1, 1, func() {}
		p.use(func(m *session.Worker, now clock.Time) {
			m.Turn(now)
			m.Step(now, session.Message{Instance: p.config.Identity.Instance, Association: 1, Body: &session.HeartbeatReply{Echo: 1, Refused: session.RefusedBacklog}})
		})
		l.keep(t.Context(), p.machine.Info())
		if l.stream != nil || l.dialing {
			t.Errorf("it has a stream: %v; it connects again at once: %v", l.stream != nil, l.dialing)
		}
		if _, wake, _ := l.step(t.Context()); wake <= 0 || wake > 2*linkPause {
			t.Errorf("it tries again in %v", wake)
		}
	})
}

// TestAWorkerWhomNoNodeHearsSaysSo: it tries again for ever, and nothing else would tell
// that the address is wrong. Who is back soon is no news.
func TestAWorkerWhomNoNodeHearsSaysSo(t *testing.T) {
	for away, want := range map[time.Duration]int{time.Second: 0, time.Hour: 1} {
		synctest.Test(t, func(t *testing.T) {
			q, began := newQueue(t), time.Now()
			c, err := client.Dial(t.Context(), []string{"x", "y"}, client.WithDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				if time.Since(began) < away {
					return nil, fakenode.ErrRefused
				}
				return q.node.Dial(ctx, addr)
			}))
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			w := New(c, Config{Name: "w", Queues: []string{"q"}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			w.Handle("q", untilDone)
			ran := make(chan error)
			go func() { ran <- w.Run(context.Background()) }()
			time.Sleep(away / 2)
			w.StopNow()
			if err := <-ran; err != nil {
				t.Error(err)
			}
			if n := strings.Count(log.String(), fakenode.ErrRefused.Error()); n != want {
				t.Errorf("away for %v: told %d times: %s", away, n, log.String())
			}
			c.Close()
		})
	}
}
