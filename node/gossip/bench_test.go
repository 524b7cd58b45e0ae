package gossip

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkMembers measures what a member sends while nothing happens: it must
// not grow with the number of members. One round is a second.
func BenchmarkMembers(b *testing.B) {
	for _, count := range []int{3, 10, 40} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			nodes := cluster(b, count, func(c *Config) { c.Interval, c.Logger = time.Second, nil })
			for _, n := range nodes {
				eventually(b, "all see each other", nil, func() bool { return len(n.Alive()) == count-1 })
			}
			<-time.After(5 * time.Second) // until the news have gone round
			sum := func() (packets, bytes, streams uint64) {
				for _, n := range nodes {
					s := n.Stats()
					packets, bytes, streams = packets+s.PacketsOut, bytes+s.BytesOut, streams+s.StreamsOut
				}
				return packets, bytes, streams
			}
			packets, bytes, streams := sum()
			b.ResetTimer()
			for range b.N {
				<-time.After(time.Second)
			}
			b.StopTimer()
			p, by, s := sum()
			per := float64(count * b.N)
			b.ReportMetric(float64(p-packets)/per, "packets/member/s")
			b.ReportMetric(float64(by-bytes)/per, "bytes/member/s")
			b.ReportMetric(float64(s-streams)/per, "streams/member/s")
		})
	}
}

// BenchmarkDeath measures how long it takes until all others think a member
// dead that was cut off, with the usual intervals.
func BenchmarkDeath(b *testing.B) {
	for _, count := range []int{3, 10} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			b.StopTimer()
			nodes := cluster(b, count+b.N, func(c *Config) { c.Interval, c.Logger = time.Second, nil })
			for left := len(nodes); left > count; left-- { // one dies, count-1 or more are left
				for _, n := range nodes[:left] {
					eventually(b, "all see each other", nil, func() bool { return len(n.Alive()) == left-1 })
				}
				b.StartTimer()
				nodes[left-1].stop()
				for _, n := range nodes[:left-1] {
					eventually(b, "it is seen dead", nil, func() bool { return len(n.Alive()) == left-2 })
				}
				b.StopTimer()
			}
		})
	}
}
