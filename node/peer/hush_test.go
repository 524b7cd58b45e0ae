package peer

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/register"
)

// TestWhoIsHushedLetsNobodyIn: also not the one that was let in at that very moment.
// The others wait for whom they are connected to.
func TestWhoIsHushedLetsNobodyIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var b *testNode
		a := w.add(who(1, 0))
		b = w.add(who(2, 0), func(c *Config) {
			c.Admit = func(Hello) error {
				b.Hush(true)
				return nil
			}
		})
		defer a.stop()
		defer b.stop()
		a.Keep([]register.Member{who(2, 0)})
		settle(time.Minute)
		if s := a.Status().Peers[0].Control; a.seen() != "" || !errors.Is(s.Err, ErrBusy) {
			t.Errorf("a saw %q, %v", a.seen(), s.Err)
		}
		b.Hush(false)
		if r := b.quiet(); r != nil {
			t.Fatal(r)
		}
	})
}
