package bench

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func TestTallyKnowsWhatIsLostAndWhatCameTwice(t *testing.T) {
	ta := newTally(7, 130)
	for n := range uint32(130) {
		ta.next.Add(1)
		ta.acknowledge(n)
	}
	for n := range uint32(130) {
		if n == 64 {
			continue
		}
		if got, err := ta.claim(ta.payload(n, 100)); err != nil || got != n {
			t.Fatalf("number %d: %d, %v", n, got, err)
		}
	}
	if n := ta.lost(); n != 1 {
		t.Fatalf("%d lost, want 1", n)
	}
	if _, err := ta.claim(ta.payload(129, header)); !errors.Is(err, ErrTwice) || ta.twice.Load() != 1 {
		t.Fatalf("%v, want ErrTwice", err)
	}
	for _, foreign := range [][]byte{nil, make([]byte, 7), newTally(8, 1).payload(0, 100), ta.payload(130, 100)} {
		if _, err := ta.claim(foreign); !errors.Is(err, ErrForeign) {
			t.Errorf("%v: %v, want ErrForeign", foreign, err)
		}
	}
}

func TestTwoClaimsOfOneTaskAtOnceAreNoticed(t *testing.T) {
	ta := newTally(1, 1000)
	ta.next.Store(1000)
	var claims sync.WaitGroup
	for range 4 {
		claims.Go(func() {
			for n := range uint32(1000) {
				_, _ = ta.claim(ta.payload(n, header))
			}
		})
	}
	claims.Wait()
	if n := ta.twice.Load(); n != 3000 {
		t.Fatalf("%d claimed again, want 3000", n)
	}
}

func TestVerifyComparesWithTheCounters(t *testing.T) {
	before := &nornv1.Count{Total: 10, Completed: 4}
	for name, c := range map[string]struct {
		after                            *nornv1.Count
		acknowledged, claimed, completed int
		lost, gone                       int
	}{
		"all is done":            {&nornv1.Count{Total: 15, Completed: 9}, 5, 5, 5, 0, 0},
		"all is waiting":         {&nornv1.Count{Total: 15, Completed: 4}, 5, 0, 0, 0, 0},
		"some are waiting":       {&nornv1.Count{Total: 15, Completed: 7}, 5, 3, 3, 0, 0},
		"one is gone":            {&nornv1.Count{Total: 14, Completed: 7}, 5, 3, 3, 1, 0},
		"a completion came back": {&nornv1.Count{Total: 15, Completed: 8}, 5, 5, 5, 1, 0},
		"retention is over":      {&nornv1.Count{Total: 12, Completed: 6}, 5, 5, 5, 3, 3},
	} {
		r := &run{report: newReport(Default(), ""), tally: newTally(1, 5)}
		for n := range uint32(c.acknowledged) {
			r.tally.next.Add(1)
			r.tally.acknowledge(n)
			if int(n) < c.claimed {
				_, _ = r.tally.claim(r.tally.payload(n, header))
			}
		}
		r.tally.completed.Store(int64(c.completed))
		if r.verify(before, c.after); r.report.Lost != c.lost || (r.report.Valid() == nil) != (c.lost == 0) {
			t.Errorf("%s: %d lost (%v), want %d", name, r.report.Lost, r.report.Valid(), c.lost)
		}
		if r.report.Gone != c.gone {
			t.Errorf("%s: %d completed and gone, want %d", name, r.report.Gone, c.gone)
		}
	}
}

func TestAnInvalidRunSaysSo(t *testing.T) {
	r := newReport(Default(), "")
	if err := r.Valid(); err != nil {
		t.Fatalf("an empty report: %v", err)
	}
	r.fail(errors.New("first"))
	r.fail(errors.New("second"))
	if err := r.Valid(); !errors.Is(err, ErrInvalid) || r.FirstError != "first" || r.Errors != 2 {
		t.Fatalf("after two errors: %v, %+v", err, r)
	}
	for _, spoil := range []func(*Report){func(r *Report) { r.Lost = 1 }, func(r *Report) { r.Duplicates = 1 }} {
		r := newReport(Default(), "")
		if spoil(r); !errors.Is(r.Valid(), ErrInvalid) {
			t.Fatalf("%+v passes", r)
		}
	}
}

// Tasks that never come must not keep a run waiting for ever, and a wait for
// them at the end is in no rate.
func TestAStageThatStandsStillEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &run{progress: func(string, int, int) {}, patience: patience, report: newReport(Default(), "")}
		s := newStage(t.Context(), "test", 10)
		began, first := time.Now(), true
		r.parallel(s, 1, func(int) bool {
			if first {
				time.Sleep(5 * time.Second)
				s.finished(5)
				first = false
			}
			<-s.ctx.Done()
			return false
		})
		r.settle(s)
		if took := time.Since(began); took < patience || took > 2*patience {
			t.Errorf("it ends after %v", took)
		}
		if r.report.FirstError != ErrStalled.Error() {
			t.Errorf("%+v, want ErrStalled", r.report)
		}
		if s.took() != 5*time.Second || s.rate() != 1 {
			t.Errorf("took %v, %v tasks/s, want 5s, 1", s.took(), s.rate())
		}
	})
}

func TestWhatFailsBecauseTheStageEndedIsNoError(t *testing.T) {
	s := newStage(t.Context(), "test", 10)
	s.fail(errors.New("the reason"))
	s.fail(context.Canceled)
	if len(s.errs) != 1 {
		t.Fatalf("%v, want the reason only", s.errs)
	}
}

func TestLatenciesOutsideTheRangeAreKept(t *testing.T) {
	s := newStage(t.Context(), "test", 10)
	defer s.cancel()
	s.record("call", 0)
	s.record("call", time.Hour)
	r := newReport(Default(), "")
	r.latencies("call", s)
	r.latencies("never", s)
	if most, ok := r.Get("call_max"); !ok || most < float64((10*time.Minute).Milliseconds()) || len(r.Figures) != 4 {
		t.Fatalf("%+v", r.Figures)
	}
}

func TestFiguresAsMultiplesOfTheLimits(t *testing.T) {
	l := &Limits{Sync: Limit{P50: time.Millisecond / 2, P99: time.Millisecond, Rate: 1000}, RoundTrip: Limit{P50: time.Millisecond, Rate: 500}}
	for _, c := range []struct {
		scenario, figure, unit, relation string
		value, want                      float64
	}{
		{"enqueue", "enqueue_rate", "tasks/s", "enqueue_rate_per_fdatasync", 5000, 5},
		{"claim", "claim_complete_rate", "tasks/s", "claim_complete_rate_per_round_trip", 5000, 10},
		{"latency", "enqueue_to_claim_p50", "ms", "enqueue_to_claim_p50_in_fdatasyncs", 2, 4},
		{"latency", "enqueue_to_claim_p99", "ms", "enqueue_to_claim_p99_in_fdatasyncs", 2, 2},
	} {
		r := newReport(Config{Scenario: c.scenario}, "")
		r.add(c.figure, c.value, c.unit)
		r.relate(l)
		if v, _ := r.Get(c.relation); v != c.want {
			t.Errorf("%s is %v, want %v", c.relation, v, c.want)
		}
	}
}

func TestAlarmSleeps(t *testing.T) {
	a, err := newAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer a.stop()
	for _, d := range []time.Duration{1, 300 * time.Microsecond, 20 * time.Millisecond} {
		began := time.Now()
		if a.sleep(d); time.Since(began) < d {
			t.Errorf("a sleep of %v takes %v", d, time.Since(began))
		}
	}
}
