package check

import (
	"bytes"
	"strings"
	"testing"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// forged writes a history of several processes by hand, with true times in
// seconds.
type forged struct {
	t      *testing.T
	l      *Ledger
	op     uint64
	serial uint64
	events []*history.Event
}

func newForged(t *testing.T, o LedgerOptions) *forged {
	if o.Partitions == 0 {
		o.Partitions = 1
	}
	return &forged{t: t, l: NewLedger(o)}
}

func ns(s float64) int64 { return int64(s * 1e9) }

// op writes an operation from call to back.
func (f *forged) do(call, back float64, process int, asked history.Event, phase history.Phase, got history.Event) {
	f.op++
	asked.At, asked.Op, asked.Process, asked.Phase = ns(call), f.op, process, history.Invoke
	got.At, got.Op, got.Process, got.Phase, got.Func = ns(back), f.op, process, phase, asked.Func
	f.events = append(f.events, &asked, &got)
}

func (f *forged) note(when float64, e history.Event) {
	e.At, e.Phase = ns(when), history.Note
	f.events = append(f.events, &e)
}

func (f *forged) enqueue(when float64, spec history.Spec) id.ID {
	task := f.task()
	f.put(when, task, spec)
	return task
}

// task draws an ID; later ones are younger.
func (f *forged) task() id.ID {
	f.serial++
	return id.NewGenerator(1, func() uint64 { return f.serial }).Next(int64(1_800_000_000+f.serial) * second)
}

func (f *forged) put(when float64, task id.ID, spec history.Spec) {
	if spec.Queue == "" {
		spec.Queue = "q"
	}
	f.do(when, when+0.1, 0, history.Event{Func: history.Enqueue, Items: []history.Item{{Task: task, Spec: &spec}}},
		history.OK, history.Event{Items: []history.Item{{Task: task}}})
}

// claim is granted from call to back and believed in until then.
func (f *forged) claim(call, back float64, process int, token uint64, until float64, tasks ...id.ID) {
	f.serial++
	var items []history.Item
	for n, task := range tasks {
		items = append(items, history.Item{Task: task, Token: token + uint64(n), Until: ns(until), Start: ns((call + back) / 2)})
	}
	f.do(call, back, process, history.Event{Func: history.Claim, Queues: []string{"q"}, Session: uint64(process), Request: f.serial, Max: 9},
		history.OK, history.Event{Items: items})
}

func (f *forged) write(call, back float64, process int, fn history.Func, task id.ID, token uint64, until float64) {
	f.do(call, back, process, history.Event{Func: fn, Items: []history.Item{{Task: task, Token: token}}},
		history.OK, history.Event{Items: []history.Item{{Task: task, Until: ns(until)}}})
}

func (f *forged) swap(call, back float64, process int, from, to uint64, phase history.Phase) {
	cell := func(n uint64) *history.Cell { return &history.Cell{Epoch: n, Nonce: n, Leader: "n"} }
	f.do(call, back, process, history.Event{Func: history.CellSwap, From: cell(from), Cell: cell(to)}, phase, history.Event{})
}

func (f *forged) cell(call, back float64, process int, epoch, nonce uint64) {
	f.do(call, back, process, history.Event{Func: history.CellRead}, history.OK,
		history.Event{Cell: &history.Cell{Epoch: epoch, Nonce: nonce, Leader: "n"}})
}

// look shows a cell of partition 0 at a node.
func (f *forged) look(call, back float64, node string, epoch uint64, leader string) {
	f.do(call, back, 1, history.Event{Func: history.Look, Text: node}, history.OK,
		history.Event{Cells: []history.Cell{{Epoch: epoch, Leader: leader, Cohort: []string{"n1", "n2"}}}})
}

// judge plays the events in the order of time.
func (f *forged) judge() map[string]Result {
	sortByTime(f.events)
	for _, e := range f.events {
		f.l.Add(e)
	}
	out := map[string]Result{}
	for _, r := range f.l.Judge() {
		out[r.Checker] = r
	}
	return out
}

func sortByTime(events []*history.Event) {
	for i := range events { // stable, and short
		for j := i; j > 0 && events[j].At < events[j-1].At; j-- {
			events[j], events[j-1] = events[j-1], events[j]
		}
	}
}

// life is a history in which everything happens and nothing is wrong.
func life(f *forged) {
	a := f.enqueue(0, history.Spec{})
	b := f.enqueue(0.2, history.Spec{Deps: []id.ID{a}})
	c := f.enqueue(0.4, history.Spec{})
	f.claim(0.5, 2, 1, 1<<32|1, 10, a)
	f.write(5, 6, 1, history.Renew, a, 1<<32|1, 15)
	f.swap(6.5, 6.6, 7, 1, 2, history.Info)
	f.swap(6.5, 7.5, 8, 1, 3, history.Fail)
	f.cell(6.6, 8, 9, 2, 2)
	f.note(7, history.Event{Func: history.Lead, Cell: &history.Cell{Epoch: 2, Nonce: 2, Leader: "n"}, Items: []history.Item{{Task: a, Token: 1<<32 | 1}}})
	f.swap(8.5, 8.6, 7, 2, 4, history.OK)
	// The worker has forgotten it, and another one gets it; its late completion
	// counts, and another renewal does not.
	f.claim(8, 15.5, 2, 2<<32|1, 25, a)
	f.claim(9, 9.5, 3, 2<<32|2, 20, c)
	f.write(16, 17, 1, history.Complete, a, 1<<32|1, 0)
	f.do(17, 17.1, 1, history.Event{Func: history.Renew, Items: []history.Item{{Task: a, Token: 1<<32 | 1}}}, history.OK,
		history.Event{Items: []history.Item{{Task: a, Error: "CLAIM_LOST"}}})
	f.claim(16.5, 18, 4, 2<<32|3, 27, b)
	f.write(19, 19.2, 4, history.Release, b, 2<<32|3, 0)
	f.claim(19.1, 19.3, 5, 2<<32|4, 30, b)
	f.note(20, history.Event{Func: history.Died, Process: 5})
	f.claim(20.5, 21, 6, 2<<32|5, 30, b)
	f.look(1, 1.1, "n1", 1, "n1")
	f.look(8, 8.1, "n1", 2, "n2")
	f.look(9, 9.1, "n2", 1, "n1") // it is behind
	f.note(31, history.Event{Text: Settled})
	f.look(32, 32.1, "n2", 2, "n2")
}

func TestAGoodHistoryIsBalanced(t *testing.T) {
	f := newForged(t, LedgerOptions{Passing: second})
	life(f)
	for _, r := range f.judge() {
		t.Log(r.String())
		if r.Broken > 0 || r.Unknown > 0 || r.Judged == 0 {
			t.Errorf("%s", r.String())
		}
	}
	var page bytes.Buffer
	if ok, err := f.l.Picture(f.l.order[0].id, &page); !ok || err != nil || !strings.Contains(page.String(), "acquire") {
		t.Errorf("no picture of the first task: %v, %v, %d bytes", ok, err, page.Len())
	}
	if ok, _ := f.l.Picture(id.ID{9}, &page); ok {
		t.Error("a picture of a task that was never granted")
	}
}

func TestRanks(t *testing.T) {
	f := newForged(t, LedgerOptions{Wall: 1, Skew: second / 10})
	var tasks []id.ID
	for n := range 5 {
		tasks = append(tasks, f.enqueue(float64(n)/10, history.Spec{}))
	}
	best := f.enqueue(0.6, history.Spec{Priority: 3})
	f.claim(1, 1.1, 1, 1, 9, tasks[4]) // passes over four older ones and a better one
	f.claim(2, 2.1, 1, 2, 9, tasks[0]) // over the better one
	f.claim(3, 3.1, 1, 3, 9, best)
	f.claim(4, 4.1, 1, 4, 9, tasks[3]) // over two
	f.judge()
	if got, want := f.l.Ranks(), (Ranks{Grants: 4, P50: 2, P99: 5, Max: 5}); got != want {
		t.Errorf("ranks %+v, want %+v", got, want)
	}
}

// Long polls are asked for long before they are granted: only the leaders'
// clocks tell in which order.
func TestRanksOfLongPolls(t *testing.T) {
	for wall, want := range map[int64]Ranks{0: {Grants: 2}, 7 * second: {Grants: 2, P50: 1, P99: 1, Max: 1}} {
		f := newForged(t, LedgerOptions{Wall: wall, Skew: second / 10})
		x, y := f.enqueue(1, history.Spec{}), f.enqueue(1.5, history.Spec{})
		for n, task := range []id.ID{y, x} {
			at := 3 + float64(n)
			f.do(0.5, at+0.1, n, history.Event{Func: history.Claim, Queues: []string{"q"}, Session: uint64(n), Request: 1}, history.OK,
				history.Event{Items: []history.Item{{Task: task, Token: uint64(n + 1), Start: 7*second + ns(at)}}})
		}
		f.judge()
		if got := f.l.Ranks(); got != want {
			t.Errorf("wall clock %d: ranks %+v, want %+v", wall, got, want)
		}
	}
	// A task that came while a claim was under way was not passed over by it.
	f := newForged(t, LedgerOptions{})
	x, y := f.task(), f.enqueue(0, history.Spec{})
	f.put(3, x, history.Spec{})
	f.claim(1, 5, 1, 1, 9, y)
	f.judge()
	if got, want := f.l.Ranks(), (Ranks{Grants: 1}); got != want {
		t.Errorf("ranks %+v, want %+v", got, want)
	}
}

// Every violation is counted, and some are kept.
func TestManyViolationsAreCounted(t *testing.T) {
	f := newForged(t, LedgerOptions{})
	for n := range 30 {
		a := f.enqueue(float64(n), history.Spec{})
		f.claim(100, 101, 1, uint64(n+1)*10, 120, a)
		f.claim(102, 103, 2, uint64(n+1)*10+1, 120, a)
	}
	if r := f.judge()["leases"]; r.Broken != 30 || len(r.Violations) != maxViolations || r.Judged != 60 {
		t.Errorf("30 overlaps: %s, %d kept", r.String(), len(r.Violations))
	}
}

// A history of the size of a long run of the laboratory: claims with a renewal
// each, every tenth lost and granted again.
func BenchmarkLedgerOfHundredThousandTasks(b *testing.B) {
	gen := id.NewGenerator(1, func() uint64 { return 1 })
	spec := &history.Spec{Queue: "q"}
	var events []*history.Event
	now, op, token := int64(0), uint64(0), uint64(0)
	do := func(asked, got history.Event) {
		op++
		asked.At, asked.Op, asked.Phase = now, op, history.Invoke
		got.At, got.Op, got.Phase, got.Func = now+second/1000, op, history.OK, asked.Func
		events = append(events, &asked, &got)
		now += second / 500
	}
	for n := range 100_000 {
		item := history.Item{Task: gen.Next(1_800_000_000*second + now), Spec: spec}
		do(history.Event{Func: history.Enqueue, Items: []history.Item{item}}, history.Event{Items: []history.Item{{Task: item.Task}}})
		for range 1 + n%10/9 {
			token++
			held := []history.Item{{Task: item.Task, Token: token, Until: now + second/200}}
			do(history.Event{Func: history.Claim, Queues: []string{"q"}, Request: token}, history.Event{Items: held})
			do(history.Event{Func: history.Renew, Items: held}, history.Event{Items: []history.Item{{Task: item.Task, Until: now + second/300}}})
			now += second / 100
		}
		do(history.Event{Func: history.Complete, Items: []history.Item{{Task: item.Task, Token: token}}}, history.Event{Items: []history.Item{{Task: item.Task}}})
	}
	for b.Loop() {
		l := NewLedger(LedgerOptions{Partitions: 64, Passing: second})
		for _, e := range events {
			l.Add(e)
		}
		for _, r := range l.Judge() {
			if r.Broken > 0 || r.Unknown > 0 {
				b.Fatal(r.String())
			}
		}
		if ranks := l.Ranks(); ranks.Grants != 100_000 || ranks.Max != 0 {
			b.Fatalf("%+v", ranks)
		}
	}
}
