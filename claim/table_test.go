package claim

import (
	"errors"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"

	"pgregory.net/rapid"
)

const (
	lease  = 10 * time.Second
	buffer = 5 * time.Second
)

func at(d time.Duration) clock.Time { return clock.Time{Wall: int64(time.Hour + d), Mono: int64(d)} }

func record(token uint64, now clock.Time) Record {
	return Record{Token: token, Worker: "w", Start: now.Wall, End: now.Wall + int64(lease), Lease: lease}
}

func TestLeaseEndsForTheWorkerBeforeItLapses(t *testing.T) {
	table, task := NewTable(buffer), id.ID{1}
	table.Grant(task, Brief{}, record(1, at(0)), at(0))
	if _, err := table.Renew(task, 1, lease, at(lease-1)); err != nil {
		t.Fatalf("renewal within the lease: %v", err)
	}
	end := 2*lease - 1 // the renewal counts from when it was made
	if _, err := table.Renew(task, 1, lease, at(end)); !errors.Is(err, ErrLost) {
		t.Fatalf("renewal past the lease: %v, want ErrLost", err)
	}
	if _, _, ok := table.Lapsed(at(end+buffer-1), 0, false); ok {
		t.Fatal("lapsed before lease and buffer have run")
	}
	got, token, ok := table.Lapsed(at(end+buffer), 0, false)
	if !ok || got != task || token != 1 {
		t.Fatalf("lapsed: %v %d %v", got, token, ok)
	}
}

func nextLapse(t *Table) int64 {
	return t.NextLapse(0, true)
}

func TestSupersededClaimHoldsNothing(t *testing.T) {
	table, task := NewTable(buffer), id.ID{1}
	table.Recover(task, Brief{}, record(7, at(0)), at(0))
	table.Recover(task, Brief{}, record(3, at(0)), at(0))
	if _, _, err := table.Current(task, 3, at(1)); !errors.Is(err, ErrLost) {
		t.Fatalf("the older of two claims: %v, want ErrLost", err)
	}
	if _, _, err := table.Current(task, 7, at(1)); err != nil {
		t.Fatalf("the newest claim: %v", err)
	}
	// Free only when every known claim has ended (design 7.2, step 5).
	if _, ok := table.End(task, 7); !ok || table.Lookup(task) == nil {
		t.Fatal("the task is free although an older claim has not ended")
	}
	if _, ok := table.End(task, 3); !ok || table.Lookup(task) != nil || nextLapse(table) != clock.Never {
		t.Fatal("the task is not free although all claims have ended")
	}
}

func TestWallClockJumpNeitherShortensNorLengthensALease(t *testing.T) {
	table, task := NewTable(buffer), id.ID{1}
	table.Grant(task, Brief{}, record(1, at(0)), at(0))
	year := int64(365 * 24 * time.Hour)
	for _, jump := range []int64{year, -year} {
		before, after := at(lease+buffer-1), at(lease+buffer)
		before.Wall += jump
		after.Wall += jump
		if _, _, ok := table.Lapsed(before, 0, false); ok {
			t.Fatalf("wall clock off by %v: lapsed early", time.Duration(jump))
		}
		if _, _, ok := table.Lapsed(after, 0, false); !ok {
			t.Fatalf("wall clock off by %v: does not lapse", time.Duration(jump))
		}
	}
}

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Record{
			Token: rapid.Uint64().Draw(t, "token"), Worker: rapid.String().Draw(t, "worker"), Principal: rapid.String().Draw(t, "principal"),
			Request: rapid.Uint64().Draw(t, "request"), Start: rapid.Int64().Draw(t, "start"),
			End: rapid.Int64().Draw(t, "end"), Lease: time.Duration(rapid.Int64().Draw(t, "lease")),
			Outcome: Outcome(rapid.IntRange(0, int(Ended)).Draw(t, "outcome")),
		}
		got, err := DecodeRecord(r.Token, r.AppendTo(nil))
		if err != nil || got != r {
			t.Fatalf("%+v became %+v, %v", r, got, err)
		}
	})
}

func FuzzDecodeRecord(f *testing.F) {
	r := record(1, at(0))
	f.Add(r.AppendTo(nil))
	r.Principal = "ci"
	f.Add(r.AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeRecord(9, b)
		if err != nil {
			if !errors.Is(err, ErrRecord) {
				t.Fatalf("error %v is not ErrRecord", err)
			}
			return
		}
		if string(r.AppendTo(nil)) != string(b) {
			t.Fatalf("%x decodes to %+v, which encodes to %x", b, r, r.AppendTo(nil))
		}
	})
}

// TestShortRenewalKeepsTheLongerLease: the answer to a shorter renewal may be
// lost, and then the worker still trusts the longer one, also over a restart of
// the leader.
func TestShortRenewalKeepsTheLongerLease(t *testing.T) {
	table, task := NewTable(buffer), id.ID{1}
	table.Grant(task, Brief{}, record(1, at(0)), at(0))
	h, err := table.Renew(task, 1, time.Second, at(time.Second))
	if err != nil || h.Record.Lease != lease-time.Second || h.Record.End != at(lease).Wall {
		t.Fatalf("after a renewal by 1 s: %+v, %v", h, err)
	}
	restarted := NewTable(buffer)
	restarted.Recover(task, Brief{}, h.Record, at(2*time.Second))
	if _, _, ok := restarted.Lapsed(at(lease+buffer), 0, false); ok {
		t.Fatal("after a restart the claim lapses while its worker may hold it")
	}
}
