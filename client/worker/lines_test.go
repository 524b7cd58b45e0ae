package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/session"
)

// TestLinesOutliveASession: they are of the process, and who asks for them asks by its name.
func TestLinesOutliveASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPushing(t, Config{}, still)
		c := p.push(1, 30*time.Second)
		p.taken(1)
		p.remember(c, "first")
		p.remember(c, "second")
		p.over(c)
		p.look()
		p.say(&session.StatusAck{Claim: claimOfRef(c)})
		p.use(func(*session.Worker, clock.Time) {
			if err := p.rebirth(); err != nil {
				t.Error(err)
			}
		})
		p.use(func(m *session.Worker, now clock.Time) { m.Turn(now) })
		p.say(&session.GetLogLines{Request: 1, Claim: claimOfRef(c), After: 1})
		var got *session.LogLines
		for _, b := range p.sent {
			if lines, is := b.(*session.LogLines); is {
				got = lines
			}
		}
		if got == nil || !got.Known || !got.Ended || got.First != 2 || len(got.Lines) != 1 || got.Lines[0] != "second" {
			t.Errorf("it says %+v", got)
		}
	})
}
