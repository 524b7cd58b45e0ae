package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// queue is a tiny node: it grants what is ready, and remembers what it hears.
type queue struct {
	node *fakenode.Node

	mu       sync.Mutex // guards the fields below
	ready    []*nornv1.Grant
	granted  map[uint64][]*nornv1.Grant // by request number
	changed  chan struct{}              // closed at each change
	heard    []string
	failures []*nornv1.Failure
	done     []*nornv1.Completion
	renewed  []int                                   // claims per renewal
	refuse   map[id.ID]*proto.Error                  // of renewals
	refused  nornv1.State                            // of tasks whose renewal is refused
	override func(fakenode.Request) *fakenode.Answer // instead of all this
	state    nornv1.State                            // after a failure
	retry    *timestamppb.Timestamp                  // of a scheduled task
	unled    uint64                                  // tasks that are ready and not handed out
	paused   bool
}

func newQueue(t testing.TB) *queue {
	q := &queue{granted: map[uint64][]*nornv1.Grant{}, refuse: map[id.ID]*proto.Error{}, changed: make(chan struct{})}
	q.node = fakenode.New(t, q.answer)
	return q
}

// add makes tasks ready; their IDs are n, their payloads "n".
func (q *queue) add(lease float64, ns ...byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, n := range ns {
		q.ready = append(q.ready, &nornv1.Grant{
			Task:  &nornv1.Task{Id: id.ID{n}.String(), Queue: "q", Payload: fmt.Append(nil, n), Attempts: 2, Headers: map[string]string{"h": "v"}},
			Token: 100 + uint64(n), LeaseSeconds: lease, Checkpoint: []byte("before"),
		})
	}
	q.change()
}

func (q *queue) change() {
	close(q.changed)
	q.changed = make(chan struct{})
}

func (q *queue) set(f func(q *queue)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f(q)
}

// log is what the queue heard so far, in order.
func (q *queue) log() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]string(nil), q.heard...)
}

func (q *queue) answer(r fakenode.Request) fakenode.Answer {
	q.mu.Lock()
	override := q.override
	q.mu.Unlock()
	if override != nil {
		if a := override(r); a != nil {
			return *a
		}
	}
	if m, ok := r.Message.(*nornv1.ClaimRequest); ok {
		return q.claim(m)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	results := &nornv1.WriteReply{}
	note := func(what string, task []byte, token uint64) {
		q.heard = append(q.heard, fmt.Sprintf("%s %d@%d", what, task[0], token))
		results.Results = append(results.Results, &nornv1.WriteResult{Receipt: &nornv1.Receipt{}, State: q.state})
	}
	switch m := r.Message.(type) {
	case *nornv1.RenewRequest:
		return q.renew(m)
	case *nornv1.UpdateRequest:
		note(fmt.Sprintf("update %d %q", m.GetSeq(), m.GetData()), m.GetId(), m.GetToken())
		for _, u := range m.GetMore() {
			note(fmt.Sprintf("update %d %q", u.GetSeq(), u.GetData()), m.GetId(), m.GetToken())
		}
	case *nornv1.CompleteRequest:
		for _, c := range m.GetCompletions() {
			q.done = append(q.done, c)
			note("complete", c.GetId(), c.GetToken())
		}
	case *nornv1.FailRequest:
		for _, f := range m.GetFailures() {
			q.failures = append(q.failures, f)
			note("fail", f.GetId(), f.GetToken())
		}
	case *nornv1.ReleaseRequest:
		for _, ref := range m.GetClaims() {
			note("release", ref.GetId(), ref.GetToken())
		}
	case *nornv1.QueuesRequest:
		reply := &nornv1.QueuesReply{}
		for _, name := range m.GetNames() {
			reply.Queues = append(reply.Queues, &nornv1.Queue{Name: name, Settings: &nornv1.QueueSettings{Paused: q.paused}, Count: &nornv1.Count{Queue: name, Ready: q.unled + uint64(len(q.ready))}})
		}
		return fakenode.Answer{Message: reply}
	case *nornv1.GetRequest:
		return fakenode.Answer{Message: &nornv1.GetReply{Task: &nornv1.Task{State: q.state, NotBefore: q.retry}}}
	default:
		return fakenode.Answer{}
	}
	return fakenode.Answer{Message: results}
}

func (q *queue) claim(m *nornv1.ClaimRequest) fakenode.Answer {
	began := time.Now()
	timeout := time.NewTimer(proto.Seconds(m.GetWaitSeconds()))
	defer timeout.Stop()
	q.mu.Lock()
	for _, number := range m.GetUnanswered() { // nobody has heard of them
		q.ready = append(q.granted[number], q.ready...)
		delete(q.granted, number)
	}
	q.mu.Unlock()
	for {
		q.mu.Lock()
		grants, again := q.granted[m.GetRequestNo()]
		if !again {
			var rest []*nornv1.Grant
			for _, g := range q.ready {
				if len(grants) < int(m.GetMaxTasks()) && slices.Contains(m.GetQueues(), g.GetTask().GetQueue()) {
					grants = append(grants, g)
				} else {
					rest = append(rest, g)
				}
			}
			if q.ready = rest; len(grants) > 0 {
				q.granted[m.GetRequestNo()] = grants
			}
		}
		changed := q.changed
		q.mu.Unlock()
		reply := fakenode.Answer{Message: &nornv1.ClaimReply{Grants: grants, WaitedSeconds: time.Since(began).Seconds()}}
		if len(grants) > 0 {
			return reply
		}
		select {
		case <-changed:
		case <-timeout.C:
			return reply
		}
	}
}

func (q *queue) renew(m *nornv1.RenewRequest) fakenode.Answer {
	reply := &nornv1.RenewReply{}
	q.renewed = append(q.renewed, len(m.GetClaims()))
	for _, ref := range m.GetClaims() {
		r := &nornv1.RenewResult{LeaseSeconds: m.GetLeaseSeconds()}
		if e := q.refuse[id.ID(ref.GetId())]; e != nil {
			r.Error, r.State = e.Proto(), q.refused
		}
		reply.Results = append(reply.Results, r)
	}
	return fakenode.Answer{Message: reply}
}

// hush makes the node silent, pings and all.
func (q *queue) hush() {
	q.set(func(q *queue) {
		q.override = func(fakenode.Request) *fakenode.Answer { return &fakenode.Answer{Lose: true} }
	})
}

// rig is a worker on a queue.
type rig struct {
	*Worker
	q      *queue
	ran    chan error // of Run
	events chan Event
}

func start(t testing.TB, q *queue, cfg Config, h Handler, prepare ...func(*Worker)) *rig {
	t.Helper()
	c, err := client.Dial(context.Background(), []string{"x"}, client.WithDialer(q.node.Dial))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{q: q, ran: make(chan error, 1), events: make(chan Event, 1000)}
	cfg.OnEvent = func(e Event) { r.events <- e }
	r.Worker = New(c, cfg)
	if h != nil {
		r.Handle("q", h)
	}
	for _, f := range prepare {
		f(r.Worker)
	}
	go func() { r.ran <- r.Run(context.Background()) }()
	t.Cleanup(func() {
		r.StopNow()
		<-r.finished
		c.Close()
	})
	return r
}

// ended is the next event that is not Started. It waits for a day at most: as long as
// there are polls a bubble's time goes on, and nothing else would end a test.
func (r *rig) ended() Event {
	late := time.After(24 * time.Hour)
	for {
		select {
		case e := <-r.events:
			if e.Kind != Started {
				return e
			}
		case <-late:
			panic("no event for a day")
		}
	}
}

func wantIs(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

func claimOf(queue string) *client.Claim {
	return &client.Claim{Grant: &nornv1.Grant{Task: &nornv1.Task{Queue: queue}}}
}

func taskOf(queue string) *Task { return newTask(nil, claimOf(queue), nil) }
