package render

import "github.com/norn-dev/norn/proto/jsonform"

// pageRows is after how many rows a table is written, so that long lists cost
// no memory. Columns get no narrower from page to page.
const pageRows = 500

// Column says how to show one column of a list.
type Column[T any] struct {
	// Head is the column's name, lower case.
	Head string
	// Cell is the text of one item.
	Cell func(T) string
}

// List writes items while they come.
type List[T any] struct {
	w       *Writer
	form    func(T) jsonform.Value
	columns []Column[T]
	table   *Grid
	none    string
	n       int
	err     error
}

// NewList begins a list. A list of one column without a head is written as
// plain lines.
func NewList[T any](w *Writer, form func(T) jsonform.Value, columns ...Column[T]) *List[T] {
	l := &List[T]{w: w, form: form, columns: columns}
	if len(columns) > 1 || columns[0].Head != "" {
		var heads []string
		for _, c := range columns {
			heads = append(heads, c.Head)
		}
		l.table = NewGrid(w.color, heads...)
	}
	return l
}

// None is what a table without rows says to a person, such as "no tasks".
func (l *List[T]) None(text string) *List[T] {
	l.none = text
	return l
}

// Add writes an item, sooner or later: see Flush.
func (l *List[T]) Add(item T) {
	if l.err != nil {
		return
	}
	switch l.w.format {
	case JSON:
		open := "[\n  "
		if l.n > 0 {
			open = ",\n  "
		}
		_, _ = l.w.out.WriteString(open)
		_, l.err = l.w.out.Write(l.form(item).AppendJSON(nil, 1))
	case JSONL:
		_, l.err = l.w.out.Write(l.form(item).Line())
	case YAML:
		var b []byte
		if b, l.err = jsonform.List(l.form(item)).YAML(); l.err == nil {
			_, l.err = l.w.out.Write(b)
		}
	default:
		l.row(item)
	}
	l.n++
}

func (l *List[T]) row(item T) {
	if l.table == nil {
		_, l.err = l.w.out.WriteString(l.columns[0].Cell(item) + "\n")
		return
	}
	cells := make([]string, len(l.columns))
	for i, c := range l.columns {
		cells[i] = c.Cell(item)
	}
	l.table.Row(cells...)
	if l.table.Rows() >= pageRows {
		l.table.Write(l.w.out)
	}
}

// Flush writes what has been added so far.
func (l *List[T]) Flush() error {
	if l.table != nil && l.w.format == Table && l.table.Rows() > 0 {
		l.table.Write(l.w.out)
	}
	if err := l.w.out.Flush(); l.err == nil {
		l.err = err
	}
	return l.err
}

// Close ends the list. It must be called whatever happened, so that a document
// that was begun is whole.
func (l *List[T]) Close() error {
	switch {
	case l.w.format == JSON && l.n > 0:
		_, _ = l.w.out.WriteString("\n]\n")
	case l.n == 0 && (l.w.format == JSON || l.w.format == YAML):
		_, _ = l.w.out.WriteString("[]\n")
	case l.n == 0 && l.w.person && l.w.format == Table && l.none != "":
		_, _ = l.w.out.WriteString(l.none + "\n")
	}
	return l.Flush()
}

// Len is how many items were added.
func (l *List[T]) Len() int { return l.n }
