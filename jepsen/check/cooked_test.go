package check

import (
	"strings"
	"testing"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// cooked are histories that each break something, by what finds it and a part of
// what is said.
//
// Long because: it is a table.
func cooked() map[string]struct {
	finders []string
	says    string
	play    func(f *forged)
} {
	type row = struct {
		finders []string
		says    string
		play    func(f *forged)
	}
	one := func(play func(f *forged, a id.ID)) func(*forged) {
		return func(f *forged) {
			a := f.enqueue(0, history.Spec{})
			f.claim(1, 2, 1, 10, 12, a)
			play(f, a)
		}
	}
	lead := func(f *forged, when float64, epoch uint64, moved bool, items ...history.Item) {
		e := history.Event{Func: history.Lead, Cell: &history.Cell{Epoch: epoch, Leader: "n2", Cohort: []string{"n1", "n2"}}, Items: items}
		if moved {
			e.From = &history.Cell{Cohort: []string{"n0", "n1"}}
		}
		f.note(when, e)
	}
	return map[string]row{
		"two believe in one task": {[]string{"leases", "lock"}, "for 2.000 s from 10.000 s on", one(func(f *forged, a id.ID) { f.claim(9, 10, 2, 11, 20, a) })},
		"a late renewal brings it back": {[]string{"leases", "lock"}, "renewed at 13.000 s", one(func(f *forged, a id.ID) {
			f.write(11, 13, 1, history.Renew, a, 10, 21)
			f.claim(12, 12.5, 2, 11, 22, a)
		})},
		"given up too late": {[]string{"leases", "lock"}, "valid until 11.000 s", one(func(f *forged, a id.ID) {
			f.claim(9, 10, 2, 11, 20, a)
			f.write(11, 11.2, 1, history.Complete, a, 10, 0)
		})},
		"one token for two": {[]string{"tokens", "lock"}, "is that of two claims", one(func(f *forged, a id.ID) { f.claim(13, 14, 2, 10, 20, a) })},
		"falling tokens":    {[]string{"tokens", "lock"}, "no higher", one(func(f *forged, a id.ID) { f.claim(13, 14, 2, 9, 20, a) })},
		"falling tokens in a partition": {[]string{"tokens"}, "no higher", one(func(f *forged, _ id.ID) {
			f.claim(13, 14, 2, 9, 20, f.enqueue(3, history.Spec{}))
		})},
		"renewed after the next": {[]string{"renewals", "lock"}, "after claim b", one(func(f *forged, a id.ID) {
			f.claim(13, 14, 2, 11, 16, a)
			f.write(17, 18, 1, history.Renew, a, 10, 17)
		})},
		"renewed after the release": {[]string{"renewals"}, "after release by process 1", one(func(f *forged, a id.ID) {
			f.write(3, 4, 1, history.Release, a, 10, 0)
			f.write(5, 6, 1, history.Renew, a, 10, 6)
		})},
		"renewed after its end was seen": {[]string{"renewals"}, "showed it as expired", one(func(f *forged, a id.ID) {
			f.do(13, 13.1, 5, history.Event{Func: history.Get}, history.OK, history.Event{Items: []history.Item{{
				Task: a, Claims: []history.ClaimSeen{{Token: 10, Outcome: "expired"}},
			}}})
			f.write(14, 15, 1, history.Renew, a, 10, 15)
		})},
		"renewed after it was seen to be cancelled": {[]string{"renewals"}, "showed it as ended", one(func(f *forged, a id.ID) {
			f.do(3, 3.1, 5, history.Event{Func: history.List}, history.OK, history.Event{Items: []history.Item{{
				Task: a, State: history.Cancelled, Claims: []history.ClaimSeen{{Token: 10, Outcome: "ended"}},
			}}})
			f.write(4, 5, 1, history.Renew, a, 10, 14)
		})},
		"completed and granted again": {[]string{"finished", "lock"}, "complete by process 1 was acknowledged at 4.000 s", one(func(f *forged, a id.ID) {
			f.write(3, 4, 1, history.Complete, a, 10, 0)
			f.claim(5, 6, 2, 11, 16, a)
		})},
		"cancelled and granted": {[]string{"finished"}, "cancel by process 3", one(func(f *forged, a id.ID) {
			f.write(13, 14, 3, history.Cancel, a, 0, 0)
			f.claim(15, 16, 2, 11, 26, a)
		})},
		"granted before its dependency": {[]string{"dependencies"}, "before anybody has completed", one(func(f *forged, a id.ID) {
			f.claim(3, 4, 2, 11, 14, f.enqueue(2.5, history.Spec{Deps: []id.ID{a}}))
			f.write(4.5, 5, 1, history.Complete, a, 10, 0)
		})},
		"passed over for long": {[]string{"order"}, "passed over for 2.000 s", func(f *forged) {
			f.enqueue(0, history.Spec{})
			b, c := f.enqueue(2, history.Spec{}), f.enqueue(2, history.Spec{})
			f.claim(3, 3.1, 1, 1, 9, b)
			f.claim(5.1, 5.2, 1, 2, 9, c)
		}},
		"a better one passed over for long": {[]string{"order"}, "passed over for 2.000 s", func(f *forged) {
			b, c := f.enqueue(0, history.Spec{}), f.enqueue(0, history.Spec{})
			f.enqueue(1, history.Spec{Priority: 1})
			f.claim(3, 3.1, 1, 1, 9, b)
			f.claim(5.1, 5.2, 1, 2, 9, c)
		}},
		"its dependency's completion was refused": {[]string{"dependencies"}, "before anybody has completed", one(func(f *forged, a id.ID) {
			f.do(3, 4, 1, history.Event{Func: history.Complete, Items: []history.Item{{Task: a, Token: 10}}}, history.Fail, history.Event{})
			f.claim(5, 6, 2, 11, 14, f.enqueue(2.5, history.Spec{Deps: []id.ID{a}}))
		})},
		"found what was there": {[]string{"register"}, "found epoch 1", func(f *forged) {
			one := &history.Cell{Epoch: 1, Nonce: 1, Leader: "n"}
			f.do(1, 2, 1, history.Event{Func: history.CellSwap, From: one, Cell: &history.Cell{Epoch: 2, Nonce: 2}}, history.Fail, history.Event{Cell: one})
		}},
		"an epoch for two":   {[]string{"cells", "register"}, "epoch 2 has two values", func(f *forged) { f.cell(1, 2, 1, 2, 2); f.cell(3, 4, 1, 2, 3) }},
		"a value for two":    {[]string{"cells", "register"}, "was followed by", func(f *forged) { f.swap(1, 2, 1, 1, 2, history.OK); f.swap(1, 2, 2, 1, 3, history.OK) }},
		"an epoch falls":     {[]string{"cells"}, "no higher", func(f *forged) { f.swap(1, 2, 1, 5, 2, history.OK) }},
		"an old value":       {[]string{"register"}, "partition 0", func(f *forged) { f.swap(1, 2, 1, 1, 2, history.OK); f.cell(3, 4, 2, 1, 1) }},
		"failed without why": {[]string{"register"}, "partition 0", func(f *forged) { f.cell(0, 1, 2, 1, 1); f.swap(1.5, 2, 1, 1, 2, history.Fail); f.cell(3, 4, 2, 1, 1) }},
		"seen, then not": {[]string{"register"}, "partition 0", func(f *forged) {
			f.cell(0, 1, 2, 1, 1)
			f.swap(1, 2, 1, 1, 2, history.Info)
			f.cell(3, 4, 2, 2, 2)
			f.cell(5, 6, 3, 1, 1)
		}},
		"two nodes show an epoch differently": {[]string{"epochs"}, "leader n2 of n1 n2 is shown by n2, and leader n1", func(f *forged) {
			f.look(1, 2, "n1", 3, "n1")
			f.look(1, 2.1, "n2", 3, "n2")
		}},
		"a node forgets an epoch": {[]string{"epochs"}, "had shown 3 before", func(f *forged) {
			f.look(1, 2, "n1", 3, "n1")
			f.look(3, 4, "n1", 2, "n2")
		}},
		"a claim of an epoch that nobody knows": {[]string{"epochs"}, "a claim was granted in epoch 7", func(f *forged) {
			f.claim(1, 2, 1, 7<<32|1, 12, f.enqueue(0, history.Spec{}))
			f.note(20, history.Event{Text: Settled})
			f.look(21, 22, "n1", 6, "n1")
		}},
		"a leader that does not know a claim": {[]string{"leaders"}, "does not know claim a", one(func(f *forged, _ id.ID) { lead(f, 5, 2, false) })},
		"a leader that does not know a renewed claim": {[]string{"leaders"}, "does not know claim a", one(func(f *forged, a id.ID) {
			f.write(11, 11.5, 1, history.Renew, a, 10, 22)
			lead(f, 15, 2, false)
		})},
		"a leader that does not know a claim under way": {[]string{"leaders"}, "does not know claim a", one(func(f *forged, _ id.ID) { lead(f, 1.5, 2, false) })},
		"a leader that did not know a claim when it asked": {[]string{"leaders"}, "in epoch 2 at 11.000 s and does not know claim a", one(func(f *forged, _ id.ID) {
			f.note(13, history.Event{Func: history.Lead, Known: ns(11), Cell: &history.Cell{Epoch: 2, Leader: "n2"}})
		})},
		"a leader that does not know a completion of before it asked for votes": {[]string{"leaders"}, "does not know its complete", one(func(f *forged, a id.ID) {
			f.write(3, 4, 1, history.Complete, a, 10, 0)
			f.note(6, history.Event{Func: history.Lead, Known: ns(5), Began: ns(4.5), Cell: &history.Cell{Epoch: 2, Leader: "n2"}, From: &history.Cell{Cohort: []string{"n0"}}})
		})},
		"a leader that does not know a completion that was asked for twice": {[]string{"leaders"}, "does not know its complete, acknowledged at 4.500 s", one(func(f *forged, a id.ID) {
			f.do(3, 3.5, 1, history.Event{Func: history.Complete, Weak: true, Items: []history.Item{{Task: a, Token: 10}}}, history.Info, history.Event{})
			f.write(4, 4.5, 1, history.Complete, a, 10, 0)
			lead(f, 5, 2, true, history.Item{Task: a, Token: 10})
		})},
		"a leader that does not know a completion": {[]string{"leaders"}, "does not know its complete", one(func(f *forged, a id.ID) {
			f.write(3, 4, 1, history.Complete, a, 10, 0)
			lead(f, 5, 2, true, history.Item{Task: a, Token: 10})
		})},
	}
}

func TestCookedBooksAreFound(t *testing.T) {
	for name, row := range cooked() {
		t.Run(name, func(t *testing.T) {
			f := newForged(t, LedgerOptions{Passing: second})
			row.play(f)
			said := false
			for checker, r := range f.judge() {
				want := false
				for _, w := range row.finders {
					want = want || w == checker
				}
				if want != (r.Broken > 0) {
					t.Errorf("%s: found is %v, want %v: %s", checker, r.Broken > 0, want, r.String())
				}
				for _, v := range r.Violations {
					t.Log(v.Error())
					said = said || strings.Contains(v.Text, row.says)
				}
			}
			if !said {
				t.Errorf("nobody says %q", row.says)
			}
		})
	}
}

// What looks like it and is allowed.
//
// Long because: it is a table.
func TestBooksThatOnlyLookCooked(t *testing.T) {
	for name, c := range map[string]struct {
		o    LedgerOptions
		play func(f *forged, a id.ID)
	}{
		"a completion that a majority did not acknowledge": {LedgerOptions{}, func(f *forged, a id.ID) {
			f.do(3, 4, 1, history.Event{Func: history.Complete, Weak: true, Items: []history.Item{{Task: a, Token: 10}}}, history.OK, history.Event{Items: []history.Item{{Task: a}}})
			f.claim(5, 6, 2, 11, 16, a)
		}},
		"a completion of unknown outcome": {LedgerOptions{}, func(f *forged, a id.ID) {
			f.do(3, 4, 1, history.Event{Func: history.Complete, Items: []history.Item{{Task: a, Token: 10}}}, history.Info, history.Event{})
			f.claim(5, 6, 2, 11, 16, a)
		}},
		"a completion that was refused": {LedgerOptions{}, func(f *forged, a id.ID) {
			f.do(3, 4, 1, history.Event{Func: history.Complete, Items: []history.Item{{Task: a, Token: 10}}}, history.Fail, history.Event{})
			f.claim(5, 6, 2, 11, 16, a)
		}},
		"an overlap within what eta was broken by": {LedgerOptions{Excess: 3 * second}, func(f *forged, a id.ID) {
			f.claim(9, 10, 2, 11, 20, a)
		}},
		"the same answer again": {LedgerOptions{}, func(f *forged, _ id.ID) {
			b := f.enqueue(2, history.Spec{})
			for _, back := range []float64{4, 6} {
				f.do(3, back, 2, history.Event{Func: history.Claim, Queues: []string{"q"}, Session: 2, Request: 77}, history.OK,
					history.Event{Items: []history.Item{{Task: b, Token: 11, Until: ns(back + 10)}}})
			}
		}},
		"a renewal that comes when the worker has given up": {LedgerOptions{}, func(f *forged, a id.ID) {
			f.write(4, 6, 1, history.Renew, a, 10, 21)
			f.write(5, 5.5, 1, history.Release, a, 10, 0)
			f.claim(5.6, 7, 2, 11, 20, a)
		}},
		"the same answer again when the worker has given up": {LedgerOptions{}, func(f *forged, _ id.ID) {
			b := f.enqueue(2, history.Spec{})
			for _, back := range []float64{4, 6} {
				f.do(3, back, 2, history.Event{Func: history.Claim, Queues: []string{"q"}, Session: 2, Request: 77}, history.OK,
					history.Event{Items: []history.Item{{Task: b, Token: 11, Until: ns(back + 10)}}})
			}
			f.write(5, 5.5, 9, history.Release, b, 11, 0)
			f.claim(5.6, 7, 2, 12, 20, b)
		}},
		"an old answer to a request sent again": {LedgerOptions{}, func(f *forged, _ id.ID) {
			b, c := f.enqueue(2, history.Spec{}), f.enqueue(2.2, history.Spec{})
			ask := history.Event{Func: history.Claim, Queues: []string{"q"}, Session: 2, Request: 77}
			f.do(3, 4, 2, ask, history.Info, history.Event{})
			f.claim(4.5, 5, 3, 12, 20, c)
			f.do(6, 7, 2, ask, history.OK, history.Event{Items: []history.Item{{Task: b, Token: 11, Until: ns(12)}}})
		}},
		"a dependency that may fail": {LedgerOptions{}, func(f *forged, a id.ID) {
			f.claim(3, 4, 2, 11, 14, f.enqueue(2.5, history.Spec{Deps: []id.ID{a}, OnFailure: "run"}))
		}},
		"a key that is free again": {LedgerOptions{Retention: 50 * second}, func(f *forged, _ id.ID) {
			k := id.UniqueKey([16]byte{}, "q", "k", 0, 0)
			f.claim(3, 4, 2, 11, 14, k)
			f.write(5, 6, 2, history.Complete, k, 11, 0)
			f.claim(60, 61, 2, 12, 70, k)
			f.write(62, 63, 2, history.Renew, k, 12, 75)
		}},
		"a renewal that comes too late to be believed in": {LedgerOptions{}, func(f *forged, a id.ID) {
			f.write(11, 13, 1, history.Renew, a, 10, 12.9)
			f.claim(12.5, 12.8, 2, 11, 20, a)
		}},
		"a renewal, and a reading later that shows the end": {LedgerOptions{}, func(f *forged, a id.ID) {
			f.write(3, 4, 1, history.Renew, a, 10, 13)
			f.do(20, 20.1, 5, history.Event{Func: history.Get}, history.OK, history.Event{Items: []history.Item{{
				Task: a, Claims: []history.ClaimSeen{{Token: 10, Outcome: "expired"}},
			}}})
		}},
		"a renewal after a reading by who has not heard of the retry": {LedgerOptions{}, func(f *forged, a id.ID) {
			f.do(3, 3.1, 5, history.Event{Func: history.List}, history.OK, history.Event{Items: []history.Item{{
				Task: a, State: history.Dead, Claims: []history.ClaimSeen{{Token: 10, Outcome: "ended"}},
			}}})
			f.write(4, 5, 1, history.Renew, a, 10, 14)
		}},
		"a grant of a session, which is older than the request that it seems to answer": {LedgerOptions{}, func(f *forged, a id.ID) {
			f.do(13, 14, 2, history.Event{Func: history.Claim, Queues: []string{"q"}, Session: 2, Request: 77, Max: 1}, history.OK,
				history.Event{Since: ns(0.5), Items: []history.Item{{Task: f.enqueue(3, history.Spec{}), Token: 9, Until: ns(20), Start: ns(13.5)}}})
		}},
		"an unknown swap that nobody has seen": {LedgerOptions{}, func(f *forged, _ id.ID) {
			f.swap(1, 2, 1, 1, 2, history.Info)
			f.cell(3, 3.4, 2, 1, 1)
			f.swap(4, 5, 2, 1, 3, history.Fail)
		}},
		"an unknown swap that comes late": {LedgerOptions{}, func(f *forged, _ id.ID) {
			f.swap(1, 2, 1, 1, 2, history.Info)
			f.cell(3, 3.4, 2, 1, 1)
			f.cell(4, 5, 2, 2, 2)
		}},
		"a swap without an answer": {LedgerOptions{}, func(f *forged, _ id.ID) {
			f.swap(1, 2, 1, 1, 2, history.Info)
			f.events = f.events[:len(f.events)-1]
			f.cell(3, 3.4, 2, 1, 1)
			f.cell(4, 5, 2, 2, 2)
		}},
		"a swap that was refused for another reason": {LedgerOptions{}, func(f *forged, _ id.ID) {
			f.cell(0, 1, 1, 1, 1)
			f.do(1.5, 2, 1, history.Event{Func: history.CellSwap, From: &history.Cell{Epoch: 1, Nonce: 1, Leader: "n"}, Cell: &history.Cell{Epoch: 2}},
				history.Fail, history.Event{Error: "UNAVAILABLE"})
			f.cell(3, 4, 1, 1, 1)
		}},
		"a leader of another cohort, when the completion was under way": {LedgerOptions{}, func(f *forged, a id.ID) {
			f.write(3, 6, 1, history.Complete, a, 10, 0)
			f.note(5, history.Event{Func: history.Lead, Cell: &history.Cell{Epoch: 2}, From: &history.Cell{Cohort: []string{"n0"}}})
		}},
		"a leader of another cohort, when the completion is forgotten": {LedgerOptions{Retention: second}, func(f *forged, a id.ID) {
			f.write(3, 4, 1, history.Complete, a, 10, 0)
			f.note(5, history.Event{Func: history.Lead, Cell: &history.Cell{Epoch: 2}, From: &history.Cell{Cohort: []string{"n0"}}})
		}},
		"passed over by one that is hardly younger": {LedgerOptions{Passing: second}, func(f *forged, _ id.ID) {
			f.enqueue(3, history.Spec{})
			f.claim(4, 4.1, 1, 20, 9, f.enqueue(3.5, history.Spec{}))
			f.claim(6, 6.1, 1, 21, 9, f.enqueue(3.6, history.Spec{}))
		}},
		"passed over by better ones": {LedgerOptions{Passing: second}, func(f *forged, _ id.ID) {
			f.enqueue(3, history.Spec{})
			f.claim(5, 5.1, 1, 20, 9, f.enqueue(4.5, history.Spec{Priority: 1}))
			f.claim(7, 7.1, 1, 21, 9, f.enqueue(4.6, history.Spec{Priority: 1}))
		}},
		"passed over while somebody may have it": {LedgerOptions{Passing: second}, func(f *forged, _ id.ID) {
			f.enqueue(3, history.Spec{})
			f.do(3.5, 3.6, 3, history.Event{Func: history.Claim, Queues: []string{"q"}, Session: 3, Request: 88}, history.Info, history.Event{})
			f.claim(5, 5.1, 1, 20, 9, f.enqueue(4.5, history.Spec{}))
			f.claim(7, 7.1, 1, 21, 9, f.enqueue(4.6, history.Spec{}))
		}},
		"passed over while somebody has it": {LedgerOptions{Passing: second}, func(f *forged, _ id.ID) {
			x := f.enqueue(3, history.Spec{})
			f.claim(5, 5.1, 1, 20, 9, f.enqueue(4.5, history.Spec{}))
			f.claim(7, 7.1, 1, 21, 9, f.enqueue(4.6, history.Spec{}))
			f.do(8, 8.1, 5, history.Event{Func: history.Get}, history.OK, history.Event{Items: []history.Item{{
				Task: x, Claims: []history.ClaimSeen{{Token: 15, Outcome: "active"}},
			}}})
		}},
		"passed over after it was cancelled": {LedgerOptions{Passing: second}, func(f *forged, _ id.ID) {
			f.write(4, 4.1, 0, history.Cancel, f.enqueue(3, history.Spec{}), 0, 0)
			f.claim(5, 5.1, 1, 20, 9, f.enqueue(4.5, history.Spec{}))
			f.claim(7, 7.1, 1, 21, 9, f.enqueue(4.6, history.Spec{}))
		}},
		"a swap that somebody else's unknown one came before": {LedgerOptions{}, func(f *forged, _ id.ID) {
			f.cell(0, 1, 1, 1, 1)
			f.swap(1, 2, 2, 1, 2, history.Info)
			f.swap(3, 4, 3, 1, 3, history.Fail)
		}},
		"a leader that does not know a claim that has ended": {LedgerOptions{}, func(f *forged, _ id.ID) {
			f.note(12.1, history.Event{Func: history.Lead, Cell: &history.Cell{Epoch: 2}})
		}},
		"a leader that asked before the claim's task was completed": {LedgerOptions{}, func(f *forged, a id.ID) {
			f.write(3, 4, 1, history.Complete, a, 10, 0)
			f.note(5, history.Event{Func: history.Lead, Known: ns(3.5), Cell: &history.Cell{Epoch: 2}, From: &history.Cell{Cohort: []string{"n0"}}})
		}},
		"a leader of another cohort, when the completion came between its votes": {LedgerOptions{}, func(f *forged, a id.ID) {
			f.write(3, 4, 1, history.Complete, a, 10, 0)
			f.note(5, history.Event{Func: history.Lead, Known: ns(4.5), Began: ns(3.5), Cell: &history.Cell{Epoch: 2}, From: &history.Cell{Cohort: []string{"n0"}}})
		}},
		"a leader of the epoch of the claim": {LedgerOptions{}, func(f *forged, _ id.ID) {
			f.note(5, history.Event{Func: history.Lead, Cell: &history.Cell{Epoch: 0}})
		}},
		"a leader of the same cohort, without completions": {LedgerOptions{}, func(f *forged, a id.ID) {
			f.write(3, 4, 1, history.Complete, a, 10, 0)
			f.note(5, history.Event{Func: history.Lead, Cell: &history.Cell{Epoch: 2}})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newForged(t, c.o)
			a := f.enqueue(0, history.Spec{})
			f.claim(1, 2, 1, 10, 12, a)
			c.play(f, a)
			for _, r := range f.judge() {
				if r.Broken > 0 {
					t.Errorf("%s", r.String())
				}
			}
		})
	}
	// And beyond what was declared it is found.
	f := newForged(t, LedgerOptions{Excess: second})
	a := f.enqueue(0, history.Spec{})
	f.claim(1, 2, 1, 10, 12, a)
	f.claim(9, 10, 2, 11, 20, a)
	if r := f.judge()["leases"]; r.Broken != 1 {
		t.Errorf("two seconds of overlap where one is allowed: %s", r.String())
	}
}

// Being passed over counts while the cluster is healthy.
func TestPassedOverWhileHealthy(t *testing.T) {
	for to, want := range map[int64]int{6: 1, 5: 0} {
		f := newForged(t, LedgerOptions{Passing: second, Healthy: []Window{{From: 20 * second, To: 30 * second}, {To: to * second}}})
		f.enqueue(0, history.Spec{})
		b, c := f.enqueue(2, history.Spec{}), f.enqueue(2, history.Spec{})
		f.claim(3, 3.1, 1, 1, 9, b)
		f.claim(5.1, 5.2, 1, 2, 9, c)
		if r := f.judge()["order"]; r.Broken != want {
			t.Errorf("healthy until %d s: %s, want %d wrong", to, r.String(), want)
		}
	}
}
