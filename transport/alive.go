package transport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// looks is how often a connection is looked at that owes an answer, in the time that it has.
const looks = 20

// Alive makes a call whose answer says that the server lives, and waits for it as long as
// anything moves on the connection: on a slow line the answer may be behind a large frame,
// and so may the request. Once nothing has come for as long as patience says, and the other
// side has taken nothing of what went before the request, the error is a [*CallError] with
// [ErrSilent]. With spare it needs no place (see [Client.SetMaxInFlight]): make one such call
// at a time.
func (c *Client) Alive(ctx context.Context, patience time.Duration, spare bool, method uint16, body Body, decode func(flags uint16, body []byte) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		f := newFlow(c, time.Now())
		look := time.NewTicker(max(patience/looks, time.Millisecond))
		defer look.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
			}
			if now := time.Now(); !f.moves(now) && now.Sub(f.moved) >= patience {
				cancel(f.silence(patience))
				return
			}
		}
	}()
	admit := c.admit
	if spare {
		admit = c.admitNow
	}
	err := c.call(ctx, Urgent, method, body, decode, admit)
	var broken *CallError
	if silent := context.Cause(ctx); errors.Is(silent, ErrSilent) && errors.As(err, &broken) {
		return &CallError{Sent: broken.Sent, Err: silent}
	}
	return err
}

// flow is what moves on a connection while an answer is waited for. What comes counts, and
// what leaves as far as it was before the request: a process that is frozen has its system
// take bytes as long as there is room.
type flow struct {
	c     *Client
	moved time.Time // when something moved last
	came  int64     // bytes
	left  meter     // of what was given to the connection
	taken meter     // of what the other side has acknowledged; 0: it is not known
}

// meter counts up to the request.
type meter struct{ at, end int64 }

// moves notes a new count, and tells whether it is one.
func (m *meter) moves(at int64) bool {
	at = min(at, m.end)
	moved := at > m.at
	m.at = max(at, m.at)
	return moved
}

func newFlow(c *Client, now time.Time) *flow {
	f := &flow{c: c, moved: now, came: c.in.came.Load()}
	queued := c.out.bytes.Load()
	left := c.out.left.Load()
	acked, sent := acknowledged(c.raw)
	f.left, f.taken = meter{left, left + queued}, meter{acked, acked + sent + queued}
	return f
}

// moves tells whether something has moved since it was asked last.
func (f *flow) moves(now time.Time) bool {
	came := f.c.in.came.Load()
	acked, _ := acknowledged(f.c.raw)
	left, taken := f.left.moves(f.c.out.left.Load()), f.taken.moves(acked) // both, each time
	if came == f.came && !left && !taken {
		return false
	}
	f.came, f.moved = came, now
	return true
}

// silence says that nothing has moved for so long, and what is unfinished.
func (f *flow) silence(patience time.Duration) error {
	var unfinished []string
	if have, whole := f.c.in.arriving(); whole > 0 {
		unfinished = append(unfinished, fmt.Sprintf("%d of the %d bytes of a frame had arrived", have, whole))
	}
	if n := max(f.left.end-f.left.at, f.taken.end-f.taken.at); n > 0 {
		unfinished = append(unfinished, fmt.Sprintf("%d bytes before it were not taken", n))
	}
	if len(unfinished) == 0 {
		return fmt.Errorf("%w for %v", ErrSilent, patience)
	}
	return fmt.Errorf("%w for %v, and nothing moved: %s", ErrSilent, patience, strings.Join(unfinished, ", "))
}

// Arriving is how much of a frame has come that is unfinished, in bytes, and how large it is;
// 0, 0: there is none.
func (c *Client) Arriving() (have, whole int64) { return c.in.arriving() }

// End closes the connection at once for a reason, which open calls return with ErrConnClosed.
func (c *Client) End(reason error) { c.fail(reason) }
