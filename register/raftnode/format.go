package raftnode

import (
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/group"
	"github.com/norn-dev/norn/store"
)

// durably commits what write writes, or nothing when it fails.
func durably(s store.Store, write func(b *store.Batch) error) error {
	var b store.Batch
	if err := write(&b); err != nil {
		return err
	}
	s.Commit(&b)()
	return nil
}

// Format makes the register of a new cluster, with self as its only member. It
// happens once in the life of a cluster. It returns group.ErrFormatted when the
// store has one.
func Format(s store.Store, c register.Cluster, self register.Node) error {
	return durably(s, func(b *store.Batch) error { return group.Format(s, b, c, self) })
}

// Begin makes a register that begins with a state of which self is the only member. It
// returns group.ErrFormatted when the store has one.
func Begin(s store.Store, state register.State, self register.Member) error {
	return durably(s, func(b *store.Batch) error { return group.Begin(s, b, state, self) })
}

// Join makes a register that the leader of an existing cluster will fill, once
// self is in the register there. It returns group.ErrFormatted when the store
// has one.
func Join(s store.Store, cluster register.UUID, self register.Member) error {
	return durably(s, func(b *store.Batch) error { return group.Join(s, b, cluster, self) })
}

// Restore makes a register from a backed-up state, at a time (wall ns) and in
// a generation that there never was: see register.State.Rebuilt.
func Restore(s store.Store, state register.State, generation uint64, at int64, self register.Node) error {
	return durably(s, func(b *store.Batch) error { return group.Restore(s, b, state, generation, at, self) })
}

// Force makes the member in s a group of one, when the majority is lost for
// good: see register.State.Restored. Only an operator may want this.
func Force(s store.Store, self register.Node) error {
	return durably(s, func(b *store.Batch) error { return group.Force(s, b, self) })
}
