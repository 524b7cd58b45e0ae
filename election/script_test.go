package election

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/ring"
)

// TestScripts runs the files of testdata, message by message. Those of node a's
// candidacies for partition 1, each followed by what is wanted done:
//
//	start epoch=4 nonce=7 from=(a,b,c) to=(a,b,c) transfer promise=4
//	vote from=b no promise=4 epoch=5 nonce=9 pre=false   of the ballot last asked, unless told
//	read epoch=4 nonce=7
//	handed no epoch=5
//	pushed from=b no promise=4 epoch=5 nonce=9
//	written epoch=5 nonce=own unknown
//	abort | heard from=b promise=9 | pass for=1s | hopeless up=(a,b)
//
// Those of an acceptor, each followed by what it keeps:
//
//	ballot epoch=5 nonce=9 old=4 to=(a,b,c) pre transfer spare
//	accept epoch=5 | registered epoch=5 | forget epoch=5
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.HasPrefix(path, "testdata/rapid") {
			t.Skip("no script")
		}
		s := &script{now: clock.Time{Mono: 1}, names: map[uint64]string{0: "0"}}
		s.runs = New(Config[string]{Self: "a", Rand: rand.New(rand.NewPCG(1, 2))})
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.run(t, d) })
	})
}

type script struct {
	now      clock.Time
	runs     *Elections[string]
	acceptor Acceptor[string]
	last     Ballot[string]
	names    map[uint64]string // of nonces that were drawn
	out      strings.Builder
}

const scripted = ring.Partition(1)

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	s.out.Reset()
	switch d.Cmd {
	case "ballot", "accept", "registered", "forget":
		s.accepts(t, d)
		return s.out.String()
	case "start":
		s.start(t, d)
	case "vote":
		if counts := s.runs.Vote(s.now, word(t, d, "from"), s.vote(t, d)); counts {
			s.out.WriteString("its claims count\n")
		}
	case "read":
		s.runs.Read(s.now, scripted, Cell[string]{Epoch: number(t, d, "epoch", 0), Nonce: number(t, d, "nonce", 0)})
	case "handed":
		s.runs.HandedOver(s.now, scripted, number(t, d, "epoch", s.last.Epoch), !d.HasArg("no"))
	case "pushed":
		s.runs.Pushed(s.now, word(t, d, "from"), s.vote(t, d))
	case "written":
		s.runs.Written(s.now, scripted, Cell[string]{Epoch: number(t, d, "epoch", 0), Nonce: s.nonce(t, d), Cohort: s.last.To}, !d.HasArg("unknown"))
	case "refused":
		s.runs.Refused(scripted, number(t, d, "epoch", s.last.Epoch), s.nonce(t, d))
	case "abort":
		s.runs.Abort(scripted, "somebody else was promised more")
	case "hopeless":
		up := words(d, "up")
		s.runs.Hopeless(scripted, func(m string) bool { return slices.Contains(up, m) })
	case "spare":
		s.runs.Spare(scripted)
	case "heard":
		s.runs.Heard(scripted, word(t, d, "from"), number(t, d, "promise", 0))
	case "pass":
		by, err := time.ParseDuration(word(t, d, "for"))
		if err != nil {
			t.Fatal(err)
		}
		s.now = s.now.Add(by)
	default:
		t.Fatalf("%s: no such command", d.Cmd)
	}
	s.ready()
	return s.out.String()
}

func (s *script) start(t *testing.T, d *datadriven.TestData) {
	cell := Cell[string]{Epoch: number(t, d, "epoch", 0), Nonce: number(t, d, "nonce", 0), Cohort: words(d, "from")}
	if !s.runs.Start(s.now, scripted, cell, words(d, "to"), d.HasArg("transfer"), number(t, d, "promise", 0)) {
		s.out.WriteString("not started\n")
	}
	if epoch, ok := s.runs.Running(scripted); ok {
		fmt.Fprintf(&s.out, "running for %d\n", epoch)
	}
}

// vote is about the ballot last asked unless it is told.
func (s *script) vote(t *testing.T, d *datadriven.TestData) Vote {
	v := Vote{Partition: scripted, Epoch: number(t, d, "epoch", s.last.Epoch), Nonce: s.last.Nonce, Pre: s.last.Pre, Granted: !d.HasArg("no")}
	if d.HasArg("nonce") {
		v.Nonce = s.nonce(t, d)
	}
	if d.HasArg("pre") {
		v.Pre = word(t, d, "pre") == "true"
	}
	v.Promise = number(t, d, "promise", 0)
	return v
}

func (s *script) nonce(t *testing.T, d *datadriven.TestData) uint64 {
	if d.HasArg("nonce") && word(t, d, "nonce") == "own" {
		return s.last.Nonce
	}
	return number(t, d, "nonce", 0)
}

// name gives nonces that were drawn a name, by their order.
func (s *script) name(nonce uint64) string {
	if nonce < 100 {
		return fmt.Sprint(nonce)
	}
	if s.names[nonce] == "" {
		s.names[nonce] = fmt.Sprintf("N%d", len(s.names))
	}
	return s.names[nonce]
}

func (s *script) ready() {
	r := s.runs.Ready(s.now)
	for _, a := range r.Ask {
		b := &a.Ballot
		kind := "ballot"
		if b.Pre {
			kind = "pre-vote"
		}
		fmt.Fprintf(&s.out, "ask %s: %s epoch=%d nonce=%s old=%d %v -> %v transfer=%t\n", a.To, kind, b.Epoch, s.name(b.Nonce), b.Old, b.From, b.To, b.Transfer)
		s.last = *b
	}
	for _, p := range r.Read {
		fmt.Fprintf(&s.out, "read the cell of %d\n", p)
	}
	for _, h := range r.Hand {
		fmt.Fprintf(&s.out, "hand over epoch=%d from %v to a majority of %v\n", h.Epoch, h.Voters, h.To)
	}
	for _, p := range r.Push {
		fmt.Fprintf(&s.out, "push epoch=%d nonce=%s to %v\n", p.Epoch, s.name(p.Nonce), p.To)
	}
	for _, w := range r.Write {
		fmt.Fprintf(&s.out, "write %d/%s %v -> %d/%s %v\n", w.Old.Epoch, s.name(w.Old.Nonce), w.Old.Cohort, w.New.Epoch, s.name(w.New.Nonce), w.New.Cohort)
	}
	for _, w := range r.Won {
		fmt.Fprintf(&s.out, "won %d/%s %v\n", w.Cell.Epoch, s.name(w.Cell.Nonce), w.Cell.Cohort)
	}
	for _, l := range r.Lost {
		fmt.Fprintf(&s.out, "lost %d: %s\n", l.Epoch, l.Why)
	}
	if r.Wake == clock.Never {
		s.out.WriteString("nothing is due\n")
	} else {
		fmt.Fprintf(&s.out, "due in %v\n", time.Duration(r.Wake-s.now.Mono))
	}
}

func (s *script) accepts(t *testing.T, d *datadriven.TestData) {
	a := &s.acceptor
	epoch := number(t, d, "epoch", 0)
	switch d.Cmd {
	case "ballot":
		b := &Ballot[string]{
			Partition: scripted, Epoch: epoch, Nonce: number(t, d, "nonce", 0), Old: number(t, d, "old", 0),
			From: []string{"a", "b", "c"}, To: words(d, "to"), Pre: d.HasArg("pre"), Transfer: d.HasArg("transfer"),
		}
		if b.To == nil {
			b.To = b.From
		}
		var v Vote
		if b.Pre {
			v = a.Would(b, d.HasArg("spare"))
		} else {
			v = a.Vote(b)
		}
		if v.Epoch != b.Epoch || v.Nonce != b.Nonce || v.Partition != b.Partition || v.Pre != b.Pre || v.Promise != a.Promise {
			t.Fatalf("%+v answers %+v", v, b)
		}
		fmt.Fprintf(&s.out, "granted=%t\n", v.Granted)
	case "accept":
		ok, changed := a.Accept(epoch)
		fmt.Fprintf(&s.out, "ok=%t changed=%t\n", ok, changed)
	case "registered":
		fmt.Fprintf(&s.out, "changed=%t\n", a.Registered(epoch))
	case "forget":
		fmt.Fprintf(&s.out, "may=%t\n", a.MayForget(epoch))
	}
	fmt.Fprintf(&s.out, "promise=%d nonce=%d seen=%d\n", a.Promise, a.Nonce, a.Seen)
	for _, p := range a.Open {
		fmt.Fprintf(&s.out, "open %d -> %d %v\n", p.Old, p.Epoch, p.To)
	}
}

func word(t *testing.T, d *datadriven.TestData, key string) (v string) {
	d.ScanArgs(t, key, &v)
	return v
}

func number(t *testing.T, d *datadriven.TestData, key string, otherwise uint64) uint64 {
	if d.HasArg(key) {
		d.ScanArgs(t, key, &otherwise)
	}
	return otherwise
}

func words(d *datadriven.TestData, key string) []string {
	for _, arg := range d.CmdArgs {
		if arg.Key == key {
			return slices.Clone(arg.Vals)
		}
	}
	return nil
}
