package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// fortune is what a client knows of an operation in the end.
type fortune uint8

const (
	didHappen fortune = iota
	didNot            // and surely will not
	mayHappen         // nobody knows, and it may still happen
)

func fortuneOf(err error) fortune {
	switch {
	case err == nil:
		return didHappen
	case errors.Is(err, client.ErrUnknown):
		return mayHappen
	}
	return didNot
}

// deed is something that clients do to tasks.
type deed uint8

const (
	enqueuing deed = iota
	completing
	cancelling
	discarding
	failing
	releasing
	retrying
	deeds
)

func (d deed) String() string {
	return [...]string{"enqueue", "complete", "cancel", "discard", "fail", "release", "retry"}[d]
}

// fact is what is known of one deed to one task.
type fact struct {
	asked, refused int
	first          time.Time // when it was asked for first
	since          int64     // it has happened by then; 0: not known
}

func (f *fact) possible() bool           { return f.asked > f.refused || f.since > 0 }
func (f *fact) before(moment int64) bool { return f.since > 0 && f.since < moment }
func (f *fact) holds(moment int64) {
	if f.since == 0 {
		f.since = moment
	}
}

// hold is one claim as its worker sees it.
type hold struct {
	token uint64
	heard int64     // moment of the answer
	until time.Time // what the worker may believe
	over  bool      // the worker has begun to give it up
	// ending is how often somebody has asked for its end.
	ending int
}

// known is what is known of one task.
type known struct {
	id       id.ID
	spec     client.Task
	asked    int64 // moment of the first enqueue
	facts    [deeds]fact
	holds    []*hold
	updates  map[uint64][]string // acknowledged, by token, in order
	retrying int                 // retries that may still happen
	retried  int64               // moment of the last beginning or end of one
	dead     int64               // surely dead since
	archived uint                // bits of the states in which archives have it
	grave    nornv1.State        // what its tombstone says, once it was seen
	trace    []string
}

// lane is what is known of one queue.
type lane struct {
	asking    map[int64]bool // claim requests under way, by their beginning
	lost      int64          // end of the last one with an unknown outcome
	lostAt    time.Time
	retrying  int // like those of a task, for retries by filter
	retried   int64
	paused    int64 // moment, 0: not surely
	draining  int64
	pauses    []pause
	retention time.Duration // 0: finished tasks stay
	archive   bool
}

// pause is when a queue was surely paused, in wall time. to is zero while it
// lasts.
type pause struct{ from, to time.Time }

// judge hears every operation of every client, when it begins and when its
// outcome is known, and holds the server to what it has acknowledged. It
// reports only what is wrong for sure.
type judge struct {
	mu       sync.Mutex // guards the fields below
	clock    func() time.Time
	moment   int64 // one order of all that is heard
	tasks    map[id.ID]*known
	lanes    map[string]*lane
	keys     map[string][]*known // by queue and key
	bunches  map[string][]*known // by queue and group, see bunchOf
	wild     map[string]bool     // keys of which tasks may have any ID
	done     map[string]int      // how often, by feature
	problems []string
}

func newJudge() *judge {
	return &judge{
		clock: time.Now, tasks: map[id.ID]*known{}, lanes: map[string]*lane{}, keys: map[string][]*known{},
		bunches: map[string][]*known{}, wild: map[string]bool{}, done: map[string]int{},
	}
}

// keyOf names a unique key.
func keyOf(queue, key string, window time.Duration) string {
	return fmt.Sprintf("%s\x00%s\x00%v", queue, key, window)
}

// bunchOf names the tasks of a queue with a header "group", or without one.
func bunchOf(queue, group string) string { return queue + "\x00" + group }

// hear takes the lock and gives the moment.
func (j *judge) hear() (moment int64, end func()) {
	j.mu.Lock()
	j.moment++
	return j.moment, j.mu.Unlock
}

func (j *judge) count(feature string, n int) {
	if n > 0 {
		j.done[feature] += n
	}
}

// note counts an event of a feature.
func (j *judge) note(feature string, n int) {
	_, end := j.hear()
	defer end()
	j.count(feature, n)
}

func (j *judge) complain(t *known, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if t != nil {
		text = fmt.Sprintf("task %s of %s: %s; it was: %q", t.id, t.spec.Queue, text, t.trace)
	}
	if len(j.problems) < 20 {
		j.problems = append(j.problems, text)
	}
}

func (j *judge) lane(queue string) *lane {
	l := j.lanes[queue]
	if l == nil {
		l = &lane{asking: map[int64]bool{}}
		j.lanes[queue] = l
	}
	return l
}

func (t *known) wrote(moment int64, format string, args ...any) {
	if len(t.trace) < 60 {
		t.trace = append(t.trace, fmt.Sprintf("%d ", moment)+fmt.Sprintf(format, args...))
	}
}

// enqueues hears that tasks are about to be enqueued.
func (j *judge) enqueues(tasks ...client.Task) int64 {
	moment, end := j.hear()
	defer end()
	for _, spec := range tasks {
		if spec.ID.IsZero() {
			j.wild[keyOf(spec.Queue, spec.Key, spec.KeyWindow)] = true
			continue
		}
		t := j.tasks[spec.ID]
		if t == nil {
			t = j.register(spec, moment)
		}
		t.ask(enqueuing, moment, j.clock())
	}
	return moment
}

func (j *judge) register(spec client.Task, moment int64) *known {
	t := &known{id: spec.ID, spec: spec, asked: moment}
	j.tasks[spec.ID] = t
	b := bunchOf(spec.Queue, spec.Headers["group"])
	j.bunches[b] = append(j.bunches[b], t)
	if spec.Key != "" {
		k := keyOf(spec.Queue, spec.Key, spec.KeyWindow)
		j.keys[k] = append(j.keys[k], t)
	}
	return t
}

func (t *known) ask(d deed, moment int64, now time.Time) {
	f := &t.facts[d]
	if f.asked++; f.asked == 1 {
		f.first = now
	}
	t.wrote(moment, "%v?", d)
}

// enqueued hears what came of one of them.
func (j *judge) enqueued(begun int64, task id.ID, existed bool, err error) {
	moment, end := j.hear()
	defer end()
	t := j.tasks[task]
	if t == nil {
		return // of a key, and its ID is not known
	}
	f, o := &t.facts[enqueuing], fortuneOf(err)
	t.wrote(moment, "enqueue: %v, existed %v", err, existed)
	j.weigh(t, begun, err)
	switch {
	case o == didNot:
		f.refused++
		if errors.Is(err, client.ErrAlreadyExists) && t.spec.Key == "" {
			j.complain(t, "it is said to have another spec")
		}
		return
	case o == mayHappen:
		j.count("enqueue unknown", 1)
		return
	case existed:
		j.count("enqueue repeated", 1)
		f.holds(moment)
		return
	case f.before(begun):
		j.complain(t, "its enqueue was acknowledged before, and it is new again")
	}
	if d := j.lane(t.spec.Queue).draining; d > 0 && d < begun {
		j.complain(t, "it was taken in although the queue drains")
	}
	f.holds(moment)
	j.oneOfItsKey(t, begun)
	j.count("enqueue acknowledged", 1)
}

// oneOfItsKey judges a task that was taken in as new.
func (j *judge) oneOfItsKey(t *known, begun int64) {
	if t.spec.Key == "" {
		return
	}
	for _, o := range j.keys[keyOf(t.spec.Queue, t.spec.Key, t.spec.KeyWindow)] {
		switch {
		case o == t || !o.facts[enqueuing].before(begun):
		case t.spec.KeyWindow > 0 && o.id.Nanos() == t.id.Nanos():
			j.complain(t, "its key was taken in this window by %s", o.id)
		case t.spec.KeyWindow == 0 && !o.facts[completing].possible() && !j.mayFail(o, nil):
			j.complain(t, "its key was taken by %s, which is not finished: %q", o.id, o.trace)
		}
	}
}

// weigh judges an error by itself.
func (j *judge) weigh(t *known, begun int64, err error) {
	switch {
	case errors.Is(err, client.ErrInternal):
		j.complain(t, "%v", err)
	case errors.Is(err, client.ErrNotFound) && t.facts[enqueuing].before(begun):
		j.complain(t, "an acknowledged task is not found: %v", err)
	}
}

// asks hears that something is about to be done to tasks; a token of 0 means
// that it is not done under a claim.
func (j *judge) asks(d deed, refs ...client.Ref) int64 {
	moment, end := j.hear()
	defer end()
	for _, r := range refs {
		t := j.tasks[r.ID]
		if t == nil {
			continue
		}
		t.ask(d, moment, j.clock())
		if d == retrying {
			t.retrying++
			t.retried, t.dead = moment, 0
		}
		if h := t.hold(r.Token); h != nil {
			h.over = true
			if d != completing {
				h.ending++
			}
		}
	}
	return moment
}

// hears hears what came of it for one task. state is what the answer says of
// it, unspecified when it does not.
func (j *judge) hears(begun int64, d deed, r client.Ref, state nornv1.State, err error) {
	moment, end := j.hear()
	defer end()
	t := j.tasks[r.ID]
	if t == nil {
		return
	}
	o := fortuneOf(err)
	t.wrote(moment, "%v: %v %v", d, err, state)
	j.weigh(t, begun, err)
	f := &t.facts[d]
	switch o {
	case didHappen:
		if d != retrying { // the task may have been ready all along
			f.holds(moment)
		}
		j.count(d.String()+" acknowledged", 1)
	case didNot:
		f.refused++
		if answered := new(proto.Error); errors.As(err, &answered) {
			j.count(d.String()+" refused", 1)
		} else {
			j.count(d.String()+" not sent", 1)
		}
		j.turnedAway(t, d, r.Token, err)
	case mayHappen:
		j.count(d.String()+" unknown", 1)
		return
	}
	if d == retrying {
		t.retrying--
		t.retried = moment
	}
	if state != nornv1.State_STATE_UNSPECIFIED && (o == didHappen || errors.Is(err, client.ErrConflict)) {
		j.observe(begun, moment, t, state)
	}
}

// turnedAway judges the refusal of what a worker does under its claim.
func (j *judge) turnedAway(t *known, d deed, token uint64, err error) {
	h := t.hold(token)
	if h == nil || !errors.Is(err, client.ErrClaimLost) {
		return
	}
	switch {
	case d == completing && j.lane(t.spec.Queue).retention == 0:
		j.complain(t, "its completion under claim %d is refused: %v", token, err)
	case d != completing && h.ending == 1 && h.until.After(j.clock()) && !t.facts[completing].possible() && !t.facts[cancelling].possible():
		j.complain(t, "%v of claim %d is refused %v before its time: %v", d, token, h.until.Sub(j.clock()), err)
	}
}

func (t *known) hold(token uint64) *hold {
	for _, h := range t.holds {
		if h.token == token {
			return h
		}
	}
	return nil
}

// updated hears of the update of a claim: they come in order.
func (j *judge) updated(begun int64, r client.Ref, data string, err error) {
	moment, end := j.hear()
	defer end()
	t := j.tasks[r.ID]
	t.wrote(moment, "update %q: %v", data, err)
	j.weigh(t, begun, err)
	if err == nil {
		if t.updates == nil {
			t.updates = map[uint64][]string{}
		}
		t.updates[r.Token] = append(t.updates[r.Token], data)
		j.count("update acknowledged", 1)
	}
}

// logged hears the whole log of a task.
func (j *judge) logged(task id.ID, log []*nornv1.Update) {
	_, end := j.hear()
	defer end()
	t := j.tasks[task]
	for token, want := range t.updates {
		var got []string
		for _, u := range log {
			if u.GetToken() == token {
				got = append(got, string(u.GetData()))
			}
		}
		if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			j.complain(t, "of the updates %q of claim %d its log has %q", want, token, got)
		}
		j.count("update read back", len(want))
	}
}
