package transport

import "context"

// Class says which of the places that a connection has for open requests a call may take.
type Class uint8

// Classes of calls. Those of one class are served in the order in which they came.
const (
	// Short calls are answered as soon as the server can.
	Short Class = iota
	// Long calls are open until something happens. They never take the last places that
	// short ones have: see [Client.Keep].
	Long
	// Urgent calls must not wait for others: they go first, and have the last places.
	Urgent

	classes = iota
)

// waiter is a caller without a place. ready is closed when it got one or when
// the connection ended.
type waiter struct {
	class   Class
	size    int
	turn    uint64 // of all that wait, in their order
	ready   chan struct{}
	granted bool
}

// SetMaxInFlight bounds the open requests, as the server's hello says. Past
// it callers wait. n under 1 counts as 1.
func (c *Client) SetMaxInFlight(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = max(n, 1)
	c.grant()
}

// Keep has so many of the places for open requests kept for urgent calls, and so many more
// for those and short ones. One is left to long ones, whatever it says.
func (c *Client) Keep(urgent, short int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.urgent, c.short = max(urgent, 0), max(short, 0)
	c.grant()
}

// admit waits for a place and opens the request.
func (c *Client) admit(ctx context.Context, k *call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	if !c.anyWaits() && c.room(k.class, k.size) {
		defer c.mu.Unlock()
		c.take(k.class, k.size)
		return c.register(k)
	}
	if c.err != nil {
		defer c.mu.Unlock()
		return c.err
	}
	c.turn++
	w := &waiter{class: k.class, size: k.size, turn: c.turn, ready: make(chan struct{})}
	c.waiting[k.class] = append(c.waiting[k.class], w)
	c.grant() // what waits may be of a class that has no place, when this one has
	c.mu.Unlock()
	var err error
	select {
	case <-w.ready:
	case <-ctx.Done():
		err = ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		return c.register(k)
	case w.granted:
		c.reserved -= w.size
		c.free(w.class)
	default:
		c.forget(w)
	}
	return err
}

// admitNow opens the request whether there is a place or not.
func (c *Client) admitNow(ctx context.Context, k *call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.take(k.class, k.size)
	return c.register(k)
}

// anyWaits tells whether a caller waits; mu is held.
func (c *Client) anyWaits() bool {
	for _, q := range c.waiting {
		if len(q) > 0 {
			return true
		}
	}
	return false
}

// forget takes a caller out that waits no longer; mu is held.
func (c *Client) forget(w *waiter) {
	q := c.waiting[w.class]
	for i, other := range q {
		if other == w {
			c.waiting[w.class] = append(q[:i], q[i+1:]...)
			c.grant() // those behind it may need less room
			return
		}
	}
}

// placeFor says whether a class may have one more request open; mu is held.
func (c *Client) placeFor(class Class) bool {
	if class == Urgent {
		return c.slots < c.limit
	}
	places := max(c.limit-c.urgent, 1)
	return c.slots < places && (class != Long || c.longs < max(places-c.short, 1))
}

// room says whether one more request of so many bytes may be opened; mu is
// held. One always fits an empty outbox.
func (c *Client) room(class Class, size int) bool {
	return c.placeFor(class) && (c.reserved == 0 || c.reserved+size <= c.cfg.MaxOutboxBytes)
}

// take reserves a place and bytes of the outbox; mu is held. The writer gives
// the bytes back, the answer the place.
func (c *Client) take(class Class, size int) {
	c.slots++
	if class == Long {
		c.longs++
	}
	c.reserved += size
}

// free gives a place back; mu is held.
func (c *Client) free(class Class) {
	c.slots--
	if class == Long {
		c.longs--
	}
	c.grant()
}

// grant gives free places to those whose turn it is; mu is held.
func (c *Client) grant() {
	for {
		w := c.next()
		if w == nil || !c.room(w.class, w.size) {
			return
		}
		c.waiting[w.class] = c.waiting[w.class][1:]
		c.take(w.class, w.size)
		w.granted = true
		close(w.ready)
	}
}

// next is whose turn it is: first the urgent, then who waits longest, but that short calls
// do not wait for a place that only long ones need. nil: nobody waits. mu is held.
func (c *Client) next() *waiter {
	head := func(class Class) *waiter {
		if q := c.waiting[class]; len(q) > 0 {
			return q[0]
		}
		return nil
	}
	if w := head(Urgent); w != nil {
		return w
	}
	short, long := head(Short), head(Long)
	if long == nil || short != nil && (short.turn < long.turn || !c.placeFor(Long)) {
		return short
	}
	return long
}
