package vnode

import (
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"

	"pgregory.net/rapid"
)

// TestTheEndOfALogIsItsEnd: read from its end, a log shows the newest of what is visible,
// whatever is missing of it and in whatever order it came, and its checkpoint and the
// number that comes next are those that the whole of it gives.
func TestTheEndOfALogIsItsEnd(tt *testing.T) {
	rapid.Check(tt, func(t *rapid.T) {
		r := newRig(tt)
		task := r.enqueue(crdt.Enqueued{})
		r.put(crdt.Update{Token: 2, Data: []byte("of another one")}.Fact(r.enqueue(crdt.Enqueued{})))
		for range rapid.IntRange(0, 20).Draw(t, "updates") {
			u := crdt.Update{Token: rapid.Uint64Range(1, 3).Draw(t, "token"), Seq: rapid.Uint64Range(0, 5).Draw(t, "seq"), Output: rapid.Bool().Draw(t, "output")}
			u.Data = []byte(strings.Repeat("x", rapid.IntRange(0, 200).Draw(t, "bytes")))
			r.put(u.Fact(task))
			if rapid.IntRange(0, 3).Draw(t, "flush") == 0 {
				r.flush()
			}
		}
		r.put(crdt.Completed{Token: 3}.Fact(task))
		r.audit()
		whole, err := ReadTask(r.tx, r.v.Partition, task, ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all := whole.Task.VisibleUpdates()
		limit, until := rapid.IntRange(1, 800).Draw(t, "limit"), rapid.Uint64Range(0, 4).Draw(t, "until")
		d, err := ReadTask(r.tx, r.v.Partition, task, ReadOptions{Log: limit, Until: until})
		if err != nil {
			t.Fatal(err)
		}
		size, from := 0, len(all)
		for ; from > 0; from-- {
			if size += len(all[from-1].Data) + updateFixed; size > limit && from < len(all) {
				break
			}
		}
		same := func(a, b crdt.Update) bool { return a.Token == b.Token && a.Seq == b.Seq }
		if !slices.EqualFunc(d.Log, all[from:], same) || string(d.Checkpoint) != string(whole.Task.Checkpoint(until)) {
			t.Fatalf("within %d bytes: %v with checkpoint %q before %d, of %v", limit, d.Log, d.Checkpoint, until, all)
		}
		for token := range uint64(4) {
			next := uint64(0)
			for _, u := range all {
				if u.Token == token {
					next = u.Seq + 1
				}
			}
			if got := NextSeq(r.tx, r.v.Partition, task, token); got != next {
				t.Fatalf("number %d comes next in claim %d, want %d", got, token, next)
			}
			for seq := range uint64(7) {
				if Shows(r.tx, r.v.Partition, task, token, seq) != (seq < next) {
					t.Fatalf("%d of claim %d is shown, or is not, before %d", seq, token, next)
				}
			}
		}
	})
}

// stepping counts the pairs that are read of a view.
type stepping struct {
	store.View
	steps int
}

func (v *stepping) count(pairs iter.Seq2[[]byte, []byte]) iter.Seq2[[]byte, []byte] {
	return func(yield func([]byte, []byte) bool) {
		for key, value := range pairs {
			if v.steps++; !yield(key, value) {
				return
			}
		}
	}
}

func (v *stepping) Scan(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	return v.count(v.View.Scan(lower, upper))
}

func (v *stepping) Back(lower, upper []byte) iter.Seq2[[]byte, []byte] {
	return v.count(v.View.Back(lower, upper))
}

// TestALongLogIsNotReadForItsEnd: what a grant, a reader, a list and another replica are
// told of a task with very many updates, completions, failures and claims costs what they
// are told.
func TestALongLogIsNotReadForItsEnd(t *testing.T) {
	const many = 20_000
	r := newRig(t)
	long, other := r.enqueue(crdt.Enqueued{Priority: 7}), r.enqueue(crdt.Enqueued{})
	for seq := range uint64(many) {
		r.put(crdt.Update{Token: 1 << 32, Seq: seq, Data: []byte("a line of output")}.Fact(long))
	}
	r.flush()
	view := &stepping{View: r.tx}
	p, few := r.v.Partition, 1000
	for what, read := range map[string]func() error{
		"a grant": func() error {
			d, err := ReadTask(view, p, long, ReadOptions{Log: 64 << 10, Until: 2 << 32})
			if err == nil && (len(d.Log) < few/2 || string(d.Checkpoint) == "") {
				t.Errorf("a grant tells of %d updates, with checkpoint %q", len(d.Log), d.Checkpoint)
			}
			return err
		},
		"the next number": func() error { NextSeq(view, p, long, 1<<32); return nil },
		"what another replica is sent": func() error {
			facts, err := Newest(view, p, long, few*50)
			if err == nil && (len(facts) < 100 || facts[0].Key.Kind != crdt.KindEnqueued) {
				t.Errorf("another replica is sent %d facts", len(facts))
			}
			return err
		},
		"a list": func() error {
			return walkAll(view, p, nil, long, other)
		},
		"a list that leaves it out": func() error {
			return walkAll(view, p, func(e *crdt.Enqueued) bool { return e.Priority != 7 }, long, other)
		},
	} {
		view.steps = 0
		if err := read(); err != nil || view.steps > few+100 {
			t.Errorf("%s reads %d pairs: %v", what, view.steps, err)
		}
	}
}

func walkAll(view store.View, p ring.Partition, keep func(*crdt.Enqueued) bool, want ...id.ID) error {
	var got []id.ID
	for d, err := range WalkLean(view, p, id.ID{}, keep) {
		if err != nil {
			return err
		}
		got = append(got, d.Task.ID)
	}
	slices.SortFunc(want, id.ID.Compare)
	if !slices.Equal(got, want) {
		return ErrNothing
	}
	return nil
}

// TestManyLargeCompletionsFitAMessage: a task may be completed under every token that it
// was granted under, with a large result each time. What others are told of it has a
// bound, and the completion that counts is in it.
func TestManyLargeCompletionsFitAMessage(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(crdt.Enqueued{})
	r.put(crdt.Failed{Token: 1, Error: "once"}.Fact(task))
	for n := range uint64(200) {
		r.put(crdt.Failed{Token: n + 101, Error: strings.Repeat("x", 16<<10)}.Fact(task))
	}
	result := make([]byte, 1<<20)
	for n := range uint64(40) { // each one is read again with the next
		r.put(crdt.Completed{Token: n + 1, At: 500 - int64(n%37), Result: result}.Fact(task)) // 37 counts
	}
	r.flush()
	whole, err := LoadTask(r.tx, r.v.Partition, task)
	if err != nil || whole.Completion().Token != 37 {
		t.Fatal(whole.Completion().Token, err)
	}
	for what, read := range map[string]func() ([]crdt.Fact, error){
		"a reader":   func() ([]crdt.Fact, error) { return Newest(r.tx, r.v.Partition, task, 8<<20) },
		"a follower": func() ([]crdt.Fact, error) { f, _, err := EndOf(r.v, r.tx, task, 1); return f, err },
	} {
		facts, err := read()
		if err != nil || AsideSize(facts) > 20<<20 {
			t.Errorf("%s is told %d bytes: %v", what, AsideSize(facts), err)
		}
		slices.SortFunc(facts, func(a, b crdt.Fact) int { return a.Key.Compare(b.Key) })
		part, err := crdt.View(task, slices.Values(facts))
		if err != nil || part.Completion() == nil || part.Completion().Token != 37 {
			t.Errorf("%s is not told how it ended: %v", what, err)
		}
		if what == "a follower" && !slices.ContainsFunc(facts, func(f crdt.Fact) bool { return f.Key == (crdt.Key{Kind: crdt.KindFailed, A: 1}) }) {
			t.Error("a follower is not told that the claim it holds has failed")
		}
	}
}
