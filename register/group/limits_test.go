package group

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

func TestLimitsOfRequests(t *testing.T) {
	s := newSim(t, 21)
	s.grow(3)
	l := s.leader()
	f := s.nodes[slices.IndexFunc(s.nodes, func(n *simNode) bool { return n != l })]

	// More than a proposal may hold has no effect, and is said to have none.
	large := register.Request{}
	for i := range 40 {
		large.Values = append(large.Values, register.ValueChange{Name: fmt.Sprint(i), Data: make([]byte, 60<<10)})
	}
	var got register.Result
	f.ask(large, func(r register.Result) { got = r })
	s.must(time.Second, "answered", func() bool { return got.Tag != 0 })
	if !errors.Is(got.Err, ErrTooLarge) || len(s.do(f, register.Request{}).State.Values) != 0 {
		t.Fatalf("a request of 2.4 MB: %v", got.Err)
	}

	// All cells of the largest cluster fit, with five members in each cohort.
	var w register.Request
	for p := range ring.MaxPartitions {
		c := register.Change{Partition: ring.Partition(p), Old: register.Cell{Epoch: 1 << 30, Nonce: 1 << 63}}
		c.New = register.Cell{Epoch: 1 << 31, Nonce: 1 << 63, Leader: s.name(1)}
		for i := range 5 {
			c.New.Cohort = append(c.New.Cohort, s.name(i))
		}
		w.Changes = append(w.Changes, c)
	}
	c := command{session: 1 << 63, seq: 1, floor: 1, request: w}
	if n := len(c.encode()); n > maxCommand/4 {
		t.Errorf("a change of all cells takes %d bytes", n)
	} else {
		t.Logf("a change of all cells takes %d bytes", n)
	}

	// More than may wait is refused at once; what waits is decided in time.
	answers := map[string]int{}
	total := maxWaiting + 100
	for i := range total {
		f.ask(value(fmt.Sprint("many", i), 0, nil), func(r register.Result) {
			switch {
			case r.Err == nil && r.ValuesWon[0]:
				answers["won"]++
			case errors.Is(r.Err, ErrBusy):
				answers["busy"]++
			default:
				answers[fmt.Sprint(r.Err)]++
			}
		})
	}
	s.must(10*time.Second, "answered", func() bool { return answers["won"]+answers["busy"] == total })
	if answers["won"] < maxWaiting || answers["busy"] == 0 {
		t.Fatalf("%v", answers)
	}
	if n := len(s.do(f, register.Request{}).State.Values); n != answers["won"] {
		t.Fatalf("%d values, %d were won", n, answers["won"])
	}
	if len(f.machine.requests.open)+len(f.machine.requests.queue) > 0 || f.machine.requests.reads > 0 {
		t.Error("something is kept of requests that are answered")
	}
}

func FuzzDecodeReplica(f *testing.F) {
	p := newReplica(register.First(register.Cluster{Partitions: 2}, register.Node{Member: register.Member{Node: "a"}}))
	f.Add(p.encode())
	c := command{session: 5, seq: 3, floor: 3, request: value("v", 0, []byte("x"))}
	_, _ = p.apply(2, c.encode())
	f.Add(p.encode())
	f.Add(c.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := decodeReplica(b); err == nil {
			again := p.encode()
			if q, err := decodeReplica(again); err != nil || !bytes.Equal(q.encode(), again) {
				t.Fatalf("a snapshot that was read cannot be written and read again: %v", err)
			}
		}
		p := newReplica(register.First(register.Cluster{Partitions: 2}, register.Node{Member: register.Member{Node: "a"}}))
		_, _ = p.apply(2, b)
		_, _ = p.apply(3, b)
		if p.state.Revision > 2 {
			t.Fatal("one command was decided twice")
		}
	})
}

// TestOneLostProposalHoldsUpNobodyForLong: the ones after it may not run so far
// ahead that the replicas cannot remember what came of them.
func TestOneLostProposalHoldsUpNobodyForLong(t *testing.T) {
	s := newSim(t, 22)
	s.grow(3)
	l := s.leader()
	f := s.nodes[slices.IndexFunc(s.nodes, func(n *simNode) bool { return n != l })]
	eaten := false
	s.eaten = func(m *Message) bool {
		e, _ := decodeEnvelope(m.Data)
		if eaten || e.from != f.self || !bytes.Contains(e.body, []byte("first")) {
			return false
		}
		eaten = true
		return true
	}
	left, unknown := 1500, 0
	f.ask(value("first", 0, nil), func(r register.Result) {
		if r.Err != nil || !r.ValuesWon[0] {
			t.Errorf("the lost one: %v", r.Err)
		}
	})
	var next func(register.Result)
	next = func(r register.Result) {
		if r.Err != nil {
			unknown++
		}
		if left--; left >= 0 {
			f.ask(register.Request{Queues: []register.QueueChange{{Name: "q", Old: 1 << 40}}}, next)
		}
	}
	for range 20 {
		f.ask(register.Request{Queues: []register.QueueChange{{Name: "q", Old: 1 << 40}}}, next)
	}
	s.must(20*time.Second, "answered", func() bool { return left < 0 && len(f.asked) == 0 })
	if unknown > 0 || !eaten {
		t.Fatalf("%d outcomes are not known (one eaten: %v)", unknown, eaten)
	}
}

// TestWhatIsKeptForSlowFollowersIsBounded in bytes as well: 256 large entries
// took 100 MB of every node, which has the log in memory.
func TestWhatIsKeptForSlowFollowersIsBounded(t *testing.T) {
	s := newSim(t, 5)
	s.cfg.Entries, s.cfg.Bytes, s.cfg.KeepBytes = 20, 1<<20, 200<<10
	s.grow(3)
	s.fill(s.nodes[0], 0, 100, 50<<10)
	for _, n := range s.nodes {
		kept, d := 0, n.machine.disk
		for _, e := range d.entries[:d.snap.GetIndex()-d.base] {
			kept += len(e.GetData())
		}
		if kept > 200<<10 || kept < 100<<10 {
			t.Errorf("%s keeps %d bytes before the snapshot", n.self.Node, kept)
		}
	}
}
