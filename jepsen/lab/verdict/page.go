package verdict

import (
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
)

// dot is one operation that has ended, as plots show it.
type dot struct {
	at, took float64 // seconds
	phase    history.Phase
	f        history.Func
}

// dots gives what has ended, in the order of its begin. What never ended took
// as long as the run went on.
func dots(events []*history.Event) (all []dot) {
	begun := map[uint64]*history.Event{}
	last := int64(0)
	for _, e := range events {
		last = max(last, e.At)
		switch asked := begun[e.Op]; {
		case e.Phase == history.Invoke:
			begun[e.Op] = e
		case e.Phase != history.Note && asked != nil:
			delete(begun, e.Op)
			all = append(all, dot{float64(asked.At) / 1e9, float64(e.At-asked.At) / 1e9, e.Phase, e.Func})
		}
	}
	for _, asked := range begun { // Any order: sorted below.
		all = append(all, dot{float64(asked.At) / 1e9, float64(last-asked.At) / 1e9, history.Info, asked.Func})
	}
	slices.SortFunc(all, func(a, b dot) int { return int(math.Copysign(1, a.at-b.at)) })
	return all
}

// Of the plots, in pixels.
const (
	plotWidth, plotHeight = 960.0, 260.0
	plotLeft, plotBottom  = 56.0, 24.0
	maxDots               = 20_000 // more make a page that no browser likes: then every nth is shown
)

var colours = map[history.Phase]string{history.OK: "#2a7", history.Fail: "#c33", history.Info: "#e90"}

// plot is an SVG picture over the time of a run.
type plot struct {
	strings.Builder
	end, top float64 // seconds of the run; the highest value
	scale    func(v float64) float64
}

func newPlot(end, top float64, scale func(float64) float64, windows []cluster.Window) *plot {
	p := &plot{end: max(end, 1), top: top, scale: scale}
	fmt.Fprintf(p, `<svg viewBox="0 0 %.0f %.0f" role="img">`, plotWidth, plotHeight)
	for _, w := range windows {
		to := w.To.Seconds()
		if to == 0 {
			to = end
		}
		fmt.Fprintf(p, `<rect x="%.1f" y="0" width="%.1f" height="%.1f" fill="#c33" opacity=".12"><title>%s: %s</title></rect>`,
			p.x(w.From.Seconds()), max(p.x(to)-p.x(w.From.Seconds()), 1), plotHeight-plotBottom, template.HTMLEscapeString(w.Fault), template.HTMLEscapeString(w.What))
		if whole := w.Whole.Seconds(); whole > to {
			fmt.Fprintf(p, `<rect x="%.1f" y="0" width="%.1f" height="%.1f" fill="#e90" opacity=".12"><title>until whole again</title></rect>`,
				p.x(to), p.x(whole)-p.x(to), plotHeight-plotBottom)
		}
	}
	for n := range 7 {
		at, anchor, digits := end*float64(n)/6, "middle", 0
		if n == 6 {
			anchor = "end" // else half of it would be outside
		}
		if end < 60 {
			digits = 1
		}
		fmt.Fprintf(p, `<text x="%.1f" y="%.1f" text-anchor="%s">%.*f s</text>`, p.x(at), plotHeight-6, anchor, digits, at)
	}
	return p
}

func (p *plot) x(at float64) float64 { return plotLeft + at/p.end*(plotWidth-plotLeft-8) }
func (p *plot) y(v float64) float64 {
	return (plotHeight-plotBottom)*(1-min(max(p.scale(v)/p.scale(p.top), 0), 1)) + 2
}

// line draws a mark of the value axis.
func (p *plot) line(v float64, text string) {
	fmt.Fprintf(p, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" stroke="#999" stroke-width=".4"/><text x="%.1f" y="%.1f" text-anchor="end">%s</text>`,
		plotLeft, plotWidth, p.y(v), p.y(v), plotLeft-4, max(p.y(v)+4, 10), text)
}

func (p *plot) done() template.HTML {
	p.WriteString("</svg>")
	return template.HTML(p.String()) // what is in it was escaped when it was drawn
}

// latencies shows how long each operation took, on a logarithmic scale from a
// tenth of a millisecond.
func latencies(all []dot, end float64, windows []cluster.Window) template.HTML {
	const least = 1e-4
	p := newPlot(end, 100, func(v float64) float64 { return math.Log10(max(v, least) / least) }, windows)
	for _, v := range []float64{1e-3, 1e-2, 1e-1, 1, 10, 100} {
		p.line(v, time.Duration(v*1e9).String())
	}
	step := len(all)/maxDots + 1
	for i := 0; i < len(all); i += step {
		d := all[i]
		fmt.Fprintf(p, `<circle cx="%.1f" cy="%.1f" r="1.3" fill="%s" opacity=".6"/>`, p.x(d.at), p.y(d.took), colours[d.phase])
	}
	return p.done()
}

// StormOver is the note after which clients do no more than finish and read everything.
const StormOver = "the storm is over"

// storm is how many seconds clients worked; the whole run where a history does not say.
func storm(events []*history.Event, end float64) float64 {
	for _, e := range events {
		if e.Phase == history.Note && e.Text == StormOver {
			return float64(e.At) / 1e9
		}
	}
	return end
}

// rates shows how many operations ended in each second, by how. The scale is that of the
// time in which clients worked: at the end everything is read as fast as that goes.
func rates(all []dot, end, worked float64, windows []cluster.Window) template.HTML {
	seconds := make(map[history.Phase][]float64)
	top := 1.0
	for _, d := range all {
		if seconds[d.phase] == nil {
			seconds[d.phase] = make([]float64, int(end)+2)
		}
		at := min(int(d.at+d.took), int(end)+1)
		seconds[d.phase][at]++
		if float64(at) < worked {
			top = max(top, seconds[d.phase][at])
		}
	}
	p := newPlot(end, top, func(v float64) float64 { return v }, windows)
	for _, share := range []float64{0, 0.5, 1} {
		p.line(top*share, fmt.Sprintf("%.0f/s", top*share))
	}
	for _, phase := range []history.Phase{history.OK, history.Fail, history.Info} {
		if seconds[phase] == nil {
			continue
		}
		fmt.Fprintf(p, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="`, colours[phase])
		for at, n := range seconds[phase] {
			fmt.Fprintf(p, "%.1f,%.1f ", p.x(min(float64(at)+0.5, end)), p.y(n))
		}
		p.WriteString(`"/>`)
	}
	return p.done()
}

var pageTemplate = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{{.Title}}</title>
<style>
body{font:15px/1.5 system-ui,sans-serif;max-width:1000px;margin:2em auto;padding:0 1em;color:#222}
svg{width:100%;height:auto} svg text{font:11px system-ui,sans-serif;fill:#555}
.VIOLATED{color:#c33} .INVALID{color:#b70} .passed{color:#2a7}
pre{white-space:pre-wrap;background:#f5f5f5;padding:1em} table{border-collapse:collapse} td,th{padding:.1em .7em;border:1px solid #ddd;text-align:left}
b.ok{color:#2a7} b.fail{color:#c33} b.info{color:#e90}
</style>
<h1>{{.Title}}: <span class="{{.R.Verdict}}">{{.R.Verdict}}</span></h1>
<p>{{.R.Config.Nodes}} nodes ({{.R.Network}}), seed {{.R.Config.Seed}}, {{.R.Config.Duration}} of faults, {{printf "%.0f" .R.Took.Seconds}} s in all.
{{.R.Acked}} tasks acknowledged of {{.R.Sent}} sent.</p>
{{if .R.Ended}}<p class="INVALID">{{.Ended}}: what is here was judged up to then, and is no verdict</p>{{end}}{{range .R.Findings}}<p class="VIOLATED">{{.}}</p>{{end}}{{range .R.Missing}}<p class="INVALID">missing, so that this proves nothing: {{.}}</p>{{end}}
{{range .Pictures}}<p><a href="{{.}}">porcupine's picture: {{.}}</a></p>{{end}}
<h2>Latency</h2><p>Each call: <b class="ok">done</b>, <b class="fail">refused</b>, <b class="info">unknown</b>. Red is a fault, yellow until the cluster was whole again.</p>
{{.Latency}}
<h2>Rate</h2><p>Calls that ended in each second. What is off the top is the reading at the end.</p>{{.Rate}}
<h2>All of it</h2><pre>{{.Text}}</pre>
</html>
`))

// HTML writes the report of a run as a page, with plots. pictures are files
// beside it.
func (r *Result) HTML(w io.Writer, pictures ...string) error {
	var text strings.Builder
	if err := r.Markdown(&text); err != nil {
		return err
	}
	all := dots(r.Events)
	end := r.Took.Seconds()
	return pageTemplate.Execute(w, map[string]any{
		"Title": fmt.Sprintf("fault %s, workload %s", r.Config.Fault, r.Config.Workload), "R": r, "Pictures": pictures, "Ended": cluster.ErrEnded.Error(),
		"Latency": latencies(all, end, r.Windows), "Rate": rates(all, end, storm(r.Events, end), r.Windows), "Text": text.String(),
	})
}
