package top

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// screen is a terminal that is drawn on.
type screen struct {
	out  io.Writer
	keys <-chan byte // nil: nobody types
	size func() (columns, lines int)
}

// Sequences of a terminal, which all of them know.
const (
	enter = "\x1b[?1049h\x1b[?25l" // another screen, without a cursor
	leave = "\x1b[?25h\x1b[?1049l"
	home  = "\x1b[H"
	rest  = "\x1b[K" // of the line, cleared
	below = "\x1b[J"
)

// open takes a terminal over. back leaves it as it was.
func open(in io.Reader, out io.Writer) (s *screen, back func(), err error) {
	file, is := out.(*os.File)
	if !is || !term.IsTerminal(int(file.Fd())) {
		return nil, nil, fmt.Errorf("it is no terminal that this goes to: for a script, say --once")
	}
	s = &screen{out: out, size: func() (int, int) {
		columns, lines, err := term.GetSize(int(file.Fd()))
		if err != nil || columns < 1 || lines < 1 {
			return 80, 24
		}
		return columns, lines
	}}
	back = func() { _, _ = io.WriteString(out, leave) }
	if keyboard, is := in.(*os.File); is && term.IsTerminal(int(keyboard.Fd())) {
		was, err := term.MakeRaw(int(keyboard.Fd()))
		if err != nil {
			return nil, nil, err
		}
		s.keys = typed(keyboard)
		back = func() {
			_, _ = io.WriteString(out, leave)
			_ = term.Restore(int(keyboard.Fd()), was) // there is nothing else to do about it
		}
	}
	if _, err := io.WriteString(out, enter); err != nil {
		back()
		return nil, nil, err
	}
	return s, back, nil
}

// typed gives the bytes of a keyboard. It ends with the process, or with the file: a read of a
// terminal cannot be ended otherwise.
func typed(in io.Reader) <-chan byte {
	keys := make(chan byte, 16)
	go func() {
		defer close(keys)
		b := make([]byte, 16)
		for {
			n, err := in.Read(b)
			for _, c := range b[:n] {
				select {
				case keys <- c:
				default: // who types that fast does not look
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return keys
}

// draw writes lines over what is there, in one write. A terminal in raw mode needs the
// carriage return.
func (s *screen) draw(lines []string) error {
	var b bytes.Buffer
	b.WriteString(home)
	for i, l := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(l)
		b.WriteString(rest)
	}
	b.WriteString(below)
	_, err := s.out.Write(b.Bytes())
	return err
}

// loop looks and draws until ctx ends or somebody quits. look makes the lines anew where fresh
// is true, and from what is known where not; key hears what is typed, and ends the loop with
// false.
func (s *screen) loop(ctx context.Context, every time.Duration, lines func(fresh bool, columns, height int) []string, key func(c byte) bool) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	keys := s.keys
	fresh := true
	for {
		columns, height := s.size()
		if err := s.draw(lines(fresh, columns, height)); err != nil {
			return err
		}
		fresh = false
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			fresh = true
		case c, ok := <-keys:
			if !ok {
				keys = nil
			} else if !key(c) {
				return nil
			}
		}
	}
}
