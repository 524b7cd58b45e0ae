package id

import "time"

const (
	// windowLeast and windowEach are how many partitions take the new IDs of a second: so
	// many at least, and so many for each node.
	windowLeast, windowEach = 64, 32
)

// WindowSize is how many partitions take the new IDs of one second, in a cluster of so
// many nodes; 0: all do.
func WindowSize(nodes, partitions int) int {
	if size := max(windowLeast, windowEach*nodes); size < partitions {
		return size
	}
	return 0
}

// Window is the i-th of the partitions that take the new IDs of a second, the one of wall
// time nanos: the same for all who draw IDs, and each partition is in a window as often
// as the others. Neighbours are far apart in it, as rows of partitions are often led
// by one node.
func Window(nanos int64, partitions, i int) int {
	second := uint64(nanos / int64(time.Second)) // mixed as by splitmix64: no rhythm of a load meets that of windows
	second = (second ^ second>>30) * 0xBF58476D1CE4E5B9
	second = (second ^ second>>27) * 0x94D049BB133111EB
	first := int((second ^ second>>31) % uint64(partitions))
	return (first + i) % partitions * stride(partitions) % partitions
}

// stride is about 0.618 of so many (the golden ratio: multiples of it lie evenly), and
// has no factor in common with them.
func stride(partitions int) int {
	for n := max(1, partitions*618/1000); ; n++ {
		a, b := n, partitions
		for b != 0 {
			a, b = b, a%b
		}
		if a == 1 {
			return n
		}
	}
}
