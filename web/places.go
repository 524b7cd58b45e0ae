package web

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// places are those of the connections. When all are taken, one gives way to a new connection:
// otherwise strangers that are silent, slow or idle would keep out those who know the token,
// for as long as they go on. Of a stranger no request was taken up yet, as that wants a token
// or was not whole; then come those that rest between two requests. Who is served keeps its
// place. So many are served as may be open, and some places are there besides: whoever asks
// for the node's health, which keeps no place, always gets in.
type places struct {
	most int
	open *atomic.Int64 // changes under mu

	mu        sync.Mutex // guards the lists, where connections are in them, and kept
	kept      int        // connections that are served
	strangers list.List  // of *counted, the one that has given no sign of life for longest first
	resting   list.List  // likewise
}

// spare is how many connections there may be beside so many that are served.
func spare(most int) int { return min(max(most/16, 1), 64) }

// enter gives a connection a place. victim is who had it, and is to be closed; nil: it was
// free. As not all can be served, there is always one.
func (p *places) enter(c *counted) (victim *counted) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open.Load() >= int64(p.most+spare(p.most)) {
		oldest := p.strangers.Front()
		if oldest == nil {
			oldest = p.resting.Front()
		}
		victim = oldest.Value.(*counted)
		p.forget(victim)
	}
	p.open.Add(1)
	c.in, c.at = &p.strangers, p.strangers.PushBack(c)
	return victim
}

// leave takes the place of a connection back.
func (p *places) leave(c *counted) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(c)
}

// forget is leave; p.mu is held.
func (p *places) forget(c *counted) {
	if c.gone {
		return
	}
	if c.at == nil {
		p.kept--
	}
	c.gone = true
	p.open.Add(-1)
	p.unlist(c)
}

// unlist takes a connection out of its list; p.mu is held.
func (p *places) unlist(c *counted) {
	if c.at != nil {
		c.in.Remove(c.at)
		c.in, c.at = nil, nil
	}
}

// sign notes a sign of life: the head of a request is whole.
func (c *counted) sign() {
	if c == nil {
		return
	}
	c.places.mu.Lock()
	defer c.places.mu.Unlock()
	if c.at != nil {
		c.in.MoveToBack(c.at)
	}
}

// keep has a connection keep its place while its request is served, until rest. It fails
// when as many are served as may be.
func (c *counted) keep() *failure {
	if c == nil {
		return nil
	}
	p := c.places
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case c.gone || c.at == nil: // nobody is left to serve, or it is served already
		return nil
	case p.kept >= p.most:
		e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "as many requests are being served over HTTP as may be (max-http-connections, %d); try again, or another node", p.most)
		e.RetryAfter = time.Second
		return failed(http.StatusServiceUnavailable, e)
	}
	p.kept++
	p.unlist(c)
	return nil
}

// rest notes that a request is over. A stranger stays one when it did not keep its place.
func (c *counted) rest() {
	if c == nil {
		return
	}
	p := c.places
	p.mu.Lock()
	defer p.mu.Unlock()
	if !c.gone && c.at == nil {
		p.kept--
		c.in, c.at = &p.resting, p.resting.PushBack(c)
	}
}

type placeKey struct{}

// withPlace lets the handlers of a connection's requests find its place.
func withPlace(ctx context.Context, c net.Conn) context.Context {
	for {
		switch at := c.(type) {
		case *counted:
			return context.WithValue(ctx, placeKey{}, at)
		case interface{ NetConn() net.Conn }: // TLS, or bytes that were read already
			c = at.NetConn()
		default:
			return ctx
		}
	}
}

// placeOf gives the connection of a request; nil: it has none that counts.
func placeOf(r *http.Request) *counted {
	c, _ := r.Context().Value(placeKey{}).(*counted)
	return c
}
