package client

import (
	"fmt"
	"strconv"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Durability is how many durable copies a write waits for. The zero value is
// [Quorum].
type Durability struct {
	level  nornv1.WriteLevel
	copies uint32
}

// Levels of durability.
var (
	// Quorum waits for a majority of the task's replicas, on disk.
	Quorum = Durability{}
	// One waits for one copy on disk, a hint for an absent replica included.
	One = Durability{level: nornv1.WriteLevel_WRITE_LEVEL_ONE}
	// All waits for every replica.
	All = Durability{level: nornv1.WriteLevel_WRITE_LEVEL_ALL}
)

// Copies waits for n copies on disk.
func Copies(n int) Durability {
	return Durability{level: nornv1.WriteLevel_WRITE_LEVEL_COUNT, copies: uint32(max(n, 0))}
}

// ParseDurability reads one, quorum, all, or a number of copies. "" is quorum.
// The error is an ErrInvalid.
func ParseDurability(s string) (Durability, error) {
	switch s {
	case "", "quorum":
		return Quorum, nil
	case "one":
		return One, nil
	case "all":
		return All, nil
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return Durability{}, fmt.Errorf("%w: %q is not one, quorum, all or a number of copies", ErrInvalid, s)
	}
	return Copies(int(n)), nil
}

func (d Durability) proto() *nornv1.Durability {
	if d == Quorum {
		return nil
	}
	return &nornv1.Durability{Level: d.level, Copies: d.copies}
}

// WriteOption changes one write.
type WriteOption func(*writeOptions)

type writeOptions struct{ durability Durability }

// WithDurability sets how many durable copies the write waits for.
func WithDurability(d Durability) WriteOption {
	return func(o *writeOptions) { o.durability = d }
}

func written(opts []WriteOption) (o writeOptions) {
	for _, set := range opts {
		set(&o)
	}
	return o
}

// Consistency is how many replicas a read asks. The zero value is a quorum.
type Consistency struct {
	level    nornv1.ReadLevel
	replicas uint32
}

// Levels of consistency.
var (
	// ReadQuorum asks a majority of the replicas.
	ReadQuorum = Consistency{}
	// ReadOne asks the nearest replica; it may lag.
	ReadOne = Consistency{level: nornv1.ReadLevel_READ_LEVEL_ONE}
	// ReadAll asks every replica.
	ReadAll = Consistency{level: nornv1.ReadLevel_READ_LEVEL_ALL}
)

// ReadReplicas asks n replicas.
func ReadReplicas(n int) Consistency {
	return Consistency{level: nornv1.ReadLevel_READ_LEVEL_COUNT, replicas: uint32(max(n, 0))}
}

// ParseConsistency reads one, quorum, all, or a number of replicas. "" is
// quorum. The error is an ErrInvalid.
func ParseConsistency(s string) (Consistency, error) {
	d, err := ParseDurability(s)
	if err != nil {
		return Consistency{}, fmt.Errorf("%w: %q is not one, quorum, all or a number of replicas", ErrInvalid, s)
	}
	switch d.level {
	case nornv1.WriteLevel_WRITE_LEVEL_ONE:
		return ReadOne, nil
	case nornv1.WriteLevel_WRITE_LEVEL_ALL:
		return ReadAll, nil
	case nornv1.WriteLevel_WRITE_LEVEL_COUNT:
		return ReadReplicas(int(d.copies)), nil
	}
	return ReadQuorum, nil
}

// ReadOption changes one read.
type ReadOption func(*nornv1.Consistency)

// WithConsistency sets how many replicas the read asks.
func WithConsistency(c Consistency) ReadOption {
	return func(m *nornv1.Consistency) { m.Level, m.Replicas = c.level, c.replicas }
}

// AtLeast makes the read escalate until it has seen update seq of the claim
// with this token, or anything later.
func AtLeast(token, seq uint64) ReadOption {
	return func(m *nornv1.Consistency) { m.AtLeast, m.AtLeastToken, m.AtLeastSeq = true, token, seq }
}

func consistency(opts []ReadOption) *nornv1.Consistency {
	if len(opts) == 0 {
		return nil
	}
	m := &nornv1.Consistency{}
	for _, set := range opts {
		set(m)
	}
	return m
}
