package render

import (
	"bufio"
	"fmt"
	"io"

	"github.com/norn-dev/norn/proto/jsonform"
)

// Format is how output is written.
type Format string

// Formats.
const (
	Table Format = "table"
	JSON  Format = "json"
	JSONL Format = "jsonl"
	YAML  Format = "yaml"
)

// ParseFormat reads the name of a format.
func ParseFormat(s string) (Format, error) {
	switch f := Format(s); f {
	case Table, JSON, JSONL, YAML:
		return f, nil
	}
	return "", fmt.Errorf("%q is not table, json, jsonl or yaml", s)
}

// Writer writes in one format.
type Writer struct {
	out    *bufio.Writer
	format Format
	color  bool
	person bool
}

// New makes a writer. color is for tables only.
func New(w io.Writer, f Format, color bool) *Writer {
	return &Writer{out: bufio.NewWriterSize(w, 64<<10), format: f, color: color}
}

// ForPerson has a list without items say so (see [List.None]): a person who sees nothing
// does not know whether the command has done anything. Programs read nothing as nothing.
func (w *Writer) ForPerson(yes bool) *Writer {
	w.person = yes
	return w
}

// People tells whether output is for people, not programs.
func (w *Writer) People() bool { return w.format == Table }

// Object writes one thing; table writes it for people.
func (w *Writer) Object(v jsonform.Value, table func(io.Writer)) error {
	switch w.format {
	case JSON:
		_, _ = w.out.Write(v.JSON())
	case JSONL:
		_, _ = w.out.Write(v.Line())
	case YAML:
		b, err := v.YAML()
		if err != nil {
			return err
		}
		_, _ = w.out.Write(b)
	default:
		table(w.out)
	}
	return w.out.Flush()
}
