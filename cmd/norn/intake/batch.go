package intake

import (
	"context"
	"errors"
	"io"

	"github.com/norn-dev/norn/client"
)

// Batch is tasks that are sent together.
type Batch struct {
	Tasks []client.Task
	Lines []int // of each task
	// Bad are the lines among them that were no tasks.
	Bad []*Error
	// Results are what became of the tasks, or Err of all of them.
	Results []client.Result
	Err     error
}

// Limits of a batch, and how many are on their way at once: enough to keep a
// server's disk busy, and little memory.
const (
	maxTasks = 1000
	maxBytes = 4 << 20
	flying   = 4
)

// next fills a batch. It is full when err is nil; with an error, io.EOF for
// example, it may still hold tasks.
func next(src Source) (*Batch, error) {
	b := &Batch{}
	for size := 0; size == 0 || src.More() && len(b.Tasks)+len(b.Bad) < maxTasks && size < maxBytes; size++ {
		t, line, err := src.Next()
		var bad *Error
		switch {
		case errors.As(err, &bad):
			b.Bad = append(b.Bad, bad)
			continue
		case err != nil:
			return b, err
		}
		size += len(t.Payload)
		b.Tasks, b.Lines = append(b.Tasks, t), append(b.Lines, line)
	}
	return b, nil
}

// Target is where tasks go.
type Target struct {
	// Name gives IDs to the tasks that have none. It is called batch by batch in
	// the order of the input, so that what comes first is older.
	Name func([]client.Task)
	// Send enqueues a batch. It is called from several goroutines.
	Send func(context.Context, []client.Task) ([]client.Result, error)
}

// Run sends what src gives, some batches at a time, and hands each to report in
// the order of the input. Batches form by what can be read without waiting. Run
// ends early when a batch fails as a whole, report returns false, or ctx ends;
// a read of src that hangs is left behind then. The error is that of reading
// src, or of ctx.
func Run(ctx context.Context, src Source, to Target, report func(*Batch) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sent := make(chan chan *Batch, flying)
	failed := make(chan error, 1)
	go func() {
		defer close(sent)
		failed <- feed(ctx, src, to, sent)
	}()
	for {
		select {
		case done, ok := <-sent:
			if !ok {
				return <-failed
			}
			if b := <-done; !report(b) || b.Err != nil {
				cancel()
				rest(sent, report)
				return nil
			}
		case <-ctx.Done():
			rest(sent, report)
			return ctx.Err()
		}
	}
}

// rest reports the batches that are on their way. Of one that was surely not sent, because
// an earlier one has failed or ctx has ended, only the lines that were no tasks are told: the
// others follow what is reported of that.
func rest(sent chan chan *Batch, report func(*Batch) bool) {
	for {
		select {
		case done, ok := <-sent:
			if !ok {
				return
			}
			b := <-done
			if errors.Is(b.Err, context.Canceled) && !errors.Is(b.Err, client.ErrUnknown) {
				b.Tasks, b.Lines, b.Err = nil, nil, nil
			}
			report(b)
		default:
			return
		}
	}
}

// feed reads batches and starts sending them.
func feed(ctx context.Context, src Source, to Target, sent chan<- chan *Batch) error {
	for {
		b, err := next(src)
		to.Name(b.Tasks)
		done := make(chan *Batch, 1)
		select {
		case sent <- done: // waits while too many are on their way
		case <-ctx.Done():
			return ctx.Err()
		}
		go func() {
			if len(b.Tasks) > 0 {
				b.Results, b.Err = to.Send(ctx, b.Tasks)
			}
			done <- b
		}()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
