package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Grid is a table that is written in pages.
type Grid struct {
	color  bool
	heads  []string
	rows   [][]string
	widths []int
	paged  bool
}

// NewGrid makes a table. The column "state" is coloured when color is set.
func NewGrid(color bool, heads ...string) *Grid {
	g := &Grid{color: color, heads: heads, widths: make([]int, len(heads))}
	for i, h := range heads {
		g.widths[i] = text.StringWidth(h)
	}
	return g
}

// Row adds a row of as many cells as there are heads.
func (g *Grid) Row(cells ...string) {
	for i, c := range cells {
		g.widths[i] = max(g.widths[i], text.StringWidth(c))
	}
	g.rows = append(g.rows, cells)
}

// Rows is how many rows were added since the last Write.
func (g *Grid) Rows() int { return len(g.rows) }

// Write writes the rows so far, the first time with the heads above them, and
// forgets them.
func (g *Grid) Write(w io.Writer) {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	var configs []table.ColumnConfig
	head := make(table.Row, len(g.heads))
	for i, h := range g.heads {
		head[i] = h
		configs = append(configs, table.ColumnConfig{Number: i + 1, WidthMin: g.widths[i]})
	}
	t.SetColumnConfigs(configs)
	if !g.paged {
		t.AppendHeader(head)
	}
	for _, cells := range g.rows {
		row := make(table.Row, len(cells))
		for i, c := range cells {
			row[i] = c
			if g.color && g.heads[i] == "state" {
				row[i] = StateColor(c)
			}
		}
		t.AppendRow(row)
	}
	fmt.Fprintln(w, t.Render())
	g.rows, g.paged = g.rows[:0], true
}

// StateColor paints the name of a state.
func StateColor(state string) string {
	colors := map[string]text.Color{
		"ready": text.FgCyan, "claimed": text.FgBlue, "completed": text.FgGreen,
		"dead": text.FgRed, "cancelled": text.FgHiBlack, "waiting": text.FgYellow, "scheduled": text.FgYellow,
	}
	c, ok := colors[state]
	if !ok {
		return state
	}
	return c.EscapeSeq() + state + text.Reset.EscapeSeq()
}

// Pairs writes names and values below each other; pairs without a value are
// left out.
func Pairs(w io.Writer, pairs ...[2]string) {
	width := 0
	for _, p := range pairs {
		if p[1] != "" {
			width = max(width, len(p[0]))
		}
	}
	for _, p := range pairs {
		if p[1] != "" {
			fmt.Fprintf(w, "%-*s  %s\n", width, p[0], strings.ReplaceAll(p[1], "\n", "\n"+strings.Repeat(" ", width+2)))
		}
	}
}
