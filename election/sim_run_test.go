package election

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/ring"
)

// work does what a member's candidacies want.
func (w *world) work(m *participant) {
	for range 20 {
		for _, c := range m.runs.running { // Any order: each for itself.
			if w.wrong == newCohortOnly && c.phase == voting && c.due {
				c.tally = quorum.NewTally(c.ballot.To)
			}
		}
		r := m.runs.Ready(w.now)
		for _, v := range r.Won {
			w.lead(m, v)
		}
		for _, p := range r.Read {
			w.consult(m, p)
		}
		for _, h := range r.Hand {
			done := w.calm || w.rand.IntN(10) > 0
			w.post(m.id, m.id, func() { m.runs.HandedOver(w.now, h.Partition, h.Epoch, done) })
		}
		for _, x := range r.Write {
			w.write(m, x)
		}
		for _, x := range r.Push {
			w.push(m, x)
		}
		for _, a := range r.Ask {
			w.ask(m, a)
		}
		if len(r.Ask)+len(r.Push)+len(r.Write)+len(r.Hand)+len(r.Read) == 0 {
			return
		}
	}
	w.fail("the candidacies never come to rest")
}

// ask brings a ballot to a member, and its answer back.
func (w *world) ask(m *participant, a Asking[int]) {
	voter := w.members[a.To]
	read := func() {
		b, p := a.Ballot, a.Ballot.Partition
		acceptor := &voter.acceptors[p]
		var v Vote
		var claims map[string]bool
		switch {
		case b.Pre:
			v = acceptor.Would(&b, !w.calm && w.rand.IntN(4) == 0)
		case w.wrong == epochTwice && b.Epoch == acceptor.Promise:
			acceptor.Nonce = b.Nonce
			fallthrough
		default:
			if v = acceptor.Vote(&b); v.Granted {
				w.yield(voter, p, b.Epoch)
				claims = maps.Clone(voter.claims[p])
			}
		}
		answer := func() {
			if m.runs.Vote(w.now, voter.id, v) && w.wrong != deafToVotes {
				w.hold(m, p, claims)
			}
		}
		if voter == m {
			answer()
		} else {
			w.post(voter.id, m.id, answer)
		}
	}
	if voter == m {
		read()
	} else {
		w.post(m.id, voter.id, read)
	}
}

// hold joins claims with a member's own.
func (w *world) hold(m *participant, p ring.Partition, claims map[string]bool) {
	for name := range claims { // Any order: a union.
		m.claims[p][name] = true
	}
}

// push brings the joined claims to the new cohort. Who has given the epoch's vote
// to somebody else refuses.
func (w *world) push(m *participant, x Push[int]) {
	claims := maps.Clone(m.claims[x.Partition])
	for _, i := range x.To {
		to := w.members[i]
		read := func() {
			a := &to.acceptors[x.Partition]
			v := Vote{Partition: x.Partition, Epoch: x.Epoch, Nonce: x.Nonce}
			other := a.Promise == x.Epoch && a.Nonce != 0 && a.Nonce != x.Nonce
			if v.Granted = !other && w.accept(to, x.Partition, x.Epoch); v.Granted && w.wrong != unpushed {
				w.hold(to, x.Partition, claims)
			}
			v.Promise = a.Promise
			if to == m {
				m.runs.Pushed(w.now, i, v)
			} else {
				w.post(i, m.id, func() { m.runs.Pushed(w.now, i, v) })
			}
		}
		if to == m {
			read()
		} else {
			w.post(m.id, i, read)
		}
	}
}

// consult reads a cell, linearizably.
func (w *world) consult(m *participant, p ring.Partition) {
	w.post(m.id, registrar, func() {
		cell := w.cells[p]
		w.post(registrar, m.id, func() {
			w.learn(m, p, cell)
			m.runs.Read(w.now, p, cell)
		})
	})
}

// write is a compare-and-set. The answer says what the register holds after it;
// now and then it is not known.
func (w *world) write(m *participant, x Write[int]) {
	w.post(m.id, registrar, func() {
		at := &w.cells[x.Partition]
		if at.Epoch == x.Old.Epoch && at.Nonce == x.Old.Nonce {
			if x.New.Epoch <= at.Epoch {
				w.fail("epoch %d was registered after %d", x.New.Epoch, at.Epoch)
			}
			if !Same(at.Cohort, x.New.Cohort) {
				w.changes++
			}
			*at = x.New
			w.cohorts[key{x.Partition, x.New.Epoch}] = x.New.Cohort
		}
		cell, known := *at, w.calm || w.rand.IntN(5) > 0
		w.post(registrar, m.id, func() {
			if known {
				w.learn(m, x.Partition, cell)
			}
			w.written(m, x.Partition, cell, known)
		})
	})
}

// heal ends all faults and tells whether every partition gets a leader that can
// commit a claim, within so many rounds.
func (w *world) heal(rounds int) bool {
	w.calm = true
	clear(w.cut)
	for range rounds {
		led := 0
		for _, m := range w.members {
			w.tell(m)
			for p := range ring.Partition(parts) {
				if m.leads[p] != 0 && m.leads[p] == w.cells[p].Epoch {
					led++
					w.grant(m, p)
				}
			}
		}
		before := w.committed
		for len(w.mail) > 0 && w.broke == "" {
			w.deliver()
		}
		if led == parts && w.committed >= before+parts {
			return true
		}
		for _, m := range w.members {
			for p := range ring.Partition(parts) {
				if m.leads[p] == 0 && slices.Contains(m.cells[p].Cohort, m.id) && w.rand.IntN(3) == 0 {
					w.stand(m, p)
				}
			}
		}
		for len(w.mail) > 0 && w.broke == "" {
			w.deliver()
		}
		w.pass(100 * time.Millisecond)
	}
	return false
}

// live runs a world and gives what went wrong.
func live(seed uint64, wrong fault, steps int) (*world, string) {
	w := newWorld(seed, 3+int(seed%3), wrong)
	for range steps {
		if w.step(); w.broke != "" {
			return w, w.broke
		}
	}
	if wrong == noFault && !w.heal(100) && w.broke == "" {
		return w, "nobody leads, though everything works again"
	}
	return w, w.broke
}

// TestElectionsOverABadNetwork: at most one leader of a partition in an epoch,
// epochs that increase, every committed claim known to each later leader (K1 and
// K2), and leaders soon after the network is well again.
func TestElectionsOverABadNetwork(t *testing.T) {
	var committed, wins, changes int
	for seed := range uint64(80) {
		w, broke := live(seed, noFault, 3000)
		if broke != "" {
			t.Fatalf("seed %d: %s", seed, broke)
		}
		committed, wins, changes = committed+w.committed, wins+w.wins, changes+w.changes
	}
	t.Logf("%d elections were won, %d of them changed the cohort; %d claims were committed", wins, changes, committed)
	if committed < 1000 || wins < 1000 || changes < 100 {
		t.Fatalf("too little has happened: %d wins, %d changes, %d claims", wins, changes, committed)
	}
}

// TestFaultsOfElectionsAreSeen shows that the laws fail where they should.
func TestFaultsOfElectionsAreSeen(t *testing.T) {
	for _, c := range []struct {
		name  string
		wrong fault
		seed  uint64 // shortly before one that shows it
	}{
		{"votes for an epoch twice", epochTwice, 0},
		{"promises lost in a crash", amnesia, 200},
		{"only the new cohort votes", newCohortOnly, 0},
		{"claims of votes not joined", deafToVotes, 0},
		{"claims not pushed", unpushed, 0},
		{"claims of lower epochs accepted", lowEpochs, 0},
		{"data deleted below the promise", hastyDeletion, 40},
		{"an epoch that is not above the cell's", sameRegistered, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := c.seed; seed < c.seed+300; seed++ {
				if _, broke := live(seed, c.wrong, 3000); broke != "" {
					t.Logf("seed %d: %s", seed, broke)
					return
				}
			}
			t.Fatal("nobody noticed")
		})
	}
}
