package daemonlog

import (
	"bytes"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Patience is how long one write may hold the daemon up: a pipe is full whose reader is
// stopped, or a terminal that somebody has paused.
const Patience = time.Second

// Writer passes on what is written to it. Its methods may be called from any goroutine.
type Writer struct {
	to   io.Writer
	back func(lines uint64)

	mu   sync.Mutex // guards the fields below; held while something is written
	busy chan error // of a write that was not waited for any longer; nil: there is none
	lost uint64     // lines
	told uint64     // of those, the ones that back has heard of
}

// New makes a writer. back, if set, hears from a goroutine of its own how many lines
// were lost, once one is taken again.
func New(to io.Writer, back func(lines uint64)) *Writer { return &Writer{to: to, back: back} }

// Write gives len(b) and no error, whatever happens.
func (w *Writer) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy != nil {
		select {
		case <-w.busy:
			w.busy = nil
		default: // another write would only wait behind it
			w.lose(b)
			return len(b), nil
		}
	}
	done, line := make(chan error, 1), bytes.Clone(b)
	go func() {
		_, err := w.to.Write(line)
		done <- err
	}()
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	select {
	case err := <-done:
		if err != nil {
			w.lose(b)
			return len(b), nil
		}
	case <-patience.C: // it may arrive yet
		w.busy = done
		return len(b), nil
	}
	if lines := w.lost - w.told; lines > 0 && w.back != nil {
		w.told = w.lost
		go w.back(lines) // which writes here, through a logger that holds a lock of its own by now
	}
	return len(b), nil
}

func (w *Writer) lose(b []byte) { w.lost += uint64(max(1, bytes.Count(b, []byte("\n")))) }

// Lost is how many lines were lost since the start.
func (w *Writer) Lost() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// Survive keeps this process from being ended by SIGPIPE, which is what a write to
// standard output or standard error does otherwise when nobody reads it any more. The
// commands it starts are still ended so: a signal that is ignored would be inherited, one
// that is heard is not.
func Survive() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
