package top

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/norn-dev/norn/cmd/norn/render"
)

// watcher keeps the last two looks, and what somebody wants to see of them.
type watcher struct {
	ctx          context.Context // of the command
	look         func(context.Context) (*look, error)
	timeout      time.Duration
	before, last *look
	view         view
	escape       string // what was typed of the sequence of an arrow
}

// next looks anew.
func (w *watcher) next() error {
	ctx, cancel := context.WithTimeout(w.ctx, w.timeout)
	defer cancel()
	l, err := w.look(ctx)
	if err != nil {
		return err
	}
	w.before, w.last = w.last, l
	return nil
}

// once looks twice and writes that.
func (w *watcher) once(out *render.Writer, every time.Duration) error {
	if err := w.next(); err != nil {
		return err
	}
	t := time.NewTimer(every)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	}
	if err := w.next(); err != nil {
		return err
	}
	return out.Object(tree(w.before, w.last), func(to io.Writer) {
		for _, l := range frame(w.before, w.last, w.view, 0, 0) {
			fmt.Fprintln(to, l)
		}
	})
}

// lines is the screen.
func (w *watcher) lines(fresh bool, columns, height int) []string {
	if fresh && !w.view.still {
		w.view.failed = ""
		if err := w.next(); err != nil {
			w.view.failed = err.Error()
		}
	}
	if w.last == nil {
		return fit([]string{"no news: " + render.Text([]byte(w.view.failed), 0)}, columns, height)
	}
	return frame(w.before, w.last, w.view, columns, height)
}

// quits tells whether a key ends it: q, Ctrl-C, Ctrl-D.
func quits(c byte) bool { return c == 'q' || c == 'Q' || c == 3 || c == 4 }

// key takes what is typed; false: the end.
func (w *watcher) key(c byte) bool {
	const escape = 0x1b
	switch {
	case c == escape:
		w.escape = string(rune(c))
		return true
	case w.escape != "":
		w.escape += string(rune(c))
		switch w.escape {
		case "\x1b[", "\x1bO":
			return true
		case "\x1b[A", "\x1bOA":
			c = 'k'
		case "\x1b[B", "\x1bOB":
			c = 'j'
		default:
			c = 0
		}
		w.escape = ""
	}
	switch {
	case quits(c):
		return false
	case c == '\t':
		w.view.part, w.view.from = (w.view.part+1)%len(parts), 0
	case c == 's':
		w.view.order, w.view.from = (w.view.order+1)%len(orders), 0
	case c == ' ':
		w.view.still = !w.view.still
	case c == 'j':
		w.view.from++
	case c == 'k':
		w.view.from = max(0, w.view.from-1)
	}
	return true
}
