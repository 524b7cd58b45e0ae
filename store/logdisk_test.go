package store

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// TestASegmentHoldsWhatWasWritten: whole sectors are written past the page cache where the file
// system can do that, and what is none is written all the same.
func TestASegmentHoldsWhatWasWritten(t *testing.T) {
	const size = 3*logBuffer + 100
	for _, n := range []int{1, 512, 513, alignment, 7 * 512, logBuffer, logBuffer + 512, 2*logBuffer + 777} {
		for _, made := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d bytes, made here %t", n, made), func(t *testing.T) {
				dir := t.TempDir()
				d := logDisk{files: vfs.Default, dir: dir}
				f, err := d.Create("000001.wal", size)
				if err != nil {
					t.Fatal(err)
				}
				if !made {
					if err := f.Close(); err != nil {
						t.Fatal(err)
					}
					if f, err = d.Open("000001.wal"); err != nil {
						t.Fatal(err)
					}
				}
				want := make([]byte, size)
				for i, at := range []int64{0, 1024, int64(size - n)} {
					record := bytes.Repeat([]byte{byte(i + 1)}, n)
					copy(want[at:], record)
					if wrote, err := f.WriteAt(record, at); err != nil || wrote != n {
						t.Fatalf("wrote %d of %d bytes at %d: %v", wrote, n, at, err)
					}
				}
				if got := f.(*logFile).mode; n%512 == 0 && got == modeUnknown {
					t.Error("it was not tried to write past the page cache")
				}
				if err := f.Sync(); err != nil {
					t.Fatal(err)
				}
				if err := f.Close(); err != nil {
					t.Fatal(err)
				}
				got, err := os.ReadFile(dir + "/000001.wal")
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want) {
					t.Error("the segment does not hold what was written")
				}
			})
		}
	}
}

// BenchmarkSync is a record of one and of four pages, written and synced, past the page cache and
// through it.
func BenchmarkSync(b *testing.B) {
	for _, mode := range []writeMode{modeUnknown, modeCached} {
		for _, pages := range []int{1, 4} {
			b.Run(fmt.Sprintf("%s/pages=%d", map[writeMode]string{modeUnknown: "direct", modeCached: "cached"}[mode], pages), func(b *testing.B) {
				const size = 8 << 20
				f, err := logDisk{files: vfs.Default, dir: b.TempDir()}.Create("000001.wal", size)
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = f.Close() }()
				f.(*logFile).mode = mode
				record, at := make([]byte, pages*alignment), int64(0)
				var before, after unix.Rusage
				_ = unix.Getrusage(unix.RUSAGE_SELF, &before)
				for b.Loop() {
					if _, err := f.WriteAt(record, at); err != nil {
						b.Fatal(err)
					}
					if err := f.Sync(); err != nil {
						b.Fatal(err)
					}
					if at += int64(len(record)); at == size {
						at = 0
					}
				}
				_ = unix.Getrusage(unix.RUSAGE_SELF, &after)
				used := after.Utime.Nano() - before.Utime.Nano() + after.Stime.Nano() - before.Stime.Nano()
				b.ReportMetric(float64(used)/1e3/float64(b.N), "processor-µs/op")
			})
		}
	}
}
