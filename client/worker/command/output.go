package command

import (
	"bytes"
	"strings"
)

// lines cuts what is written to it into lines.
type lines struct {
	take func(line []byte) // must not keep it; its blocking holds the command up
	rest []byte            // begun and not ended, maxLine bytes at most
}

// Write never fails.
func (l *lines) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		room := maxLine - len(l.rest)
		switch {
		case end >= 0 && end <= room:
			l.rest = append(l.rest, b[:end]...)
			b = b[end+1:]
		case end < 0 && len(b) <= room: // a line feed may be all that is missing
			l.rest = append(l.rest, b...)
			return n, nil
		default:
			l.rest = append(l.rest, b[:room]...)
			b = b[room:]
		}
		l.take(l.rest)
		l.rest = nil // an update may still be sent again
	}
	return n, nil
}

// flush takes a last line without a line feed.
func (l *lines) flush() {
	if len(l.rest) > 0 {
		l.take(l.rest)
		l.rest = nil
	}
}

// tail keeps the last bytes written to it.
type tail struct {
	b   []byte
	cut bool
}

// Write never fails.
func (t *tail) Write(b []byte) (int, error) {
	n := len(b)
	if len(b) > maxTail {
		b, t.cut = b[len(b)-maxTail:], true
	}
	if over := len(t.b) + len(b) - maxTail; over > 0 {
		t.b, t.cut = append(t.b[:0], t.b[over:]...), true
	}
	t.b = append(t.b, b...)
	return n, nil
}

// String is the text kept, without white space around it.
func (t *tail) String() string {
	s := strings.TrimSpace(strings.ToValidUTF8(string(t.b), "\uFFFD"))
	if t.cut {
		return "… " + s
	}
	return s
}
