package core

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/vnode"

	"github.com/cockroachdb/datadriven"
	gproto "google.golang.org/protobuf/proto"
)

// TestClaimScripts runs the files of testdata/claims (-rewrite writes what happens into
// them): three nodes that keep everything together, of which a leads it all at first, and
// tasks of one partition. After each command stands what was sent and answered. Nothing is
// delivered unless it is told, but for clocks and marks.
//
//	enqueue t1 [but=b]                      b gets no copy for now; through a
//	claim r1 via=b [max=2] [request=7] [wait=2s] [unanswered=(5,6)] [none] [told]
//	renew | release | complete | fail t1 via=b [as=r2]     with the token last answered
//	deliver | drop | duplicate | delay KIND [from=a] [to=b] [all]
//	settle [drop=(KIND,…)] [to=b]           delivers all that is not delayed
//	pass for=1s                             time alone
//	live for=1s [drop=(KIND,…)] [to=b]      everything is delivered, the register heard
//	stand b                                 a is said to ask b to lead; tell: the register is heard
//	kill | open a | elect                   elect: until everything is led, untold
//	clock b ahead=1m | undelivered r1 | cancel r1 | task t1
func TestClaimScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/claims", func(t *testing.T, path string) {
		s := newClaimScript(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.run(t, d) })
		s.r.audit()
	})
}

// claimScript plays one file.
type claimScript struct {
	r      *trio
	first  int // node a
	epoch  uint64
	mute   bool
	tasks  map[string]id.ID
	names  map[id.ID]string
	tokens map[string]uint64 // last answered
	asks   []*scriptedAsk    // without an answer so far
	asked  map[string]*scriptedAsk
	late   []letter // delayed
	out    []string
}

type scriptedAsk struct {
	name string
	node int
	from message.Origin
}

func newClaimScript(t *testing.T) *claimScript {
	s := &claimScript{r: newTrio(t), tasks: map[string]id.ID{}, names: map[id.ID]string{}, tokens: map[string]uint64{}, asked: map[string]*scriptedAsk{}}
	s.first, s.r.wrong = s.r.leader(1), map[int]time.Duration{}
	s.r.lead(s.first)
	s.epoch = s.r.state().Cells[1].Epoch - 1
	s.live(2*time.Second, func(letter) bool { return false })
	s.out = nil
	return s
}

func (s *claimScript) run(t *testing.T, d *datadriven.TestData) string {
	s.r.t, s.out = t, nil
	what := ""
	if len(d.CmdArgs) > 0 {
		what = d.CmdArgs[0].Key
	}
	if d.HasArg("fall") {
		return s.falls(t, d)
	}
	switch d.Cmd {
	case "deliver", "drop", "duplicate", "delay":
		s.post(d, what)
	case "settle":
		s.settle(s.lost(d))
	case "pass":
		s.steps(s.length(d, "for"), func() {})
		s.out = collapse(s.out)
	case "live":
		s.live(s.length(d, "for"), s.lost(d))
		s.out = collapse(s.out)
	case "stand":
		cell, heir := s.r.state().Cells[1], s.node(what)
		s.do(func() {
			s.r.post = append(s.r.post, letter{s.first, heir, &message.Elect{Stand: []message.Stand{{Partition: 1, Epoch: cell.Epoch, Nonce: cell.Nonce, To: cell.Cohort}}}})
		})
	case "tell":
		s.do(s.r.tell)
	case "kill":
		s.r.kill(s.node(what))
	case "open":
		s.do(func() { s.r.open(s.node(what)); s.r.tell() })
	case "elect":
		s.mute = true
		s.do(s.r.elect)
		s.mute = false
		s.printf("%s leads in epoch %d", s.letter(s.r.leader(1)), s.r.state().Cells[1].Epoch-s.epoch)
	case "clock":
		s.r.wrong[s.node(what)] = s.length(d, "ahead")
	case "stall":
		s.do(func() {
			r, i := s.r, s.node(what)
			r.check(r.peers[i].core.Step(r.now, message.DiskStalled{Is: !d.HasArg("over")}))
			r.turn(i)
		})
	case "task":
		s.show(what)
	default:
		s.request(d, what)
	}
	return strings.Join(append(s.out, ""), "\n")
}

// falls has the node that a message goes to, or a request, fall before its disk has
// what comes of it, or after, when nothing has been said yet.
func (s *claimScript) falls(t *testing.T, d *datadriven.TestData) string {
	who := "to"
	if d.Cmd != "deliver" {
		who = "via"
	}
	p := s.r.peers[s.node(s.arg(d, who))]
	p.falls = s.arg(d, "fall")
	d.CmdArgs = slices.DeleteFunc(d.CmdArgs, func(a datadriven.CmdArg) bool { return a.Key == "fall" })
	s.run(t, d)
	if !p.down {
		s.printf("it writes nothing")
		p.falls = ""
	}
	s.printf("%s has fallen", s.arg(d, who))
	return strings.Join(append(s.out, ""), "\n")
}

// do does something, tells of what it has sent and answered, and keeps that in the post.
func (s *claimScript) do(f func()) {
	before := s.r.post
	s.r.post = nil
	f()
	fresh := s.r.post
	s.r.post = before
	for _, l := range fresh {
		switch l.message.(type) {
		case *message.Beat, *message.Beaten, *message.DurabilityEpoch:
			s.hand(l)
			continue
		}
		s.printf("%s", s.line(l))
		s.r.post = append(s.r.post, l)
	}
	s.answers()
}

// hand delivers a letter that is out of the post.
func (s *claimScript) hand(l letter) {
	s.do(func() { s.r.post = []letter{l}; s.r.deliver(0) })
}

func (s *claimScript) post(d *datadriven.TestData, kind string) {
	for found := false; ; found = true {
		match := func(l letter) bool {
			return messageName(l) == kind && (!d.HasArg("from") || s.letter(l.from) == s.arg(d, "from")) && (!d.HasArg("to") || s.letter(l.to) == s.arg(d, "to"))
		}
		box := &s.r.post
		at := slices.IndexFunc(*box, match)
		if at < 0 && d.Cmd != "delay" {
			box = &s.late
			at = slices.IndexFunc(*box, match)
		}
		if at < 0 {
			if !found {
				s.printf("no %s is on its way", kind)
			}
			return
		}
		l := (*box)[at]
		if d.Cmd != "duplicate" {
			*box = slices.Delete(slices.Clone(*box), at, at+1)
		}
		switch d.Cmd {
		case "deliver":
			s.hand(l)
		case "delay":
			s.late = append(s.late, l)
		case "duplicate": // the copy comes when it is told to
			s.late = append(s.late, l)
			return
		}
		if !d.HasArg("all") {
			return
		}
	}
}

// lost gives what is lost of what is delivered.
func (s *claimScript) lost(d *datadriven.TestData) func(letter) bool {
	var kinds []string
	for _, a := range d.CmdArgs {
		if a.Key == "drop" {
			kinds = a.Vals
		}
	}
	return func(l letter) bool {
		return slices.Contains(kinds, messageName(l)) && (!d.HasArg("to") || s.letter(l.to) == s.arg(d, "to"))
	}
}

func (s *claimScript) settle(lost func(letter) bool) {
	for n := 0; len(s.r.post) > 0; n++ {
		l := s.r.post[0]
		s.r.post = slices.Clone(s.r.post[1:])
		if lost(l) {
			s.printf("%s is lost", s.line(l))
		} else {
			s.hand(l)
		}
		if n > 10000 {
			s.r.t.Fatal("it never comes to rest")
		}
	}
}

func (s *claimScript) live(d time.Duration, lost func(letter) bool) {
	s.steps(d, func() {
		s.settle(lost)
		s.do(s.r.tell)
		s.settle(lost)
	})
}

// steps lets time pass, a tenth of a second at a time.
func (s *claimScript) steps(d time.Duration, each func()) {
	for end := s.r.now.Add(d).Mono; s.r.now.Mono < end; {
		s.do(func() { s.r.pass(100 * time.Millisecond) })
		each()
	}
}

// request sends one, or has the client of one do something.
func (s *claimScript) request(d *datadriven.TestData, what string) {
	r := s.r
	var m gproto.Message
	name, task := what, s.tasks[what]
	switch d.Cmd {
	case "enqueue":
		s.enqueue(d, what)
		return
	case "undelivered":
		ask := s.asked[what]
		s.step(ask.node, message.Undelivered{Grants: r.peers[ask.node].replies[ask.from].Grants})
		return
	case "cancel":
		s.step(s.asked[what].node, message.Cancel{From: s.asked[what].from})
		return
	case "claim":
		m = s.claim(d)
	case "renew":
		m = &nornv1.RenewRequest{Claims: refOf(task, s.tokens[what])}
	case "release":
		m = &nornv1.ReleaseRequest{Claims: refOf(task, s.tokens[what])}
	case "complete":
		m = &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: s.tokens[what], AutoSeq: true}}}
	case "fail":
		m = &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: s.tokens[what], Error: "no"}}}
	default:
		r.t.Fatalf("%s: no such command", d.Cmd)
	}
	if d.Cmd != "claim" {
		name = d.Cmd + " " + what
	}
	if d.HasArg("as") {
		name = s.arg(d, "as")
	}
	ask := &scriptedAsk{name: name, node: s.node(s.arg(d, "via"))}
	s.do(func() {
		r.told = d.HasArg("told") // what others have is known
		ask.from = r.send(ask.node, m)
		r.told = false
		s.asks, s.asked[name] = append(s.asks, ask), ask
	})
}

// step hands a node an event.
func (s *claimScript) step(i int, event any) {
	s.do(func() {
		s.r.check(s.r.peers[i].core.Step(s.r.clock(i), event))
		s.r.turn(i)
	})
}

func (s *claimScript) enqueue(d *datadriven.TestData, what string) {
	task := s.r.at(1)
	s.tasks[what], s.names[task] = task, what
	s.do(func() {
		from := s.r.enqueue(s.first, task, nil)
		for {
			at := slices.IndexFunc(s.r.post, func(l letter) bool { return strings.HasPrefix(messageName(l), "Facts") })
			if at < 0 {
				break
			}
			if d.HasArg("but") && isFacts(s.r.post[at]) && s.r.post[at].to == s.node(s.arg(d, "but")) {
				s.r.post = slices.Delete(s.r.post, at, at+1)
			} else {
				s.r.deliver(at)
			}
		}
		if res := s.r.result(s.first, from); res.GetReceipt() == nil {
			s.r.t.Fatalf("%s was not enqueued: %v", what, res)
		}
	})
}

func (s *claimScript) claim(d *datadriven.TestData) *nornv1.ClaimRequest {
	m := claimUpTo(1)
	if d.HasArg("max") {
		m.MaxTasks = uint32(s.number(s.arg(d, "max")))
	}
	if d.HasArg("request") {
		m.Session, m.RequestNo = []byte("0123456789abcdef"), s.number(s.arg(d, "request"))
	}
	if d.HasArg("wait") {
		m.WaitSeconds = s.length(d, "wait").Seconds()
	}
	for _, a := range d.CmdArgs {
		if a.Key == "unanswered" {
			for _, v := range a.Vals {
				m.Unanswered = append(m.Unanswered, s.number(v))
			}
		}
	}
	return m
}

// show tells what each node has on its disk of a task.
func (s *claimScript) show(what string) {
	for k := range s.r.peers {
		i := (s.first + k) % len(s.r.peers)
		d, err := vnode.ReadTask(s.r.peers[i].store.Crash(0), 1, s.tasks[what], vnode.ReadOptions{})
		s.r.check(err)
		line := fmt.Sprintf("%s: %s", s.letter(i), d.State)
		for n := range d.Claims {
			c := &d.Claims[n]
			line += fmt.Sprintf(", %s %s", s.token(s.tasks[what], c.Token), [...]string{"held", "completed", "failed", "released", "expired", "ended"}[c.Outcome])
		}
		s.printf("%s", line)
	}
}

func (s *claimScript) number(v string) uint64 {
	n, err := strconv.ParseUint(v, 10, 32)
	s.r.check(err)
	return n
}

func (s *claimScript) arg(d *datadriven.TestData, key string) string {
	for _, a := range d.CmdArgs {
		if a.Key == key && len(a.Vals) == 1 {
			return a.Vals[0]
		}
	}
	s.r.t.Fatalf("%s: %s= is missing", d.Pos, key)
	return ""
}

func (s *claimScript) length(d *datadriven.TestData, key string) time.Duration {
	v, err := time.ParseDuration(s.arg(d, key))
	s.r.check(err)
	return v
}

// Nodes are called a, the first leader, and b and c.
func (s *claimScript) letter(i int) string { return string(rune('a' + (i-s.first+3)%3)) }

func (s *claimScript) node(name string) int {
	k := strings.Index("abc", name)
	if len(name) != 1 || k < 0 {
		s.r.t.Fatalf("%q: nodes are a, b and c", name)
	}
	return (s.first + k) % 3
}
