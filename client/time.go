package client

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// timeThere is what a server's clock said, and when that was here: the time since
// then is measured, whatever becomes of the clock here.
type timeThere struct {
	said time.Time
	at   time.Time // with a monotonic reading
}

// heard notes what time a server had when it answered what it was asked at some time: in
// the middle of that and now, which is wrong by half the way there and back at most.
func (c *caller) heard(asked time.Time, said *timestamppb.Timestamp) {
	if said.IsValid() {
		c.clock.Store(&timeThere{said: said.AsTime(), at: asked.Add(time.Since(asked) / 2)})
	}
}

// now is the time that the servers have, as far as is known.
func (c *caller) now() time.Time {
	if s := c.clock.Load(); s != nil {
		return s.said.Add(time.Since(s.at))
	}
	return time.Now()
}
