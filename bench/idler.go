package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/clock"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/session"
)

const (
	// linkWait is how long a node may keep a request of a session open, as for the SDK.
	linkWait, linkSlack = 20 * time.Second, 15 * time.Second
	// connects is how often a node is tried.
	connects = 5
	// handlersStop is what the handlers of an idle worker need to end.
	handlersStop = time.Second
)

// idler is a worker of package session without what the SDK has around it: ten
// thousand of those would measure the SDK. When its stream ends it makes another one,
// to the next node; a claim that is lost makes the run invalid.
type idler struct {
	f       *fleet
	machine *session.Worker
	id      session.Instance
	client  *client.Client
	stream  *client.Stream // nil: it is being made
	dialed  chan dialed
	nth     int // address to try next
	open    int
	answers chan answered
	claims  []session.Claim
	renewed int64 // mono ns at which the heartbeat was sent that renewed last
}

type answered struct {
	stream *client.Stream
	reply  *nornv1.SessionReply
	err    error
}

type dialed struct {
	stream *client.Stream
	err    error
}

func newIdler(f *fleet, name string, c *client.Client) (*idler, error) {
	i, err := newInstance()
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // for people
	m, err := session.NewWorker(session.WorkerConfig{
		Identity: session.Identity{Name: name, Instance: i, Machine: host, Started: time.Now().UnixNano()},
		Capacity: session.Capacity{Slots: f.Batch, Queues: []session.QueueSlots{{Queue: f.Queue}}, Lease: lease}, Stop: handlersStop,
	})
	if err != nil {
		return nil, err
	}
	w := &idler{f: f, machine: m, id: i, client: c, dialed: make(chan dialed, 1), answers: make(chan answered, 4)}
	w.stream, err = w.dial()
	return w, err
}

// dial connects to the first node that answers.
func (w *idler) dial() (s *client.Stream, err error) {
	ctx := w.f.s.ctx
	for n := 0; n < connects && ctx.Err() == nil; n++ {
		s, all := w.client.Workers().Stream(ctx, w.nth)
		if s != nil {
			return s, nil
		}
		err = errors.Join(all...)
		w.nth++ // a machine that takes thousands at once may be late
	}
	return nil, errors.Join(err, ctx.Err())
}

// lost gives the stream up, and makes another one.
func (w *idler) lost() {
	w.f.ended.Add(1)
	w.stream, w.open = nil, 0
	w.nth++
	go func() {
		s, err := w.dial()
		w.dialed <- dialed{s, err}
	}()
}

func (w *idler) now() clock.Time {
	return clock.Time{Wall: time.Now().UnixNano(), Mono: 1 + int64(time.Since(w.f.began))}
}

// run is one worker's life. settled is called once it holds what it may.
func (w *idler) run(settled func()) error {
	ctx, cancel := context.WithCancel(w.f.s.ctx)
	defer cancel()
	w.machine.Turn(w.now())
	ending := w.f.ending
	for {
		wake, err := w.step(ctx)
		if err != nil {
			return err
		}
		if len(w.claims) == w.f.Batch {
			settled()
		}
		if w.machine.Info().Left {
			return nil
		}
		t := time.NewTimer(wake)
		var gone <-chan struct{}
		if w.stream != nil {
			gone = w.stream.Done()
		}
		select {
		case <-t.C:
		case d := <-w.dialed:
			if w.stream, err = d.stream, d.err; err == nil {
				w.machine.Turn(w.now())
			}
		case a := <-w.answers:
			if a.stream != w.stream {
				break
			}
			if w.open--; a.err != nil {
				w.lost()
				break
			}
			err = w.take(a.reply)
		case <-ending:
			ending = nil
			w.end()
		case <-gone:
			w.lost()
		case <-ctx.Done():
			err = ctx.Err()
		}
		t.Stop()
		if err != nil {
			return err
		}
	}
}

// step lets the machine work, sends what it wants sent, and says when to come again.
func (w *idler) step(ctx context.Context) (time.Duration, error) {
	now := w.now()
	w.machine.Tick(now)
	r := w.machine.Ready()
	for again := true; again; {
		again = false
		for _, s := range r.Start {
			if s.Check > 0 {
				w.machine.CheckPassed(now, s.Check)
				again = true
				continue
			}
			if _, err := w.f.tally.claim(s.Grant.GetTask().GetPayload()); err != nil {
				return 0, err
			}
			w.claims = append(w.claims, s.Claim)
			w.f.took()
		}
		if len(r.Stop) > 0 {
			info := w.machine.Info()
			return 0, fmt.Errorf("the claim on task %s was lost (cause %d, the worker is %v %s, its last heartbeat that was answered was sent %v ago, the one that renewed %v ago)",
				r.Stop[0].Claim.Task, r.Stop[0].Cause, info.State, info.Why, time.Duration(now.Mono-info.Heard), time.Duration(now.Mono-w.renewed))
		}
		for _, a := range r.Acked {
			if a.Lost {
				return 0, fmt.Errorf("the end of task %s came too late", a.Claim.Task)
			}
			w.f.tally.completed.Add(1)
		}
		if again {
			more := w.machine.Ready()
			more.Send = append(r.Send, more.Send...)
			r = more
		}
	}
	for all := r.Send; len(all) > 0 && w.stream != nil; {
		n := session.Fit(all)
		w.call(ctx, all[:n])
		all = all[n:]
	}
	if w.open == 0 && w.stream != nil {
		w.call(ctx, nil)
	}
	if r.WakeAt == clock.Never {
		return linkWait, nil
	}
	return max(0, time.Duration(r.WakeAt-now.Mono)), nil
}

// call makes one request, which stays open until the node has something to say.
func (w *idler) call(ctx context.Context, some []session.Message) {
	m := session.Bundle(w.id, w.machine.Info().Association, w.machine.Stamp(w.now()), some, linkWait)
	w.open++
	stream := w.stream
	go func() {
		ctx, cancel := context.WithTimeout(ctx, linkWait+linkSlack)
		defer cancel()
		reply, err := stream.Session(ctx, m)
		select {
		case w.answers <- answered{stream, reply, err}:
		case <-ctx.Done():
		}
	}()
}

// take takes what the node says.
func (w *idler) take(reply *nornv1.SessionReply) error {
	all, err := session.UnbundleReply(w.id, reply)
	if err != nil {
		return err
	}
	now := w.now()
	for _, m := range all {
		w.machine.Step(now, m)
		if b, ok := m.Body.(*session.Renewed); ok {
			w.renewed = max(w.renewed, b.Echo)
		}
		if !w.f.measuring.Load() {
			continue
		}
		switch b := m.Body.(type) {
		case *session.HeartbeatReply:
			w.f.beats.Add(1)
			w.f.s.record("heartbeat", time.Duration(now.Mono-b.Echo))
		case *session.Renewed:
			w.f.renewals.Add(int64(len(b.Items)))
			w.f.s.record("renewal", time.Duration(now.Mono-b.Echo))
		}
	}
	return nil
}

// end completes what is held, and leaves.
func (w *idler) end() {
	now := w.now()
	for _, c := range w.claims {
		w.machine.Ended(now, c, session.End{Kind: session.EndCompleted})
	}
	w.machine.Drain(now)
}
