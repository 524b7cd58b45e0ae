package claim

import (
	"math"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"

	"pgregory.net/rapid"
)

// due is what a look at every claim says: when to look next, and whether
// something is due now.
func due(t *Table, now clock.Time, slack time.Duration, confirmed, over bool) (mono int64, any bool) {
	mono = clock.Never
	for _, e := range t.entries { // Any order: it is a minimum.
		for _, h := range e.Claims {
			if over && !h.Over {
				continue
			}
			any = any || h.Lease.Lapsed(now, t.buffer+slack, confirmed)
			mono = min(mono, h.Lease.LapseAt(t.buffer+slack))
			if h.Lease.Recovered && confirmed {
				mono = min(mono, h.Lease.EndAt(t.buffer+slack))
			}
		}
	}
	return mono, any
}

// TestTheTableKnowsWhatIsDue: whatever happens to claims, what the heaps say is
// what a look at every claim says.
func TestTheTableKnowsWhatIsDue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, now := NewTable(buffer), at(0)
		task := func() id.ID { return id.ID{byte(rapid.IntRange(1, 4).Draw(t, "task"))} }
		draw := func() Record {
			r := record(uint64(rapid.IntRange(1, 4).Draw(t, "token")), now)
			r.Lease = time.Duration(rapid.IntRange(1, 20).Draw(t, "lease")) * time.Second
			r.End = now.Wall + int64(r.Lease)
			return r
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(*rapid.T) {
				k, r := task(), draw()
				if table.Lookup(k).Of(r.Token) != nil {
					return
				}
				switch rapid.IntRange(0, 2).Draw(t, "how") {
				case 0:
					table.Grant(k, Brief{Queue: "q"}, r, now)
				case 1:
					table.Accept(k, Brief{}, r, now)
				case 2:
					table.Recover(k, Brief{}, r, now)
				}
			},
			"hear": func(*rapid.T) {
				k, r := task(), draw()
				h := table.Lookup(k).Of(r.Token)
				if h == nil {
					return
				}
				left := table.Left(h, now, false)
				switch rapid.IntRange(0, 4).Draw(t, "what") {
				case 0:
					table.Refresh(h, r, now)
				case 1:
					table.Rejoin(h, r, now)
				case 2:
					table.Hold(k, Brief{}, r, r.Lease, now)
				case 3:
					table.Expire(k, r.Token, now, false)
				case 4:
					_, _ = table.Renew(k, r.Token, r.Lease, now)
				}
				if now := table.Left(h, now, false); now < left {
					t.Fatalf("a claim held for %v, and now for %v", left, now)
				}
			},
			"end":       func(*rapid.T) { table.End(task(), uint64(rapid.IntRange(1, 4).Draw(t, "token"))) },
			"take over": func(*rapid.T) { table.TakeOver(now, rapid.Bool().Draw(t, "own")) },
			"pass": func(*rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 9000).Draw(t, "ms")) * time.Millisecond)
				now.Wall += int64(rapid.IntRange(-2000, 2000).Draw(t, "step")) * 1e6
			},
			"": func(*rapid.T) {
				for _, confirmed := range []bool{false, true} {
					agrees(t, table, now, confirmed)
				}
			},
		})
	})
}

// agrees compares the heaps with a look at every claim.
func agrees(t *rapid.T, table *Table, now clock.Time, confirmed bool) {
	mono, any := due(table, now, time.Second, confirmed, false)
	if m := table.NextLapse(time.Second, confirmed); m != mono {
		t.Fatalf("next lapse %d, want %d", m, mono)
	}
	task, token, ok := table.Lapsed(now, time.Second, confirmed)
	if ok != any || ok && table.Holds(table.Lookup(task).Of(token), now, confirmed) {
		t.Fatalf("lapsed: %v, want %v", ok, any)
	}
	if m := table.NextLapse(time.Second, confirmed); !ok && m <= now.Mono {
		t.Fatalf("nothing has lapsed at %d, and the next look is to be at %d", now.Mono, m)
	}
	mono, any = due(table, now, 0, confirmed, true)
	if m := table.NextSpent(confirmed); m != mono {
		t.Fatalf("next one over %d, want %d", m, mono)
	}
	task, token, ok = table.Spent(now, confirmed)
	if ok != any || ok && !table.Lookup(task).Of(token).Over {
		t.Fatalf("over and lapsed: %v, want %v", ok, any)
	}
	if m := table.NextSpent(confirmed); !ok && m <= now.Mono {
		t.Fatalf("none that is over has lapsed at %d, and the next look is to be at %d", now.Mono, m)
	}
	overdue := 0
	table.Overdue(now, time.Second, 1, func(h *Held) {
		if overdue++; h.at > now.Add(-time.Second).Mono {
			t.Fatalf("%s is not overdue", h.Task())
		}
	})
	if mono := table.NextLapse(time.Second, false); (mono <= now.Mono) != (overdue == 1) {
		t.Fatalf("%d overdue, the first at %d", overdue, mono)
	}
}

// TestOverlongHoldIsCut: what another one says counts up to what it can be.
func TestOverlongHoldIsCut(t *testing.T) {
	for left, want := range map[time.Duration]time.Duration{
		-1: 0, time.Second: time.Second, lease + buffer: lease + buffer, math.MaxInt64: lease + buffer,
	} {
		table := NewTable(buffer)
		table.Hold(id.ID{1}, Brief{}, record(1, at(0)), left, at(0))
		if got := table.Left(table.Lookup(id.ID{1}).Newest(), at(0), true); got != want {
			t.Errorf("held for %v by a word of %v, want %v", got, left, want)
		}
	}
}

func TestFindInTheWindow(t *testing.T) {
	h := NewHead(20)
	if h.Find(id.ID{1}) != nil {
		t.Fatal("found in an empty window")
	}
	var tasks []id.ID
	for n := range byte(14) {
		task := id.ID{0, 0, 0, 0, 0, 0, 0, n + 1, 9}
		order := task.Order()
		if n < 4 {
			order = [8]byte{0, 0, 0, 0, 0, 0, 0, 1} // admitted at another time than its own
		}
		tasks = append(tasks, task)
		h.Insert(Ready{Rank: NewRank(-int32(n)/10, order, task)})
	}
	for n, task := range tasks {
		r := h.Find(task)
		// Of a lower priority, and not near the beginning.
		if far := n >= 10; (r == nil) != far || r != nil && r.Rank.Task() != task {
			t.Fatalf("task %d: %+v", n, r)
		}
	}
	if h.Find(id.ID{77}) != nil {
		t.Fatal("found what is not there")
	}
}

// TestClocksSetAheadAlikeEndNoLease: everybody's wall clock jumps between a grant
// and a takeover. What is left by the monotonic clock counts, once: a takeover
// after the next adds nothing.
func TestClocksSetAheadAlikeEndNoLease(t *testing.T) {
	task := id.ID{1}
	table := NewTable(buffer)
	table.Accept(task, Brief{}, record(1, at(0)), at(0))
	h := table.Lookup(task).Newest()
	now := at(time.Second)
	now.Wall += int64(time.Hour)
	end := h.Lease.EndBy(now)
	if want := now.Wall + int64(lease-time.Second); end != want {
		t.Fatalf("others hear that it ends at %d, want %d", end, want)
	}
	table.TakeOver(now, false)
	for i := range 3 {
		if left := table.Left(h, now, true); left < lease-time.Second || left > lease+buffer {
			t.Fatalf("after takeover %d it holds for %v", i+1, left)
		}
		if h.Record.End != end || h.Lease.End != end {
			t.Fatalf("after takeover %d it ends at %d, not %d", i+1, h.Record.End, end)
		}
		table.TakeOver(now, false)
	}
	late := now.Add(lease + buffer)
	if table.Holds(h, late, true) {
		t.Fatal("it holds for ever")
	}
	table.Rejoin(h, record(1, at(0)), now)
	if h.Record.End != end {
		t.Fatalf("a voter who knows less moves its end to %d", h.Record.End)
	}
}

// TestClocksSetAheadAfterAnElection: the election has made every lease one that was
// learned, and all wall clocks, which confirm each other, are set ahead after it. What
// was left of the lease then has to pass on the monotonic clock, through the next
// elections too, and no more than that.
func TestClocksSetAheadAfterAnElection(t *testing.T) {
	for _, ahead := range []time.Duration{0, buffer, buffer + time.Second, time.Hour} {
		for _, again := range []bool{false, true} {
			table, task := NewTable(buffer), id.ID{1}
			table.Accept(task, Brief{}, record(1, at(0)), at(0))
			table.TakeOver(at(time.Second), false)
			set := func(d time.Duration) clock.Time {
				now := at(d)
				now.Wall += int64(ahead)
				return now
			}
			if again {
				table.TakeOver(set(2*time.Second), false)
			}
			h := table.Lookup(task).Of(1)
			if !table.Holds(h, set(lease+buffer), true) {
				t.Errorf("set ahead by %v after an election (another one after that: %t): its time is over at its end", ahead, again)
			}
			if left := table.Left(h, set(lease), true); left != buffer+1 {
				t.Errorf("set ahead by %v after an election (another one after that: %t): at its end it holds for %v more, want the buffer", ahead, again, left)
			}
			if _, _, ok := table.Lapsed(set(lease+buffer+1), 0, true); !ok {
				t.Errorf("set ahead by %v after an election (another one after that: %t): it still holds past end and buffer", ahead, again)
			}
		}
	}
}

// TestAClockSetBackHoldsOneClaimOnly: of two recovered claims, one was learned while the
// wall clock was ahead. It waits for its end by the wall clock as it stands now, and the
// other one does not wait for it.
func TestAClockSetBackHoldsOneClaimOnly(t *testing.T) {
	table, one, other := NewTable(buffer), id.ID{1}, id.ID{2}
	table.Recover(one, Brief{}, record(1, at(0)), ahead(lease/4, lease))
	r := record(2, at(0))
	r.End -= int64(lease / 2)
	table.Recover(other, Brief{}, r, at(0))
	now := at(lease/2 + buffer + 1)
	if task, _, ok := table.Lapsed(now, 0, true); !ok || task != other {
		t.Fatalf("lapsed: %v %t, want the other one", task, ok)
	}
	table.End(other, 2)
	if _, _, ok := table.Lapsed(now, 0, true); ok {
		t.Fatal("the one has lapsed half a lease before its end")
	}
	if next := table.NextLapse(0, true); next != at(lease+buffer+1).Mono {
		t.Fatalf("it is looked at again at %d, want %d", next, at(lease+buffer+1).Mono)
	}
}
