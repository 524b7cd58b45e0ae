package bench

import (
	"context"
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
// thousand of those would measure the SDK. It does not turn to another node; a stream
// that ends, and a claim that is lost, make the run invalid.
type idler struct {
	f       *fleet
	machine *session.Worker
	id      session.Instance
	stream  *client.Stream
	open    int
	answers chan answered
	claims  []session.Claim
}

type answered struct {
	reply *nornv1.SessionReply
	err   error
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
	s, err := c.Workers().Stream(f.s.ctx, 0)
	for n := 1; err != nil && n < connects && f.s.ctx.Err() == nil; n++ {
		s, err = c.Workers().Stream(f.s.ctx, 0) // a machine that takes thousands at once may be late
	}
	if err != nil {
		return nil, err
	}
	return &idler{f: f, machine: m, id: i, stream: s, answers: make(chan answered, 4)}, nil
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
		select {
		case <-t.C:
		case a := <-w.answers:
			w.open--
			if a.err != nil {
				err = a.err
				break
			}
			err = w.take(a.reply)
		case <-ending:
			ending = nil
			w.end()
		case <-w.stream.Done():
			err = fmt.Errorf("the stream to %s has ended", w.stream.Addr())
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
			return 0, fmt.Errorf("the claim on task %s was lost (cause %d, the worker is %v %s)", r.Stop[0].Claim.Task, r.Stop[0].Cause, info.State, info.Why)
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
	for all := r.Send; len(all) > 0; {
		n := session.Fit(all)
		w.call(ctx, all[:n])
		all = all[n:]
	}
	if w.open == 0 {
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
	go func() {
		ctx, cancel := context.WithTimeout(ctx, linkWait+linkSlack)
		defer cancel()
		reply, err := w.stream.Session(ctx, m)
		select {
		case w.answers <- answered{reply, err}:
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
