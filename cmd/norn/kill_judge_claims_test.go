package main

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// grant is a task that was handed out, as the answer has it.
type grant struct {
	id      id.ID
	token   uint64
	until   time.Time // what the worker may believe
	start   time.Time // of the lease, wall time of the server
	payload []byte
	queue   string
	key     string
	window  time.Duration
}

// claims hears that somebody is about to ask for tasks.
func (j *judge) claims(queues []string) int64 {
	moment, end := j.hear()
	defer end()
	for _, q := range queues {
		j.lane(q).asking[moment] = true
	}
	return moment
}

// claimed hears what was granted.
func (j *judge) claimed(begun int64, queues []string, grants []grant, err error) {
	moment, end := j.hear()
	defer end()
	for _, q := range queues {
		l := j.lane(q)
		delete(l.asking, begun)
		if fortuneOf(err) == mayHappen {
			l.lost, l.lostAt = moment, j.clock()
		}
	}
	if fortuneOf(err) == mayHappen {
		j.count("claim unknown", 1)
	}
	if errors.Is(err, client.ErrInternal) {
		j.complain(nil, "claim: %v", err)
	}
	for _, g := range grants {
		j.count("grant", 1)
		t := j.tasks[g.id]
		if t == nil && g.key != "" && j.wild[keyOf(g.queue, g.key, g.window)] {
			// Enqueued by its key alone, and the answer has not said under which ID.
			t = j.register(client.Task{ID: g.id, Queue: g.queue, Key: g.key, KeyWindow: g.window}, moment)
		}
		if t == nil {
			j.complain(nil, "task %s was granted, and nobody has enqueued it", g.id)
			continue
		}
		j.grant(begun, moment, queues, t, g)
	}
}

func (j *judge) grant(begun, moment int64, queues []string, t *known, g grant) {
	t.wrote(moment, "grant %d asked for at %d until %v", g.token, begun, g.until.Format("05.000"))
	l := j.lane(t.spec.Queue)
	switch {
	case !slices.Contains(queues, t.spec.Queue):
		j.complain(t, "it was granted to a request for %q", queues)
	case t.spec.Key == "" && !bytes.Equal(g.payload, t.spec.Payload):
		j.complain(t, "its payload is %q, not %q", g.payload, t.spec.Payload)
	case t.facts[completing].before(begun):
		j.complain(t, "it was granted after its completion was acknowledged")
	case t.facts[cancelling].before(begun):
		j.complain(t, "it was granted after its cancellation was acknowledged")
	case t.surelyDead(l, begun):
		j.complain(t, "it was granted although it is dead")
	case l.paused > 0 && l.paused < begun:
		j.complain(t, "it was granted although the queue is paused")
	case slices.ContainsFunc(l.pauses, func(p pause) bool { return p.covers(g.start) }):
		j.complain(t, "it was granted at %v, while the queue was paused: %v", g.start, l.pauses)
	case !t.spec.NotBefore.IsZero() && g.start.Before(t.spec.NotBefore.Round(0)):
		j.complain(t, "it was granted %v too early", t.spec.NotBefore.Sub(g.start))
	}
	for _, o := range t.holds {
		if o.token == g.token || o.heard < begun && o.token > g.token {
			j.complain(t, "claim %d was granted after claim %d", g.token, o.token)
		}
	}
	t.facts[enqueuing].holds(moment)
	j.released(t, moment, "granted")
	if len(t.spec.Dependencies) > 0 {
		j.count("grant after dependencies", 1)
	}
	h := &hold{token: g.token, heard: moment, until: g.until}
	t.holds = append(t.holds, h)
	if len(t.holds) > 1 {
		j.count("grant of a task that was granted before", 1)
	}
	j.exclusive(t, h)
}

// covers tells whether a lease began while the queue was surely paused. The
// two clocks are of one machine, but need not be read in the same instant.
func (p pause) covers(start time.Time) bool {
	const reading = 20 * time.Millisecond
	return start.After(p.from.Add(reading)) && (p.to.IsZero() || start.Before(p.to))
}

func (t *known) surelyDead(l *lane, moment int64) bool {
	return t.dead > 0 && t.dead < moment && t.dead > l.retried && !t.facts[completing].possible()
}

// released: a task goes on only when no dependency holds it back, and then
// those that can only have been completed are so for good.
func (j *judge) released(t *known, moment int64, is string) {
	for _, dependency := range t.spec.Dependencies {
		d := j.tasks[dependency]
		run := t.spec.OnDependencyFailure == nornv1.DependencyFailure_DEPENDENCY_FAILURE_RUN
		switch {
		case d != nil && run && j.mayFail(d, nil):
			j.count("run although a dependency may have failed", 1)
		case d == nil || !d.facts[completing].possible():
			j.complain(t, "it is %s before its dependency %s is completed", is, dependency)
		default:
			d.facts[completing].holds(moment)
		}
	}
}

// exclusive: while a worker believes in its claim nobody else does.
func (j *judge) exclusive(t *known, h *hold) {
	now := j.clock()
	if h.over || !h.until.After(now) {
		return
	}
	for _, o := range t.holds {
		if o != h && !o.over && o.until.After(now) {
			j.complain(t, "claims %d and %d are both valid, for %v and %v", o.token, h.token, o.until.Sub(now), h.until.Sub(now))
		}
	}
}

// renewed hears what came of a renewal.
func (j *judge) renewed(begun int64, r client.Ref, until time.Time, err error) {
	moment, end := j.hear()
	defer end()
	t := j.tasks[r.ID]
	h := t.hold(r.Token)
	t.wrote(moment, "renew %d: %v", r.Token, err)
	j.weigh(t, begun, err)
	switch {
	case err == nil:
		if t.facts[completing].before(begun) || t.facts[cancelling].before(begun) {
			j.complain(t, "claim %d was renewed after the task was finished", r.Token)
		}
		h.until = until
		j.exclusive(t, h)
		j.count("renew acknowledged", 1)
	case errors.Is(err, client.ErrClaimLost):
		if h.until.After(j.clock()) && h.ending == 0 && !t.facts[completing].possible() && !t.facts[cancelling].possible() {
			j.complain(t, "claim %d is said to be lost %v before its time: %v", r.Token, h.until.Sub(j.clock()), err)
		}
		h.over = true
		j.count("renew refused", 1)
	}
}
