package uniquekeys

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/ring"
)

// Env is what the unique keys of a node go by.
type Env struct {
	*ground.Ground
	// Policy is the zero one but in the hunt.
	Policy Policy
	// Standing is that of the node. It may come later, before anything is asked for, and so may Leaders
	// and Proofs.
	Standing *standing.Machine
	Leaders  Leaders
	Proofs   Proofs
}

// Leaders tells whether this node may decide for a partition.
type Leaders interface {
	// StillLeads refuses what only a leader may promise where another one may lead.
	StillLeads(p ring.Partition, guarantee string) *proto.Error
	// Alone tells whether nobody else keeps a partition, or is about to.
	Alone(p ring.Partition) bool
}

// Proofs tell whether this node has heard what others know.
type Proofs interface {
	// CaughtUp tells whether this node was compared with enough of the others.
	CaughtUp(p ring.Partition) bool
	// Demand has it compared.
	Demand(now clock.Time, p ring.Partition)
}

// Machine names the tasks of unique keys. The ID says it all: with a
// window there is one ID per window, without one an ID per generation, and the
// generation goes up when the task before is seen finished.
type Machine struct{ Env }

// New has the unique keys of a node.
func New(env Env) *Machine { return &Machine{env} }

// Home names the partition that remembers a unique key: with a window it is
// the one of the task itself.
func (k *Machine) Home(now clock.Time, queue, key string, seconds float64) []byte {
	window, start := int64(proto.Seconds(seconds)), int64(0)
	if window > 0 {
		start = convert.WindowStart(k.Standing.Clocks.Wall(now), window)
	}
	return id.UniqueKey(k.Cluster, queue, key, start, 0).Bytes()
}
