package check

import (
	"slices"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// key names the tasks of which only one may be unfinished.
type key struct{ queue, name string }

// asked hears that somebody wants something of a task.
func (c *Checker) asked(e *history.Event, t *task, i *history.Item) {
	switch e.Func {
	case history.Enqueue:
		t.enqueued.ask(c.now)
		t.latest = c.now
		if t.spec == nil && i.Spec.Key != "" {
			k := key{i.Spec.Queue, i.Spec.Key}
			c.keys[k] = append(c.keys[k], t)
		}
		t.ask(i.Spec)
	case history.Complete:
		t.completed.ask(c.now)
		t.completion(i.Token, i.Data).ask(c.now)
		t.giveUp(i.Token)
	case history.Cancel:
		t.cancelled.ask(c.now)
	case history.Retry:
		if t.retries == 0 {
			t.unretried = &end{t.dead, t.blocked, t.thrown}
		}
		t.retries++
		t.retried, t.dead, t.blocked, t.thrown = c.now, never, never, newFact()
	case history.FailTask:
		t.failed.ask(c.now)
		if i.Discard {
			t.discarded.ask(c.now)
		}
		if h := t.giveUp(i.Token); h != nil {
			h.failed.ask(c.now)
		}
	case history.Release:
		if h := t.giveUp(i.Token); h != nil {
			h.released.ask(c.now)
		}
	case history.Update:
		u := t.update(i.Token, i.Seq)
		u.ask(c.now)
		u.data, u.output = i.Data, i.Output
	}
}

// giveUp notes that the worker of a claim does not go on with it.
func (t *task) giveUp(token uint64) *hold {
	h := t.hold(token)
	if h != nil {
		h.over = true
	}
	return h
}

// refused hears that what was asked of a task surely had no effect.
func (c *Checker) refused(asked *history.Event, t *task, i *history.Item) {
	switch asked.Func {
	case history.Enqueue:
		t.enqueued.failed++
	case history.Complete:
		t.completed.failed++
		t.completion(i.Token, i.Data).failed++
	case history.Cancel:
		t.cancelled.failed++
	case history.Retry:
		t.retries--
		t.retried = c.now
		if u := t.unretried; t.retries == 0 && u != nil { // all were refused: it is as it was
			t.dead, t.blocked, t.thrown, t.unretried = u.dead, u.blocked, u.thrown, nil
		}
	case history.FailTask:
		t.failed.failed++
		if i.Discard {
			t.discarded.failed++
		}
		if h := t.hold(i.Token); h != nil {
			h.failed.failed++
		}
	case history.Release:
		if h := t.hold(i.Token); h != nil {
			h.released.failed++
		}
	case history.Update:
		t.update(i.Token, i.Seq).failed++
	}
}

// written takes in the answer to a write, item by item.
func (c *Checker) written(asked, e *history.Event) {
	if len(e.Items) != len(asked.Items) {
		c.fail(Content, nil, "%s of %d items is answered with %d results", e.Func, len(asked.Items), len(e.Items))
		return
	}
	for n := range e.Items {
		got, want := &e.Items[n], &asked.Items[n]
		if want.Task.IsZero() {
			if got.Error != "" {
				continue
			}
			// The node has drawn the ID: only now it is known, and the task is as old
			// as the request.
			t := c.task(got.Task)
			c.asked(asked, t, &history.Item{Task: got.Task, Spec: want.Spec})
			t.enqueued.first = min(t.enqueued.first, asked.At)
		} else if got.Error == "" && got.Task != want.Task {
			c.fail(Content, c.task(want.Task), "the receipt is of task %s", got.Task)
		}
		if got.Unsure {
			continue
		}
		t := c.task(got.Task)
		if want.Task != got.Task && !want.Task.IsZero() {
			t = c.task(want.Task)
		}
		if got.Error != "" {
			c.refusal(asked, t, want, got)
			continue
		}
		c.accepted(asked, t, want, got)
	}
}

// accepted notes a write that was acknowledged.
func (c *Checker) accepted(asked *history.Event, t *task, want, got *history.Item) {
	switch asked.Func {
	case history.Enqueue:
		if !got.Existed && t.enqueued.before(asked.At) && c.reusable(t) {
			c.reborn(t)
		}
		// Of a collected task nobody knows the spec.
		if want.Spec != nil && !(got.Existed && c.forgettable(t, false)) && !t.settle(want.Spec) {
			c.fail(Content, t, "%+v was accepted under its ID, which has %+v", *want.Spec, *t.spec)
		}
		if !asked.Weak {
			t.kept.holds(c.now)
		}
		c.enqueuedNow(asked, t, got)
	case history.Renew:
		c.renewed(asked, t, want, got)
	case history.Complete:
		t.binds(asked, c.now)
		c.known(asked, t, &t.completion(want.Token, want.Data).fact, &t.completed, got, "completion")
	case history.Cancel:
		t.binds(asked, c.now)
		c.known(asked, t, &t.cancelled, &t.cancelled, got, "cancellation")
		c.observeState(asked, t, got.State)
	case history.Update:
		u := t.update(want.Token, want.Seq)
		c.known(asked, t, &u.fact, &u.fact, got, "update")
		if !asked.Weak {
			u.kept.holds(c.now)
		}
	case history.FailTask:
		if h := t.hold(want.Token); h != nil {
			c.known(asked, t, &h.failed, &h.failed, got, "failure")
			ends{c}.failed(asked, t, h, want, got)
		}
		c.observeState(asked, t, got.State)
	case history.Release:
		if h := t.hold(want.Token); h != nil {
			c.known(asked, t, &h.released, &h.released, got, "release")
		}
	case history.Retry:
		t.retries--
		t.retried, t.unretried = c.now, nil
		c.observeState(asked, t, got.State)
	}
}

// known holds an acknowledgement of one write against what was known before:
// what was acknowledged once has existed ever since, and what is said to have
// existed was asked for before, by this write or another one to the same end.
func (c *Checker) known(asked *history.Event, t *task, f, end *fact, got *history.Item, what string) {
	switch {
	case !got.Existed && f.before(asked.At) && !c.forgettable(t, false):
		c.fail(Lost, t, "its %s was acknowledged before and is new again", what)
	case got.Existed && !c.o.many() && end.asked == 1 && end.since == never && end.first == asked.At:
		c.fail(Phantom, t, "its %s is said to have been there before anybody asked for it", what)
	}
	f.holds(c.now)
	end.holds(c.now)
}

func (c *Checker) enqueuedNow(asked *history.Event, t *task, got *history.Item) {
	c.known(asked, t, &t.enqueued, &t.enqueued, got, "enqueue")
	if got.Existed || t.spec == nil {
		return
	}
	if q := c.queue(t.spec.Queue); q.draining < asked.At {
		c.fail(Paused, t, "queue %s took it in although it was being drained", t.spec.Queue)
	}
	if t.spec.Key == "" {
		return
	}
	for _, o := range c.keys[key{t.spec.Queue, t.spec.Key}] {
		if o == t || o.spec.Window != t.spec.Window || !o.enqueued.before(asked.At) {
			continue
		}
		if t.spec.Window == 0 && !c.maybeFinished(o) {
			c.fail(UniqueKey, t, "the key %s is taken by task %s, which is not finished", t.spec.Key, o.id)
		}
		if t.spec.Window != 0 && o.id.Nanos() == t.id.Nanos() {
			c.fail(UniqueKey, t, "the key %s was taken in this window by task %s", t.spec.Key, o.id)
		}
	}
}

func (c *Checker) maybeFinished(t *task) bool {
	return t.completed.possible() || c.maybeFailed(t, map[*task]bool{})
}

// refusal notes an item that was refused. What a CONFLICT says of the state is
// a reading.
func (c *Checker) refusal(asked *history.Event, t *task, want, got *history.Item) {
	switch got.Error {
	case "CONFLICT":
		c.observeState(asked, t, got.State)
		if asked.Func == history.Cancel && len(asked.Only) == 0 && got.State != history.Completed && !c.forgettable(t, false) {
			c.fail(StateRule, t, "its cancellation was refused because it is %s", got.State)
		}
		if len(asked.Only) > 0 && slices.Contains(asked.Only, got.State) && asked.Func == history.Cancel {
			c.fail(StateRule, t, "its cancellation was refused because it is %s, which was asked for", got.State)
		}
	case "NOT_FOUND":
		if asked.Func != history.Enqueue && t.enqueued.before(asked.At) && !c.forgettable(t, false) {
			c.fail(Lost, t, "%s: an acknowledged task is not found", asked.Func)
		}
	case "ALREADY_EXISTS":
		if asked.Func == history.Enqueue && t.enqueued.asked-t.enqueued.failed <= 1 {
			c.fail(Phantom, t, "it is said to exist with another spec, and nobody has enqueued it")
		}
	case "CLAIM_LOST":
		c.claimLost(asked, t, want, got)
	}
	c.refused(asked, t, want)
}

// claimLost: a worker is told that its claim is over. It may not be while
// nothing has happened that could have ended it.
func (c *Checker) claimLost(asked *history.Event, t *task, want, got *history.Item) {
	h := t.hold(want.Token)
	if h == nil {
		return
	}
	if asked.Func == history.Renew {
		if h.until > c.now && !h.over && !c.maybeEnded(t, h) && !c.o.givenUpBefore(h, got) {
			fail := c.breach
			if c.o.Lossy {
				fail = c.fail // where disks get lost, claims may
			}
			fail(Lost, t, "the claim %x is refused %.3f s before its worker may give it up", h.token, float64(h.until-c.now)/1e9)
		}
		h.over = true
	}
}

// maybeEnded tells whether a claim that its worker believes in may have been
// ended by somebody else.
func (c *Checker) maybeEnded(t *task, h *hold) bool {
	return t.completed.possible() || t.cancelled.possible() || h.failed.possible() || h.released.possible()
}

// givenUpBefore tells whether a claim may be over because a leader before the one that
// granted it had given the task up, after a claim that nobody heard of had run out. Until
// its word is on a majority another leader may not know it and grant the task; it is
// final all the same (design 5).
func (o *Options) givenUpBefore(h *hold, got *history.Item) bool {
	return o.many() && got.State == history.Dead && h.token>>32 > 1
}

// renewed notes a renewal.
func (c *Checker) renewed(asked *history.Event, t *task, want, got *history.Item) {
	h := t.hold(want.Token)
	if h == nil {
		return
	}
	switch {
	case t.bound.before(asked.At):
		c.breach(Undone, t, "the claim %x was renewed after a majority had acknowledged that the task is finished", h.token)
	case t.completed.before(asked.At):
		c.fail(Undone, t, "the claim %x was renewed after the completion was acknowledged", h.token)
	case t.cancelled.before(asked.At):
		c.fail(Undone, t, "the claim %x was renewed after the cancellation was acknowledged", h.token)
	case h.failed.before(asked.At) || h.released.before(asked.At):
		c.breach(Undone, t, "the claim %x was renewed after its end was acknowledged", h.token)
	}
	if n := t.holds[len(t.holds)-1]; n.token > h.token && n.returned < asked.At {
		c.fail(Overlap, t, "the claim %x was renewed although claim %x followed it", h.token, n.token)
	}
	h.until = max(h.until, got.Until)
	c.exclusive(t, h)
}

// keyed takes in the answer which task has a unique key.
func (c *Checker) keyed(asked, e *history.Event) {
	if len(e.Items) != 1 || len(asked.Items) != 1 {
		return
	}
	want, got := asked.Items[0].Spec, &e.Items[0]
	if got.Task.Kind() != id.KindKey {
		c.fail(UniqueKey, nil, "the key %s has the ID %s, which is not of its kind", want.Key, got.Task)
		return
	}
	if want.Window != 0 && got.Task.Nanos()%want.Window != 0 {
		c.fail(UniqueKey, nil, "the key %s has a window that begins at %d, no multiple of %d", want.Key, got.Task.Nanos(), want.Window)
	}
	t := c.task(got.Task)
	if t.spec != nil && (t.spec.Queue != want.Queue || t.spec.Key != want.Key) {
		c.fail(UniqueKey, t, "it is the task of key %s in queue %s and of key %s in queue %s", t.spec.Key, t.spec.Queue, want.Key, want.Queue)
	}
	if want.Window == 0 {
		for _, o := range c.keys[key{want.Queue, want.Key}] {
			if o != t && o.spec.Window == 0 && o.enqueued.before(asked.At) && !c.maybeFinished(o) {
				c.fail(UniqueKey, o, "it has the key %s and is not finished, and the key is said to be that of %s", want.Key, got.Task)
			}
		}
	}
	if want.Window == 0 && got.State.Finished() {
		c.fail(UniqueKey, t, "the key %s is said to be that of a task that is %s: it is free", want.Key, got.State)
	}
	if got.State != "" {
		c.observeState(asked, t, got.State)
	} else if t.enqueued.before(asked.At) && !c.forgettable(t, true) {
		c.fail(Lost, t, "an acknowledged task is not known under its key")
	}
}
