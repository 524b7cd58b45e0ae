package check

import (
	"slices"

	"github.com/norn-dev/norn/jepsen/history"
)

// ends judges what the ends of claims lead to: attempts are used up, and the task is
// dead, or waits.
type ends struct{ *Checker }

// pause is a failure that was acknowledged, after which the task is not to be tried
// again at once.
type pause struct {
	token   uint64
	asked   int64 // when the worker said that it had failed
	retryAt int64 // wall ns that it asked for; 0: the policy says
}

// failed notes what a failure that was acknowledged leads to: an attempt is used up,
// and the task is dead, or waits.
func (c ends) failed(asked *history.Event, t *task, h *hold, want, got *history.Item) {
	h.counted = h.counted || !want.Uncounted
	again := t.retries > 0 || t.retried >= asked.At
	switch {
	case want.Discard && !again && got.State == history.Dead:
		t.thrown.holds(c.now)
	case want.Discard:
		// A leader without the enqueue has the end, and cannot say what the task is.
		if !again && !got.Existed && !got.State.Finished() && !(got.State == "" && c.o.many()) {
			c.breach(StateRule, t, "it was thrown away, and is %s", got.State)
		}
	case !got.Existed && !again && (t.pause == nil || t.pause.token < h.token):
		t.pause = &pause{h.token, asked.At, want.RetryAt}
		for _, o := range t.holds {
			c.early(t, o)
		}
	}
}

// early judges a claim by the failure before it. Another leader may not have heard of
// that yet.
func (c ends) early(t *task, h *hold) {
	p := t.pause
	if p == nil || c.stepped || h.token <= p.token || c.o.many() && h.token>>32 != p.token>>32 || t.retries > 0 || t.retried >= p.asked {
		return
	}
	switch over := p.asked + c.o.Backoff; {
	case p.retryAt != 0 && p.retryAt-c.o.Skew > h.start:
		c.breach(Early, t, "it was granted as %x %.3f s before the time for which its worker had put it off", h.token, float64(p.retryAt-h.start)/1e9)
	case p.retryAt == 0 && c.o.Backoff > 0 && h.returned < over:
		c.breach(Early, t, "it was granted as %x, and claim %x had failed %.3f s before", h.token, p.token, float64(h.returned-p.asked)/1e9)
	}
}

// attempts gives how many attempts have surely been used up by a task that nobody has
// retried. Of several nodes one may have found by itself that a claim has run out that
// its leader does not hold, which counts for nothing.
func (c ends) attempts(asked *history.Event, t *task, got *history.Item) (n uint32) {
	for _, h := range t.holds {
		if h.counted && h.failed.before(asked.At) {
			n++
		}
	}
	for _, s := range got.Claims {
		if h := t.hold(s.Token); s.Outcome == "expired" && !c.o.many() && (h == nil || !h.counted) {
			n++
		}
	}
	return n
}

// ofNobody: a claim that a worker has believed in is released or failed only by whoever
// has asked for that, and was not refused. Where workers have sessions, those that lose
// theirs lose their claims with it.
func (c ends) ofNobody(t *task, h *hold, outcome string) {
	f := &h.released
	if outcome == "failed" {
		f = &h.failed
	}
	if (outcome == "failed" || outcome == "released") && !f.possible() && h.until > h.returned && !c.o.Sessions && !c.o.Unfenced {
		c.breach(why(f), t, "claim %x of process %d is shown as %s, and %d of %d attempts at that were refused", h.token, h.process, outcome, f.failed, f.asked)
	}
}

// maybeDead tells whether the task may be out of attempts or thrown away.
func (c ends) maybeDead(t *task) bool {
	if t.discarded.possible() || t.dead != never || c.maybeLate(t) {
		return true
	}
	most := max(1, c.o.Attempts)
	if t.spec != nil && t.spec.MaxAttempts != 0 {
		most = t.spec.MaxAttempts
	}
	if !t.failed.possible() && !c.o.Sessions && c.now-int64(most)*c.o.Lease < t.enqueued.first {
		return false // nothing but claims that run out can use up its attempts, one after the other
	}
	return c.unclear(t.queue()) || uint32(len(t.holds)) >= most
}

// maybeLate tells whether a task of a key without a window may have come after an older one
// of the key was retried: whoever gave it the key led no more, and it was not acknowledged,
// or a side of a cluster without a leader did, which acknowledges what may lose.
func (c ends) maybeLate(t *task) bool {
	if t.spec == nil || t.spec.Key == "" || t.spec.Window != 0 || !c.o.many() && t.kept.before(c.now) {
		return false
	}
	return slices.ContainsFunc(c.keys[key{t.spec.Queue, t.spec.Key}], func(o *task) bool { return o != t && (o.retries > 0 || o.retried != 0) })
}
