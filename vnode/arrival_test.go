package vnode

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
)

// TestArrivalsAreNeverOlderThanTheyAre: what came here after an instant is never taken for
// what was here before, and it counts as here before soon after. What other processes
// wrote, and other builds, was here before all that.
func TestArrivalsAreNeverOlderThanTheyAre(t *testing.T) {
	v, step := &Vnode{opened: 1_790_000_000_000_000_000}, int64(1)<<arrivalStep
	for _, mono := range []int64{0, 1, step - 1, step, step + 1, int64(time.Hour), int64(30 * 365 * 24 * time.Hour)} {
		came := append([]byte(nil), arrival(v, mono)...)
		if len(came) != 8 {
			t.Errorf("%d bytes", len(came))
		}
		if !arrivedAfter(v, came, mono-1) && mono > 0 {
			t.Errorf("%d came after %d", mono, mono-1)
		}
		if arrivedAfter(v, came, mono+step) {
			t.Errorf("%d did not come after %d", mono, mono+step)
		}
		for n := range int64(1000) {
			if o := (&Vnode{opened: v.opened + 1 + n*int64(time.Millisecond)}); arrivedAfter(o, came, math.MinInt64) {
				t.Errorf("a process that began %d ms later takes it for its own", n)
			}
		}
	}
	old := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(v.opened)), math.MaxInt64)
	if arrivedAfter(v, old, 0) || arrivedAfter(v, nil, 0) {
		t.Error("another build's value is of this process")
	}
}

// TestATombstoneIsSmall: of each task that was collected so many bytes stay for gc-grace.
func TestATombstoneIsSmall(t *testing.T) {
	const tasks, most = 100, 104 // in keys and values
	r := newRig(t)
	end := r.now.Wall
	for range tasks {
		task := r.ids.Next(r.now.Wall)
		r.merge(crdt.Enqueued{Queue: "q"}.Fact(task), crdt.Completed{Token: 1 << 32, At: end}.Fact(task))
	}
	r.now = r.now.Add(time.Hour)
	dues, _ := Dues(r.v, r.tx, &DuesCursor{}, func(crdt.State, string) int64 { return end }, r.now.Mono, tasks)
	for _, d := range dues {
		if gone, err := r.v.Collect(r.tx, d, r.now, func(*crdt.Task) int64 { return r.now.Wall }); !gone || err != nil {
			t.Fatal(gone, err)
		}
	}
	r.flush()
	bytes, graves := 0, 0
	for key, value := range r.mem.Scan([]byte{0}, []byte{0xff}) {
		switch key[0] {
		case tableGraves:
			graves++
			fallthrough
		case tableFacts:
			bytes += len(key) + len(value)
		}
	}
	if graves != tasks || bytes > tasks*most {
		t.Errorf("%d tombstones take %d bytes each, want at most %d", graves, bytes/max(graves, 1), most)
	}
}
