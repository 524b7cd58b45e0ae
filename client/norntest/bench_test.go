package norntest

import (
	"context"
	"fmt"
	"testing"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/worker"
)

// BenchmarkWorker runs tasks whose handler does nothing: claim, run and complete
// through the SDK and the protocol, on a server without a disk.
func BenchmarkWorker(b *testing.B) {
	for _, slots := range []int{1, 16, 256} {
		b.Run(fmt.Sprint("slots=", slots), func(b *testing.B) {
			c := Start(b).Client(b)
			const batch = 1000
			for left := b.N; left > 0; left -= batch {
				tasks := make([]client.Task, min(left, batch))
				for i := range tasks {
					tasks[i].Queue = "q"
				}
				if _, err := c.EnqueueMany(b.Context(), tasks); err != nil {
					b.Fatal(err)
				}
			}
			w := worker.New(c, worker.Config{Slots: slots, Prefetch: slots, ExitWhenEmpty: true})
			w.Handle("q", func(context.Context, *worker.Task) error { return nil })
			b.ReportAllocs()
			b.ResetTimer()
			if err := w.Run(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}
