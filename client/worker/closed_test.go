package worker_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/worker"
)

// TestAClientThatIsClosedWhileATaskRuns: what can never be reported is not waited for.
func TestAClientThatIsClosedWhileATaskRuns(t *testing.T) {
	for name, pull := range map[string]bool{"session": false, "pull": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				started := make(chan struct{})
				b := newBench(t, worker.Config{Pull: pull}, func(context.Context, *worker.Task) error {
					close(started)
					time.Sleep(10 * time.Second)
					return nil
				})
				b.enqueue(1)
				<-started
				if err := b.c.Close(); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if err := <-b.ran; !errors.Is(err, client.ErrClosed) {
					t.Errorf("Run: %v", err)
				}
				b.ran <- nil // for the end of the bench
				if took := time.Since(began); took > time.Minute {
					t.Errorf("Run has returned %v after the client was closed, with a handler that took 10 s", took)
				}
				if e := b.ended(); e.Kind != worker.Unreported || !errors.Is(e.Err, client.ErrClosed) {
					t.Errorf("%+v", e)
				}
			})
		})
	}
}
