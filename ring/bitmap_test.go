package ring

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestBitmapIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		partitions := rapid.IntRange(1, 100).Draw(t, "partitions")
		m, err := NewBitmap(partitions)
		if err != nil {
			t.Fatal(err)
		}
		want := map[Partition]bool{}
		for range rapid.IntRange(0, 50).Draw(t, "steps") {
			p, in := Partition(rapid.IntRange(0, 110).Draw(t, "partition")), rapid.Bool().Draw(t, "in")
			if m.Set(p, in); int(p) < partitions {
				want[p] = in
			}
		}
		var all []Partition
		for p := range Partition(120) {
			if m.Has(p) != want[p] {
				t.Fatalf("partition %d: %v", p, m.Has(p))
			}
			if want[p] {
				all = append(all, p)
			}
		}
		if got := slices.Collect(m.All()); !slices.Equal(got, all) || m.Len() != len(all) {
			t.Fatalf("%v, %d, want %v", got, m.Len(), all)
		}
		again, err := DecodeBitmap(partitions, m.AppendTo(nil))
		if err != nil || !again.Equal(m) || again.Partitions() != partitions {
			t.Fatalf("%v, %v", again, err)
		}
	})
}

// The wire form is in the protocol: SDKs of other languages read it.
func TestBitmapWireForm(t *testing.T) {
	m, err := DecodeBitmap(12, []byte{0b1000_0001, 0b0000_1000})
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Collect(m.All()); !slices.Equal(got, []Partition{0, 7, 11}) {
		t.Error(got)
	}
	for _, b := range [][]byte{nil, {1}, {1, 1, 1}, {1, 0b0001_0000}} {
		if m, err := DecodeBitmap(12, b); !errors.Is(err, ErrMalformed) || m != nil {
			t.Errorf("%b: %v", b, err)
		}
	}
	for _, n := range []int{-1, 0, MaxPartitions + 1} {
		if m, err := DecodeBitmap(n, nil); !errors.Is(err, ErrPartitions) || m != nil {
			t.Errorf("%d partitions: %v", n, err)
		}
	}
	var none Bitmap
	none.Set(0, true)
	if none.Has(0) || none.Len() != 0 {
		t.Error("the zero bitmap has something")
	}
}

func FuzzDecodeBitmap(f *testing.F) {
	f.Add(12, []byte{0b1000_0001, 0b0000_1000})
	f.Add(4096, bytes.Repeat([]byte{0xff}, 512))
	f.Fuzz(func(t *testing.T, partitions int, b []byte) {
		m, err := DecodeBitmap(partitions, b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrPartitions) {
				t.Fatal(err)
			}
			return
		}
		if !bytes.Equal(m.AppendTo(nil), b) || m.Len() > partitions {
			t.Fatalf("%x of %d partitions became %x", b, partitions, m.AppendTo(nil))
		}
	})
}
