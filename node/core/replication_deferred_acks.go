package core

import (
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// maxDeferredAcks bounds the answers that wait to be given. Whoever does not get one sends
// its facts again.
const maxDeferredAcks = 1024

// deferredAcks are answers about facts that are kept here already, which wait until their
// copies may be counted: until enough others have told that this node has forgotten
// nothing, or the register which cohort is the newest. That is the matter of a moment
// after a start, and nobody is to wait for the next try of who has sent them.
type deferredAcks struct {
	c    *Core
	list []deferredAck
	look bool // something has changed
}

type deferredAck struct {
	to      register.Member
	until   int64          // mono ns: then nobody waits for it
	facts   *message.Facts // without the facts
	refused []ring.Partition
}

func (o *deferredAcks) add(now clock.Time, to register.Member, m *message.Facts, refused []ring.Partition) {
	if len(o.list) >= maxDeferredAcks {
		o.list = slices.DeleteFunc(o.list, func(x deferredAck) bool { return x.until <= now.Mono })
	}
	if len(o.list) >= maxDeferredAcks {
		return
	}
	bare := &message.Facts{Write: m.Write}
	for i := range m.Parts {
		bare.Parts = append(bare.Parts, message.PartFacts{Partition: m.Parts[i].Partition, Epoch: m.Parts[i].Epoch})
	}
	o.list = append(o.list, deferredAck{to, now.Mono + int64(writeTimeout), bare, slices.Clone(refused)})
}

// work gives the answers that can be given now. What is deleted meanwhile is no copy.
func (o *deferredAcks) work(now clock.Time) {
	if !o.look {
		return
	}
	o.look = false
	o.c.quorumWrites.trusted()
	o.list = slices.DeleteFunc(o.list, func(x deferredAck) bool {
		if x.until <= now.Mono {
			return true
		}
		for i := range x.facts.Parts {
			if p := x.facts.Parts[i].Partition; o.c.view.Deleting(p) && !slices.Contains(x.refused, p) {
				x.refused = append(x.refused, p)
			}
		}
		return peers{o.c}.took(x.to, x.facts, x.refused)
	})
}
