package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/ring"
)

// LedgerOptions say what a [Ledger] cannot see in a history. Zero values ask
// for less.
type LedgerOptions struct {
	// Partitions is the number of partitions of the cluster; 0: not known, and
	// then nothing is said about partitions.
	Partitions int
	// Excess is by how much two holds of a task may overlap, ns: in runs that
	// break eta, what they break it by.
	Excess int64
	// Wall is a wall clock's ns at time 0 of the history, and Skew how far those
	// of nodes may be from it, ns; 0: not known, and then the time of a grant is
	// anywhere between its request and its answer.
	Wall, Skew int64
	// Passing is for how long a ready task may be passed over, ns; 0: for ever.
	Passing int64
	// Apart says that it may be by tasks of other partitions: with several waiting
	// requests for several tasks each, partitions are asked side by side, and the
	// order among them is about right only (see [Ledger.Ranks]).
	Apart bool
	// Healthy are the times in which that counts, because no fault keeps a leader
	// from knowing or granting; none: always.
	Healthy []Window
	// Retention is the least time for which finished tasks are kept, ns; 0: for ever.
	Retention int64
	// Search bounds the time of each search for an order of a task's or a cell's
	// operations; 0: ten seconds.
	Search time.Duration
}

// Window is a time of a history, ns.
type Window struct{ From, To int64 }

// maxViolations is how many of one checker are kept with their text: the first
// few tell what is wrong, the number tells how often.
const maxViolations = 20

// Result is what one of a ledger's checkers says.
type Result struct {
	Checker string
	// Judged is how many things it looked at (the checker says which), and
	// Unknown how many of them were too much to search through. Where nothing was
	// judged, nothing was shown.
	Judged, Unknown int
	Violations      []Violation // the first 20
	Broken          int         // all
}

func (r *Result) add(invariant string, at int64, task id.ID, format string, args ...any) {
	r.Broken++
	if len(r.Violations) < maxViolations {
		r.Violations = append(r.Violations, Violation{Invariant: invariant, At: at, Task: task, Text: fmt.Sprintf(format, args...)})
	}
}

// String is the result in one line.
func (r *Result) String() string {
	s := fmt.Sprintf("%-12s %7d judged", r.Checker, r.Judged)
	if r.Unknown > 0 {
		s += fmt.Sprintf(", %d too much to search through", r.Unknown)
	}
	if r.Broken > 0 {
		s += fmt.Sprintf(", %d WRONG, first: %v", r.Broken, &r.Violations[0])
	}
	return s
}

// Ledger gathers what a history says of claims, of ends of tasks and of the
// register, and judges it as a whole. Other than a [Checker] it says nothing of
// readings, so that it judges several nodes as well as one; it finds all
// violations, not the first; and it knows nothing that the Checker knows, so
// that each is a test of the other. It is used from one goroutine.
type Ledger struct {
	o        LedgerOptions
	ops      map[uint64]*history.Event
	requests map[request]int64
	accounts map[id.ID]*account
	order    []*account // by first appearance
	unclear  map[string]int64
	cells    cellBook
	leads    []*history.Event
	looks    []look
	settled  int64
	equal    int64 // all replicas were, and nobody asked for anything
}

// account is what a ledger keeps of one task.
type account struct {
	id       id.ID
	spec     *history.Spec
	asked    int64 // its first enqueue was sent
	enqueued int64 // its first enqueue was acknowledged; never
	grants   []*grant
	renewals []renewal
	ends     []ending
	ended    map[uint64]bool // tokens of claims that their workers have given up
	seen     []sighting
	first    uint64 // the lowest token that any reading has shown
	read     bool
}

// grant is a claim that a worker has heard of.
type grant struct {
	token      uint64
	process    int
	call, back int64 // its request was first sent, its answer was there
	since      int64 // it was asked for then or later; before call where nobody can tell by which request
	start      int64 // wall ns of the leader
	spans      []span
}

// span is a time in which a worker believes in a claim: from begin to before
// end.
type span struct{ begin, end int64 }

type renewal struct {
	token      uint64
	call, back int64
}

// ending is an operation that ends a claim or its task.
type ending struct {
	f          history.Func
	token      uint64
	process    int
	call, back int64
	done, weak bool // done: acknowledged, and not in doubt
}

// sighting is a reading that shows a claim as over.
type sighting struct {
	token   uint64
	at      int64
	outcome string
}

// NewLedger makes an empty one.
func NewLedger(o LedgerOptions) *Ledger {
	if o.Search == 0 {
		o.Search = 10 * time.Second
	}
	return &Ledger{
		o: o, ops: map[uint64]*history.Event{}, requests: map[request]int64{}, accounts: map[id.ID]*account{},
		unclear: map[string]int64{}, settled: never, equal: never,
	}
}

// Add takes in the next event. It keeps what it needs and not the event of a
// task; those of the register it keeps.
func (l *Ledger) Add(e *history.Event) {
	switch {
	case e.Phase == history.Note && e.Func == history.Lead:
		if e.Cell != nil {
			l.leads = append(l.leads, e)
		}
	case e.Phase == history.Note && e.Func == history.Died:
		l.dies(e)
	case e.Phase == history.Note:
		switch e.Text {
		case Settled:
			l.settled = e.At
		case Equal:
			l.equal = min(l.equal, e.At)
		}
	case e.Phase == history.Invoke:
		l.ops[e.Op] = e
		l.invoke(e)
	default:
		if asked := l.ops[e.Op]; asked != nil {
			delete(l.ops, e.Op)
			l.end(asked, e)
		}
	}
}

func (l *Ledger) account(i id.ID) *account {
	a := l.accounts[i]
	if a == nil {
		a = &account{id: i, asked: never, enqueued: never}
		l.accounts[i] = a
		l.order = append(l.order, a)
	}
	return a
}

func (l *Ledger) partition(i id.ID) int { return int(ring.Of(i, l.o.Partitions)) }

func (l *Ledger) invoke(e *history.Event) {
	switch e.Func {
	case history.Claim:
		r := request{e.Session, e.Request}
		if _, again := l.requests[r]; !again {
			l.requests[r] = e.At
		}
	case history.Enqueue:
		for i := range e.Items {
			if i := &e.Items[i]; !i.Task.IsZero() {
				a := l.account(i.Task)
				a.spec, a.asked = i.Spec, min(a.asked, e.At)
			}
		}
	case history.Complete, history.Cancel, history.FailTask, history.Release:
		for i := range e.Items {
			l.gives(e, &e.Items[i])
		}
	}
}

// gives hears that a worker gives up its claim, or that somebody ends a task:
// from now on that may have happened. Whoever has the token speaks for the
// worker, on whatever connection.
func (l *Ledger) gives(e *history.Event, i *history.Item) {
	a := l.account(i.Task)
	a.ends = append(a.ends, ending{f: e.Func, token: i.Token, process: e.Process, call: e.At, back: never, weak: e.Weak})
	if e.Func != history.Cancel {
		if a.ended == nil {
			a.ended = map[uint64]bool{}
		}
		a.ended[i.Token] = true
	}
	if g := a.grant(i.Token); g != nil && e.Func != history.Cancel {
		g.cut(e.At)
	}
}

func (a *account) grant(token uint64) *grant {
	for _, g := range a.grants {
		if g.token == token {
			return g
		}
	}
	return nil
}

// cut ends a worker's belief.
func (g *grant) cut(at int64) {
	for i := range g.spans {
		g.spans[i].end = max(g.spans[i].begin, min(g.spans[i].end, at))
	}
}

// until is when the worker's belief ends for good.
func (g *grant) until() int64 {
	end := g.back
	for _, s := range g.spans {
		if s.end > s.begin {
			end = max(end, s.end)
		}
	}
	return end
}

// dies: what a process believed in, it believes in no more.
func (l *Ledger) dies(e *history.Event) {
	for _, a := range l.order {
		for _, g := range a.grants {
			if g.process == e.Process {
				g.cut(e.At)
			}
		}
	}
}

func (l *Ledger) end(asked, e *history.Event) {
	switch e.Func {
	case history.CellRead, history.CellSwap:
		l.cells.add(asked, e)
		return
	case history.Look:
		l.looked(asked, e)
		return
	case history.Claim:
		l.claimed(asked, e)
		return
	case history.List, history.Get, history.Inspect:
		l.readings(e)
		return
	}
	for i := range asked.Items {
		want := &asked.Items[i]
		var got *history.Item
		if e.Phase == history.OK && i < len(e.Items) {
			got = &e.Items[i]
		}
		surelyNot := e.Phase == history.Fail || got != nil && got.Error != "" && !got.Unsure
		sure := got != nil && got.Error == "" && !got.Unsure
		l.answered(asked, e, want, got, sure, surelyNot)
	}
}

func (l *Ledger) answered(asked, e *history.Event, want, got *history.Item, sure, surelyNot bool) {
	if want.Task.IsZero() {
		if sure && asked.Func == history.Enqueue {
			a := l.account(got.Task)
			a.spec, a.asked, a.enqueued = want.Spec, asked.At, e.At
		}
		return
	}
	a := l.account(want.Task)
	switch asked.Func {
	case history.Enqueue:
		if sure {
			a.enqueued = min(a.enqueued, e.At)
		}
	case history.Renew:
		if g := a.grant(want.Token); sure && g != nil {
			a.renewals = append(a.renewals, renewal{want.Token, asked.At, e.At})
			if !a.gaveUp(want.Token) {
				g.spans = append(g.spans, span{e.At, max(got.Until, e.At)})
			}
		}
	case history.Complete, history.Cancel, history.FailTask, history.Release:
		for n := range a.ends {
			if x := &a.ends[n]; x.call == asked.At && x.f == asked.Func && x.token == want.Token && x.process == asked.Process && x.back == never {
				x.back, x.done = e.At, sure
				if surelyNot {
					a.ends = slices.Delete(a.ends, n, n+1)
				}
				return
			}
		}
	}
}

// gaveUp tells whether a worker has stopped going on with a claim.
func (a *account) gaveUp(token uint64) bool { return a.ended[token] }

// claimed takes in the end of a claim request.
func (l *Ledger) claimed(asked, e *history.Event) {
	if e.Phase == history.Info {
		l.lost(asked)
	}
	if e.Phase != history.OK {
		return
	}
	call := l.requests[request{asked.Session, asked.Request}]
	for i := range e.Items {
		i := &e.Items[i]
		a := l.account(i.Task)
		a.shows(i, e.At)
		now := span{e.At, max(i.Until, e.At)}
		if g := a.grant(i.Token); g != nil && g.process == e.Process && g.call == call {
			if !a.gaveUp(g.token) {
				g.spans = append(g.spans, now) // the same request was answered again
			}
			continue
		}
		a.grants = append(a.grants, &grant{token: i.Token, process: e.Process, call: call, since: e.AskedSince(call), back: e.At, start: i.Start, spans: []span{now}})
	}
}

// lost notes a claim request whose grants nobody knows.
func (l *Ledger) lost(asked *history.Event) {
	for _, q := range asked.Queues {
		if at, ok := l.unclear[q]; !ok || asked.At < at {
			l.unclear[q] = asked.At
		}
	}
}

func (l *Ledger) readings(e *history.Event) {
	if e.Phase != history.OK {
		return
	}
	for i := range e.Items {
		l.account(e.Items[i].Task).shows(&e.Items[i], e.At)
	}
}

// shows notes which claims a reading shows.
func (a *account) shows(i *history.Item, at int64) {
	if len(i.Claims) > 0 {
		if token := i.Claims[0].Token; !a.read || token < a.first {
			a.first = token
		}
		a.read = true
	}
	for _, c := range i.Claims {
		// Of a task that is dead a claim has ended with it, until who reads hears of a
		// retry: its leader may know of that already, and renew the claim.
		over := c.Outcome != "active" && (c.Outcome != "ended" || i.State != history.Dead)
		known := func(s sighting) bool { return s.token == c.Token }
		if over && !slices.ContainsFunc(a.seen, known) {
			a.seen = append(a.seen, sighting{c.Token, at, c.Outcome})
		}
	}
}

// Judge ends the history and says what is wrong with it, checker by checker.
func (l *Ledger) Judge() []Result {
	for _, op := range slices.Sorted(maps.Keys(l.ops)) { // never answered: unknown
		switch asked := l.ops[op]; asked.Func {
		case history.Claim:
			l.lost(asked)
		case history.CellSwap:
			l.cells.add(asked, &history.Event{At: never, Phase: history.Info, Func: asked.Func})
		}
	}
	clear(l.ops)
	for _, a := range l.order {
		slices.SortStableFunc(a.grants, func(a, b *grant) int { return cmp.Compare(a.back, b.back) })
	}
	return []Result{
		l.leases(), l.tokens(), l.locks(), l.renewed(), l.finished(), l.dependencies(), l.waits(),
		l.chains(), l.linear(), l.leaders(), l.epochs(),
	}
}
