package access

import (
	"math"
	"slices"
	"time"

	"github.com/norn-dev/norn/internal/secrets"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"github.com/prometheus/client_golang/prometheus"
)

// tokens are those of the file as they are now; nil: there is no file.
func (d *Desk) tokens() *secrets.Set {
	if d.o.Tokens == nil {
		return nil
	}
	all, had := d.o.Tokens(), d.file.Load()
	if had != nil && slices.Equal(*had, all) {
		return had
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.file.Store(&all)
	d.stir()
	return &all
}

// stir wakes who waits for rights to change. d.mu is held.
func (d *Desk) stir() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// Contact hears whether this node is in touch with a majority of the register.
func (d *Desk) Contact(has bool) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case has:
		d.cut.Store(nil)
	case d.cut.Load() == nil:
		now := time.Now()
		d.cut.Store(&now)
		d.stir()
	}
}

// stale refuses tokens of the register where what is known of them is too old.
//
// Tokens of the file are not affected: they are the way in when the register is lost.
func (d *Desk) stale() *proto.Error {
	since := d.cut.Load()
	if d.o.MaxStale <= 0 || since == nil || time.Since(*since) < d.o.MaxStale {
		return nil
	}
	e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "this node has not heard from a majority of the register for over %v (auth-max-stale), so what tokens may do can have changed; ask another node, or show a token of auth-token-file", d.o.MaxStale)
	e.RetryAfter = time.Second
	return e
}

// glance is how often those are looked at who are connected, once somebody came with a certificate or a
// JWT: nobody lists when those expire.
const glance = time.Second

// Changed is closed when rights change after the call. After a time from now they are to be
// looked at in any case: the next token expires, what is known becomes too old, or the file with
// tokens is to be read again.
func (d *Desk) Changed() (changed <-chan struct{}, after time.Duration) {
	if d == nil {
		return nil, math.MaxInt64
	}
	d.tokens()
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now().UnixNano()
	if d.ends <= now {
		d.ends = math.MaxInt64
		for _, t := range d.book.Load().tokens { // Any order: the first one counts.
			if end := t.principal.Expires; end > now {
				d.ends = min(d.ends, end)
			}
		}
	}
	after = math.MaxInt64
	if d.ends != math.MaxInt64 {
		after = time.Duration(d.ends - now)
	}
	if d.o.Tokens != nil && d.o.Reread > 0 {
		after = min(after, d.o.Reread)
	}
	if d.outside.Load() {
		after = min(after, glance)
	}
	if since := d.cut.Load(); since != nil && d.o.MaxStale > 0 {
		if left := d.o.MaxStale - time.Since(*since); left > 0 {
			after = min(after, left)
		}
	}
	return d.changed, after
}

// Ended tells why a caller is not let in any more; nil: it is.
func (d *Desk) Ended(c *Caller) *proto.Error {
	_, err := d.current(c)
	return err
}

// Still gives who a caller is now, or why what it has under way ends: it is not let in any more, or
// may not do all that it might before. What waits was judged by that, and nobody looks at it again before it
// is answered. before is what the last call gave; nil: there was none.
//
// The error is UNAVAILABLE with a short pause where rights have become less: the client asks
// again and is judged by the new ones.
func (d *Desk) Still(c *Caller, before *guard.Principal) (*guard.Principal, *proto.Error) {
	now, err := d.current(c)
	if err != nil {
		return nil, err
	}
	if before == nil {
		before = c.Principal
	}
	if !now.Has(before) {
		e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "what %s may do has changed; ask again", now)
		e.RetryAfter = 10 * time.Millisecond
		return nil, e
	}
	return now, nil
}

// current is who a caller is now: rights change while connections are open.
func (d *Desk) current(c *Caller) (*guard.Principal, *proto.Error) {
	switch {
	case c == nil:
		return nil, unauthenticated("nobody has said who sends this request")
	case c.file != nil && d.file.Load() != c.file && !slices.Contains(*d.file.Load(), c.shown):
		return nil, unauthenticated("the token was taken out of auth-token-file; show another one")
	case c.as != nil:
		p, err := d.book.Load().principalOf(c.as)
		if err == nil {
			err = d.stale()
		}
		if err != nil {
			return nil, err
		}
		return p, nil
	case c.ID == "":
		return c.Principal, nil
	}
	t, err := d.book.Load().live(c.ID, c.Name, time.Now().UnixNano())
	if err == nil {
		err = d.stale()
	}
	if err != nil {
		return nil, err
	}
	return t.principal, nil
}

// newRevision is the metric of what this node knows.
func newRevision(d *Desk) prometheus.GaugeFunc {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "norn_access_revision", Help: "Revision of the register at which roles and tokens, as this node knows them, were changed last; 0: there were none.",
	}, func() float64 { return float64(d.book.Load().at) })
}

// Describe gives the metrics: what is known, and the connections of tenants.
func (d *Desk) Describe(to chan<- *prometheus.Desc) {
	d.revision.Describe(to)
	to <- connections
}

// Collect gives their values.
func (d *Desk) Collect(to chan<- prometheus.Metric) {
	d.revision.Collect(to)
	for name, t := range d.book.Load().tenants { // Any order: metrics have none.
		to <- prometheus.MustNewConstMetric(connections, prometheus.GaugeValue, float64(t.uses.connections.Load()), name)
	}
}
