package registertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// Partitions is the number of cells that the cluster under test has.
const Partitions = 4

// Cluster is a register on one or more nodes that can fail. The cells have
// epoch 0 at the beginning.
type Cluster interface {
	// Size is the number of nodes.
	Size() int
	// Register is the register as one node has it. It changes with a crash.
	Register(node int) register.Register
	// Crash loses the power of a node, with what was not synced but for the
	// first keep batches, and starts it again.
	Crash(node, keep int)
	// Cut loses all messages to and from a node.
	Cut(node int)
	// Heal ends all cuts.
	Heal()
	// Close ends the cluster.
	Close()
}

// Run runs the suite; open makes a cluster that is ready for requests.
func Run(t *testing.T, open func(t testing.TB) Cluster) {
	for _, test := range []struct {
		name string
		run  func(*suite)
	}{
		{"CompareAndSet", (*suite).compareAndSet},
		{"Batches", (*suite).batches},
		{"Kinds", (*suite).kinds},
		{"Names", (*suite).names},
		{"Replicas", (*suite).replicas},
		{"LinearizableReads", (*suite).linearizableReads},
		{"Rivals", (*suite).rivals},
		{"Subscribe", (*suite).subscribe},
		{"CrashOfAll", (*suite).crashOfAll},
		{"CrashesUnderLoad", (*suite).crashesUnderLoad},
		{"CutAndHeal", (*suite).cutAndHeal},
		{"Close", (*suite).close},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &suite{T: t, c: open(t)}
				defer s.c.Close()
				test.run(s)
			})
		})
	}
}

type suite struct {
	*testing.T
	c Cluster
}

// once asks once.
func (s *suite) once(node int, r register.Request) register.Result {
	answer := make(chan register.Result, 2)
	s.c.Register(node).Do(r, func(res register.Result) { answer <- res })
	select {
	case res := <-answer:
		return res
	case <-time.After(time.Minute):
		s.Error("a request was never answered")
		return register.Result{Err: errors.New("never answered")}
	}
}

// do asks until there is an answer. It is for requests that may be decided
// twice without harm.
func (s *suite) do(node int, r register.Request) register.Result {
	s.Helper()
	var res register.Result
	for range 30 {
		if res = s.once(node, r); res.Err == nil {
			return res
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.Fatalf("node %d: %v", node, res.Err)
	return res
}

func (s *suite) cell(node, p int) register.Cell {
	s.Helper()
	return s.do(node, register.Request{}).State.Cells[p]
}

// swap changes a cell once and reports whether it did; unclear outcomes are
// settled by reading, as callers must.
func (s *suite) swap(node, p int, old, next register.Cell) bool {
	s.Helper()
	won, _ := s.try(node, p, old, next)
	return won
}

// try is swap, and says whether the outcome was clear from the answer.
func (s *suite) try(node, p int, old, next register.Cell) (won, clear bool) {
	s.Helper()
	res := s.once(node, register.Request{Changes: []register.Change{{Partition: ring.Partition(p), Old: old, New: next}}})
	if res.Err == nil {
		return res.Won[0], true
	}
	time.Sleep(3 * time.Second) // longer than any copy of it is on its way
	now := s.cell(node, p)
	return now.Same(&next), false
}

func (s *suite) compareAndSet() {
	for p := range Partitions {
		old := s.cell(0, p)
		first := register.Cell{Epoch: 3, Cohort: old.Cohort, Nonce: 11}
		for _, try := range []struct {
			what     string
			old, new register.Cell
			want     bool
		}{
			{"from what is there", old, first, true},
			{"again", old, first, false},
			{"from another nonce", register.Cell{Epoch: 3, Nonce: 12}, register.Cell{Epoch: 4}, false},
			{"from another epoch", register.Cell{Epoch: 2, Nonce: 11}, register.Cell{Epoch: 4}, false},
			{"to the same epoch", first, register.Cell{Epoch: 3, Nonce: 13}, false},
			{"to a lower epoch", first, register.Cell{Epoch: 2, Nonce: 13}, false},
			{"to a higher epoch", first, register.Cell{Epoch: 9, Nonce: 14}, true},
		} {
			node := p % s.c.Size()
			if got := s.swap(node, p, try.old, try.new); got != try.want {
				s.Errorf("cell %d, %s: won is %v", p, try.what, got)
			}
		}
		if got := s.cell(0, p); got.Epoch != 9 || got.Nonce != 14 {
			s.Errorf("cell %d is %+v", p, got)
		}
	}
}

// batches: changes are decided one by one, in order, and each sees the ones
// before it.
func (s *suite) batches() {
	change := func(p ring.Partition, from, to uint64) register.Change {
		return register.Change{Partition: p, Old: register.Cell{Epoch: from, Nonce: from}, New: register.Cell{Epoch: to, Nonce: to}}
	}
	res := s.once(s.c.Size()-1, register.Request{Tag: 77, Changes: []register.Change{
		change(0, 0, 1), change(0, 0, 2), change(0, 1, 3), change(1, 5, 6), change(1, 0, 1), change(200, 0, 1), change(2, 0, 7),
	}})
	want := []bool{true, false, true, false, true, false, true}
	if res.Err != nil || res.Tag != 77 || fmt.Sprint(res.Won) != fmt.Sprint(want) {
		s.Fatalf("won %v with tag %d and error %v, want %v", res.Won, res.Tag, res.Err, want)
	}
	for p, epoch := range []uint64{3, 1, 7, 0} {
		if got := res.State.Cells[p].Epoch; got != epoch {
			s.Errorf("after the batch cell %d has epoch %d, want %d", p, got, epoch)
		}
	}
}

func (s *suite) kinds() {
	m := register.Member{Node: "guest", Incarnation: register.Incarnation{0xee}}
	node := register.Node{Member: m, Addresses: []string{"h:1"}, Zone: "z", Weight: 2, Status: register.Joining}
	r := register.Request{
		Queues: []register.QueueChange{{Name: "mail", Settings: []byte("s")}, {Name: "mail", Settings: []byte("t")}},
		Values: []register.ValueChange{{Name: "eta", Data: []byte("5s")}},
		Nodes:  []register.NodeChange{{New: node}},
		Plan:   &register.PlanChange{Data: []byte("plan")},
	}
	res := s.once(0, r)
	if res.Err != nil || !res.QueuesWon[0] || res.QueuesWon[1] || !res.ValuesWon[0] || !res.NodesWon[0] || !res.PlanWon {
		s.Fatalf("the first time: %+v", res)
	}
	for node := range s.c.Size() {
		st := s.do(node, register.Request{}).State
		guest, ok := st.Find(m)
		if string(st.Queues["mail"].Settings) != "s" || st.Queues["mail"].Version != 1 || string(st.Values["eta"].Data) != "5s" ||
			!ok || guest.Zone != "z" || guest.Weight != 2 || string(st.Plan.Data) != "plan" || st.Plan.Version != 1 {
			s.Fatalf("node %d reads %+v", node, st)
		}
	}
	res = s.once(0, register.Request{Queues: r.Queues[:1], Values: r.Values, Plan: r.Plan})
	if res.Err != nil || res.QueuesWon[0] || res.ValuesWon[0] || res.PlanWon {
		s.Fatalf("the second time, from versions that are gone: %+v", res)
	}
}

// replicas: the number is set from what it was, to one that there may be, and all
// read it; the cells stay as they are.
func (s *suite) replicas() {
	was := s.do(0, register.Request{}).State
	n := was.Cluster.Replicas
	set := func(old, next int) register.Result {
		return s.once(0, register.Request{Replicas: &register.ReplicasChange{Old: old, New: next}})
	}
	for _, bad := range []register.ReplicasChange{{Old: n, New: 0}, {Old: n, New: n}, {Old: n, New: ring.MaxReplicas + 1}, {Old: n + 1, New: n + 2}} {
		if res := set(bad.Old, bad.New); res.Err != nil || res.ReplicasWon || res.State.Revision != was.Revision {
			s.Fatalf("%+v: won %v, revision %d and before %d, %v", bad, res.ReplicasWon, res.State.Revision, was.Revision, res.Err)
		}
	}
	want := was.Cluster
	want.Replicas = n + 2
	if res := set(n, n+2); res.Err != nil || !res.ReplicasWon || res.State.Cluster != want || res.State.Revision != was.Revision+1 {
		s.Fatalf("from %d to %d: won %v, %+v, %v", n, n+2, res.ReplicasWon, res.State.Cluster, res.Err)
	}
	if late := set(n, n+1); late.Err != nil || late.ReplicasWon {
		s.Fatalf("from %d, which it is no more: won %v, %v", n, late.ReplicasWon, late.Err)
	}
	for node := range s.c.Size() {
		if st := s.do(node, register.Request{}).State; st.Cluster != want || !slices.EqualFunc(st.Cells, was.Cells, func(a, b register.Cell) bool { return a.Same(&b) }) {
			s.Fatalf("node %d reads %+v", node, st)
		}
	}
}

// names: each has one holder, and a compare-and-set from a version that a later
// holder has not got fails, also when the name was given up in between.
func (s *suite) names() {
	put := func(old uint64, data string) register.Result {
		c := register.NameChange{Name: "w", Old: old, Other: true}
		if data != "" {
			c.Data = []byte(data)
		}
		return s.once(0, register.Request{Names: []register.NameChange{c, {Name: "w", Old: old, Data: []byte("second")}}})
	}
	first := put(0, "a")
	if first.Err != nil || !first.NamesWon[0] || first.NamesWon[1] || string(first.State.Names["w"].Data) != "a" || first.State.HoldersAt != first.State.Revision {
		s.Fatalf("the first holder: %+v", first)
	}
	v := first.State.Names["w"].Version
	gone := s.once(0, register.Request{Names: []register.NameChange{{Name: "w", Old: v, Other: true}}})
	if _, held := gone.State.Names["w"]; gone.Err != nil || !gone.NamesWon[0] || held {
		s.Fatalf("given up: %+v", gone)
	}
	again := put(0, "b")
	if again.Err != nil || !again.NamesWon[0] || again.State.Names["w"].Version <= v {
		s.Fatalf("the second holder: %+v", again)
	}
	if late := s.once(0, register.Request{Names: []register.NameChange{{Name: "w", Old: v, Data: []byte("a")}}}); late.Err != nil || late.NamesWon[0] {
		s.Fatalf("the first one again: %+v", late)
	}
}

// linearizableReads: what one node has written, the others read.
func (s *suite) linearizableReads() {
	for i := range 20 {
		by, old := i%s.c.Size(), register.Cell{Epoch: uint64(i), Nonce: uint64(i)}
		if !s.swap(by, 1, old, register.Cell{Epoch: old.Epoch + 1, Nonce: old.Nonce + 1}) {
			s.Fatalf("change %d was not written", i)
		}
		for node := range s.c.Size() {
			if res := s.once(node, register.Request{}); res.Err == nil && res.State.Cells[1].Epoch != uint64(i+1) {
				s.Fatalf("after change %d by node %d, node %d reads epoch %d", i, by, node, res.State.Cells[1].Epoch)
			}
		}
	}
}

// rivals change one cell all at a time; each epoch has one winner.
func (s *suite) rivals() {
	var mu sync.Mutex
	winners := map[uint64]uint64{}
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			node := i % s.c.Size()
			for k := range 15 {
				old := s.cell(node, 0)
				next := register.Cell{Epoch: old.Epoch + 1, Nonce: uint64(1 + i*1000 + k)}
				if !s.swap(node, 0, old, next) {
					continue
				}
				mu.Lock()
				if w, taken := winners[next.Epoch]; taken {
					s.Errorf("epoch %d was won with nonces %d and %d", next.Epoch, w, next.Nonce)
				}
				winners[next.Epoch] = next.Nonce
				mu.Unlock()
			}
		})
	}
	all.Wait()
	last := s.cell(0, 0)
	for e := uint64(1); e <= last.Epoch; e++ {
		if winners[e] == 0 {
			s.Errorf("nobody knows to have won epoch %d of %d", e, last.Epoch)
		}
	}
	if len(winners) < 10 || winners[last.Epoch] != last.Nonce {
		s.Errorf("%d epochs were won, the last is %+v", len(winners), last)
	}
}

// subscribe: every node hears every change, in order.
func (s *suite) subscribe() {
	var mu sync.Mutex
	heard := make([][]register.State, s.c.Size())
	for node := range s.c.Size() {
		s.c.Register(node).Subscribe(func(st register.State) {
			mu.Lock()
			defer mu.Unlock()
			heard[node] = append(heard[node], st)
		})
	}
	before := s.do(0, register.Request{}).State.Revision
	for i := range 10 {
		c := register.Cell{Epoch: uint64(i), Nonce: uint64(i)}
		s.swap(i%s.c.Size(), 3, c, register.Cell{Epoch: c.Epoch + 1, Nonce: c.Nonce + 1})
		s.swap(0, 3, c, register.Cell{Epoch: 100, Nonce: 1}) // changes nothing
	}
	time.Sleep(5 * time.Second)
	mu.Lock()
	defer mu.Unlock()
	for node, states := range heard {
		next := 0
		for i, st := range states {
			if i > 0 && st.Revision != states[i-1].Revision+1 {
				s.Errorf("node %d hears of revision %d after %d", node, st.Revision, states[i-1].Revision)
			}
			if st.Revision <= before {
				continue
			}
			if next++; st.Cells[3].Epoch != uint64(next) {
				s.Errorf("node %d hears of epoch %d, want %d", node, st.Cells[3].Epoch, next)
			}
		}
		if next != 10 {
			s.Errorf("node %d hears of %d changes, want 10", node, next)
		}
	}
}

// crashOfAll: what was acknowledged is there after all nodes lose power at once
// with everything that was not synced.
func (s *suite) crashOfAll() {
	for i := range 5 {
		old := register.Cell{Epoch: uint64(i), Nonce: uint64(i)}
		if !s.swap(i%s.c.Size(), 2, old, register.Cell{Epoch: old.Epoch + 1, Nonce: old.Nonce + 1}) {
			s.Fatalf("change %d was not written", i)
		}
		for node := range s.c.Size() {
			s.c.Crash(node, 0)
		}
		for node := range s.c.Size() {
			if got := s.cell(node, 2); got.Epoch != uint64(i+1) {
				s.Fatalf("after crash %d node %d reads %+v", i, node, got)
			}
		}
	}
}

// crashesUnderLoad: nodes lose power one after the other while clients write
// chains of values. An unclear outcome is settled by reading; nothing that was
// acknowledged is lost, nothing is written twice.
func (s *suite) crashesUnderLoad() {
	stop := make(chan struct{})
	var all sync.WaitGroup
	wins := make([]int, Partitions)
	for p := range Partitions {
		all.Go(func() {
			for k := uint64(1); ; k++ {
				select {
				case <-stop:
					return
				case <-time.After(50 * time.Millisecond):
				}
				node := int(k) % s.c.Size()
				old := s.cell(node, p)
				next := register.Cell{Epoch: old.Epoch + 1, Nonce: k}
				won, clear := s.try(node, p, old, next)
				if won {
					wins[p]++
				} else if clear {
					s.Errorf("cell %d has one writer, and a change of it from %d was lost", p, old.Epoch)
				} else {
					continue
				}
				if got := s.cell((node+1)%s.c.Size(), p); !got.Same(&next) {
					s.Errorf("cell %d is %+v after %+v was written", p, got, next)
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 8 {
		time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
		s.c.Crash(i%s.c.Size(), rng.IntN(2))
	}
	close(stop)
	all.Wait()
	for p := range Partitions {
		if got := s.cell(0, p); int(got.Epoch) != wins[p] || wins[p] < 5 {
			s.Errorf("cell %d is at epoch %d after %d changes", p, got.Epoch, wins[p])
		}
	}
}

// cutAndHeal: a minority says that it does not know, the others go on, and
// after healing all read the same.
func (s *suite) cutAndHeal() {
	if s.c.Size() < 3 {
		s.Skip("needs three nodes")
	}
	for out := range s.c.Size() {
		in := (out + 1) % s.c.Size()
		before := s.cell(in, 0)
		s.c.Cut(out)
		next := register.Cell{Epoch: before.Epoch + 1, Nonce: uint64(out + 1)}
		res := s.once(out, register.Request{Changes: []register.Change{{Partition: 1, Old: s.cell(in, 1), New: next}}})
		if res.Err == nil {
			s.Fatalf("node %d decided alone: %v", out, res.Won)
		}
		if read := s.once(out, register.Request{}); read.Err == nil {
			s.Fatalf("node %d read alone", out)
		}
		old := s.cell(in, 0)
		if !s.swap(in, 0, old, register.Cell{Epoch: old.Epoch + 1, Nonce: 99}) {
			s.Fatalf("without node %d nothing is written", out)
		}
		s.c.Heal()
		if got := s.cell(out, 0); got.Epoch != old.Epoch+1 || got.Nonce != 99 {
			s.Fatalf("node %d reads %+v after healing", out, got)
		}
	}
}

func (s *suite) close() {
	reg := s.c.Register(s.c.Size() - 1)
	if len(reg.Members()) == 0 {
		s.Error("no members")
	}
	var answered sync.WaitGroup
	for range 20 {
		answered.Add(1)
		reg.Do(register.Request{}, func(register.Result) { answered.Done() })
	}
	if err := reg.Close(); err != nil {
		s.Error(err)
	}
	answered.Wait() // each once: more would panic
	if res := s.once(s.c.Size()-1, register.Request{Tag: 3}); !errors.Is(res.Err, register.ErrClosed) || res.Tag != 3 {
		s.Errorf("after closing: %v with tag %d", res.Err, res.Tag)
	}
}
