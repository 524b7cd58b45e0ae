package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/worker"
)

const (
	// maxHeld and maxHeldBytes bound the lines that have been read and are not durable yet:
	// what is written together. Past them the command is held up.
	maxHeld      = 1_000
	maxHeldBytes = 256 << 10
)

// record writes the output of a command into the log of its task: what has come while
// something is being written goes together. Once the log is full the last lines are kept,
// and written in the end.
type record struct {
	task *worker.Task
	ctx  context.Context
	lost func(error) // hears that the claim is
	say  io.Writer   // nil: nobody hears of lines that are left out

	mu      sync.Mutex // guards held, size and over
	changed *sync.Cond
	held    [][]byte
	size    int // of held, in bytes
	over    bool
	done    chan struct{} // closed when all is written

	// Of the goroutine that writes.
	full bool // the log is
	told bool // that lines are left out
	left int  // lines that are left out
	last [][]byte
	tail int // size of last, in bytes
}

// keep begins a record.
func keep(ctx context.Context, t *worker.Task, say io.Writer, lost func(error)) *record {
	r := &record{task: t, ctx: ctx, lost: lost, say: say, done: make(chan struct{})}
	r.changed = sync.NewCond(&r.mu)
	go r.write()
	return r
}

// take adds a line, which is the record's from now on.
func (r *record) take(line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.held) >= maxHeld || r.size >= maxHeldBytes {
		r.changed.Wait()
	}
	r.held, r.size = append(r.held, line), r.size+len(line)
	r.changed.Broadcast()
}

// end returns when all is written that can be.
func (r *record) end() {
	r.mu.Lock()
	r.over = true
	r.changed.Broadcast()
	r.mu.Unlock()
	<-r.done
}

// write writes until the end.
func (r *record) write() {
	defer close(r.done)
	for {
		r.mu.Lock()
		for len(r.held) == 0 && !r.over {
			r.changed.Wait()
		}
		lines := r.held
		r.held, r.size = nil, 0
		r.changed.Broadcast()
		r.mu.Unlock()
		if len(lines) == 0 {
			break
		}
		r.put(lines)
	}
	if r.left == 0 && len(r.last) == 0 {
		return
	}
	note := ""
	if r.left > 0 {
		note = fmt.Sprintf("norn: %d lines of output are left out here", r.left)
	}
	if n, err := r.task.UpdateLast(r.ctx, note, r.last); err != nil {
		r.complain(fmt.Sprintf("its last %d lines are not kept either: %v", len(r.last)-n, err))
	}
}

// put writes lines, or keeps them for the end.
func (r *record) put(lines [][]byte) {
	if !r.full {
		n, err := r.task.UpdateMany(r.ctx, lines)
		lines = lines[n:]
		switch {
		case err == nil:
			return
		case errors.Is(err, worker.ErrClaimLost), errors.Is(err, worker.ErrCancelled):
			r.lost(err)
			return
		case errors.Is(err, client.ErrConflict):
			r.full = true
			r.tell(fmt.Sprintf("its log is full: of the output from here on only the last %d lines are kept", maxHeld))
		default:
			r.left += len(lines)
			r.tell(fmt.Sprintf("lines of output are no updates: %v", err))
			return
		}
	}
	for _, line := range lines {
		r.last, r.tail = append(r.last, line), r.tail+len(line)
		for len(r.last) > maxHeld || r.tail > maxHeldBytes {
			r.tail -= len(r.last[0])
			r.last = r.last[1:]
			r.left++
		}
	}
}

// tell says once of a task that lines are left out.
func (r *record) tell(text string) {
	if !r.told {
		r.told = true
		r.complain(text)
	}
}

func (r *record) complain(text string) {
	if r.say != nil {
		fmt.Fprintf(r.say, "norn: task %s: %s\n", r.task.ID(), text)
	}
}
