package id

import (
	"testing"
	"time"
)

// TestWindowsAreEven: the window is the same throughout a second, and in a day of seconds, or of every
// minute's first, each partition is in one about as often as the others.
func TestWindowsAreEven(t *testing.T) {
	const second = int64(time.Second)
	for _, partitions := range []int{100, 1000, 4096} {
		for _, every := range []int64{1, 60, 64, 3600} {
			const n = 4000
			size := WindowSize(3, partitions)
			count := make([]int, partitions)
			for k := range int64(n) {
				at := someWall - someWall%second + k*every*second
				for i := range size {
					p := Window(at, partitions, i)
					if last := Window(at+second-1, partitions, i); last != p {
						t.Fatalf("partition %d of the window of %d is %d, and at its end %d", i, at, p, last)
					}
					count[p]++
				}
			}
			for p, c := range count {
				if mean := float64(n*size) / float64(partitions); float64(c) < 0.5*mean || float64(c) > 1.5*mean {
					t.Fatalf("partition %d of %d, each %d s: %d windows, mean %.0f", p, partitions, every, c, mean)
				}
			}
		}
	}
}

// TestAWindowHasEachPartitionOnce: and of all partitions it has them all.
func TestAWindowHasEachPartitionOnce(t *testing.T) {
	for _, partitions := range []int{1, 2, 3, 65, 100, 618, 1000, 2310, 4096} {
		seen := map[int]bool{}
		for i := range partitions {
			seen[Window(someWall, partitions, i)] = true
		}
		if len(seen) != partitions {
			t.Errorf("%d of %d", len(seen), partitions)
		}
	}
}

// TestWindowSize: a small cluster has one of 64, each node has its share of a large one, and none is larger than all.
func TestWindowSize(t *testing.T) {
	for _, tt := range []struct{ nodes, partitions, want int }{
		{0, 64, 0}, {3, 1, 0}, {3, 64, 0}, {2, 65, 64}, {3, 4096, 96}, {20, 4096, 640}, {20, 640, 0}, {127, 4096, 4064}, {200, 4096, 0},
	} {
		if got := WindowSize(tt.nodes, tt.partitions); got != tt.want {
			t.Errorf("%d nodes, %d partitions: %d, want %d", tt.nodes, tt.partitions, got, tt.want)
		}
	}
}
