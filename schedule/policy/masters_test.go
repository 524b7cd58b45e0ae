package policy

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/schedule"
)

// cell is the register's: a state that is replaced only by who knows its
// version.
type cell struct {
	version uint64
	state   []byte
	// intents are the instants of committed begins, in order.
	intents []int64
}

// rival is a process that believes to be the cron master. Each of its steps can
// be its last, or be followed by any step of another.
type rival struct {
	step    int
	seen    uint64
	state   State
	intent  Decision
	cluster [16]byte
}

// queue is what is enqueued, by ID: the same ID is the same task.
type queue map[id.ID]int64

// advance makes one step. It is what a cron master does, one line each.
func (r *rival) advance(t *rapid.T, d *Definition, c *cell, q queue, now int64) {
	commit := func(s State) bool {
		if r.seen != c.version {
			return false
		}
		c.version++
		r.seen, c.state = c.version, s.Append(nil)
		return true
	}
	switch r.step {
	case 0: // read and decide
		s, err := ReadState(c.state)
		if err != nil {
			t.Fatal(err)
		}
		r.seen, r.state, r.intent = c.version, s, Decide(d, s, now)
		if r.intent.Conclude {
			r.step = 2 // what the master before began: the same ID again
		} else if r.intent.Changed {
			r.step = 1
		}
	case 1: // begin
		r.step = 0
		if commit(r.intent.After) && r.intent.Launch {
			c.intents = append(c.intents, r.intent.Instant)
			r.state, r.step = r.intent.After, 2
		}
	case 2: // enqueue
		name := id.Launch(r.cluster, d.UUID, r.intent.Instant)
		if !slices.Contains(c.intents, r.intent.Instant) {
			t.Fatalf("%s is enqueued without an intent", when(r.intent.Instant))
		}
		q[name] = r.intent.Instant
		r.step = 3
	case 3: // end
		commit(r.state.Conclude(r.intent.Instant, Running))
		r.step = 0
	}
}

// TestRivalMasters lets three processes that all believe to be the master work
// on one schedule, in any order, stopping anywhere: each instant is begun at
// most once and enqueued once, and when one of them goes on alone, every
// instant of the window has its task.
func TestRivalMasters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &Definition{Table: everyMinute, UUID: [16]byte{7}, Window: DefaultWindow, CatchUp: All, Count: MaxCount}
		c, q, now := &cell{version: 1, state: Create(d.Table, noon, 0).Append(nil)}, queue{}, noon
		rivals := []*rival{{}, {}, {}}
		act := func(r *rival) {
			r.advance(t, d, c, q, now)
		}
		for range rapid.IntRange(0, 150).Draw(t, "steps") {
			r := rivals[rapid.IntRange(0, 2).Draw(t, "who")]
			switch rapid.IntRange(0, 15).Draw(t, "what") {
			case 0:
				*r = rival{} // it dies, and starts anew
			case 1, 2, 3:
				now = min(now+rapid.Int64Range(0, 2*minute).Draw(t, "later"), noon+50*minute) // within the window
			default:
				act(r)
			}
		}
		alone := &rival{}
		for range 5 * 60 {
			act(alone)
		}
		if n := int((now - noon) / minute); len(q) != n || len(c.intents) != n {
			t.Fatalf("%d tasks, %d intents, %d instants", len(q), len(c.intents), n)
		}
		slices.Sort(c.intents)
		if len(slices.Compact(slices.Clone(c.intents))) != len(c.intents) {
			t.Fatalf("begun twice: %v", c.intents)
		}
	})
}

var everyMinute = func() *schedule.Timetable {
	s, _ := schedule.Parse("* * * * *")
	z, _ := zones.Load("")
	table, _ := s.Compile([16]byte{}, z)
	return table
}()

// TestLaunchesAreOfOneInstant says why two masters name a launch alike: nothing
// but cluster, schedule and instant is in the ID.
func TestLaunchesAreOfOneInstant(t *testing.T) {
	a := id.Launch([16]byte{1}, [16]byte{2}, noon)
	if b := id.Launch([16]byte{1}, [16]byte{2}, noon); a != b || a.Time().UnixNano() != noon {
		t.Errorf("%s and %s at %s", a, b, a.Time().Format(time.RFC3339))
	}
}
