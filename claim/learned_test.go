package claim

import (
	"errors"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
)

// ahead is a time at which the wall clock is further than it should be.
func ahead(d, jump time.Duration) clock.Time {
	now := at(d)
	now.Wall += int64(jump)
	return now
}

// TestHowAClaimCameDecidesWhatEndsIt: only of a claim that was learned by restart,
// vote or push may the wall clock say that it has lapsed, only where another node
// confirms that clock, and no longer once its leader is heard.
func TestHowAClaimCameDecidesWhatEndsIt(t *testing.T) {
	task, now := id.ID{1}, at(lease-time.Second) // it is learned of when a second of it is left
	late := at(lease + buffer)
	for name, c := range map[string]struct {
		add   func(*Table)
		lapse bool
	}{
		"granted":  {func(t *Table) { t.Grant(task, Brief{}, record(1, at(0)), now) }, false},
		"accepted": {func(t *Table) { t.Accept(task, Brief{}, record(1, at(0)), now) }, false},
		"learned":  {func(t *Table) { t.Recover(task, Brief{}, record(1, at(0)), now) }, true},
		"learned, then renewed": {func(t *Table) {
			t.Recover(task, Brief{}, record(1, at(0)), now)
			t.Refresh(t.Lookup(task).Newest(), record(1, at(0)), now)
		}, false},
		"learned, then held by the word of another": {func(t *Table) {
			t.Recover(task, Brief{}, record(1, at(0)), now)
			t.Hold(task, Brief{}, record(1, at(0)), lease+buffer, now.Add(1))
		}, false},
		"accepted, then taken over": {func(t *Table) {
			t.Accept(task, Brief{}, record(1, at(0)), at(0))
			t.TakeOver(now, false)
		}, true},
	} {
		table := NewTable(buffer)
		c.add(table)
		h := table.Lookup(task).Newest()
		left := clock.Time{Mono: h.Lease.LapseAt(buffer)}.SinceMono(late.Mono)
		if _, _, ok := table.Lapsed(late, 0, false); ok || !table.Holds(h, late, false) || table.Left(h, late, false) != left {
			t.Errorf("%s: by a wall clock that nobody confirms it has lapsed, or holds for %v, not %v", name, table.Left(h, late, false), left)
		}
		_, _, ok := table.Lapsed(late, 0, true)
		// At its end and buffer it still holds, as every other deadline does.
		if ok || table.Left(h, late, true) <= 0 {
			t.Errorf("%s: it has lapsed at its end and buffer", name)
		}
		late := late.Add(1)
		_, _, ok = table.Lapsed(late, 0, true)
		if ok != c.lapse || table.Holds(h, late, true) == c.lapse || (table.Left(h, late, true) == 0) != c.lapse {
			t.Errorf("%s: past its end and buffer by a confirmed wall clock it has lapsed: %v, want %v", name, ok, c.lapse)
		}
	}
}

// TestLeftIsWhatEndsFirst: of a claim that was learned, where the wall clock counts.
func TestLeftIsWhatEndsFirst(t *testing.T) {
	table, task := NewTable(buffer), id.ID{1}
	table.Recover(task, Brief{}, record(1, at(0)), at(4*time.Second))
	h, now := table.Lookup(task).Newest(), at(5*time.Second)
	if left, want := table.Left(h, now, true), lease+buffer-5*time.Second+1; left != want {
		t.Fatalf("it holds for %v, want %v", left, want)
	}
	if left, want := table.Left(h, ahead(5*time.Second, time.Hour), true), lease+buffer-5*time.Second+1; left != want {
		t.Fatalf("with wall clocks that were set ahead it holds for %v, want %v", left, want)
	}
	now = ahead(5*time.Second, -10*time.Second)
	if left, want := table.Left(h, now, true), lease+buffer-time.Second; left != want {
		t.Fatalf("with a wall clock that is behind it holds for %v, want %v", left, want)
	}
}

// TestNothingShortensALease: what a leader or a voter says of a claim that is here
// has it end later, by any clock, or not at all.
func TestNothingShortensALease(t *testing.T) {
	task, now := id.ID{1}, at(2*time.Second)
	less := record(1, at(0))
	less.Lease, less.End = time.Second, at(time.Second).Wall
	for name, hear := range map[string]func(*Table, *Held){
		"renewal": func(t *Table, h *Held) { t.Refresh(h, less, now) },
		"vote":    func(t *Table, h *Held) { t.Rejoin(h, less, now) },
		"word":    func(t *Table, _ *Held) { t.Hold(task, Brief{}, less, time.Second, now) },
	} {
		table := NewTable(buffer)
		table.Accept(task, Brief{}, record(1, at(0)), at(0))
		h := table.Lookup(task).Newest()
		hear(table, h)
		if left := table.Left(h, now, true); left < lease+buffer-2*time.Second {
			t.Errorf("after a %s with less it holds for %v", name, left)
		}
		if end := at(lease).Wall; h.Lease.End < end || h.Record.End < end {
			t.Errorf("after a %s with less it ends at %d, before %d", name, h.Record.End, end)
		}
	}
}

// TestAVoteAfterTheWallClockJumped: a member that has accepted a claim itself knows
// by its monotonic clock how much is left of it; what a voter says of the end is of
// before the jump.
func TestAVoteAfterTheWallClockJumped(t *testing.T) {
	table, task := NewTable(buffer), id.ID{1}
	table.Accept(task, Brief{}, record(1, at(0)), at(0))
	now := ahead(time.Second, time.Hour)
	h := table.Lookup(task).Newest()
	table.Rejoin(h, record(1, at(0)), now)
	if left := table.Left(h, now, true); left < lease-time.Second {
		t.Fatalf("after the vote it holds for %v of the %v that its worker has", left, lease-time.Second)
	}
}

// TestATakeoverCountsFromNow: but for what a leader that was never away has granted
// itself, because nobody else can have renewed it. What was taken over once is not
// its own any more.
func TestATakeoverCountsFromNow(t *testing.T) {
	own, other := id.ID{1}, id.ID{2}
	table := NewTable(buffer)
	table.Grant(own, Brief{}, record(1, at(0)), at(0))
	table.Accept(other, Brief{}, record(2, at(0)), at(0))
	lapses := func(task id.ID) int64 { return table.Lookup(task).Newest().Lease.LapseAt(buffer) }
	table.TakeOver(at(time.Second), true)
	if a, b := lapses(own), lapses(other); a != at(lease+buffer).Mono || b != at(lease+buffer+time.Second).Mono {
		t.Fatalf("after a takeover by a leader that stayed they lapse at %d and %d", a, b)
	}
	table.TakeOver(at(2*time.Second), false)
	if a, b := lapses(own), lapses(other); a != at(lease+buffer+2*time.Second).Mono || b != a {
		t.Fatalf("after a takeover by one that was away they lapse at %d and %d", a, b)
	}
	table.TakeOver(at(3*time.Second), true)
	if a := lapses(own); a != at(lease+buffer+3*time.Second).Mono {
		t.Fatalf("a claim that was taken over counts as its own again: it lapses at %d", a)
	}
	if mono := table.NextLapse(0, false); mono != at(lease+buffer+3*time.Second).Mono {
		t.Fatalf("the table looks again at %d", mono)
	}
}

// TestAClaimThatIsOver: a leader has written that it expired. Nobody renews it or
// takes a failure for it, and it ends here once it has lapsed here, not before.
func TestAClaimThatIsOver(t *testing.T) {
	table, task := NewTable(buffer), id.ID{1}
	table.Accept(task, Brief{}, record(1, at(0)), at(0))
	if table.Expire(task, 2, at(1), false) {
		t.Fatal("a claim that is not here may be ended")
	}
	if _, _, ok := table.Spent(at(lease+buffer), false); ok {
		t.Fatal("one of which nobody has written that is over")
	}
	if table.Expire(task, 1, at(1), false) {
		t.Fatal("it may be ended before it has lapsed by this member's own rule")
	}
	if _, _, err := table.Current(task, 1, at(2)); !errors.Is(err, ErrLost) {
		t.Fatalf("it is current: %v", err)
	}
	if _, err := table.Renew(task, 1, lease, at(2)); !errors.Is(err, ErrLost) {
		t.Fatalf("it is renewed: %v", err)
	}
	if mono := table.NextSpent(false); mono != at(lease+buffer).Mono {
		t.Fatalf("it is looked at again at %d", mono)
	}
	if got, token, ok := table.Spent(at(lease+buffer), false); !ok || got != task || token != 1 {
		t.Fatal("it is never ended")
	}
	if !table.Expire(task, 1, at(lease+buffer), false) {
		t.Fatal("it may not be ended when it has lapsed")
	}
}

// TestARenewalByNothingIsByAsMuchAsBefore: the worker asks for no length of its own.
func TestARenewalByNothingIsByAsMuchAsBefore(t *testing.T) {
	table, task := NewTable(buffer), id.ID{1}
	table.Grant(task, Brief{}, record(1, at(0)), at(0))
	h, err := table.Renew(task, 1, 0, at(4*time.Second))
	if err != nil || h.Record.Lease != lease || h.Record.End != at(lease+4*time.Second).Wall {
		t.Fatalf("renewed to %+v, %v", h, err)
	}
}

// TestAMovedClaimGoesOn: with what this process knows of its time.
func TestAMovedClaimGoesOn(t *testing.T) {
	from, to, task := NewTable(buffer), NewTable(buffer), id.ID{1}
	from.Grant(task, Brief{}, record(1, at(0)), at(0))
	if from.Move(to, task, 2, Brief{}) != nil || from.Move(to, id.ID{2}, 1, Brief{}) != nil {
		t.Fatal("moved what is not there")
	}
	h := from.Move(to, task, 1, Brief{Queue: "q"})
	if h == nil || from.Lookup(task) != nil || to.Lookup(task).Of(1) != h || !to.Lookup(task).Known() {
		t.Fatal("not moved")
	}
	if nextLapse(from) != clock.Never || nextLapse(to) != at(lease+buffer).Mono {
		t.Fatalf("the tables look again at %d and %d", nextLapse(from), nextLapse(to))
	}
}
