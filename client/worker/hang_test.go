package worker_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client/worker"
)

// TestASessionThatAHandlerOutlives: a worker whose session was lost, and one of whose
// handlers hangs, takes nothing, and says why; not that no node answers heartbeats, of which
// it sends none. It goes on when the handler has returned.
func TestASessionThatAHandlerOutlives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free, hangs := make(chan struct{}), make(chan struct{}, 1)
		hangs <- struct{}{}
		var log bytes.Buffer // one line at a time; read once all have ended
		cfg := worker.Config{Name: "w", Slots: 2, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		b := newBench(t, cfg, func(context.Context, *worker.Task) error {
			select {
			case <-hangs:
				<-free
			default:
			}
			return nil
		})
		b.enqueue(1)
		time.Sleep(2 * time.Second)
		b.server.Advance(2 * time.Minute) // it has heard nothing of the worker for so long
		time.Sleep(time.Hour)
		close(free)
		b.enqueue(1)
		for ended := 0; ended < 2; {
			if e := b.ended(); e.Kind == worker.Completed {
				ended++
			}
		}
		b.w.StopNow()
		if err := <-b.ran; err != nil {
			t.Error(err)
		}
		b.ran <- nil // for the end of the bench
		if n := strings.Count(log.String(), "handlers do not return"); n != 1 || strings.Contains(log.String(), "no heartbeat is answered") {
			t.Errorf("told %d times: %s", n, log.String())
		}
	})
}
