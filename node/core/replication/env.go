package replication

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/core/transfer"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/register"
)

// Env is what a machine reads and writes.
type Env struct {
	*ground.Ground
	// Policy is the zero one but in the hunt.
	Policy Policy
	// Standing and the others are those of the node; they may come later, before anything is asked
	// for.
	Standing   *standing.Machine
	Acceptors  *leadership.Acceptors
	Leadership *leadership.Machine
	Leases     *lease.Machine
	Transfer   *transfer.Machine
	// Node is the rest of it.
	Node Node
}

// Node is what the rest of a node does.
type Node interface {
	// Request handles a request that has waited.
	Request(now clock.Time, r *message.Request)
	// Keep merges facts of a member.
	Keep(now clock.Time, from register.Member, part *message.PartFacts)
}

// Machine brings facts to those who keep their partitions, and reads from them.
type Machine struct {
	Env
	// Writes are facts on their way, Reads questions, Acks answers about the facts of others, and
	// Confirms those who wait for that this node still leads.
	Writes   *Writes
	Reads    *Reads
	Acks     *Acks
	Confirms Confirmations
}

// New makes one that nobody has asked anything.
func New(env Env) *Machine {
	m := &Machine{Env: env}
	m.Writes, m.Reads, m.Acks, m.Confirms.m = &Writes{m: m}, &Reads{m: m}, &Acks{m: m}, m
	return m
}

// refuse tells why a request does not wait any longer; nil: nobody is there to be told.
func (m *Machine) refuse(from message.Origin, why *proto.Error) {
	if why != nil {
		m.Round.Refuse(from, why)
	}
}

// Due is when something is due, mono ns.
func (m *Machine) Due() int64 {
	return min(m.Writes.Due(), m.Reads.Due(), m.Confirms.Due())
}
