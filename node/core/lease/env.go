package lease

import (
	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// Env is what a machine reads and writes.
type Env struct {
	*ground.Ground
	// Policy is the zero one but in the hunt.
	Policy Policy
	// Standing, Leadership and Acceptors are those of the node.
	Standing   *standing.Machine
	Leadership *leadership.Machine
	Acceptors  *leadership.Acceptors
	// Planned is the cohort that a partition is planned to have, for [Policy.PlannedCohort].
	Planned func(p ring.Partition) []register.Member
	// Others are told of what happens here, and asked for what is theirs to do.
	Others Others
}

// Others is the rest of a node.
type Others interface {
	// Ready gives the queues of which a partition has something to hand out, and Hide takes
	// it out of what is handed out of one.
	Ready(p ring.Partition) []string
	Hide(p ring.Partition, queue string)
	// Keep merges facts of a member.
	Keep(now clock.Time, from register.Member, part *message.PartFacts)
	// Learned hears of a claim that a member holds and that this leader has just heard of.
	Learned(now clock.Time, p ring.Partition, task id.ID, r *claim.Record)
	// Confirmed hears that nobody else led a partition a moment ago.
	Confirmed(p ring.Partition)
	// Forget hears of a grant that was taken back.
	Forget(g message.GrantRef)
}

// alone tells whether nobody else keeps the partition, or is about to.
func (e *Env) alone(p ring.Partition) bool {
	cohort := e.View.Cells[p].Cohort
	return len(cohort) == 0 || len(cohort) == 1 && cohort[0] == e.Self && len(e.Acceptors.All[p].Open) == 0
}
