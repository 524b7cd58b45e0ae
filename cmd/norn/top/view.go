package top

import (
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// view is what somebody wants to see of a look.
type view struct {
	part   int // of parts
	order  int // of orders
	from   int // the first row that is shown
	still  bool
	failed string // why there is no newer look; empty: there is
}

// parts are the tables, one of which is on the screen.
var parts = []string{"queues", "workers", "nodes", "alerts"}

// perSecond shows a rate.
func perSecond(r rates, v float64) string {
	switch {
	case !r.known:
		return ""
	case v != 0 && v > -10 && v < 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// head says how the whole is, in two lines.
func head(l *look, all rates, alerts int, v view) []string {
	alive, members := 0, 0
	for _, n := range l.status.GetNodes() {
		if n.GetState() != "removed" {
			members++
			if n.GetAlive() {
				alive++
			}
		}
	}
	sum := &nornv1.Count{}
	for _, q := range l.queues {
		n := q.GetCount()
		sum.Ready, sum.Claimed, sum.Scheduled, sum.Waiting, sum.Dead = sum.Ready+n.GetReady(), sum.Claimed+n.GetClaimed(), sum.Scheduled+n.GetScheduled(), sum.Waiting+n.GetWaiting(), sum.Dead+n.GetDead()
	}
	first := fmt.Sprintf("norn top  %s  node %s  nodes %d of %d  workers %s  alerts %d", l.at.Format(time.TimeOnly), l.status.GetNode(), alive, members, render.Number(uint64(len(l.workers))), alerts)
	if v.still {
		first += "  (held)"
	}
	if v.failed != "" {
		first += "  no news: " + render.Text([]byte(v.failed), 80)
	}
	second := fmt.Sprintf("ready %s  claimed %s  scheduled %s  waiting %s  dead %s", render.Number(sum.Ready), render.Number(sum.Claimed), render.Number(sum.Scheduled), render.Number(sum.Waiting), render.Number(sum.Dead))
	if all.known {
		second += fmt.Sprintf("  in %s/s  done %s/s", perSecond(all, all.in), perSecond(all, all.out))
	}
	return []string{first, second}
}

// table makes the rows of a part, from the first that is wanted, at most so many; n is how many
// there are.
func table(l *look, rows []row, alerts []string, v view, most int) (lines []string, n int) {
	window := func(n int) (from, to int) {
		from = min(v.from, max(n-1, 0))
		return from, from + min(most, n-from)
	}
	switch parts[v.part] {
	case "workers":
		g := render.NewGrid(false, "worker", "state", "busy", "slots", "queues", "machine", "node", "heard")
		from, to := window(len(l.workers))
		for _, w := range l.workers[from:to] {
			state := jsonform.EnumName(w.GetState())
			if w.GetDraining() {
				state += ", draining"
			}
			g.Row(render.Text([]byte(w.GetName()), 40), state, fmt.Sprint(len(w.GetRunning())), fmt.Sprint(w.GetSlots()), render.Text([]byte(queuesOf(w)), 40),
				render.Text([]byte(w.GetMachine()), 24), w.GetNode(), render.Duration(proto.Seconds(w.GetSilentSeconds()).Round(time.Millisecond)))
		}
		return gridLines(g), len(l.workers)
	case "nodes":
		nodes := l.status.GetNodes()
		g := render.NewGrid(false, "node", "state", "reached", "leads", "vnodes", "copies left", "clock", "zone", "address")
		from, to := window(len(nodes))
		for _, n := range nodes[from:to] {
			reached := "yes"
			if !n.GetAlive() {
				reached = "no"
			}
			g.Row(n.GetName(), n.GetState(), reached, fmt.Sprint(n.GetLed()), fmt.Sprint(n.GetVnodes()), fmt.Sprint(n.GetCopiesLeft()), fmt.Sprintf("%+.1f ms", n.GetClockOffsetMs()),
				render.Text([]byte(n.GetZone()), 20), n.GetAddress())
		}
		return gridLines(g), len(nodes)
	case "alerts":
		if len(alerts) == 0 {
			return []string{"nothing needs anybody"}, 0
		}
		from, to := window(len(alerts))
		return alerts[from:to], len(alerts)
	}
	from, to := window(len(rows))
	return gridLines(queueGrid(rows[from:to])), len(rows)
}

func queueGrid(rows []row) *render.Grid {
	g := render.NewGrid(false, "queue", "state", "ready", "claimed", "sched.", "waiting", "dead", "in/s", "done/s", "dead/s", "oldest", "workers", "busy")
	for _, r := range rows {
		n, oldest, busy := r.q.GetCount(), "", ""
		if n.GetReady() > 0 {
			oldest = render.Duration(proto.Seconds(r.q.GetOldestReadySeconds()).Round(time.Second))
		}
		if r.workers > 0 {
			busy = fmt.Sprintf("%d/%d", r.busy, r.slots)
		}
		g.Row(r.q.GetName(), openness(r.q), render.Number(n.GetReady()), render.Number(n.GetClaimed()), render.Number(n.GetScheduled()), render.Number(n.GetWaiting()), render.Number(n.GetDead()),
			perSecond(r.rates, r.rates.in), perSecond(r.rates, r.rates.out), perSecond(r.rates, r.rates.dead), oldest, fmt.Sprint(r.workers), busy)
	}
	return g
}

func openness(q *nornv1.Queue) string {
	switch s := q.GetSettings(); {
	case s.GetPaused():
		return "paused"
	case s.GetDraining():
		return "draining"
	}
	return "open"
}

func gridLines(g *render.Grid) []string {
	var b strings.Builder
	g.Write(&b)
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}

// alertLines is how many alerts stand above the other tables.
const alertLines = 4

// frame makes the lines of a screen of so many columns and lines; 0 lines: as many as there are.
func frame(before, l *look, v view, columns, height int) []string {
	rows, all := rowsOf(before, l)
	sorted(rows, v.order)
	alerts := alertsOf(l, rows)
	lines := head(l, all, len(alerts), v)
	if parts[v.part] != "alerts" {
		for i, a := range alerts {
			if i == alertLines && height > 0 {
				lines = append(lines, fmt.Sprintf("! … and %d more", len(alerts)-i))
				break
			}
			lines = append(lines, "! "+a)
		}
	}
	lines = append(lines, "")
	most := 1 << 30
	if height > 0 {
		most = max(1, height-len(lines)-2) // the head of the table, and the help
	}
	body, n := table(l, rows, alerts, v, most)
	lines = append(lines, body...)
	if height > 0 {
		for len(lines) < height-1 {
			lines = append(lines, "")
		}
		lines = append(lines[:min(len(lines), height-1)], fmt.Sprintf("%s, %d, by %s   tab: next table  s: sort  arrows: scroll  space: hold  q: quit", parts[v.part], n, orders[v.order].name))
	}
	return fit(lines, columns, height)
}

// fit cuts lines to a screen; 0: there is no bound.
func fit(lines []string, columns, height int) []string {
	if height > 0 {
		lines = lines[:min(len(lines), height)]
	}
	if columns > 0 {
		for i := range lines {
			lines[i] = text.Trim(lines[i], columns)
		}
	}
	return lines
}

// tree is a look for programs.
func tree(before, l *look) jsonform.Value {
	rows, all := rowsOf(before, l)
	alerts := alertsOf(l, rows)
	of := func(r rates) jsonform.Value {
		return jsonform.Object(
			jsonform.Field{Name: "enqueued", Value: jsonform.Float(r.in)}, jsonform.Field{Name: "finished", Value: jsonform.Float(r.out)},
			jsonform.Field{Name: "dead", Value: jsonform.Float(r.dead)},
		)
	}
	var queues, said []jsonform.Value
	for _, r := range rows {
		queues = append(queues, jsonform.Of(r.q).With("per_second", of(r.rates)).With("workers", jsonform.Uint64(uint64(r.workers))).With("slots", jsonform.Uint64(uint64(r.slots))))
	}
	for _, a := range alerts {
		said = append(said, jsonform.String(a))
	}
	return jsonform.Object(
		jsonform.Field{Name: "at", Value: jsonform.Time(l.at)}, jsonform.Field{Name: "per_second", Value: of(all)}, jsonform.Field{Name: "alerts", Value: jsonform.List(said...)},
		jsonform.Field{Name: "queues", Value: jsonform.List(queues...)}, jsonform.Field{Name: "workers", Value: jsonform.ListOf(l.workers)}, jsonform.Field{Name: "status", Value: jsonform.Of(l.status)},
	)
}
