package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/norn-dev/norn/schedule"
)

// ErrInvalid is returned when a definition is outside the limits.
var ErrInvalid = errors.New("policy: invalid schedule")

// Overlap says what happens to an instant while the task before still runs.
type Overlap uint8

// Overlaps.
const (
	Allow    Overlap = iota // it is launched beside it
	Skip                    // it is skipped
	QueueOne                // one waits for its end, the first; others are skipped
	Replace                 // the task before is cancelled
)

// CatchUp says what happens to instants that were missed.
type CatchUp uint8

// Catch-ups.
const (
	Latest CatchUp = iota // the last of them is launched, unless one is on time
	None                  // they are skipped
	All                   // they are launched, up to Count
)

// Limits and defaults of definitions.
const (
	// Grace is up to what lateness an instant is on time: a new master takes
	// seconds (G15: under a minute), and that is no outage.
	Grace = time.Minute
	// DefaultWindow is a common answer to what "still useful" means.
	DefaultWindow = time.Hour
	// MinWindow: below it a failover would skip launches.
	MinWindow = 10 * time.Second
	// MaxWindow is more than any holiday; what is older is work for a backfill.
	MaxWindow = 31 * 24 * time.Hour
	// MaxCount is how many missed instants can be caught up: what one search
	// walks back.
	MaxCount = 1000
	// MaxJitter is a day: more is another schedule.
	MaxJitter = 24 * time.Hour
)

// Definition is what a user wants of a schedule.
type Definition struct {
	// UUID names the schedule for its life; a schedule made again under the same
	// name has another.
	UUID [16]byte
	// Version goes up with each edit.
	Version uint64
	// Table has the instants.
	Table *schedule.Timetable
	// Overlap and CatchUp are the policies.
	Overlap Overlap
	CatchUp CatchUp
	// Window is how late an instant may be launched at all: the one knob for
	// outages, suspensions and clocks that jump ahead.
	Window time.Duration
	// Count is how many missed instants All launches, the newest.
	Count int
	// Jitter is within what time after its instants a schedule launches, always
	// at the same offset: see Offset.
	Jitter time.Duration
	// Start and End bound instants in wall ns: Start is the first that counts,
	// End the first that no longer does. 0 is no bound.
	Start, End int64
	// Deadline is how late a launch may be, also one that waited for the task
	// before; 0 is as late as the window.
	Deadline time.Duration
	// MaxLaunches is after how many launches the schedule ends; 0 is never.
	MaxLaunches uint64
	// Paused keeps it from launching. What comes due meanwhile is skipped.
	Paused bool
	// PauseOnFailure asks for a pause when a launched task has failed.
	PauseOnFailure bool
}

// Check returns ErrInvalid for what is outside the limits.
func (d *Definition) Check() error {
	within := func(name string, v, lo, hi time.Duration) error {
		if v < lo || v > hi {
			return fmt.Errorf("%w: %s %s is not from %s to %s", ErrInvalid, name, v, lo, hi)
		}
		return nil
	}
	switch {
	case d.Table == nil:
		return fmt.Errorf("%w: it has no timetable", ErrInvalid)
	case d.Overlap > Replace:
		return fmt.Errorf("%w: unknown overlap policy %d", ErrInvalid, d.Overlap)
	case d.CatchUp > All:
		return fmt.Errorf("%w: unknown catch-up policy %d", ErrInvalid, d.CatchUp)
	case d.CatchUp == All && (d.Count < 1 || d.Count > MaxCount):
		return fmt.Errorf("%w: catch-up count %d is not from 1 to %d", ErrInvalid, d.Count, MaxCount)
	case d.Start != 0 && d.End != 0 && d.End <= d.Start:
		return fmt.Errorf("%w: it ends before it starts", ErrInvalid)
	}
	return errors.Join(
		within("catch-up window", d.Window, MinWindow, MaxWindow),
		within("jitter", d.Jitter, 0, MaxJitter),
		within("deadline", d.Deadline, 0, MaxWindow),
	)
}

// Offset is by how much all launches of the schedule come after their
// instants: a value up to the jitter that the UUID picks, in full milliseconds.
// It is the same for all launches, so that their distance is what the
// specification says.
func (d *Definition) Offset() time.Duration {
	steps := uint64(d.Jitter/time.Millisecond) + 1
	sum := sha256.Sum256(append([]byte("norn schedule jitter"), d.UUID[:]...))
	hi, _ := bits.Mul64(binary.BigEndian.Uint64(sum[:]), steps)
	return time.Duration(hi) * time.Millisecond
}

// limit is how late a launch may be.
func (d *Definition) limit() time.Duration {
	if d.Deadline > 0 {
		return min(d.Window, d.Deadline)
	}
	return d.Window
}

// Until is up to when the task of a launch may be enqueued, wall ns: as late as a launch
// may be, but at least for Grace after it was begun. Who has it open later, or after a pause,
// finds out whether it was enqueued, and makes none.
func (d *Definition) Until(r Run) int64 {
	return max(plus(plus(r.Instant, d.Offset()), d.limit()), plus(r.Begun, Grace))
}

// madeAll tells whether all launches that there are to be were made.
func (d *Definition) madeAll(s *State) bool { return d.MaxLaunches > 0 && s.Launches >= d.MaxLaunches }

// sameTimes tells whether two definitions have the same instants.
func (d *Definition) sameTimes(o *Definition) bool {
	return d.Table.Equal(o.Table) && d.Start == o.Start && d.End == o.End
}
