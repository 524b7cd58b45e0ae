package intake

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/proto"
)

// Error is a line that is no task.
type Error struct {
	Line   int // from 1
	Column int // in bytes from 1; 0: the line as a whole
	Err    error
}

// Error is "line 3, column 7: …".
func (e *Error) Error() string {
	if e.Column > 0 {
		return fmt.Sprintf("line %d, column %d: %v", e.Line, e.Column, e.Err)
	}
	return fmt.Sprintf("line %d: %v", e.Line, e.Err)
}

// Unwrap gives the reason.
func (e *Error) Unwrap() error { return e.Err }

// Source gives tasks until io.EOF. The line is 0 for a task that stands in
// none.
type Source interface {
	Next() (t client.Task, line int, err error)
	// More tells whether the next call need not wait for input.
	More() bool
}

// One is the source of a single task.
func One(t client.Task) Source { return &one{t: t} }

type one struct {
	t    client.Task
	done bool
}

func (o *one) Next() (client.Task, int, error) {
	if o.done {
		return client.Task{}, 0, io.EOF
	}
	o.done = true
	return o.t, 0, nil
}

func (o *one) More() bool { return true }

// Lines makes a task like base of every line of r, with the line as its
// payload. Line feeds, and a carriage return before them, are not part of it.
func Lines(r io.Reader, base client.Task) Source {
	return &lines{r: newReader(r, proto.MaxPayloadCeiling), base: base}
}

type lines struct {
	r    *reader
	base client.Task
}

func (l *lines) Next() (client.Task, int, error) {
	b, err := l.r.line()
	t := l.base
	t.Payload = append([]byte(nil), b...)
	return t, l.r.n, err
}

func (l *lines) More() bool { return l.r.whole(func([]byte) bool { return true }) }

// JSONLines makes a task of every line of r that is not blank; each is a JSON
// object as [Keys] describes. What a line leaves out comes from base. note hears, once, of a
// payload that looks like text where base64 is read; nil: nobody does.
func JSONLines(r io.Reader, base client.Task, note func(line int, text string)) Source {
	// Base64 needs 4/3 of the payload; the rest is room for everything else.
	return &jsonLines{r: newReader(r, 2*proto.MaxPayloadCeiling), base: base, note: note}
}

type jsonLines struct {
	r    *reader
	base client.Task
	note func(line int, text string)
}

func (l *jsonLines) Next() (client.Task, int, error) {
	for {
		b, err := l.r.line()
		if err != nil {
			return client.Task{}, l.r.n, err
		}
		if len(trimmed(b)) == 0 {
			continue
		}
		t, doubtful, column, err := parse(b, l.base)
		if err != nil {
			return client.Task{}, l.r.n, &Error{Line: l.r.n, Column: column, Err: err}
		}
		if doubtful && l.note != nil {
			l.note(l.r.n, "payload was read as base64, and looks like text: payload_text takes text")
			l.note = nil
		}
		return t, l.r.n, nil
	}
}

func (l *jsonLines) More() bool {
	return l.r.whole(func(line []byte) bool { return len(trimmed(line)) > 0 })
}

// reader reads lines up to a length.
type reader struct {
	r     *bufio.Reader
	buf   []byte
	n     int // number of the last line
	limit int
}

func newReader(r io.Reader, limit int) *reader {
	return &reader{r: bufio.NewReaderSize(r, 1<<20), limit: limit}
}

// whole tells whether a line that counts is there to its end: the rest of one that has
// only begun may be long in coming.
func (r *reader) whole(counts func(line []byte) bool) bool {
	there, _ := r.r.Peek(r.r.Buffered()) // what is there can be looked at
	for {
		line, after, ended := bytes.Cut(there, []byte{'\n'})
		switch {
		case !ended:
			return false
		case counts(line):
			return true
		}
		there = after
	}
}

var errTooLong = errors.New("line is too long")

// line gives the next line, valid until the next call. The last one need not
// end in a line feed; an empty one after the last line feed does not count.
func (r *reader) line() ([]byte, error) {
	r.buf = r.buf[:0]
	size := 0
	for {
		part, err := r.r.ReadSlice('\n')
		size += len(part)
		if size <= r.limit+2 { // line ends are not counted
			r.buf = append(r.buf, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && (!errors.Is(err, io.EOF) || size == 0):
			return nil, err
		}
		r.n++
		b := r.buf
		if r.n == 1 { // some editors begin a file with it
			b = bytes.TrimPrefix(b, []byte("\ufeff"))
		}
		if n := len(b); n > 0 && b[n-1] == '\n' {
			b = b[:n-1]
			if n > 1 && b[n-2] == '\r' {
				b = b[:n-2]
			}
		}
		if size > r.limit+2 || len(b) > r.limit {
			return nil, &Error{Line: r.n, Err: fmt.Errorf("%w: over %d bytes", errTooLong, r.limit)}
		}
		return b, nil
	}
}
