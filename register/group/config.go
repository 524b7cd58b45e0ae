package group

import (
	"errors"
	"fmt"
	"time"

	"github.com/norn-dev/norn/register"
)

// Errors of a member. Whatever stops it is returned by every later call.
var (
	// ErrUnknown is returned when a request was not answered in time: it may or
	// may not be decided, now or later. Read again.
	ErrUnknown = errors.New("register: no answer in time, the outcome is not known; read again")
	// ErrBusy is returned when too many requests wait. The request was not
	// proposed: it has no effect.
	ErrBusy = errors.New("register: too many requests under way, this one has no effect")
	// ErrTooLarge is returned when a request does not fit into one entry of the
	// log. It has no effect.
	ErrTooLarge = errors.New("register: the request is too large, it has no effect")
	// ErrBroken is returned when the group's own rules were violated: damaged
	// data or a defect. The member must not go on.
	ErrBroken = errors.New("register: the member of the group is broken")
	// ErrForgot is returned when the leader knows this member to have persisted
	// what it does not have: its disk has lost acknowledged writes. It must not
	// vote again under this incarnation (design K4).
	ErrForgot = errors.New("register: this disk has lost what it had acknowledged; the node needs a new incarnation")
	// ErrTwin is returned when another process runs from a copy of this data
	// directory, or this one is the copy.
	ErrTwin = errors.New("register: a copy of this data directory is in use; only one may run, format the other anew")
	// ErrFormatted is returned when a store holds a register already.
	ErrFormatted = errors.New("register: the store is formatted already")
	// ErrOtherOwner is returned when a store belongs to another cluster or to
	// another incarnation.
	ErrOtherOwner = errors.New("register: the store belongs to another member")
)

// Config are the settings of a member. The zero value of a duration or number
// takes its default.
type Config struct {
	// Self is this node in this incarnation; it must be the one that the store
	// was formatted for.
	Self register.Member
	// Cluster must be the one that the store was formatted for. The zero UUID
	// takes any.
	Cluster register.UUID
	// Seed is where time-outs and the number of the session come from. It must
	// differ between two lives of one member.
	Seed uint64
	// Heartbeat is the time between two heartbeats of the leader (100 ms).
	Heartbeat time.Duration
	// Election is how long a member waits for the leader before it helps to
	// elect another, in heartbeats (10). It stands for election after another
	// random wait of up to the same length.
	Election int
	// NoCampaign leaves it to [Campaign] events to stand for election.
	NoCampaign bool
	// Retry is the pause before a request is sent again (1 s).
	Retry time.Duration
	// Timeout is when the outcome of a request becomes unknown (5 s).
	Timeout time.Duration
	// Entries and Bytes of the log behind the last snapshot cause the next one
	// (1,024 entries; 4 MiB).
	Entries int
	// Bytes is described with Entries.
	Bytes int
	// Keep is how many entries before a snapshot stay for slow followers, and
	// KeepBytes how many bytes of data they have at most (256; 4 MiB): they are in
	// memory as well. Who is further behind gets the snapshot.
	Keep int
	// KeepBytes is described with Keep.
	KeepBytes int
	// Stable is how long a member must have kept up before it may vote (5 s).
	Stable time.Duration
	// Dead is after how long without a message a newcomer takes the place of a
	// member of the same name or address (10 s).
	Dead time.Duration
	// Replace is after how long without a message a voter loses its vote to a
	// member that is there (5 min).
	Replace time.Duration
	// Voters is the largest number of voters (5).
	Voters int
}

// patience is how long a member waits for its leader, in ns.
func (c *Config) patience() int64 { return int64(c.Election) * int64(c.Heartbeat) }

func (c *Config) fill() error {
	for _, d := range []struct {
		to  *time.Duration
		def time.Duration
	}{
		{&c.Heartbeat, 100 * time.Millisecond}, {&c.Retry, time.Second}, {&c.Timeout, 5 * time.Second},
		{&c.Stable, 5 * time.Second}, {&c.Dead, 10 * time.Second}, {&c.Replace, 5 * time.Minute},
	} {
		if *d.to == 0 {
			*d.to = d.def
		}
		if *d.to < 0 {
			return fmt.Errorf("register: a negative duration in the configuration of the group: %v", *d.to)
		}
	}
	for _, n := range []struct {
		to  *int
		def int
	}{{&c.Election, 10}, {&c.Entries, 1024}, {&c.Bytes, 4 << 20}, {&c.Keep, 256}, {&c.KeepBytes, 4 << 20}, {&c.Voters, 5}} {
		if *n.to == 0 {
			*n.to = n.def
		}
		if *n.to < 0 {
			return fmt.Errorf("register: a negative number in the configuration of the group: %d", *n.to)
		}
	}
	if c.Election < 2 {
		return fmt.Errorf("register: an election time-out of %d heartbeats, want at least 2", c.Election)
	}
	return nil
}
