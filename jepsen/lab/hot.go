package lab

import (
	"fmt"
	"sync"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Of workload hot.
const (
	hotTasks = 6
	hotQueue = "hot"
	// hotAttempts is more than any run can use up.
	hotAttempts = 1 << 24
)

// hot is the workload of few tasks that everybody wants (W2). What holders do is
// to add one to a number that only their claim guards.
func hot() Workload {
	return Workload{
		Name: "hot", About: "six tasks that all workers want, with short leases, again and again; each holder adds one to a number that nothing but its claim guards (W2)",
		begin: (*crew).fighters, claims: true, queues: []string{hotQueue}, lacks: seldom,
	}
}

// vector has a number per task, that workers read and write back as one would
// have done: where two of them believe in their claims at one time, a writing
// gets lost.
type vector struct {
	mu sync.Mutex // each reading and each writing is whole
	at map[id.ID]*slot
}

type slot struct{ value, writes int }

func newVector() *vector { return &vector{at: map[id.ID]*slot{}} }

func (v *vector) slot(task id.ID) *slot {
	s := v.at[task]
	if s == nil {
		s = &slot{}
		v.at[task] = s
	}
	return s
}

func (v *vector) read(task id.ID) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.slot(task).value
}

// write writes, unless the writer has to take its claim for lost by now.
func (v *vector) write(task id.ID, value int, until time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if time.Now().Before(until) {
		s := v.slot(task)
		s.value, s.writes = value, s.writes+1
	}
}

// lost says of which tasks writings got lost; "" is none.
func (v *vector) lost() (why string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for task, s := range v.at { // Any order: each is named.
		if s.value != s.writes {
			why += fmt.Sprintf("; task %s: %d writings under claims, and the number is %d", task, s.writes, s.value)
		}
	}
	return why
}

// fighters are the clients of workload hot.
func (c *crew) fighters() error {
	numbers := newVector()
	c.numbers = numbers
	to, err := c.dial(30*time.Second, c.members()...)
	if err != nil {
		return err
	}
	h := &hand{crew: c, process: c.rec.process(), client: to}
	var all []client.Task
	for _, task := range to.NewIDs(hotTasks) {
		all = append(all, client.Task{
			ID: task, Queue: hotQueue, Payload: fmt.Appendf(nil, "%s", task),
			Retry: &nornv1.RetryPolicy{MaxAttempts: hotAttempts, InitialSeconds: 0.01, MaxSeconds: 0.05},
		})
	}
	h.knows(all)
	if got := h.send(all, client.All, false); len(got) != hotTasks {
		return fmt.Errorf("the hot tasks could not be enqueued")
	}
	think := c.cfg.Think
	fight := func(h *hand) { h.fight(numbers) }
	for _, p := range c.members() {
		for range 4 {
			if err := c.join(p, 3*time.Second, think/4, fight); err != nil {
				return err
			}
		}
		if err := c.join(p, 3*time.Second, think, (*hand).read); err != nil {
			return err
		}
	}
	for range 4 {
		if err := c.join(nil, 10*time.Second, think/4, fight); err != nil {
			return err
		}
	}
	return nil
}

// fight claims hot tasks and soon gives them up again, in one of all ways but
// completing them.
func (h *hand) fight(numbers *vector) {
	for _, c := range h.claim(longPoll) {
		j := &job{hand: h, Claim: c}
		n := numbers.read(c.ID)
		j.work(150 * time.Millisecond)
		switch k := h.rnd.IntN(20); {
		case k < 11:
			numbers.write(c.ID, n+1, j.Deadline)
			j.release()
		case k < 15:
			numbers.write(c.ID, n+1, j.Deadline)
			j.failWith(client.FailOptions{Error: "on purpose", RetryIn: 10 * time.Millisecond, Uncounted: true})
		case k < 17:
			if j.hold(shortLease) {
				numbers.write(c.ID, n+1, j.Deadline)
				j.release()
			}
		case k < 19: // to the end of the lease
			j.work(2 * shortLease)
			numbers.write(c.ID, n+1, j.Deadline)
		default: // forgotten
		}
	}
}

// seldom says when the tasks changed hands too seldom for anything to be shown.
func seldom(r *Result) string {
	grants := 0
	for _, e := range r.Events {
		if e.Func == history.Claim && e.Phase == history.OK {
			grants += len(e.Items)
		}
	}
	if least := int(2 * r.Config.Duration.Seconds()); grants < least {
		return fmt.Sprintf("%d grants of hot tasks, %d are the least", grants, least)
	}
	return ""
}
