package check

import (
	"slices"

	"github.com/norn-dev/norn/jepsen/history"
)

// logs judges what is shown of the logs of claims.
type logs struct{ *Checker }

// whole judges the visible updates of a task, from their beginning.
func (c logs) whole(asked *history.Event, t *task, log []history.Entry) {
	c.contiguous(t, log, history.Entry{}, false)
	shown := func(token, seq uint64) bool {
		return slices.ContainsFunc(log, func(e history.Entry) bool { return e.Token == token && e.Seq == seq })
	}
	for _, u := range t.updates {
		if u.before(asked.At) && !shown(u.token, u.seq) && (u.seq == 0 || shown(u.token, u.seq-1)) {
			c.fail(Lost, t, "update %x/%d was acknowledged and is not shown", u.token, u.seq)
		}
		if majority(asked) && u.kept.before(asked.At) && !shown(u.token, u.seq) && t.prefix(u, func(o *update) bool { return o.kept.before(asked.At) }) {
			c.breach(Lost, t, "a majority has acknowledged update %x/%d and all before it, and a majority does not show it", u.token, u.seq)
		}
	}
	if a := asked.After; a != nil && !shown(a.Token, a.Seq) {
		c.breach(Contiguous, t, "update %x/%d had been seen and was asked for, and is not shown", a.Token, a.Seq)
	}
}

// checkpoint: a claim comes with the last visible update of those before it,
// captured output apart, or with a later one whose outcome is unknown.
func (c logs) checkpoint(asked *history.Event, t *task, got *history.Item) {
	var sure *update
	later := func(u *update) bool {
		return sure == nil || u.token > sure.token || u.token == sure.token && u.seq > sure.seq
	}
	for _, u := range t.updates {
		if u.token < got.Token && !u.output && t.surelyVisible(u, asked.At) && later(u) {
			sure = u
		}
	}
	if sure != nil && sure.data == got.Data || sure == nil && got.Data == 0 {
		return
	}
	for _, u := range t.updates {
		if u.data == got.Data && u.token < got.Token && u.possible() && !u.output && later(u) {
			return
		}
	}
	c.fail(Lost, t, "claim %x does not come with the last checkpoint before it", got.Token)
}

// surelyVisible tells whether an update and all before it in its claim were
// surely there before a time.
func (t *task) surelyVisible(u *update, at int64) bool {
	return t.prefix(u, func(o *update) bool { return o.before(at) })
}

// prefix tells whether something is so of an update and of all before it in its claim.
func (t *task) prefix(u *update, is func(*update) bool) bool {
	for seq := range u.seq + 1 {
		if o := t.find(u.token, seq); o == nil || !is(o) {
			return false
		}
	}
	return true
}

// contiguous: entries follow each other without a hole, after the one that the
// reader has seen, and are what was sent.
func (c logs) contiguous(t *task, log []history.Entry, after history.Entry, resumed bool) {
	token, next := uint64(0), uint64(0)
	if resumed {
		token, next = after.Token, after.Seq+1
	}
	for _, e := range log {
		if e.Token < token {
			c.fail(Contiguous, t, "update %x/%d is shown after those of claim %x", e.Token, e.Seq, token)
		}
		if e.Token != token {
			token, next = e.Token, 0
		}
		if e.Seq != next {
			c.fail(Contiguous, t, "update %x/%d is shown where %d was to follow", e.Token, e.Seq, next)
		}
		next = e.Seq + 1
		u := t.find(e.Token, e.Seq)
		if u == nil || !u.possible() {
			c.fail(Phantom, t, "update %x/%d was never made", e.Token, e.Seq)
			return
		}
		if u.data != e.Data {
			c.fail(Content, t, "update %x/%d is not what was sent", e.Token, e.Seq)
		}
		c.shown(&u.fact)
	}
}

// page takes in one page of a log.
func (c logs) page(asked, e *history.Event) {
	if len(asked.Items) != 1 || len(e.Items) != 1 {
		return
	}
	t, got := c.task(asked.Items[0].Task), &e.Items[0]
	if got.State == history.Absent {
		c.observe(asked, got)
		return
	}
	c.observeState(asked, t, got.State)
	if asked.After == nil {
		if !e.More && (t.collected == never || t.collected > asked.At) && !c.forgettable(t, false) {
			c.whole(asked, t, got.Log)
		}
		return
	}
	c.contiguous(t, got.Log, *asked.After, true)
}
