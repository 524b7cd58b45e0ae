package session

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/norn-dev/norn/clock"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestScripts runs the files of testdata: a worker, two nodes, and what they say.
// Frames arrive at once and in order, but for those that a script takes out.
//
//	setup [slots=2] [prefetch=1] [lock=L] [lease=30s] [quiet]  a new worker with node a, healthy,
//	                         task 1 runs; quiet: heartbeats and checks are not shown
//	hold call=C [n=1]        take out the next frames that ask something of a core call,
//	                         or the next frames of a kind
//	lose call=C [n=1] [from=x]  the same, for ever
//	release [twice]          what is held arrives now, in the order in which it was sent
//	forget                   what is held never arrives
//	pass for=5s              time passes
//	turn to=b                the worker has a new stream
//	grant task=2 [token=1] [lease=30s]     to the open want
//	end task=1 [kind=failed] a handler has returned
//	closed at=a association=1   a node learns that a stream has ended
//	doubt task=2 · cancel task=1 · log task=1 line=text · ask task=1
//	renewals lost=1          from now on this task's claim is not renewed
//	names [answer=refused]   from now on names are answered so
//	newcomer [lock=L] [name=N]  a second worker turns to node a
//	drain by=worker|node · kill by=worker|node
//	state                    what each side believes
//	finish                   six seconds pass, and state
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.HasPrefix(path, "testdata/fuzz") || strings.HasPrefix(path, "testdata/rapid") {
			t.Skip("no script")
		}
		s := &script{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.out.Reset()
			s.run(t, d)
			if s.out.Len() == 0 {
				return "ok"
			}
			return s.out.String()
		})
	})
}

type script struct {
	out     strings.Builder
	now     int64
	nodes   map[string]*scriptNode
	workers []*scriptWorker // the first one is the script's
	cells   map[string]Cell
	rules   []*rule
	held    []func()
	queue   []func() // frames on their way
	lost    map[Claim]bool
	verdict NameVerdict // NameUnknown: as the cell says
	quiet   bool
}

type scriptNode struct {
	name string
	d    *Dispatcher
	want *Want
	wake int64
}

type scriptWorker struct {
	name string
	w    *Worker
	node *scriptNode
	wake int64
}

// rule takes frames of a call out.
type rule struct {
	call string
	left int
	lose bool
	from string // "": anybody
}

func (s *script) time() clock.Time { return clock.Time{Mono: s.now, Wall: s.now} }

func (s *script) say(format string, args ...any) {
	fmt.Fprintf(&s.out, "%6.2f "+format+"\n", append([]any{float64(s.now-1e9) / 1e9}, args...)...)
}

func arg(d *datadriven.TestData, key, def string) string {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			return strings.Join(a.Vals, " ")
		}
	}
	return def
}

func number(t *testing.T, d *datadriven.TestData, key, def string) int {
	n, err := strconv.Atoi(arg(d, key, def))
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return n
}

func length(t *testing.T, d *datadriven.TestData, key, def string) time.Duration {
	v, err := time.ParseDuration(arg(d, key, def))
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return v
}

func (s *script) run(t *testing.T, d *datadriven.TestData) {
	claim := Claim{simTask(number(t, d, "task", "1")), uint64(number(t, d, "token", "1"))}
	w := func(f func(w *Worker)) { s.worker(s.workers[0], f) }
	n := func(f func(d *Dispatcher)) { s.node(s.workers[0].node, f) }
	switch d.Cmd {
	case "setup":
		s.setup(t, d)
	case "hold", "lose":
		s.rules = append(s.rules, &rule{arg(d, "call", ""), number(t, d, "n", "1"), d.Cmd == "lose", arg(d, "from", "")})
	case "release":
		s.release(d.HasArg("twice"))
	case "forget":
		s.held, s.rules = nil, nil
	case "pass":
		s.pass(length(t, d, "for", "1s"))
	case "turn":
		s.workers[0].node = s.nodes[arg(d, "to", "b")]
		w(func(w *Worker) { w.Turn(s.time()) })
	case "grant":
		s.grant(claim, length(t, d, "lease", "30s"))
	case "end":
		kind := map[string]EndKind{"completed": EndCompleted, "failed": EndFailed, "released": EndReleased, "reported": EndReported}[arg(d, "kind", "completed")]
		w(func(w *Worker) { w.Ended(s.time(), claim, End{Kind: kind}) })
	case "closed":
		sw := s.workers[0]
		s.node(s.nodes[arg(d, "at", "a")], func(n *Dispatcher) {
			n.Closed(s.time(), sw.w.cfg.Identity.Instance, uint64(number(t, d, "association", "1")))
		})
	case "doubt":
		n(func(d *Dispatcher) {
			d.Doubt(s.time(), s.workers[0].w.cfg.Identity.Instance, []Question{{claim, 30 * time.Second}})
		})
	case "cancel":
		n(func(d *Dispatcher) {
			s.say("known: %v", d.Cancel(s.time(), s.workers[0].w.cfg.Identity.Instance, claim, CauseCancelled))
		})
	case "log":
		w(func(w *Worker) { w.Log(s.time(), claim, arg(d, "line", "")) })
	case "ask":
		n(func(d *Dispatcher) {
			d.AskLines(s.time(), s.workers[0].w.cfg.Identity.Instance, GetLogLines{Request: 7, Claim: claim})
		})
	case "renewals":
		s.lost[Claim{simTask(number(t, d, "lost", "1")), 1}] = true
	case "names":
		s.verdict = map[string]NameVerdict{"": NameUnknown, "refused": NameRefused, "dead": NameDead, "superseded": NameSuperseded}[arg(d, "answer", "")]
	case "newcomer":
		s.newcomer(t, d)
	case "drain", "kill":
		s.stop(d.Cmd, arg(d, "by", "worker"))
	case "finish":
		s.pass(length(t, d, "for", "6s"))
		s.flow()
		s.state()
	case "state":
		s.state()
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	s.flow()
}

func (s *script) setup(t *testing.T, d *datadriven.TestData) {
	*s = script{now: 1e9, nodes: map[string]*scriptNode{}, cells: map[string]Cell{}, lost: map[Claim]bool{}}
	for _, name := range []string{"a", "b"} {
		n, err := NewDispatcher(DispatcherConfig{})
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		s.nodes[name] = &scriptNode{name: name, d: n, wake: clock.Never}
	}
	s.add(t, d, "w", "shard")
	s.flow()
	s.grant(Claim{simTask(1), 1}, length(t, d, "lease", "30s"))
	s.flow()
	s.out.Reset()
	s.quiet = d.HasArg("quiet")
}

func (s *script) add(t *testing.T, d *datadriven.TestData, name, shard string) {
	w, err := NewWorker(WorkerConfig{
		Identity: Identity{Name: shard, Instance: Instance{byte(len(s.workers) + 1)}, Machine: "m", Lock: arg(d, "lock", ""), Started: s.now},
		Capacity: Capacity{Slots: number(t, d, "slots", "2"), Prefetch: number(t, d, "prefetch", "1"), Queues: []QueueSlots{{"q", 0, 0}}},
		Stop:     time.Second,
	})
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	sw := &scriptWorker{name: name, w: w, node: s.nodes["a"], wake: clock.Never}
	s.workers = append(s.workers, sw)
	s.worker(sw, func(w *Worker) { w.Turn(s.time()) })
}

func (s *script) newcomer(t *testing.T, d *datadriven.TestData) {
	s.add(t, d, "x", arg(d, "name", "shard"))
}

func (s *script) stop(what, by string) {
	sw := s.workers[0]
	i := sw.w.cfg.Identity.Instance
	switch what + by {
	case "drainworker":
		s.worker(sw, func(w *Worker) { w.Drain(s.time()) })
	case "killworker":
		s.worker(sw, func(w *Worker) { w.Kill(s.time(), "the program stops") })
	case "drainnode":
		s.node(sw.node, func(d *Dispatcher) { d.Drain(s.time(), i) })
	case "killnode":
		s.node(sw.node, func(d *Dispatcher) { d.Kill(s.time(), i, "an operator wants it") })
	}
}

// grant answers the want of the first worker's node.
func (s *script) grant(c Claim, lease time.Duration) {
	n := s.workers[0].node
	if n.want == nil {
		s.say("%s wants nothing", n.name)
		return
	}
	no := n.want.No
	n.want = nil
	s.node(n, func(d *Dispatcher) {
		d.Granted(s.time(), no, s.now, []Assignment{{Claim: c, Queue: "q", Lease: lease, Grant: &nornv1.Grant{}}})
	})
}

// worker runs an input of a worker; what comes of it is on its way afterwards.
func (s *script) worker(sw *scriptWorker, f func(w *Worker)) {
	f(sw.w)
	r := sw.w.Ready()
	for _, x := range r.Stop {
		s.say("%s stops %v: %v", sw.name, named(x.Claim), x.Cause)
	}
	for _, x := range r.Start {
		if x.Check != 0 {
			s.queue = append(s.queue, func() { s.worker(sw, func(w *Worker) { w.CheckPassed(s.time(), x.Check) }) })
			continue
		}
		s.say("%s starts %v", sw.name, named(x.Claim))
	}
	node := sw.node
	for _, m := range r.Send {
		s.carry(m, sw.name+"→"+node.name, func() { s.node(node, func(d *Dispatcher) { d.Step(s.time(), m) }) })
	}
	sw.wake = r.WakeAt
}

// node runs an input of a dispatcher.
func (s *script) node(n *scriptNode, f func(d *Dispatcher)) {
	f(n.d)
	r := n.d.Ready()
	for _, x := range r.Settle {
		s.say("%s settles %v: %v", n.name, named(x.Claim), x.Why)
		s.queue = append(s.queue, func() {
			s.node(n, func(d *Dispatcher) { d.Settled(s.time(), x.Instance, x.Claim, Outcome{Done: true}) })
		})
	}
	for _, x := range r.Doubt {
		for _, q := range x.Claims {
			s.say("%s hands over %v", n.name, named(q.Claim))
		}
	}
	for _, x := range r.Names {
		s.name(n, x)
	}
	for _, x := range r.Renew {
		s.renew(n, x)
	}
	for _, x := range r.Unwant {
		if n.want != nil && n.want.No == x {
			n.want = nil
		}
	}
	for _, x := range r.Want {
		n.want = &x
	}
	for _, x := range r.Lines {
		s.say("%s has lines of %v from %d: %q, ended %v", n.name, named(x.Claim), x.First, x.Lines, x.Ended)
	}
	for _, m := range r.Send {
		s.toWorker(n, m)
	}
	n.wake = r.WakeAt
}

func (s *script) name(n *scriptNode, x NameRequest) {
	cell, v := s.cells[x.Identity.Name].Apply(x, false)
	if s.verdict == NameUnknown {
		s.cells[x.Identity.Name] = cell
	} else {
		v = s.verdict
	}
	if !s.quiet {
		s.say("%s: %v %s for association %d: %v", n.name, x.Op, x.Identity.Name, x.Association, v)
	}
	a := NameAnswer{No: x.No, Instance: x.Identity.Instance, Verdict: v, Holder: cell.Holder}
	s.queue = append(s.queue, func() { s.node(n, func(d *Dispatcher) { d.Name(s.time(), a) }) })
}

func (s *script) renew(n *scriptNode, x Renew) {
	var items []Renewal
	for _, c := range x.Claims {
		r := Renewal{Claim: c, Lease: 30 * time.Second}
		if s.lost[c] {
			r = Renewal{Claim: c, Lost: CauseLost}
		}
		items = append(items, r)
	}
	s.queue = append(s.queue, func() {
		s.node(n, func(d *Dispatcher) { d.Renewed(s.time(), x.Instance, x.Association, x.Echo, items, true) })
	})
}

func (s *script) toWorker(n *scriptNode, m Message) {
	for _, sw := range s.workers {
		if sw.w.cfg.Identity.Instance == m.Instance {
			s.carry(m, n.name+"→"+sw.name, func() { s.worker(sw, func(w *Worker) { w.Step(s.time(), m) }) })
		}
	}
}

// asks tells whether a frame is the one of its call that asks or tells something,
// not the answer to it.
func asks(m Message) bool {
	switch m.Body.(type) {
	case *Heartbeat, *GetRunningTasks, *RunTask, *Notify, *UpdateStatus:
		return true
	}
	return false
}

// carry puts a frame on its way, or takes it out.
func (s *script) carry(m Message, way string, deliver func()) {
	plain := func() {
		if !s.quiet || callOf(m) != "heartbeat" && callOf(m) != "" {
			s.say("%s/%d %v", way, m.Association, shown{m.Body})
		}
		deliver()
	}
	for i, r := range s.rules {
		if !strings.HasPrefix(way, r.from) || r.call != m.Body.Kind().String() && (r.call != callOf(m) || !asks(m)) {
			continue
		}
		if r.left--; r.left == 0 {
			s.rules = slices.Delete(s.rules, i, i+1)
		}
		if r.lose && (!s.quiet || r.call != "heartbeat") {
			s.say("%s/%d %v is lost", way, m.Association, shown{m.Body})
		}
		if !r.lose {
			s.say("%s/%d %v is held", way, m.Association, shown{m.Body})
			s.held = append(s.held, plain)
		}
		return
	}
	s.queue = append(s.queue, plain)
}

// flow delivers everything that is on its way, and what comes of it.
func (s *script) flow() {
	for n := 0; len(s.queue) > 0 && n < 10_000; n++ {
		next := s.queue[0]
		s.queue = s.queue[1:]
		next()
	}
}

func (s *script) release(twice bool) {
	all := s.held
	s.held = nil
	for _, f := range all {
		f()
		s.flow()
		if twice {
			f()
			s.flow()
		}
	}
}

// pass lets time pass, from one wake-up to the next.
func (s *script) pass(d time.Duration) {
	end := s.now + int64(d)
	for {
		next := end
		for _, name := range []string{"a", "b"} {
			next = min(next, s.nodes[name].wake)
		}
		for _, sw := range s.workers {
			next = min(next, sw.wake)
		}
		s.now = max(s.now, next)
		for _, name := range []string{"a", "b"} {
			if n := s.nodes[name]; n.wake <= s.now {
				s.node(n, func(d *Dispatcher) { d.Tick(s.time()) })
			}
		}
		for _, sw := range s.workers {
			if sw.wake <= s.now {
				s.worker(sw, func(w *Worker) { w.Tick(s.time()) })
			}
		}
		s.flow()
		if next >= end {
			return
		}
	}
}

func (s *script) state() {
	list := func(all []Claim) (text string) {
		for _, c := range all {
			text += " " + named(c).String()
		}
		return text
	}
	for _, sw := range s.workers {
		i := sw.w.Info()
		fmt.Fprintf(&s.out, "%s: %v, association %d with %s, holds%s, unacknowledged %d", sw.name, i.State, i.Association, sw.node.name, list(i.Running), i.Unacked)
		if i.Refused != Accepted {
			fmt.Fprintf(&s.out, ", refused: %v", i.Refused)
		}
		if i.Left {
			fmt.Fprint(&s.out, ", has left")
		}
		fmt.Fprintln(&s.out)
	}
	for _, name := range []string{"a", "b"} {
		for _, i := range s.nodes[name].d.Sessions(s.time()) {
			fmt.Fprintf(&s.out, "%s: %s of %v is %v, believed to hold%s, unsure %d\n", name, i.Identity.Name, i.Identity.Instance, i.State, list(i.Running), i.Unsure)
		}
	}
}
