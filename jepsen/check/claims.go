package check

import (
	"cmp"
	"slices"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// granting judges claims.
type granting struct{ *Checker }

// claimed takes in the end of a claim request.
func (c granting) claimed(asked, e *history.Event) {
	if e.Phase != history.Info {
		for _, name := range asked.Queues {
			c.queue(name).asking--
		}
	}
	if e.Phase != history.OK {
		return
	}
	if len(e.Items) > max(asked.Max, 1) {
		c.fail(Content, nil, "%d tasks were granted to a request for %d", len(e.Items), asked.Max)
	}
	r := request{asked.Session, asked.Request}
	begun := c.requests[r]
	for i := range e.Items {
		c.grant(asked, e, &e.Items[i], r, begun)
	}
	c.inOrder(asked, e)
}

// grant judges one grant.
func (c granting) grant(asked, e *history.Event, g *history.Item, r request, begun int64) {
	t := c.task(g.Task)
	h := t.hold(g.Token)
	again := h != nil && h.request == r && h.process == e.Process
	if h != nil && !again {
		c.fail(Token, t, "the claim %x was handed out twice", g.Token)
		return
	}
	c.observe(asked, g)
	switch {
	case t.spec == nil:
		return // observe has said so
	case !slices.Contains(asked.Queues, t.spec.Queue):
		c.fail(Content, t, "it is of queue %s and was granted to a request for %v", t.spec.Queue, asked.Queues)
	case t.bound.before(asked.At):
		c.breach(Undone, t, "it was granted after a majority had acknowledged that it is finished")
	case t.thrown.before(asked.At):
		c.breach(Undone, t, "it was granted after it was thrown away")
	case t.completed.before(asked.At):
		c.fail(Undone, t, "it was granted after its completion was acknowledged")
	case t.cancelled.before(asked.At):
		c.fail(Undone, t, "it was granted after its cancellation was acknowledged")
	case t.dead < asked.At:
		c.fail(Undone, t, "it was granted although it is dead")
	case c.queue(t.spec.Queue).paused < begun:
		c.fail(Paused, t, "it was granted although queue %s is paused", t.spec.Queue)
	case !c.stepped && t.spec.NotBefore > g.Start:
		c.breach(Early, t, "it was granted %.3f s before its time", float64(t.spec.NotBefore-g.Start)/1e9)
	}
	c.released(t)
	if again {
		h.until = max(h.until, g.Until)
		c.exclusive(t, h)
		return
	}
	h = &hold{
		token: g.Token, process: e.Process, request: r, begun: begun, returned: c.now, until: g.Until, start: g.Start,
		failed: newFact(), released: newFact(),
	}
	c.rising(t, h, e.AskedSince(begun))
	t.addHold(h)
	c.exclusive(t, h)
	ends(c).early(t, h)
	c.keyHeldOnce(t)
}

// released: no dependency may hold back a task that was granted. Those that
// can only have been completed are so from now on.
func (c granting) released(t *task) {
	for _, dep := range t.spec.Deps {
		if !c.resolved(t, dep) {
			c.breach(Dependency, t, "it was granted before its dependency %s was completed", dep)
			return
		}
		if d := c.task(dep); t.spec.OnFailure != "run" {
			c.shown(&d.completed)
		}
	}
}

// rising: tokens of a partition rise in real time. The claim was asked for since then.
func (c granting) rising(t *task, h *hold, since int64) {
	p := &c.parts[t.partition]
	if o := p.byToken[h.token]; o != nil && o != t {
		c.fail(Token, t, "its token %x is also that of a claim on %s", h.token, o.id)
	}
	p.byToken[h.token] = t
	i, _ := slices.BinarySearchFunc(p.seen, since, func(s seenToken, at int64) int { return cmp.Compare(s.at, at) })
	if i > 0 && p.seen[i-1].token >= h.token {
		c.fail(Token, t, "token %x was given out after token %x of the same partition", h.token, p.seen[i-1].token)
	}
	if n := len(p.seen); n == 0 || p.seen[n-1].token < h.token {
		p.seen = append(p.seen, seenToken{c.now, h.token})
	}
}

// believed tells whether a worker that is not dead goes on with a claim that it
// believes in.
func (h *hold) believed(now int64, dead map[int]bool) bool {
	return !h.over && !dead[h.process] && h.until > now
}

// exclusive: while a worker believes in its claim, no other one believes in one
// on the same task.
func (c *Checker) exclusive(t *task, h *hold) {
	if !h.believed(c.now, c.dead) {
		return
	}
	for _, o := range t.holds {
		if o != h && o.believed(c.now, c.dead) {
			c.fail(Overlap, t, "claim %x of process %d is valid for another %.3f s, claim %x of process %d for %.3f s",
				h.token, h.process, float64(h.until-c.now)/1e9, o.token, o.process, float64(o.until-c.now)/1e9)
		}
	}
}

// keyHeldOnce: of the tasks with one key only one runs.
func (c granting) keyHeldOnce(t *task) {
	if t.spec.Key == "" || t.spec.Window != 0 {
		return
	}
	for _, o := range c.keys[key{t.spec.Queue, t.spec.Key}] {
		if o == t || o.spec.Window != 0 || c.maybeFinished(o) {
			continue
		}
		fail := c.fail
		if o.kept.before(t.enqueued.first) {
			fail = c.breach // whoever gave the key away had to know
		}
		if o.enqueued.before(c.now) {
			fail(UniqueKey, t, "it was granted while task %s with the same key is not finished", o.id)
		}
	}
}

// inOrder: what one answer grants from one partition and queue comes best
// first.
func (c granting) inOrder(asked, e *history.Event) {
	for i := range e.Items {
		b := c.task(e.Items[i].Task)
		for j := range i {
			a := c.task(e.Items[j].Task)
			if a.partition != b.partition || a.spec == nil || b.spec == nil || a.spec.Queue != b.spec.Queue {
				continue
			}
			if e.Items[i].Token < e.Items[j].Token {
				continue // an answer that was given before may list them in any order
			}
			if better(b, a) {
				c.fail(Order, b, "it was granted after %s, which ranks below it", a.id)
			}
		}
	}
}

// better tells whether a surely ranks before b: a higher priority, or the same
// and an older ID. Of keyed tasks only the node knows the age.
func better(a, b *task) bool {
	if a.spec.Priority != b.spec.Priority {
		return a.spec.Priority > b.spec.Priority
	}
	return a.id.Kind() == id.KindTask && b.id.Kind() == id.KindTask && a.id.Compare(b.id) < 0
}
