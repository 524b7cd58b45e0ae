package bench

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/client"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// TestHowLongATaskWasOvertaken: what counts is how long a task still waits once one
// has been granted that was enqueued a second or more after its acknowledgement.
func TestHowLongATaskWasOvertaken(t *testing.T) {
	const wall = int64(1_800_000_000) // s; the clocks of leaders have nothing to do with this process's
	at := func(asked, acknowledged, granted float64) lifetime {
		ns := func(s float64) int64 { return int64(s * float64(time.Second)) }
		l := lifetime{asked: ns(asked), acknowledged: ns(acknowledged)}
		if granted != 0 {
			l.granted = wall*int64(time.Second) + ns(granted)
		}
		return l
	}
	for name, c := range map[string]struct {
		tasks  []lifetime
		want   time.Duration
		judged int
		met    bool // no task waits over a second (docs/archive/performance.md)
	}{
		"in order":                          {[]lifetime{at(1, 1.1, 5), at(2.1, 2.2, 6), at(3.2, 3.3, 7)}, 0, 2, true},
		"a while":                           {[]lifetime{at(1, 1.1, 7), at(2.1, 2.2, 6.5)}, 500 * time.Millisecond, 1, true},
		"for long":                          {[]lifetime{at(1, 1.1, 9), at(2.1, 2.2, 6.5)}, 2500 * time.Millisecond, 1, false},
		"by the last of many":               {[]lifetime{at(5, 5.1, 6), at(1, 1.1, 9), at(1.2, 1.3, 8), at(2.2, 2.3, 8.5)}, 3 * time.Second, 3, false},
		"by one that came soon after":       {[]lifetime{at(1, 1.1, 9), at(2, 2.1, 3)}, 0, 0, true},
		"enqueued late, as far as is known": {[]lifetime{at(1, 2, 9), at(2.5, 2.6, 3)}, 0, 0, true},
		"never granted":                     {[]lifetime{at(1, 1.1, 0), at(3, 3.1, 4), at(3, 3.1, 6)}, 2 * time.Second, 1, false},
		"never acknowledged":                {[]lifetime{at(1, 0, 9), at(3, 3.1, 4)}, 0, 0, true},
		"nothing":                           {nil, 0, 0, true},
		"not even asked":                    {make([]lifetime, 3), 0, 0, true},
	} {
		o := &overtakes{tasks: c.tasks}
		most, judged := o.worst()
		if most != c.want || judged != c.judged || (most <= time.Second) != c.met {
			t.Errorf("%s: %v of %d tasks, want %v of %d, met: %v", name, most, judged, c.want, c.judged, c.met)
		}
		r := &Report{}
		r.overtaken(o)
		ms, shown := r.Get("overtaken_max")
		if shown != (judged > 0) || ms != c.want.Seconds()*1000 {
			t.Errorf("%s: the report says %v ms, %v", name, ms, shown)
		}
	}
	(&Report{}).overtaken(nil)
}

// TestOvertakesAreNoted: what a run tells of its tasks, by their numbers.
func TestOvertakesAreNoted(t *testing.T) {
	grant := func(s int64) *client.Claim {
		return &client.Claim{Grant: &nornv1.Grant{Start: timestamppb.New(time.Unix(s, 0))}}
	}
	r := &run{tally: newTally(1, 3), overtakes: newOvertakes(3)}
	o := r.overtakes
	o.asked([]uint32{2, 0})
	r.acknowledged(2)
	o.began = o.began.Add(-time.Minute) // as if that had passed
	o.asked([]uint32{1})
	r.acknowledged(1)
	o.granted(1, grant(10))
	o.granted(2, grant(13))
	o.granted(0, grant(20)) // nobody knows since when it is there
	if most, judged := o.worst(); most != 3*time.Second || judged != 1 {
		t.Fatalf("%v of %d tasks", most, judged)
	}
}
