package backup_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
)

// ofSecond are tasks of one second.
func ofSecond(t *testing.T, made *id.Generator, second int64, n int) (all []backup.Seen) {
	t.Helper()
	for range n {
		task := made.Next(second * 1e9)
		one, err := backup.See(&backup.Task{ID: task, Facts: []crdt.Fact{(&crdt.Enqueued{Queue: "q"}).Fact(task)}})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

// TestWhatComesLaterIsInARangeOfItsOwn: a range that is full ends with the second of its last task; so an
// incremental backup reads only what came since. One that is not full goes on.
func TestWhatComesLaterIsInARangeOfItsOwn(t *testing.T) {
	now := time.Now().Unix()
	for n, want := range map[int]int{0: 1, 10: 1, 255: 1, 256: 2, 3000: 2} { // Any order: each stands for itself.
		r, made := backup.NewRanger(id.ID{}), id.NewGenerator(1, rand.Uint64)
		for _, one := range ofSecond(t, made, now, n) {
			r.Saw(&one)
		}
		r.End()
		all, err := backup.DecodeRanges(backup.AppendRanges(nil, r.Ranges()))
		if err != nil || len(all) != want {
			t.Fatalf("%d tasks: %d ranges, not %d: %v", n, len(all), want, err)
		}
		if want == 1 {
			continue
		}
		last := all[1]
		if later := ofSecond(t, made, now+60, 1)[0]; last.Facts != 0 || all[0].Facts != uint64(n) || later.ID.Compare(last.From) < 0 {
			t.Errorf("%d tasks: the last range has %d, and %s is before it", n, last.Facts, later.ID)
		}
		var sums []byte
		for i := range all {
			sums = backup.AppendSum(sums, all[i].Sum, all[i].Facts+uint64(i)) // something came to the last one
		}
		spans, err := backup.Changed(all, sums)
		if err != nil || len(spans) != 1 || spans[0].From != last.From || !spans[0].To.IsZero() {
			t.Errorf("%d tasks: %v has changed: %v", n, spans, err)
		}
	}
}

// TestNotesAreReadOneByOne: nothing is taken of one that is cut short.
func TestNotesAreReadOneByOne(t *testing.T) {
	var b []byte
	whole := map[int]int{}
	for p := range 3 {
		one, err := (&backup.Manifest{Format: backup.Format, Name: "n", Each: []backup.Partition{{Partition: p}}}).Encode()
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, one...)
		whole[len(b)] = p + 1
	}
	for n := range len(b) + 1 {
		all, err := backup.DecodeNotes("n", b[:n])
		want := whole[n]
		if want > 0 && (err != nil || len(all) != want || all[want-1].Each[0].Partition != want-1) || want == 0 && !errors.Is(err, backup.ErrDamaged) && !errors.Is(err, backup.ErrNewer) {
			t.Fatalf("%d bytes of %d: %d notes, %v", n, len(b), len(all), err)
		}
	}
	b[len(b)/2] ^= 1
	if _, err := backup.DecodeNotes("n", b); !errors.Is(err, backup.ErrDamaged) {
		t.Errorf("with a bit that is flipped: %v", err)
	}
}
