package core

import (
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"
)

// TestScale prints what nodes say to each other in large clusters, in virtual time: NORN_SCALE is
// the number of partitions (`make scale`: 4096). Without it a small cluster is run, so that it works.
// Signs of life are reckoned: two a second from each node to each other one on a connection.
func TestScale(t *testing.T) {
	partitions, sizes, idle, load := 64, []int{4, 8}, 20, 2
	if n, err := strconv.Atoi(os.Getenv("NORN_SCALE")); err == nil {
		partitions, sizes, idle, load = n, []int{50, 100, 200}, 60, 10
	}
	for _, nodes := range sizes {
		l := newLarge(t, nodes, partitions)
		l.run(time.Minute)
		kinds, sent, most := map[string]int{}, make([]int, nodes), 0
		l.said = func(from, _ int, m any) {
			kinds[reflect.TypeOf(m).Elem().Name()]++
			sent[from]++
		}
		l.run(time.Duration(idle) * time.Second)
		all := 0
		for _, n := range sent {
			all, most = all+n, max(most, n)
		}
		per := float64(nodes * idle)
		t.Logf("%d nodes, %d partitions, idle: %.1f messages sent by a node in a second (the busiest: %.1f), and %d signs of life at most",
			nodes, partitions, float64(all)/per, float64(most)/float64(idle), 2*(nodes-1))
		names := make([]string, 0, len(kinds))
		for name := range kinds { // Any order: sorted below.
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			t.Logf("  %-16s %.2f", name, float64(kinds[name])/per)
		}
		if m := float64(most) / float64(idle); m > 3*float64(all)/per+5 {
			t.Errorf("%d nodes: one sends %.1f messages a second, the mean is %.1f", nodes, m, float64(all)/per)
		}
		l.said, l.messages = nil, 0
		for range load {
			l.second(5)
		}
		l.run(time.Second)
		if want := nodes * 5 * load; l.enqueued != want {
			t.Errorf("%d nodes: %d of %d tasks are enqueued", nodes, l.enqueued, want)
		}
		t.Logf("  5 tasks a second through each: %.1f messages for a task", float64(l.messages)/float64(nodes*5*load))
	}
}
