package node

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/session"
)

// TestSessionSettings: what is not set is what package session has, and every setting
// gets there.
func TestSessionSettings(t *testing.T) {
	c := config.Default()
	if got := (&Node{cfg: c}).sessions(); got != (session.DispatcherConfig{Timeouts: session.DefaultTimeouts, CheckPeriod: 30 * time.Second}) {
		t.Errorf("the defaults are %+v", got)
	}
	c.SessionPeriod, c.SessionGap, c.SessionCheck, c.SessionLose, c.NameLease, c.SessionBump = time.Second, 3*time.Second, 4*time.Second, 5*time.Second, time.Minute, true
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	got := (&Node{cfg: c}).sessions()
	want := session.DispatcherConfig{
		Timeouts:    session.Timeouts{Period: time.Second, HeartbeatGap: 3 * time.Second, CheckGap: 11 * time.Second, LoseAfter: 5 * time.Second},
		CheckPeriod: 4 * time.Second, NameLease: time.Minute, Bump: true,
	}
	if got != want {
		t.Errorf("got %+v", got)
	}
	if _, err := session.NewDispatcher(got); err != nil {
		t.Error(err)
	}
}
