package render

import (
	"fmt"
	"io"
	"time"
)

// Progress is one line on a terminal that tells how far something is. The nil
// Progress says nothing.
type Progress struct {
	w     io.Writer
	what  string
	of    string
	began time.Time
	shown time.Time
	wrote bool
}

// NewProgress makes a line "what: N (N/s)". It shows nothing for a second:
// what is done by then needs none.
func NewProgress(w io.Writer, what string) *Progress {
	now := time.Now()
	return &Progress{w: w, what: what, began: now, shown: now.Add(800 * time.Millisecond)}
}

// Set tells how many are done.
func (p *Progress) Set(n uint64) {
	if p == nil {
		return
	}
	now := time.Now()
	if now.Sub(p.shown) < 200*time.Millisecond {
		return
	}
	p.shown, p.wrote = now, true
	rate := float64(n) / now.Sub(p.began).Seconds()
	fmt.Fprintf(p.w, "\r\x1b[K%s: %s%s (%s/s)", p.what, Number(n), p.of, Number(uint64(rate)))
}

// Stage is Set for work that has several stages; a total of 0 is not known.
func (p *Progress) Stage(what string, done, total int) {
	if p == nil {
		return
	}
	if what != p.what {
		p.what, p.began = what, time.Now()
	}
	if total > 0 {
		p.of = " of " + Number(uint64(total))
	}
	p.Set(uint64(max(done, 0)))
	p.of = ""
}

// Clear takes the line away, so that something else can be written.
func (p *Progress) Clear() {
	if p != nil && p.wrote {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.wrote = false
	}
}
