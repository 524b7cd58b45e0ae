package vnode

import (
	"bytes"
	"slices"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/store"
)

// Expected is what is stored of tasks whose facts are about to be merged, as [Expect] has found it.
type Expected struct {
	v    *Vnode
	same []bool
}

// Same tells whether of the task with a number the very facts are stored that come, and no others: there is nothing to merge.
func (e *Expected) Same(i int) bool { return e.same != nil && e.same[i] }

// Done ends what holds for these tasks only.
func (e *Expected) Done() { e.v.recent.Expected() }

// Expect looks once what is stored of n tasks whose facts come now, by ascending IDs. Where it is nothing, no task is looked
// for. Where it is something, all of it is walked if the facts are to be compared, so that a request that is repeated
// costs one walk; it ends early in a run that has mostly other tasks.
func Expect(v *Vnode, view store.View, n int, facts func(int) []crdt.Fact, compare bool) *Expected {
	w := expecting{Vnode: v, view: view, n: n, facts: facts, compare: compare, end: facts(n - 1)[0].Task}
	e := &Expected{v: v}
	for _, table := range [...]byte{tableFacts, tableEnded, tableActive} {
		if w.walk(table) && !compare {
			return e
		}
	}
	slices.SortFunc(w.there, id.ID.Compare)
	v.recent.Vacant(facts(0)[0].Task, w.end, slices.Compact(w.there), n)
	e.same = w.same
	return e
}

// strangers is how many records of tasks that do not come are passed, and as many again as have come up to there.
const strangers = 64

// expecting is one [Expect].
type expecting struct {
	*Vnode
	view    store.View
	n       int
	facts   func(int) []crdt.Fact
	compare bool
	end     id.ID   // up to where everything was walked
	there   []id.ID // of which something is there
	same    []bool
}

// walk walks what a table has of the tasks, and tells whether that is anything; without comparing it ends there.
func (w *expecting) walk(table byte) (found bool) {
	from, to := appendTask(nil, table, w.Partition, w.facts(0)[0].Task), after(appendTask(nil, table, w.Partition, w.end))
	at, seen, passed := 0, 0, 0 // the first task that comes and is not passed, its facts that are there, records of others
	alike := true               // so far
	for key, value := range w.view.Scan(from, to) {
		if !w.compare {
			return true
		}
		task := id.ID(key[prefixSize:])
		if w.same == nil {
			w.same = make([]bool, w.n)
		}
		if !found || w.there[len(w.there)-1] != task {
			w.there, found = append(w.there, task), true
		}
		for at < w.n && w.facts(at)[0].Task.Compare(task) < 0 {
			at, seen = at+1, 0
		}
		switch {
		case at == w.n || w.facts(at)[0].Task != task:
			if passed++; passed > strangers+at {
				w.end = task
				return true
			}
		case table == tableFacts:
			alike = (seen == 0 || alike) && w.fact(at, seen, key, value)
			seen++
			w.same[at] = alike && seen == len(w.facts(at))
		}
	}
	return found
}

// fact tells whether a fact that is there is the one of the same number that comes.
func (w *expecting) fact(at, number int, key, value []byte) bool {
	come := w.facts(at)
	if number >= len(come) {
		return false
	}
	f := &come[number]
	is, err := StoredFact(key, value)
	return err == nil && is.Key == f.Key && is.CRC == f.CRC && bytes.Equal(is.Body, f.Body)
}
