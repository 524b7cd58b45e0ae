package vnode

import (
	"bytes"
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
)

// setAside takes a task out and keeps it aside.
func (r *rig) setAside(task id.ID) (facts []crdt.Fact) {
	r.t.Helper()
	facts, err := Facts(r.tx, 0, task)
	if err == nil {
		err = SetAside(r.v, r.tx, task, facts, r.now.Wall)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return facts
}

// TestWhatIsKeptAsideIsCounted: by task and bytes, over two contents under one key, over
// a restart, and until it goes.
func TestWhatIsKeptAsideIsCounted(t *testing.T) {
	r := newRig(t)
	task := r.ids.Next(r.now.Wall)
	long, short := crdt.Update{Token: 1, Data: bytes.Repeat([]byte("b"), 100)}.Fact(task), crdt.Update{Token: 1, Data: []byte("a")}.Fact(task)
	other := crdt.Update{Token: 1, Seq: 1, Data: []byte("c")}.Fact(task)
	for _, order := range [][]crdt.Fact{{long, short, other}, {other, short, long}, {short, long, short, other}} {
		for _, f := range order {
			if err := PutAside(r.v, r.tx, []crdt.Fact{f}, r.now.Wall); err != nil {
				t.Fatal(err)
			}
		}
		facts, err := AsideOf(r.tx, 0, task)
		stays := long
		if crdt.Wins(short.Body, long.Body) {
			stays = short
		}
		if err != nil || len(facts) != 2 || !bytes.Equal(facts[0].Body, stays.Body) {
			t.Errorf("%v, %v", facts, err)
		}
		want := AsideSize([]crdt.Fact{stays, other})
		if tasks, n := KeptAside(r.v); tasks != 1 || n != want {
			t.Errorf("%d tasks with %d bytes, want %d", tasks, n, want)
		}
		r.flush()
		r.restart()
		if tasks, n := KeptAside(r.v); tasks != 1 || n != want {
			t.Errorf("after a restart %d tasks with %d bytes, want %d", tasks, n, want)
		}
		if Empty(r.tx, 0) {
			t.Error("the partition counts as empty")
		}
		if gone, err := DropAside(r.v, r.tx, task); !gone || err != nil {
			t.Fatal(gone, err)
		}
		if tasks, n := KeptAside(r.v); tasks != 0 || n != 0 || IsAside(r.v, r.tx, task) {
			t.Errorf("when it is gone: %d tasks, %d bytes", tasks, n)
		}
	}
}

// TestPagesOfWhatIsKeptAside: a fact that is larger than a page travels alone, and
// nothing is left out.
func TestPagesOfWhatIsKeptAside(t *testing.T) {
	r := newRig(t)
	task := r.ids.Next(r.now.Wall)
	var all []crdt.Fact
	for n := range uint64(5) {
		all = append(all, crdt.Update{Token: 1, Seq: n, Data: bytes.Repeat([]byte("x"), int(n%2)*500)}.Fact(task))
	}
	if err := PutAside(r.v, r.tx, all, 1); err != nil {
		t.Fatal(err)
	}
	var got []crdt.Fact
	for at, n := (AsidePlace{}), 0; ; n++ {
		page, next, err := AsideFacts(r.tx, 0, at, 300)
		if err != nil || n > 10 {
			t.Fatal(n, err)
		}
		if len(page) == 0 {
			break
		}
		if len(page) > 1 && AsideSize(page) > 300 {
			t.Errorf("a page of %d facts has %d bytes", len(page), AsideSize(page))
		}
		got, at = append(got, page...), next
	}
	if len(got) != len(all) {
		t.Errorf("%d of %d facts are in pages", len(got), len(all))
	}
}

// TestWhatIsSetAsideLeavesNothingBehind: no index, counter or claim knows it, ended ones
// neither, nor that its enqueue is missing.
func TestWhatIsSetAsideLeavesNothingBehind(t *testing.T) {
	r := follower(t)
	claimed, orphan := r.enqueue(crdt.Enqueued{}), r.ids.Next(r.now.Wall)
	r.accept(claimed, token1, Accepted)
	r.release(claimed, token1)
	r.accept(claimed, token1+1, Accepted)
	if _, err := Merge(r.v, r.tx, []crdt.Fact{crdt.Update{Token: token1, At: 1}.Fact(orphan)}, r.now); err != nil {
		t.Fatal(err)
	}
	for _, task := range []id.ID{claimed, orphan} {
		r.setAside(task)
		if Known(r.tx, 0, task) || HasKey(r.tx, appendTask(nil, tableEnded, 0, task)) || HasKey(r.tx, appendTask(nil, tableActive, 0, task)) || HasKey(r.tx, appendTask(nil, tableOrphans, 0, task)) {
			t.Errorf("of %s something is left", task)
		}
	}
	if r.v.record.orphans != 0 || r.v.claims.Len() != 0 || r.v.Count("q") != nil && r.v.Count("q").Total() != 0 {
		t.Errorf("%d without enqueue, %d claims, %v", r.v.record.orphans, r.v.claims.Len(), r.v.Count("q"))
	}
	r.flush()
	r.audit()
}

// TestAClaimThatAFactSaysIsOverIsNotTaken: whether the member holds it still, because it
// has not lapsed here, or hears of it for the first time.
func TestAClaimThatAFactSaysIsOverIsNotTaken(t *testing.T) {
	for _, held := range []bool{true, false} {
		r := follower(t)
		task := r.enqueue(crdt.Enqueued{})
		if held {
			r.accept(task, token1, Accepted)
		}
		if _, err := Merge(r.v, r.tx, []crdt.Fact{crdt.Expired{Token: token1, At: r.now.Wall}.Fact(task)}, r.now); err != nil {
			t.Fatal(err)
		}
		if is := r.v.claims.Lookup(task).Of(token1) != nil; is != held {
			t.Fatalf("held: %v, and then %v", held, is)
		}
		r.now = r.now.Add(time.Second)
		r.accept(task, token1, Stale)
		if h := r.v.claims.Lookup(task).Of(token1); h != nil && h.Record.End > r.now.Wall+int64(9*time.Second) {
			t.Error("it is renewed")
		}
		if held {
			r.now = r.now.Add(16 * time.Second)
			if err := r.v.Tick(r.tx, r.now); err != nil {
				t.Fatal(err)
			}
		}
		if r.v.claims.Lookup(task) != nil {
			t.Error("it is held for ever")
		}
	}
}
