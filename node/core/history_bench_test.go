package core

import (
	"fmt"
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// BenchmarkHistory: a claim and a failure of a task that has failed so often.
func BenchmarkHistory(b *testing.B) {
	for _, kind := range []string{"failed", "expired"} {
		for _, n := range []int{10, 700, 3200} {
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) {
				r := newRig(b)
				s := spec("q")
				s.Retry = &nornv1.RetryPolicy{MaxAttempts: 1 << 30, MaxSeconds: 0.001, InitialSeconds: 0.001}
				r.enqueue(s)
				claims := time.Duration(0)
				cycle := func() {
					r.pass(time.Second)
					at := time.Now()
					g := r.claim("q", 1)
					claims += time.Since(at)
					if kind == "expired" {
						r.pass(leaseTime + 3*eta)
						return
					}
					task := parse(b, g[0].Task.Id)
					must[*nornv1.WriteReply](r, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: g[0].Token, Error: "it does not work"}}})
				}
				for range n {
					cycle()
				}
				claims = 0
				b.ResetTimer()
				for range b.N {
					cycle()
				}
				b.ReportMetric(float64(claims.Microseconds())/float64(b.N), "µs/claim")
			})
		}
	}
}
