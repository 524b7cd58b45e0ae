package ring

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// 200 nodes and 4,096 partitions of 3 replicas must take at most 200 ms, from
// nothing and after one change (design 12).
func BenchmarkPlace(b *testing.B) {
	for _, c := range []struct{ nodes, zones, partitions, replicas int }{{3, 3, 4096, 3}, {200, 1, 4096, 3}, {200, 3, 4096, 3}, {200, 3, 4096, 5}, {200, 20, 4096, 7}} {
		nodes := some(c.nodes+100, c.zones)
		old := place(b, Plan{}, nodes[:c.nodes], c.partitions, c.replicas)
		run := func(name string, from Plan, nodes []Node) {
			b.Run(fmt.Sprintf("%d_nodes_%d_zones_%dx%d/%s", c.nodes, c.zones, c.partitions, c.replicas, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					place(b, from, nodes, c.partitions, c.replicas)
				}
				if each := b.Elapsed() / time.Duration(b.N); each > 200*time.Millisecond {
					b.Errorf("a placement takes %v", each)
				}
			})
		}
		run("scratch", Plan{}, nodes[:c.nodes])
		run("again", old, nodes[:c.nodes])
		run("join", old, nodes[:c.nodes+1])
		run("join100", old, nodes)
		run("leave", old, nodes[1:c.nodes])
		upheaval := slices.Clone(nodes[:c.nodes])
		for i := range upheaval {
			upheaval[i].Zone, upheaval[i].Weight = nodes[i*i%c.nodes].Zone, uint32(1+i*7%10)
		}
		run("upheaval", old, upheaval)
	}
}

func BenchmarkPlanBytes(b *testing.B) {
	p := place(b, Plan{}, some(200, 3), MaxPartitions, 3)
	stored := p.AppendTo(nil)
	b.Run("append", func(b *testing.B) {
		for b.Loop() {
			p.AppendTo(stored[:0])
		}
	})
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			if _, err := DecodePlan(stored); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("moves", func(b *testing.B) {
		for b.Loop() {
			Moves(p, Plan{})
		}
	})
}
