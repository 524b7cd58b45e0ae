package held_test

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/norn-dev/norn/node/held"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func put(s store.Store, key, value string) {
	var b store.Batch
	b.Set([]byte(key), []byte(value))
	s.Apply(&b)
}

// TestReadsOfOneNameSeeTheSame also shows that a snapshot goes when nobody reads it, and
// that there are no more than so many.
func TestReadsOfOneNameSeeTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		v := held.New(s.Snapshot)
		defer v.Close()
		put(s, "a", "1")
		read := func(name uint16) string {
			view, done, ok := v.Use([16]byte(binary.BigEndian.AppendUint16(make([]byte, 14), name)))
			if !ok {
				return "none"
			}
			defer done()
			b, _ := view.Get([]byte("a"))
			return string(b)
		}
		if got := read(1); got != "1" {
			t.Fatalf("read %s", got)
		}
		put(s, "a", "2")
		if one, two := read(1), read(2); one != "1" || two != "2" {
			t.Errorf("read %s, and under another name %s", one, two)
		}
		for n := uint16(3); n <= held.Most; n++ {
			read(n)
		}
		put(s, "a", "3")
		if got := read(256); got != "2" { // of a backup of as many partitions
			t.Errorf("the 256th read %s when there was something newer", got)
		}
		if got := read(held.Most + 1); got != "none" {
			t.Errorf("one too many read %s", got)
		}
		time.Sleep(held.Idle + time.Second)
		synctest.Wait()
		if n := v.Held(); n != 0 {
			t.Errorf("%d are held still", n)
		}
		if got := read(1); got != "3" {
			t.Errorf("later it read %s", got)
		}
	})
}
