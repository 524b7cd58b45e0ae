package antientropy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
)

// TestScripts runs the files of testdata: exchanges, message by message.
//
//	put at=a,b from=0s n=10 every=100ms   enqueue tasks, by the times of their IDs
//	drop at=a from=0s n=10 every=100ms    delete them
//	refuse at=b from=0s n=1 every=1s      from now on they are not kept, silently
//	miscount at=b from=0s                 count one that is not there
//	round lose=(2,3) twice=(4) hash=2     a round; these messages are lost or come
//	                                      twice, a welcome says this hash
//	rounds for=1h                         rounds as often as they are due
//	message kind=hello hash=2             hand the responder one, show the reply
//	scrub at=b repair                     check a tree
//	write at=a from=0s n=1 every=1s message=3   put when the third message is sent
//	state                                 what both hold
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.HasPrefix(path, "testdata/fuzz") || strings.HasPrefix(path, "testdata/rapid") {
			t.Skip("no script")
		}
		s := &script{link: newLink(newReplica(), newReplica(), Config{})}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.run(t, d) })
	})
}

type script struct {
	*link
	out     strings.Builder
	writes  map[int]func()
	pending func()
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	s.out.Reset()
	switch d.Cmd {
	case "put":
		s.each(t, d, func(r *replica, f crdt.Fact) { r.put(f) })
	case "drop":
		s.each(t, d, func(r *replica, f crdt.Fact) { r.drop(f) })
	case "miscount":
		s.each(t, d, func(r *replica, f crdt.Fact) { r.tree.Add(f) })
	case "refuse":
		s.each(t, d, func(r *replica, f crdt.Fact) {
			before := r.refuse
			r.refuse = func(g crdt.Fact) bool { return g.Task == f.Task || before != nil && before(g) }
		})
	case "write":
		var at int
		d.ScanArgs(t, "message", &at)
		if s.writes == nil {
			s.writes = map[int]func(){}
		}
		later := *d // the next command reuses it
		s.writes[at] = func() { s.each(t, &later, func(r *replica, f crdt.Fact) { r.put(f) }) }
	case "round":
		s.round(t, d)
	case "rounds":
		s.rounds(t, d)
	case "message":
		m := &Message{Kind: KindHello, Session: 1, Seq: 1}
		var kind string
		d.ScanArgs(t, "kind", &kind)
		if kind == "request" {
			m.Kind, m.Asks = KindRequest, []Ask{{}}
		}
		d.ScanArgs(t, "hash", &m.Hash)
		fmt.Fprintf(&s.out, "> %v\n< %v\n", m, s.responder.Step(s.now, m).Send)
	case "scrub":
		s.scrub(t, d)
	case "state":
		for n, r := range []*replica{s.a, s.b} {
			fmt.Fprintf(&s.out, "%c: %d facts, %d counted\n", 'a'+n, len(r.all()), r.tree.Root(r.tx).Count)
		}
		fmt.Fprintf(&s.out, "equal: %v\n", s.a.tree.Root(s.a.tx) == s.b.tree.Root(s.b.tx))
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	if s.out.Len() == 0 {
		return "ok"
	}
	return s.out.String()
}

func (s *script) at(d *datadriven.TestData) []*replica {
	var out []*replica
	for _, a := range d.CmdArgs {
		if a.Key == "at" {
			for _, v := range a.Vals {
				out = append(out, map[string]*replica{"a": s.a, "b": s.b}[v])
			}
		}
	}
	return out
}

func duration(t *testing.T, d *datadriven.TestData, key string) time.Duration {
	var text string
	if d.MaybeScanArgs(t, key, &text); text == "" {
		return 0
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return v
}

// each calls fn with the facts that a command names, at each replica it names.
func (s *script) each(t *testing.T, d *datadriven.TestData, fn func(*replica, crdt.Fact)) {
	n := 1
	d.MaybeScanArgs(t, "n", &n)
	from, every := duration(t, d, "from"), duration(t, d, "every")
	for _, r := range s.at(d) {
		for k := range n {
			o := id.OrderOf(someTime+int64(from)+int64(k)*int64(every), id.KindTask)
			fn(r, crdt.Enqueued{Queue: "mail", Payload: make([]byte, 100)}.Fact(id.ID(append(o[:], make([]byte, 12)...))))
		}
		r.commit()
	}
}

func numbers(t *testing.T, d *datadriven.TestData, key string) (out []int) {
	for _, a := range d.CmdArgs {
		for k := range a.Vals {
			if a.Key == key {
				var n int
				a.Scan(t, k, &n)
				out = append(out, n)
			}
		}
	}
	return out
}

func (s *script) round(t *testing.T, d *datadriven.TestData) {
	s.log = func(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }
	var hash uint8
	d.MaybeScanArgs(t, "hash", &hash)
	lose, twice, n := numbers(t, d, "lose"), numbers(t, d, "twice"), 0
	s.fate = func(m *Message) int {
		n++
		if w := s.writes[n]; w != nil {
			delete(s.writes, n)
			s.pending = w
		}
		if m.Kind == KindWelcome && hash != 0 {
			m.Hash = hash
		}
		switch {
		case slices.Contains(lose, n):
			return 0
		case slices.Contains(twice, n):
			return 2
		}
		return 1
	}
	s.between = func() {
		if s.pending != nil {
			s.pending()
			s.pending = nil
		}
	}
	began := s.now
	r := s.link.round(t)
	s.log, s.fate, s.between, s.toA, s.toB = nil, nil, nil, nil, nil
	fmt.Fprintf(&s.out, "equal=%v pulled=%d pushed=%d moved=%d skipped=%d suspects=%v bytes=%d", r.Equal, r.Pulled, r.Pushed, r.Moved, r.Skipped, r.Suspects, r.Sent+r.Received)
	if took := s.now.SinceMono(began.Mono); took > 0 {
		fmt.Fprintf(&s.out, " took=%v", took)
	}
	if r.Err != nil {
		fmt.Fprintf(&s.out, " error: %v", r.Err)
	}
	if wait := s.initiator.NotBefore() - s.now.Mono; wait > 0 {
		fmt.Fprintf(&s.out, " again in %v", time.Duration(wait))
	}
	s.out.WriteByte('\n')
}

func (s *script) rounds(t *testing.T, d *datadriven.TestData) {
	began := s.now
	for end := s.now.Add(duration(t, d, "for")).Mono; s.now.Mono < end; {
		at := s.now.SinceMono(began.Mono)
		r := s.link.round(t)
		fmt.Fprintf(&s.out, "%v: moved=%d skipped=%d suspects=%v\n", at, r.Moved, r.Skipped, r.Suspects)
		s.now = s.now.Add(time.Duration(max(s.initiator.NotBefore()-s.now.Mono, int64(time.Second))))
	}
}

func (s *script) scrub(t *testing.T, d *datadriven.TestData) {
	for _, r := range s.at(d) {
		c := NewScrubber(r.tree, r)
		for c.Start(Path{}, d.HasArg("repair")); c.Busy(); {
			found, _ := c.Step(r.tx, 1000)
			for _, f := range found {
				fmt.Fprintf(&s.out, "%v counts %d, has %d\n", f.Path, f.Stored.Count, f.Found.Count)
			}
			r.commit()
		}
	}
}
