package session

import (
	"encoding/hex"
	"slices"
	"time"

	"github.com/norn-dev/norn/id"
)

// Instance names one life of a worker: 16 random bytes, drawn at its start. The
// zero Instance names none.
type Instance [16]byte

// String gives the first four bytes in hex, enough for logs.
func (i Instance) String() string { return hex.EncodeToString(i[:4]) }

// IsZero tells whether i names no worker.
func (i Instance) IsZero() bool { return i == Instance{} }

// Identity says who a worker is.
type Identity struct {
	Name     string // shard name: exclusive in the cluster, held as a lease
	Instance Instance
	Machine  string // host the worker runs on
	// Lock names a lock that the worker holds on its machine for its whole life
	// (a file, a port); empty: none. Who has the same lock of the same machine
	// later proves that the one before is dead.
	Lock    string
	Started int64 // wall ns at which the process started, on its machine's clock
}

// Claim names one lease on a task.
type Claim struct {
	Task  id.ID
	Token uint64
}

// Compare orders claims by task, then token.
func (c Claim) Compare(o Claim) int {
	if n := c.Task.Compare(o.Task); n != 0 {
		return n
	}
	switch {
	case c.Token < o.Token:
		return -1
	case c.Token > o.Token:
		return 1
	}
	return 0
}

// QueueSlots is how much of a worker one queue may take.
type QueueSlots struct {
	Queue  string
	Slots  int // tasks of it at a time; 0: as many as the worker has
	Weight int // share against other queues; 0 counts as 1
}

// Capacity is what a worker takes.
type Capacity struct {
	Slots    int // tasks that run at a time
	Prefetch int // tasks beyond that which wait in the worker, under their claims
	Queues   []QueueSlots
	Lease    time.Duration // of the claims; 0: as their queue says
}

// Takes is the most tasks that the worker holds without having ended them.
func (c Capacity) Takes() int { return c.Slots + c.Prefetch }

// queue finds the entry of a queue.
func (c Capacity) queue(name string) (QueueSlots, bool) {
	i := slices.IndexFunc(c.Queues, func(q QueueSlots) bool { return q.Queue == name })
	if i < 0 {
		return QueueSlots{}, false
	}
	return c.Queues[i], true
}

// SetVersion names a set of sessions: its version and a hash over its members.
// Workers echo the newest one that they were told, so that an operator sees who
// has not come back since.
type SetVersion struct {
	Version uint64
	Hash    uint64
}

// Replacement is what becomes of a worker's claim on a name.
type Replacement uint8

// What becomes of it.
const (
	// ReplaceSame: it is the holder.
	ReplaceSame Replacement = iota
	// ReplaceStale: it is an earlier life of the holder, or a packet of one.
	ReplaceStale
	// ReplaceDead: it takes the name, and the holder is proven dead.
	ReplaceDead
	// ReplaceLost: it takes the name; the holder is told to die, should it live.
	ReplaceLost
	// ReplaceRefused: the holder keeps the name.
	ReplaceRefused
)

// Replaces decides what happens when next claims the name that holder has, whose
// health is as told (Bistro's worker protocol, processHeartbeat). bump lets an
// unhealthy holder be replaced, not only one that must die.
//
// The same lock on the same machine is proof: a lock has one holder. The later
// start wins, because both starts are read on that machine's clock.
func Replaces(holder Identity, health State, next Identity, bump bool) Replacement {
	switch {
	case holder.Instance == next.Instance:
		return ReplaceSame
	case holder.Lock != "" && holder.Lock == next.Lock && holder.Machine == next.Machine:
		if next.Started <= holder.Started {
			return ReplaceStale
		}
		return ReplaceDead
	case health == MustDie, bump && health != Healthy:
		return ReplaceLost
	}
	return ReplaceRefused
}
