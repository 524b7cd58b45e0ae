package workloads

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
		Begin: (*Crew).fighters, Claims: true, Queues: []string{hotQueue}, Lacks: seldom,
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

// NewVector makes a vector in which all is zero.
func NewVector() *vector { return &vector{at: map[id.ID]*slot{}} }

func (v *vector) slot(task id.ID) *slot {
	s := v.at[task]
	if s == nil {
		s = &slot{}
		v.at[task] = s
	}
	return s
}

func (v *vector) Read(task id.ID) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.slot(task).value
}

// Write writes, unless the writer has to take its claim for lost by now.
func (v *vector) Write(task id.ID, value int, until time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if time.Now().Before(until) {
		s := v.slot(task)
		s.value, s.writes = value, s.writes+1
	}
}

// Lost says of which tasks writings got lost; "" is none.
func (v *vector) Lost() (why string) {
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
func (c *Crew) fighters() error {
	numbers := NewVector()
	c.Numbers = numbers
	to, err := c.Dial(30*time.Second, c.Members()...)
	if err != nil {
		return err
	}
	h := &Hand{Crew: c, Process: c.Rec.Process(), Client: to}
	var all []client.Task
	for _, task := range to.NewIDs(hotTasks) {
		all = append(all, client.Task{
			ID: task, Queue: hotQueue, Payload: fmt.Appendf(nil, "%s", task),
			Retry: &nornv1.RetryPolicy{MaxAttempts: hotAttempts, InitialSeconds: 0.01, MaxSeconds: 0.05},
		})
	}
	h.knows(all)
	if got := h.Send(all, client.All, false); len(got) != hotTasks {
		return fmt.Errorf("the hot tasks could not be enqueued")
	}
	think := c.Cfg.Think
	fight := func(h *Hand) { h.fight(numbers) }
	for _, p := range c.Members() {
		for range 4 {
			if err := c.Join(p, 3*time.Second, think/4, fight); err != nil {
				return err
			}
		}
		if err := c.Join(p, 3*time.Second, think, (*Hand).read); err != nil {
			return err
		}
	}
	for range 4 {
		if err := c.Join(nil, 10*time.Second, think/4, fight); err != nil {
			return err
		}
	}
	return nil
}

// fight claims hot tasks and soon gives them up again, in one of all ways but
// completing them.
func (h *Hand) fight(numbers *vector) {
	for _, c := range h.Claim(LongPoll) {
		j := &Job{Hand: h, Claim: c}
		n := numbers.Read(c.ID)
		j.work(150 * time.Millisecond)
		switch k := h.Rnd.IntN(20); {
		case k < 11:
			numbers.Write(c.ID, n+1, j.Deadline)
			j.release()
		case k < 15:
			numbers.Write(c.ID, n+1, j.Deadline)
			j.failWith(client.FailOptions{Error: "on purpose", RetryIn: 10 * time.Millisecond, Uncounted: true})
		case k < 17:
			if j.hold(ShortLease) {
				numbers.Write(c.ID, n+1, j.Deadline)
				j.release()
			}
		case k < 19: // to the end of the lease
			j.work(2 * ShortLease)
			numbers.Write(c.ID, n+1, j.Deadline)
		default: // forgotten
		}
	}
}

// seldom says when the tasks changed hands too seldom for anything to be shown.
func seldom(r *Seen) string {
	grants := 0
	for _, e := range r.Events {
		if e.Func == history.Claim && e.Phase == history.OK {
			grants += len(e.Items)
		}
	}
	if least := int(2 * r.Duration.Seconds()); grants < least {
		return fmt.Sprintf("%d grants of hot tasks, %d are the least", grants, least)
	}
	return ""
}
