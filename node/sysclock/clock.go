package sysclock

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/config"
)

// Clock reads this machine's clocks. Go's monotonic clock stops while
// the machine is suspended: on the side that waits for leases to lapse that
// only delays (protocol (d)).
type Clock struct {
	start time.Time
	Wrong atomic.Pointer[clock.Adjusted] // on purpose; nil in all but tests
	nap   atomic.Pointer[nap]            // a machine that may be suspended, as tests have it; nil in all others
}

// New is the clock of this machine, or a wrong one where a test has it so.
func New(cfg *config.Config) *Clock {
	c := &Clock{start: time.Now()}
	if cfg.TestClockOffset != 0 || cfg.TestClockRate != 0 || cfg.TestClockFile != "" {
		c.Set(cfg.TestClockOffset, cfg.TestClockRate)
	}
	return c
}

// source is what the machine shows.
func (c *Clock) source() clock.Time {
	t := time.Now()
	mono := int64(t.Sub(c.start))
	if nap := c.nap.Load(); nap != nil {
		mono = nap.at(mono)
	}
	return clock.Time{Wall: t.UnixNano(), Mono: mono}
}

// Now is what this clock shows.
func (c *Clock) Now() clock.Time {
	if wrong := c.Wrong.Load(); wrong != nil {
		return wrong.At(c.source())
	}
	return c.source()
}

// Mono is the monotonic part alone, the cheaper of the two.
func (c *Clock) Mono() int64 {
	if c.Wrong.Load() != nil {
		return c.Now().Mono
	}
	return int64(time.Since(c.start))
}

// Wall is what to write into files that others read.
func (c *Clock) Wall() time.Time { return time.Unix(0, c.Now().Wall) }

// Real is how long the machine takes until this clock has gone on by d: what to
// set a timer to.
func (c *Clock) Real(d time.Duration) time.Duration {
	if wrong := c.Wrong.Load(); wrong != nil {
		return wrong.Wait(d)
	}
	return d
}

// Set makes the clock wrong: the wall clock by an offset, both by a rate in parts
// per million from now on. What an earlier rate has gained stays in the monotonic
// clock, which never goes back, and goes from the other.
func (c *Clock) Set(off time.Duration, ppm int) {
	var wrong clock.Adjusted
	if before := c.Wrong.Load(); before != nil {
		wrong = *before
	}
	wrong = wrong.Set(c.source(), off, ppm)
	c.Wrong.Store(&wrong)
}

// Naps has the machine be one that is suspended whenever the program does nothing for
// so long, as one that is stopped by a signal does; 0: not any more. What its monotonic
// clock has missed it goes on missing.
func (c *Clock) Naps(least time.Duration) {
	if c.nap.Load() == nil && least > 0 {
		c.nap.CompareAndSwap(nil, &nap{})
	}
	if nap := c.nap.Load(); nap != nil {
		nap.least.Store(int64(least))
	}
}

// Suspends is how long the program has to stand still to count as a machine that is suspended;
// 0: it never does.
func (c *Clock) Suspends() time.Duration {
	if nap := c.nap.Load(); nap != nil {
		return time.Duration(nap.least.Load())
	}
	return 0
}

// lookAtClock is between two looks at the file that says how wrong the clock is.
const lookAtClock = 10 * time.Millisecond

// Follow sets the clock as a file says, each time it says something else, until
// ctx ends. The file holds an offset and, after a blank, a rate:
// "-1.5s 100000"; and after another one how long the program must stand still to
// count as a machine that is suspended ([Clock.Naps]). Nothing in it, or no file:
// as the flags say.
func (c *Clock) Follow(ctx context.Context, cfg *config.Config, log *slog.Logger) {
	tick := time.NewTicker(lookAtClock)
	defer tick.Stop()
	before := []byte{} // the flags count already
	missed := time.Duration(0)
	for {
		if nap := c.nap.Load(); nap != nil {
			c.source() // so that there is no long time without a reading but in a nap
			if all := time.Duration(nap.missed.Load()); all != missed {
				log.Warn("clock.suspended", "for", (all - missed).String(), "meaning", "its monotonic clock stood still, on purpose")
				missed = all
			}
		}
		b, err := os.ReadFile(cfg.TestClockFile)
		if err != nil && !os.IsNotExist(err) {
			log.Error("clock.unread", "error", err)
			return
		}
		if !bytes.Equal(b, before) {
			before = b
			c.adjust(string(b), cfg, log)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// adjust takes what the file says.
func (c *Clock) adjust(text string, cfg *config.Config, log *slog.Logger) {
	off, ppm, err := cfg.TestClockOffset, cfg.TestClockRate, error(nil)
	least := time.Duration(0)
	words := strings.Fields(text)
	if len(words) > 3 {
		err = fmt.Errorf("%d words", len(words))
	}
	if len(words) > 0 && err == nil {
		off, err = time.ParseDuration(words[0])
	}
	if len(words) > 1 && err == nil {
		ppm, err = strconv.Atoi(words[1])
	}
	if len(words) > 2 && err == nil {
		least, err = time.ParseDuration(words[2])
	}
	if err != nil {
		log.Error("clock.unread", "file", cfg.TestClockFile, "error", err)
		return
	}
	c.Set(off, ppm)
	c.Naps(least)
	log.Warn("clock.set_wrong", "offset", off.String(), "rate_ppm", ppm)
}
