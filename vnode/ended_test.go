package vnode

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
)

// records is how many claims of a task have ended and a record of their own.
func (r *rig) records(task id.ID) (n int) {
	r.t.Helper()
	r.audit()
	prefix := appendTask(nil, tableEnded, 0, task)
	for range r.mem.Scan(prefix, after(prefix)) {
		n++
	}
	return n
}

// completion says who had a claim.
func completion(task id.ID, r *claim.Record, at int64) crdt.Fact {
	return crdt.Completed{Token: r.Token, At: at, Further: crdt.AppendRun(nil, nil, runOf(r))}.Fact(task)
}

func (r *rig) add(f crdt.Fact) {
	r.t.Helper()
	if _, err := r.v.Add(r.tx, f, r.now); err != nil {
		r.t.Fatal(err)
	}
}

// TestACompletedClaimHasNoRecord: the completion of a claim says all that is known of it, and
// every reader finds it there, whatever is said of the claim later.
func TestACompletedClaimHasNoRecord(t *testing.T) {
	for what, finish := range map[string]func(r *rig, f crdt.Fact){"a worker says it": (*rig).add, "a replica says it": func(r *rig, f crdt.Fact) { r.merge(f) }} {
		t.Run(what, func(t *testing.T) {
			r := follower(t)
			task := r.enqueue(crdt.Enqueued{Payload: make([]byte, 2*leanBytes)})
			had := r.record(token1)
			had.Principal = "p"
			r.acceptRecord(task, had, Accepted)
			r.now = r.now.Add(time.Second)
			finish(r, completion(task, &had, r.now.Wall))
			want := claim.Record{Token: token1, Worker: "w", Principal: "p", Start: had.Start, End: r.now.Wall, Outcome: claim.Completed}
			for range 2 {
				if n := r.records(task); n != 0 {
					t.Errorf("%d records", n)
				}
				if got := Ended(r.v, r.tx, task, token1); got != want {
					t.Errorf("it has ended as %+v, want %+v", got, want)
				}
				d, err := ReadTask(r.mem, 0, task, ReadOptions{Claims: 1, NoLog: true})
				if err != nil || len(d.Claims) != 1 || d.Claims[0] != want {
					t.Errorf("it is shown with %+v, %v", d.Claims, err)
				}
				for d, err := range WalkLean(r.mem, 0, id.ID{}, nil) {
					if err != nil || len(d.Claims) != 1 || d.Claims[0] != want || !d.Lean {
						t.Errorf("it is listed with %+v, %v", d.Claims, err)
					}
				}
				// What comes late changes nothing.
				r.acceptRecord(task, had, Finished)
				r.absorb(Held{Task: task, Record: had})
				r.release(task, token1)
				r.restart()
			}
		})
	}
}

// TestACompletionThatSaysLessLeavesTheRecord: of who had a claim nothing is lost, whatever the completion
// that counts says of it.
func TestACompletionThatSaysLessLeavesTheRecord(t *testing.T) {
	for what, c := range map[string]struct {
		completions func(task id.ID, had *claim.Record) []crdt.Fact
		records     int
	}{
		"nothing": {func(task id.ID, had *claim.Record) []crdt.Fact {
			return []crdt.Fact{crdt.Completed{Token: token1, At: 99}.Fact(task)}
		}, 1},
		"who has completed it": {func(task id.ID, had *claim.Record) []crdt.Fact {
			return []crdt.Fact{crdt.Completed{Token: token1, At: 99, Further: crdt.AppendRun(nil, nil, crdt.Run{Completer: "c"})}.Fact(task)}
		}, 1},
		"another worker": {func(task id.ID, had *claim.Record) []crdt.Fact {
			other := *had
			other.Worker = "x"
			return []crdt.Fact{completion(task, &other, 99)}
		}, 1},
		"nothing in the place of everything": {func(task id.ID, had *claim.Record) []crdt.Fact {
			return []crdt.Fact{completion(task, had, 99), crdt.Completed{Token: token1, At: 98}.Fact(task)}
		}, 1},
		"everything in the place of nothing": {func(task id.ID, had *claim.Record) []crdt.Fact {
			return []crdt.Fact{crdt.Completed{Token: token1, At: 99}.Fact(task), completion(task, had, 98)}
		}, 1},
		"the same, earlier": {func(task id.ID, had *claim.Record) []crdt.Fact {
			return []crdt.Fact{completion(task, had, 99), completion(task, had, 98)}
		}, 0},
	} {
		for way, tell := range map[string]func(r *rig, f crdt.Fact){"told": (*rig).add, "merged": func(r *rig, f crdt.Fact) { r.merge(f) }} {
			t.Run(what+", "+way, func(t *testing.T) {
				r := follower(t)
				task, had := r.enqueue(crdt.Enqueued{}), r.record(token1)
				r.acceptRecord(task, had, Accepted)
				all := c.completions(task, &had)
				for i, f := range all {
					if i > 0 && !crdt.Wins(f.Body, all[i-1].Body) {
						t.Fatalf("completion %d does not take the place of the one before", i)
					}
					tell(r, f)
				}
				if n := r.records(task); n != c.records {
					t.Errorf("%d records, want %d", n, c.records)
				}
				if got := Ended(r.v, r.tx, task, token1); got.Worker != "w" || got.Start != had.Start || got.Outcome != claim.Completed {
					t.Errorf("it has ended as %+v", got)
				}
				r.is(task, crdt.StateCompleted, claim.Completed)
			})
		}
	}
}

// TestEachCompletedClaimIsShown: of several claims of a task that were completed the completion that does
// not count shows its claim, too, also on a replica that has heard of no claim.
func TestEachCompletedClaimIsShown(t *testing.T) {
	r := follower(t)
	task, first, second := r.enqueue(crdt.Enqueued{}), r.record(token1), r.record(token1+1)
	second.Worker = "second"
	expired := crdt.Expired{Token: token1, At: 5}.Fact(task)
	early := completion(task, &first, 7)
	r.acceptRecord(task, first, Accepted)
	r.now = r.now.Add(time.Minute)
	r.merge(expired)
	r.tick()
	second.Start, second.End = r.now.Wall, r.now.Wall+int64(second.Lease)
	late := completion(task, &second, 9)
	r.acceptRecord(task, second, Accepted)
	r.merge(late)
	r.is(task, crdt.StateCompleted, claim.Expired, claim.Completed)
	if n := r.records(task); n != 1 {
		t.Errorf("%d records, want that of the claim that has expired", n)
	}
	r.merge(early) // it counts
	r.is(task, crdt.StateCompleted, claim.Completed, claim.Completed)
	o := follower(t)
	o.ids = r.ids
	spec, ok := FactOf(r.tx, 0, task, crdt.Key{Kind: crdt.KindEnqueued})
	if !ok {
		t.Fatal("no enqueue")
	}
	o.merge(spec, early, late, expired)
	o.is(task, crdt.StateCompleted, claim.Completed, claim.Completed)
	d, err := ReadTask(o.mem, 0, task, ReadOptions{})
	if err != nil || d.Claims[1].Worker != "second" {
		t.Errorf("%+v, %v", d.Claims, err)
	}
}
