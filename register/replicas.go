package register

import (
	"github.com/norn-dev/norn/register/wire"
	"github.com/norn-dev/norn/ring"
)

// ReplicasChange asks for one compare-and-set of the number of replicas: New is
// written if the number is still Old, another one, and 1 to [ring.MaxReplicas].
// Cohorts are not touched: the plan and the cells follow step by step.
type ReplicasChange struct{ Old, New int }

// setReplicas decides a change.
func (s *State) setReplicas(c *ReplicasChange) bool {
	if s.Cluster.Replicas != c.Old || c.New == c.Old || c.New < 1 || c.New > ring.MaxReplicas {
		return false
	}
	s.Cluster.Replicas = c.New
	return true
}

func appendReplicasChange(w *wire.Writer, c *ReplicasChange) {
	w.Uint(uint64(c.Old))
	w.Uint(uint64(c.New))
}

func readReplicasChange(r *wire.Reader) *ReplicasChange {
	return &ReplicasChange{Old: readReplicas(r), New: readReplicas(r)}
}

// readReplicas reads a number of replicas; one over the limit stays over it.
func readReplicas(r *wire.Reader) int { return int(min(r.Uint(), MaxCohort+1)) }
