package election

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/ring"
)

// fault is what a world does wrong, to show that it would be noticed.
type fault int

const (
	noFault        fault = iota
	epochTwice           // acceptors vote for an epoch again, and nobody looks at nonces
	amnesia              // promises are gone after a crash
	newCohortOnly        // the votes of the cohort to be are enough
	deafToVotes          // claims that come with votes are not joined
	unpushed             // the register is written without the claims being pushed
	lowEpochs            // claims of any epoch are accepted
	hastyDeletion        // a member outside deletes its claims, whatever it has promised
	sameRegistered       // the epoch asked for is not above the cell's
)

// parts is the number of partitions of a world.
const parts = 2

// world is some members that hold elections, the register, and a network that
// loses, doubles, delays and reorders.
type world struct {
	rand    *rand.Rand
	now     clock.Time
	wrong   fault
	calm    bool // nothing is lost, and nobody changes cohorts
	members []*participant
	cells   [parts]Cell[int] // the register
	cohorts map[key][]int    // of each epoch registered
	mail    []letter
	cut     map[[2]int]bool

	winners map[key]int
	grants  map[string]*granted
	names   int
	broke   string // the first law that did not hold

	committed, wins, changes int
}

type key struct {
	p     ring.Partition
	epoch uint64
}

// granted is one claim, modelled as its name.
type granted struct {
	key
	holders   []int
	committed bool
}

type letter struct {
	from, to int
	read     func()
}

// participant is one member. Everything it keeps is on disk at the end of a step.
type participant struct {
	id        int
	acceptors [parts]Acceptor[int]
	claims    [parts]map[string]bool
	cells     [parts]Cell[int] // as it has last seen them
	leads     [parts]uint64
	runs      *Elections[int]
}

// registrar is the register's address.
const registrar = -1

func newWorld(seed uint64, members int, wrong fault) *world {
	w := &world{rand: rand.New(rand.NewPCG(seed, 5)), now: clock.Time{Mono: 1}, wrong: wrong, cohorts: map[key][]int{}, cut: map[[2]int]bool{}, winners: map[key]int{}, grants: map[string]*granted{}}
	for i := range members {
		w.members = append(w.members, &participant{id: i})
		w.restart(i)
	}
	for p := range parts {
		w.cells[p] = Cell[int]{Epoch: 1, Nonce: 1, Cohort: []int{0, 1, 2}}
		w.cohorts[key{ring.Partition(p), 1}] = []int{0, 1, 2}
		for _, m := range w.members {
			m.claims[p], m.cells[p] = map[string]bool{}, w.cells[p]
		}
	}
	return w
}

func (w *world) fail(format string, args ...any) {
	if w.broke == "" {
		w.broke = fmt.Sprintf(format, args...)
	}
}

// restart loses what is not on disk.
func (w *world) restart(i int) {
	m := w.members[i]
	m.runs = New(Config[int]{Self: i, Rand: rand.New(rand.NewPCG(w.rand.Uint64(), 6))})
	m.leads = [parts]uint64{}
	if w.wrong == amnesia {
		m.acceptors = [parts]Acceptor[int]{}
	}
}

// post sends a message: it may get lost or come twice, and the order is random.
func (w *world) post(from, to int, read func()) {
	copies := 1
	if !w.calm && from != to {
		switch n := w.rand.IntN(20); {
		case w.cut[[2]int{from, to}] || n == 0:
			copies = 0
		case n == 1:
			copies = 2
		}
	}
	for range copies {
		w.mail = append(w.mail, letter{from, to, read})
	}
}

// deliver has one of the letters read.
func (w *world) deliver() {
	if len(w.mail) == 0 {
		return
	}
	i := w.rand.IntN(len(w.mail))
	if w.calm {
		i = 0
	}
	l := w.mail[i]
	w.mail = slices.Delete(w.mail, i, i+1)
	l.read()
	if l.to != registrar {
		w.work(w.members[l.to])
	}
}

// step does something at random.
func (w *world) step() {
	m := w.members[w.rand.IntN(len(w.members))]
	p := ring.Partition(w.rand.IntN(parts))
	switch n := w.rand.IntN(100); {
	default:
		w.deliver()
	case n < 6:
		w.pass(time.Duration(w.rand.IntN(300)) * time.Millisecond)
	case n < 10:
		w.stand(m, p)
	case n < 18:
		w.grant(m, p)
	case n < 22:
		w.tell(m)
	case n < 23:
		w.restart(m.id)
	case n < 25:
		other := w.rand.IntN(len(w.members)+1) - 1
		w.cut[[2]int{m.id, other}], w.cut[[2]int{other, m.id}] = true, true
	case n < 27:
		clear(w.cut)
	case n < 30:
		w.forget(m, p)
	}
}

func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	for _, m := range w.members {
		w.work(m)
	}
}

// stand begins a candidacy, now and then for a cohort with one other member.
func (w *world) stand(m *participant, p ring.Partition) {
	cell, to := m.cells[p], slices.Clone(m.cells[p].Cohort)
	if other := w.rand.IntN(len(w.members)); !w.calm && w.rand.IntN(2) == 0 && !slices.Contains(to, other) {
		to[w.rand.IntN(len(to))] = other
	}
	m.runs.Start(w.now, p, cell, to, w.rand.IntN(4) == 0, m.acceptors[p].Promise)
	if c := m.runs.running[p]; c != nil && w.wrong == sameRegistered {
		c.ballot.Epoch = cell.Epoch
	}
	w.work(m)
}

// tell shows a member what the register says now.
func (w *world) tell(m *participant) {
	for p := range parts {
		w.learn(m, ring.Partition(p), w.cells[p])
	}
	w.work(m)
}

// learn takes over a cell that the register has shown.
func (w *world) learn(m *participant, p ring.Partition, cell Cell[int]) {
	if cell.Epoch < m.cells[p].Epoch {
		return
	}
	m.cells[p] = cell
	m.acceptors[p].Registered(cell.Epoch)
	if m.leads[p] != cell.Epoch {
		m.leads[p] = 0
	}
	w.written(m, p, cell, true)
}

func (w *world) written(m *participant, p ring.Partition, cell Cell[int], known bool) {
	if c := m.runs.running[p]; c != nil && w.wrong == epochTwice && c.ballot.Epoch == cell.Epoch {
		cell.Nonce = c.ballot.Nonce
	}
	m.runs.Written(w.now, p, cell, known)
}

// forget deletes what a member outside the cohort has, where it may.
func (w *world) forget(m *participant, p ring.Partition) {
	a, cell := &m.acceptors[p], m.cells[p]
	proposed := slices.ContainsFunc(a.Open, func(o Proposal[int]) bool { return slices.Contains(o.To, m.id) })
	may := a.MayForget(cell.Epoch) && !proposed || w.wrong == hastyDeletion
	if !may || slices.Contains(cell.Cohort, m.id) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(m.claims[p])) {
		g := w.grants[name]
		g.holders = slices.DeleteFunc(g.holders, func(i int) bool { return i == m.id })
	}
	m.claims[p] = map[string]bool{}
}

// grant has a leader make a claim and ask its cohort to keep it.
func (w *world) grant(m *participant, p ring.Partition) {
	epoch := m.leads[p]
	if epoch == 0 {
		return
	}
	w.names++
	name := fmt.Sprintf("%d/%d:%d", p, epoch, w.names)
	w.grants[name] = &granted{key: key{p, epoch}}
	for _, i := range m.cells[p].Cohort {
		if i == m.id {
			w.keep(m, p, epoch, name)
			continue
		}
		w.post(m.id, i, func() { w.keep(w.members[i], p, epoch, name) })
	}
}

// keep has a member accept a claim.
func (w *world) keep(m *participant, p ring.Partition, epoch uint64, name string) {
	cell := m.cells[p]
	if cell.Epoch >= epoch && !slices.Contains(cell.Cohort, m.id) || !w.accept(m, p, epoch) {
		return
	}
	m.claims[p][name] = true
	g := w.grants[name]
	if !slices.Contains(g.holders, m.id) {
		g.holders = append(g.holders, m.id)
	}
	cohort := w.cohorts[g.key]
	tally := quorum.NewTally(cohort)
	for _, i := range g.holders {
		tally.Add(i)
	}
	if g.committed || !tally.Reached() {
		return
	}
	g.committed = true
	w.committed++
	for _, other := range w.members {
		if other.leads[p] > epoch && !other.claims[p][name] {
			w.fail("claim %s was committed after %d began to lead in epoch %d without it", name, other.id, other.leads[p])
		}
	}
}

// accept asks a member's acceptor, and has it yield to who has its promise.
func (w *world) accept(m *participant, p ring.Partition, epoch uint64) bool {
	ok, _ := m.acceptors[p].Accept(epoch)
	if ok {
		w.yield(m, p, epoch)
	}
	return ok || w.wrong == lowEpochs
}

func (w *world) yield(m *participant, p ring.Partition, epoch uint64) {
	if m.leads[p] < epoch {
		m.leads[p] = 0
	}
	if own, ok := m.runs.Running(p); ok && own < epoch {
		m.runs.Abort(p, "more was promised")
	}
}

// lead checks the two laws of whoever wins.
func (w *world) lead(m *participant, v Victory[int]) {
	at := key{v.Partition, v.Cell.Epoch}
	if other, ok := w.winners[at]; ok && other != m.id {
		w.fail("%d and %d both won epoch %d", other, m.id, at.epoch)
	}
	w.winners[at] = m.id
	w.wins++
	for _, name := range slices.Sorted(maps.Keys(w.grants)) {
		if g := w.grants[name]; g.committed && g.p == at.p && g.epoch < at.epoch && !m.claims[at.p][name] {
			w.fail("%d leads partition %d in epoch %d without claim %s", m.id, at.p, at.epoch, name)
		}
	}
	if m.cells[at.p].Epoch == at.epoch && m.acceptors[at.p].Promise <= at.epoch {
		m.leads[at.p] = at.epoch
	}
}
