package norntest

import (
	"context"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/transport"
)

// life is one process of the server, so to speak: from Up to Down. It keeps the
// contract of package node/core in its simplest form: one goroutine, and a store
// whose writes are durable at once.
type life struct {
	s        *Server
	core     *core.Core // the loop's alone
	register *register.Local
	listener *transport.MemListener
	server   *transport.Server
	served   chan struct{} // closed when no connection is taken any more
	ctx      context.Context
	cancel   context.CancelFunc
	loop     sync.WaitGroup
	wake     chan struct{}

	available atomic.Pointer[core.Available]

	mu     sync.Mutex // guards the fields below
	inbox  []any
	calm   []chan struct{} // closed when there is nothing to do
	conns  map[uint64]*transport.Conn
	failed error
}

func (s *Server) dial(ctx context.Context, addr string) (net.Conn, error) {
	l := s.running.Load()
	if l == nil {
		return nil, ErrDown
	}
	return l.listener.Dial(ctx, addr)
}

// end stops everything; the error is why the life had failed.
func (l *life) end() error {
	l.server.Close()
	<-l.served
	l.cancel()
	l.loop.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed
}

// post gives the core an event.
func (l *life) post(event any) {
	l.mu.Lock()
	l.inbox = append(l.inbox, event)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// changed has the core know what the register says, and that this node leads it: who does
// launches schedules.
func (l *life) changed(s register.State) {
	l.post(message.Changed{State: s, Leads: true, Majority: true, Voters: []register.Member{self}})
}

// settle waits until the core has done what there is to do now.
func (l *life) settle() {
	done := make(chan struct{})
	l.mu.Lock()
	l.calm = append(l.calm, done)
	l.mu.Unlock()
	l.post(message.Tick{})
	select {
	case <-done:
	case <-l.ctx.Done():
	}
}

// settled lets go whoever waits for that.
func (l *life) settled() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.inbox) > 0 {
		return // there is more
	}
	for _, c := range l.calm {
		close(c)
	}
	l.calm = nil
}

// fail ends the life: the core must not go on.
func (l *life) fail(err error) {
	l.mu.Lock()
	l.failed = fmt.Errorf("the node has failed: %w", err)
	l.mu.Unlock()
	l.cancel()
	go l.server.Close() // it waits for connections, which may wait for the loop
}

// run is the loop around the core.
func (l *life) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.wake:
		case <-timer.C:
		}
		wait, err := l.turn()
		if err != nil {
			l.fail(err)
			return
		}
		if wait > 0 {
			l.settled()
		}
		timer.Reset(wait)
	}
}

// turn steps the core with what has come in, does what it wants, and says when it
// wants to be looked at again.
func (l *life) turn() (time.Duration, error) {
	l.mu.Lock()
	events := l.inbox
	l.inbox = nil
	l.mu.Unlock()
	now := l.s.time()
	for _, e := range events {
		if err := l.core.Step(now, e); err != nil {
			return 0, err
		}
	}
	ready, err := l.core.Ready(now)
	if err != nil {
		return 0, err
	}
	if a := l.core.Available(l.available.Load().Seen); a != nil {
		l.available.Store(a)
	}
	if err := l.perform(&ready); err != nil {
		return 0, err
	}
	now = l.s.time()
	wait := int64(math.MaxInt64)
	if ready.WakeMono != clock.Never {
		wait = ready.WakeMono - now.Mono
	}
	if ready.WakeWall != math.MaxInt64 {
		wait = min(wait, ready.WakeWall-now.Wall)
	}
	return max(time.Duration(wait), 0), nil
}

// perform does what a Ready asks for, in the order of the core's contract.
func (l *life) perform(ready *message.Ready) error {
	if ready.Persist != nil {
		l.s.facts.Commit(ready.Persist)()
		l.core.Recycle(ready.Persist)
	}
	for _, requests := range [][]register.Request{ready.Register, ready.Commit} { // what was persisted is durable by now
		for _, r := range requests {
			l.register.Do(r, func(result register.Result) { l.post(message.Registered{Result: result}) })
		}
	}
	if len(ready.Reads) > 0 {
		view := l.s.facts.Snapshot()
		defer view.Close()
		for i := range ready.Reads {
			r := &ready.Reads[i]
			reply, empty, err := r.Run(view, l.s.time())
			if err != nil {
				return err
			}
			if !empty {
				l.send(&reply)
			}
			if r.Waits {
				l.post(message.ReadDone{From: r.From, Empty: empty})
			}
		}
	}
	for i := range ready.Replies {
		l.send(&ready.Replies[i])
	}
	return nil
}
