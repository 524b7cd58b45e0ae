package election

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
)

// TestWhoIsSlowIsSentLessOften: the claims of a partition may be many megabytes. Whoever is
// slow to give or to take them was sent them a dozen times, one upon another.
func TestWhoIsSlowIsSentLessOften(t *testing.T) {
	e := New(Config[int]{Self: 1, Rand: rand.New(rand.NewPCG(1, 2))})
	now, cohort := clock.Time{Mono: 1}, []int{1, 2, 3}
	cell := Cell[int]{Epoch: 1, Nonce: 7, Cohort: cohort}
	if !e.Start(now, 0, cell, cohort, false, 1) {
		t.Fatal("it does not stand")
	}
	// within runs a phase in which only this node itself answers, for a part of its patience,
	// and counts what member 2 is sent.
	within := func(answer func(Vote), patience time.Duration) (sent int) {
		for at := time.Duration(0); at < patience; at += 50 * time.Millisecond {
			r := e.Ready(now)
			for _, a := range r.Ask {
				v := Vote{Partition: 0, Epoch: a.Ballot.Epoch, Nonce: a.Ballot.Nonce, Pre: a.Ballot.Pre, Granted: true}
				if a.To == 2 {
					sent++
				} else if a.To == 1 {
					answer(v)
				}
			}
			for _, p := range r.Push {
				for _, m := range p.To {
					if m == 2 {
						sent++
					} else if m == 1 {
						e.Pushed(now, 1, Vote{Partition: 0, Epoch: p.Epoch, Nonce: p.Nonce, Granted: true})
					}
				}
			}
			now = now.Add(50 * time.Millisecond)
		}
		return sent
	}
	var last Vote
	answer := func(v Vote) { last = v; e.Vote(now, 1, v) }
	e.Read(now, 0, cell)
	if n := within(answer, time.Second); n != 4 {
		t.Errorf("in a second of pre-votes, which are small, member 2 is asked %d times", n)
	}
	e.Vote(now, 3, last)
	if n := within(answer, 2900*time.Millisecond); n != 4 {
		t.Errorf("while votes are waited for member 2 is asked %d times", n)
	}
	e.Vote(now, 3, last)
	if n := within(answer, 2900*time.Millisecond); n != 4 {
		t.Errorf("while claims are taken in member 2 is sent them %d times", n)
	}
}
