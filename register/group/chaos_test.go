package group

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// cellOp is an operation on one cell: a compare-and-set, or a read.
type cellOp struct {
	partition int
	set       bool
	old, new  [2]uint64 // epoch, nonce
}

type cellSeen struct {
	refused bool // it has no effect
	unknown bool
	won     bool
	cell    [2]uint64
}

// cells is the register as porcupine sees it: one compare-and-set register per
// partition.
var cells = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byCell := make([][]porcupine.Operation, 4)
		for _, op := range history {
			p := op.Input.(cellOp).partition
			byCell[p] = append(byCell[p], op)
		}
		return byCell
	},
	Init: func() any { return [2]uint64{} },
	Step: func(state, input, output any) (bool, any) {
		now, op, seen := state.([2]uint64), input.(cellOp), output.(cellSeen)
		if !op.set {
			return seen.unknown || seen.cell == now, now
		}
		wins := now == op.old && op.new[0] > now[0]
		if !seen.unknown && seen.won != wins {
			return false, now
		}
		if wins {
			return true, op.new
		}
		return true, now
	},
}

// history drives random clients and remembers what they saw.
type history struct {
	s     *sim
	ops   []porcupine.Operation
	clock int64
	next  uint64
	known [4]register.Cell
	stop  bool
	won   int
	reads int
	lost  int // outcomes that are not known
}

func (h *history) time() int64 {
	h.clock++
	return h.clock
}

func (h *history) note(client int, call int64, in cellOp, out cellSeen) {
	end := h.time()
	if out.refused {
		return
	}
	if out.unknown {
		h.lost++
		if !in.set {
			return
		}
		end = math.MaxInt64 // it may be decided at any time
	}
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: end})
}

func id(c *register.Cell) [2]uint64 { return [2]uint64{c.Epoch, c.Nonce} }

// prune leaves out unclear changes whose value nobody has ever seen: nothing
// can have followed from them, because a change needs the value before it, and
// the last read saw the last value. It keeps the search short.
func (h *history) prune() {
	seen := map[uint64]bool{}
	for _, op := range h.ops {
		if out := op.Output.(cellSeen); !out.unknown {
			seen[out.cell[1]] = true
		}
	}
	h.ops = slices.DeleteFunc(h.ops, func(op porcupine.Operation) bool {
		return op.Output.(cellSeen).unknown && !seen[op.Input.(cellOp).new[1]]
	})
}

// client does one thing after the other until it is told to stop.
func (h *history) client(i int) {
	if h.stop {
		return
	}
	s := h.s
	n := s.nodes[s.rand.IntN(len(s.nodes))]
	again := func() { s.after(1+s.rand.Int64N(int64(200*time.Millisecond)), func() { h.client(i) }) }
	call := h.time()
	if s.rand.IntN(2) == 0 {
		n.ask(register.Request{}, func(r register.Result) {
			for p := range h.known {
				out := cellSeen{unknown: r.Err != nil, refused: errors.Is(r.Err, ErrBusy)}
				if r.Err == nil {
					out.cell = id(&r.State.Cells[p])
					h.known[p] = r.State.Cells[p]
					h.reads++
				}
				h.note(i, call, cellOp{partition: p}, out)
			}
			again()
		})
		return
	}
	p := s.rand.IntN(4)
	h.next++
	op := cellOp{partition: p, set: true, old: id(&h.known[p]), new: [2]uint64{h.known[p].Epoch + 1 + uint64(s.rand.IntN(2)), h.next}}
	change := register.Change{Partition: ring.Partition(p), Old: h.known[p], New: register.Cell{Epoch: op.new[0], Nonce: op.new[1], Cohort: h.known[p].Cohort, Leader: n.self}}
	n.ask(register.Request{Changes: []register.Change{change}}, func(r register.Result) {
		out := cellSeen{unknown: r.Err != nil, refused: errors.Is(r.Err, ErrBusy)}
		if r.Err == nil {
			if out.won = r.Won[0]; out.won {
				h.won++
			}
			h.known[p] = r.State.Cells[p]
			h.note(i, call, cellOp{partition: p}, cellSeen{cell: id(&r.State.Cells[p])})
		}
		h.note(i, call, op, out)
		again()
	})
}

// storm breaks things until it is told to stop.
func (h *history) storm() {
	if h.stop {
		return
	}
	s := h.s
	n := s.nodes[s.rand.IntN(len(s.nodes))]
	switch s.rand.IntN(6) {
	case 0, 1:
		if l := s.leader(); l != nil && s.rand.IntN(2) == 0 {
			n = l
		}
		if n.machine != nil {
			n.crash()
			s.after(s.rand.Int64N(int64(4*time.Second)), func() {
				if n.machine == nil && n.err == nil {
					n.start()
				}
			})
		}
	case 2: // one way or both
		for _, o := range s.nodes {
			if o != n && s.rand.IntN(2) == 0 {
				s.cut[[2]string{n.self.Node, o.self.Node}] = true
				if s.rand.IntN(3) > 0 {
					s.cut[[2]string{o.self.Node, n.self.Node}] = true
				}
			}
		}
	case 3, 4:
		clear(s.cut)
	case 5:
		s.loss, s.double = s.rand.Float64()*0.2, s.rand.Float64()*0.2
		s.delay = 1 + s.rand.Int64N(int64(300*time.Millisecond))
	}
	s.after(s.rand.Int64N(int64(2*time.Second)), h.storm)
}

func (s *sim) heal() {
	clear(s.cut)
	s.loss, s.double, s.delay = 0, 0, int64(5*time.Millisecond)
	for _, n := range s.nodes {
		if n.machine == nil && n.err == nil {
			n.start()
		}
	}
}

// chaos runs a storm over so many nodes, lets everything heal and checks the
// history.
func chaos(t *testing.T, seed uint64, size int) (s *sim, h *history) {
	s = newSim(t, seed)
	s.cfg.Entries, s.cfg.Keep = 20, 5 // so that snapshots happen all the time
	s.cfg.Replace = time.Hour
	s.grow(size)
	h = &history{s: s}
	for i := range 5 {
		h.client(i)
	}
	h.storm()
	s.run(30*time.Second, nil)
	h.stop = true
	s.heal()
	s.must(30*time.Second, "healed", func() bool {
		l := s.leader()
		if l == nil {
			return false
		}
		for _, n := range s.nodes {
			if n.err != nil {
				s.fatalf("%s is broken: %v", n.self.Node, n.err)
			}
			if n.machine == nil || n.machine.applied != l.machine.applied || len(n.asked) > 0 {
				return false
			}
		}
		return true
	})
	for p, cell := range s.do(s.nodes[0], register.Request{}).State.Cells {
		h.note(9, h.time(), cellOp{partition: p}, cellSeen{cell: id(&cell)})
	}
	h.prune()
	if res := porcupine.CheckOperationsTimeout(cells, h.ops, 20*time.Second); res != porcupine.Ok {
		s.fatalf("seed %d: %d operations are not linearizable: %v", seed, len(h.ops), res)
	}
	return s, h
}

// TestLinearizable checks random histories of groups under loss, doubling,
// reordering, one-way partitions and crashes that lose unsynced writes. Runs in
// which too little happened prove nothing and fail.
func TestLinearizable(t *testing.T) {
	for _, size := range []int{1, 3, 5} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			var won, reads, lost, elections, crashes, snapshots int
			seeds := *seedsFlag
			for seed := range uint64(seeds) {
				s, h := chaos(t, *fromFlag+seed, size)
				won, reads, lost = won+h.won, reads+h.reads, lost+h.lost
				elections, crashes, snapshots = elections+s.counts.elections, crashes+s.counts.crashes, snapshots+s.counts.snapshots
			}
			t.Logf("%d won, %d reads, %d unknown; %d elections, %d crashes, %d pieces of snapshots", won, reads, lost, elections, crashes, snapshots)
			if won < 20*seeds || reads < 100*seeds || lost < seeds || elections < 2*seeds || crashes < seeds || size > 1 && snapshots < seeds {
				t.Error("too little happened")
			}
		})
	}
}

var (
	seedsFlag = flag.Int("seeds", 3, "random runs of each size")
	fromFlag  = flag.Uint64("seed", 0, "the first seed")
)
