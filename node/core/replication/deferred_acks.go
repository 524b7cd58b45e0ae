package replication

import (
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// MaxDeferredAcks bounds the answers that wait to be given. Whoever does not get one sends
// its facts again.
const MaxDeferredAcks = 1024

// Acks are answers about facts that are kept here already, which wait until their
// copies may be counted: until enough others have told that this node has forgotten
// nothing, or the register which cohort is the newest. That is the matter of a moment
// after a start, and nobody is to wait for the next try of who has sent them.
type Acks struct {
	m *Machine
	// Invariant: there are at most [MaxDeferredAcks]; whose answer finds no place sends its
	// facts again (Audit).
	List []deferredAck
	Look bool // something has changed
}

// deferredAck is one answer that waits, with the partitions and epochs that it is about. The
// facts themselves are merged already and not kept a second time.
type deferredAck struct {
	to      register.Member
	until   int64          // mono ns: then nobody waits for it
	facts   *message.Facts // without the facts
	refused []ring.Partition
}

// Add answers facts that were kept here, but for those of some partitions, now or as soon as it
// can be said whether their copies count.
func (o *Acks) Add(now clock.Time, to register.Member, m *message.Facts, refused []ring.Partition) {
	if !o.took(to, m, refused) {
		o.Later(now, to, m, refused)
	}
}

// Later keeps such an answer for later.
func (o *Acks) Later(now clock.Time, to register.Member, m *message.Facts, refused []ring.Partition) {
	if len(o.List) >= MaxDeferredAcks {
		o.List = slices.DeleteFunc(o.List, func(x deferredAck) bool { return x.until <= now.Mono })
	}
	if len(o.List) >= MaxDeferredAcks {
		return
	}
	bare := &message.Facts{Write: m.Write}
	for i := range m.Parts {
		bare.Parts = append(bare.Parts, message.PartFacts{Partition: m.Parts[i].Partition, Epoch: m.Parts[i].Epoch})
	}
	o.List = append(o.List, deferredAck{to, now.Mono + int64(WriteTimeout), bare, slices.Clone(refused)})
}

// Work gives the answers that can be given now. What is deleted meanwhile is no copy.
func (o *Acks) Work(now clock.Time) {
	if !o.Look {
		return
	}
	o.Look = false
	o.m.Writes.trusted()
	o.List = slices.DeleteFunc(o.List, func(x deferredAck) bool {
		if x.until <= now.Mono {
			return true
		}
		for i := range x.facts.Parts {
			if p := x.facts.Parts[i].Partition; o.m.View.Deleting(p) && !slices.Contains(x.refused, p) {
				x.refused = append(x.refused, p)
			}
		}
		return o.took(x.to, x.facts, x.refused)
	})
}

// took answers facts that were kept, but for those of some partitions; false when it
// cannot be said yet whether their copies count here, or for which cohorts.
//
// It is false where the register has not shown this node yet which cohort is the newest, or too
// few members have told it that its disk has lost nothing. A copy of a node that may have
// forgotten its promises must not count: its acknowledgement would let a write pass for durable
// that an election does not see.
func (o *Acks) took(from register.Member, m *message.Facts, refused []ring.Partition) bool {
	answer := &message.FactsTaken{Write: m.Write, Refused: refused}
	for i := range m.Parts {
		p, epoch := m.Parts[i].Partition, m.Parts[i].Epoch
		switch {
		case slices.Contains(refused, p):
		case o.m.Standing.Disk.Forgetful(p): // kept, but no copy that counts
			answer.Refused = append(answer.Refused, p)
		case o.m.Acceptors.Blind(p, epoch) || !o.m.Standing.Disk.Counts(p, epoch):
			return false
		default:
			if f, ok := o.m.Acceptors.Fence(p, epoch); ok {
				answer.Fences = append(answer.Fences, f)
			}
		}
	}
	if o.m.Policy.EarlyAck {
		o.m.Round.SendNow(from, answer)
		return true
	}
	o.m.Round.Send(from, answer)
	return true
}
