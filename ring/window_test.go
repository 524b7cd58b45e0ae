package ring

import (
	"fmt"
	"testing"

	"github.com/norn-dev/norn/id"
)

// TestWindowsAreOfAllNodes: of the partitions that take the IDs of a second each node leads its share, in a
// cluster that was formed at once and in one that nodes joined one by one.
func TestWindowsAreOfAllNodes(t *testing.T) {
	const seconds = 2000
	for _, n := range []int{3, 5, 20, 50} {
		for _, joined := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d nodes, joined %v", n, joined), func(t *testing.T) {
				plan, nodes := Plan{}, some(n, 1)
				for k := 1; joined && k < n; k++ {
					plan = place(t, plan, nodes[:k], MaxPartitions, min(k, 3))
				}
				plan = place(t, plan, nodes, MaxPartitions, 3)
				size := id.WindowSize(n, MaxPartitions)
				worst, sum := 0.0, 0.0
				for second := range int64(seconds) {
					leads, most := map[uint16]int{}, 0
					for i := range size {
						leader := plan.Seats(Partition(id.Window(second*1e9, MaxPartitions, i)))[0]
						leads[leader]++
						most = max(most, leads[leader])
					}
					over := float64(most*n) / float64(size)
					worst, sum = max(worst, over), sum+over
				}
				t.Logf("the busiest leads %.2f of its share, %.2f at worst", sum/seconds, worst)
				if sum/seconds > 1.5 || worst > 2 {
					t.Errorf("the busiest leads %.2f of its share, %.2f at worst", sum/seconds, worst)
				}
			})
		}
	}
}
