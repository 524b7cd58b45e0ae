package cron

import (
	"bytes"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/schedule/policy"
)

func drawEntry(t *rapid.T) entry {
	e := entry{kind: kind(rapid.IntRange(int(launched), int(backfilled)).Draw(t, "kind")), instant: rapid.Int64().Draw(t, "instant") / 4}
	if e.kind == skipped {
		e.reason, e.to, e.count = policy.Reason(rapid.IntRange(0, int(policy.Limit)).Draw(t, "reason")), e.instant+rapid.Int64Range(0, 1<<40).Draw(t, "to"), rapid.Uint64().Draw(t, "count")
	} else {
		e.status = policy.Status(rapid.IntRange(0, int(policy.Unknown)).Draw(t, "status"))
	}
	if rapid.Bool().Draw(t, "begun") {
		e.begun, e.late = e.instant+1+rapid.Int64Range(0, 1<<40).Draw(t, "b"), rapid.Int64Range(-5, 1<<40).Draw(t, "late")
	}
	if rapid.Bool().Draw(t, "ended") {
		e.enqueued, e.finished = e.begun+rapid.Int64Range(1, 1<<40).Draw(t, "e"), e.begun+rapid.Int64Range(1, 1<<40).Draw(t, "f")
	}
	if rapid.Bool().Draw(t, "coarse") { // as a master writes them
		e.instant -= e.instant % int64(time.Second)
		for _, at := range []*int64{&e.begun, &e.late, &e.enqueued, &e.finished} {
			*at -= *at % tick
		}
		if e.kind == skipped {
			e.to = e.instant + (e.to-e.instant)/int64(time.Second)*int64(time.Second)
		}
	}
	if e.enqueued == 0 || e.finished == 0 { // they may come to be 0 by chance
		e.enqueued, e.finished = 0, 0
	}
	if rapid.Bool().Draw(t, "task") {
		e.task = id.ID{1, byte(rapid.IntRange(0, 9).Draw(t, "task"))}
	}
	e.note = rapid.StringN(0, 20, 60).Draw(t, "note")
	return e
}

// TestRecordsSurviveTheirEncoding, and nothing else is read as one.
func TestRecordsSurviveTheirEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := record{generation: rapid.Uint64().Draw(t, "generation"), replaced: rapid.Int64().Draw(t, "replaced"), skipped: rapid.Uint64().Draw(t, "skipped"), failed: rapid.Uint64().Draw(t, "failed")}
		r.policy = policy.State{Watermark: rapid.Int64().Draw(t, "watermark"), Last: policy.Run{Instant: 5, Status: policy.Open}, Launches: 7}
		for range rapid.IntRange(0, 5).Draw(t, "entries") {
			r.add(drawEntry(t), 4)
		}
		b := r.encode()
		back, err := decode(b)
		if err != nil || !bytes.Equal(back.encode(), b) || len(back.history) != len(r.history) || len(r.history) > 0 && !reflect.DeepEqual(back.history, r.history) {
			t.Fatalf("%+v became %+v, %v", r, back, err)
		}
		if _, err := decode(b[:len(b)-1]); err == nil {
			t.Fatal("a record that is cut off is read")
		}
		if first := slices.Concat([]byte{1}, b[1:]); len(r.history) == 0 { // a version before
			if old, err := decode(first); err != nil || !reflect.DeepEqual(old, back) {
				t.Fatalf("of version 1 it is %+v, %v", old, err)
			}
		}
		if _, err := decode(append(b, 0)); err == nil {
			t.Fatal("a record with something behind it is read")
		}
	})
}

// TestWhatIsLateIsLate, also without a begin, and whatever the times are.
func TestWhatIsLateIsLate(t *testing.T) {
	first, last := int64(math.MinInt64), int64(math.MaxInt64)
	second := int64(time.Second)
	for _, e := range []entry{
		{kind: launched, late: 1},
		{kind: launched, late: tick},
		{kind: triggered, instant: 5, late: -1},
		{kind: launched, begun: tick, late: 3 * tick},
		{kind: launched, instant: last / second * second, begun: first / tick * tick, late: tick},
		{kind: launched, instant: first / second * second, begun: last / tick * tick, late: tick},
		{kind: launched, begun: first / tick * tick, enqueued: last / tick * tick, finished: last},
	} {
		r := record{history: []entry{e}}
		back, err := decode(r.encode())
		if err != nil || len(back.history) != 1 || back.history[0] != e {
			t.Errorf("%+v became %+v, %v", e, back.history, err)
		}
	}
}

// FuzzDecode: bytes are refused, or are what encode writes of what was read.
func FuzzDecode(f *testing.F) {
	r := record{policy: policy.State{Watermark: 7, Last: policy.Run{Instant: 5, Status: policy.Running}}, generation: 1}
	r.add(entry{kind: skipped, reason: policy.Paused, instant: 5, to: 9, count: 2}, 9)
	r.begin(int64(time.Hour), int64(time.Hour)+7, 7, 9)
	f.Add(r.encode())
	f.Add([]byte{recordVersion})
	r.add(entry{kind: launched, late: 1}, 9)
	r.add(entry{kind: launched, instant: math.MinInt64 / tick * tick, begun: math.MaxInt64 / tick * tick, late: tick}, 9)
	f.Add(r.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decode(b)
		if err != nil {
			return
		}
		again, err := decode(r.encode())
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
	})
}

// TestHistoryForgetsTheOldest, and skips that follow each other are one entry.
func TestHistoryForgetsTheOldest(t *testing.T) {
	table, err := compileSpec(t, "* * * * * *")
	if err != nil {
		t.Fatal(err)
	}
	r := record{}
	second := int64(time.Second)
	for i := range int64(5) {
		r.skip(table, policy.Skipped{From: (10 + i) * second, To: (10 + i) * second, Reason: policy.Overlapped}, 3)
	}
	if len(r.history) != 1 || r.history[0].count != 5 || r.history[0].to != 14*second || r.skipped != 5 {
		t.Fatalf("five skips: %+v", r)
	}
	r.skip(table, policy.Skipped{From: 20 * second, To: 5000 * second, Reason: policy.Missed}, 3)
	if r.history[1].count != maxCounted || r.skipped != 5+maxCounted {
		t.Errorf("a long one counts %d", r.history[1].count)
	}
	for i := range int64(4) {
		r.begin((6000+i)*second, (6000+i)*second, 0, 3)
	}
	if len(r.history) != 3 || r.history[0].instant != 6001*second {
		t.Errorf("%+v", r.history)
	}
}

// TestAHistoryIsShort: what a master writes of a launch takes few bytes. There
// are 2 million of them in memory with 100,000 schedules.
func TestAHistoryIsShort(t *testing.T) {
	r, day := record{}, int64(24*time.Hour)
	for i := range int64(DefaultHistory) {
		at := 20_000*day + i*day
		r.begin(at, at+123_456_789, 123_456_789, DefaultHistory)
		for _, f := range []fact{{instant: at, status: policy.Running, at: at + 234_567_890}, {instant: at, status: policy.Completed, at: at + 5_678_901_234}} {
			r.policy.Last = policy.Run{Instant: at, Status: policy.Open}
			if !r.conclude(&f) {
				t.Fatalf("%+v says nothing new", f)
			}
		}
	}
	last := r.history[len(r.history)-1]
	if last.late != 123_456_000 || last.begun-last.instant != last.late || last.enqueued-last.begun != 111_111_000 || last.status != policy.Completed {
		t.Errorf("%+v", last)
	}
	if n := len(r.encode()) / DefaultHistory; n > 20 {
		t.Errorf("a launch takes %d bytes", n)
	} else {
		t.Logf("a launch takes %d bytes", n)
	}
}
