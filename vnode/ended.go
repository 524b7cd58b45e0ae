package vnode

import (
	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/store"
)

// Of a claim that has ended there is a record (tableEnded), but for one: where the completion
// of the claim says who had it and from when on ([crdt.Run]), that is all there is to know of it. Most
// claims end so, and leave no key of their own.

// completed is the claim of a completion; ok is false where its body does not say who had it.
func completed(body []byte) (r claim.Record, ok bool) {
	c, err := crdt.DecodeCompleted(body) // what is damaged is for who reads it
	run, _ := crdt.RunOf(c.Further)
	if err != nil || c.Token == 0 || run.Start == 0 {
		return r, false
	}
	return claim.Record{Token: c.Token, Worker: run.Worker, Principal: run.Principal, Start: run.Start, End: c.At, Outcome: claim.Completed}, true
}

// byCompletion looks for a claim in the completion that it has made.
func byCompletion(v *Vnode, view store.View, task id.ID, token uint64) (r claim.Record, ok bool) {
	k := crdt.Key{Kind: crdt.KindCompleted, A: token}
	value, ok := view.Get(appendFact(v.keyspace[:0], v.Partition, task, k))
	if !ok {
		return r, false
	}
	f, err := crdt.Stored(task, k, value)
	if err != nil || f.Intact() != nil {
		return r, false
	}
	return completed(f.Body)
}

// Ended is a claim that has ended here; zero where it has not, or is not known.
func Ended(v *Vnode, view store.View, task id.ID, token uint64) (r claim.Record) {
	if b, ok := view.Get(appendClaim(v.keyspace[:0], tableEnded, v.Partition, task, token)); ok {
		r, _ = claim.DecodeRecord(token, b) // what is damaged is for who reads it
		r.Token = token
		return r
	}
	r, _ = byCompletion(v, view, task, token)
	return r
}

// keepRun writes what a completion has said of its claim, where another one takes its place that
// does not say it.
func (s *shelf) keepRun(tx store.Tx, f crdt.Fact, old []byte) {
	was, said := completed(old)
	is, says := completed(f.Body)
	if !said || says && runOf(&is) == runOf(&was) {
		return
	}
	key := appendClaim(s.key[:0], tableEnded, s.p, f.Task, was.Token)
	if _, own := tx.Get(key); !own {
		s.noneEnded = false
		tx.Set(key, was.AppendTo(nil))
	}
}

// lookForEnded is after how many tasks without a record it is looked whether the partition has any.
const lookForEnded = 64

// dropEnded deletes the records of a task's claims. Most partitions have none most of the time, and
// are not walked over for each task then.
func (s *shelf) dropEnded(tx store.Tx, task id.ID) {
	if s.noneEnded {
		return
	}
	drop(tx, appendTask(nil, tableEnded, s.p, task))
	if s.endedDrops++; s.endedDrops%lookForEnded == 1 {
		s.noneEnded = !HasKey(tx, appendPrefix(nil, tableEnded, s.p))
	}
}
