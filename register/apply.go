package register

import (
	"maps"
	"slices"

	"github.com/norn-dev/norn/internal/mutant"
)

// Apply decides a request against a state. The state it was called on does not
// change and shares with the next one what is equal in both. changed is false
// when nothing was written; the next state is the same then.
func (s State) Apply(r *Request) (next State, res Result, changed bool) {
	next = s
	res = Result{
		Tag: r.Tag, Won: make([]bool, len(r.Changes)), QueuesWon: make([]bool, len(r.Queues)),
		NodesWon: make([]bool, len(r.Nodes)), ValuesWon: make([]bool, len(r.Values)),
	}
	if len(r.Changes) > 0 {
		next.Cells = slices.Clone(s.Cells)
	}
	for i := range r.Changes {
		res.Won[i] = next.setCell(&r.Changes[i])
		changed = changed || res.Won[i]
	}
	if len(r.Queues) > 0 {
		next.Queues = copied(s.Queues)
	}
	for i := range r.Queues {
		res.QueuesWon[i] = next.setQueue(&r.Queues[i])
		changed = changed || res.QueuesWon[i]
	}
	if len(r.Nodes) > 0 {
		next.Nodes = slices.Clone(s.Nodes)
	}
	for i := range r.Nodes {
		res.NodesWon[i] = next.setNode(&r.Nodes[i])
		changed = changed || res.NodesWon[i]
	}
	if len(r.Values) > 0 {
		next.Values = copied(s.Values)
	}
	for i, c := range r.Values {
		if next.Values[c.Name].Version == c.Old && fits(next.Values, c.Name, c.Data) {
			next.Values[c.Name] = Value{Version: c.Old + 1, Data: slices.Clone(c.Data)}
			res.ValuesWon[i], changed = true, true
		}
	}
	won, named := next.setNames(r.Names)
	res.NamesWon, changed = won, changed || named
	may, anew := next.setAccess(r.Access)
	res.AccessWon, changed = may, changed || anew
	if c := r.Plan; c != nil && next.Plan.Version == c.Old && len(c.Data) <= MaxPlan {
		next.Plan = Value{Version: c.Old + 1, Data: slices.Clone(c.Data)}
		res.PlanWon, changed = true, true
	}
	if c := r.Replicas; c != nil && next.setReplicas(c) {
		res.ReplicasWon, changed = true, true
	}
	changed = next.applySchedules(r, &res) || changed
	if !changed {
		res.State = s
		return s, res, false
	}
	next.Revision++
	res.State = next
	return next, res, true
}

// setCell decides one change. s owns its Cells.
func (s *State) setCell(c *Change) bool {
	if int(c.Partition) >= len(s.Cells) || len(c.New.Cohort) > MaxCohort {
		return false
	}
	cell := &s.Cells[c.Partition]
	if !cell.Same(&c.Old) && !mutant.CASIfGreater.On() || c.New.Epoch <= cell.Epoch {
		return false
	}
	*cell = c.New
	return true
}

// setQueue decides one change. s owns its Queues.
func (s *State) setQueue(c *QueueChange) bool {
	old, known := s.Queues[c.Name]
	switch {
	case old.Version != c.Old:
		return false
	case len(c.Settings) == 0:
		delete(s.Queues, c.Name)
		s.QueuesGone = max(s.QueuesGone, old.Version)
		return known
	case !fits(s.Queues, c.Name, c.Settings):
		return false
	}
	version := old.Version + 1
	if !known {
		version = s.QueuesGone + 1
	}
	s.Queues[c.Name] = Queue{Version: version, Settings: slices.Clone(c.Settings)}
	return true
}

// fits says whether a named value may be written.
func fits[V any](m map[string]V, name string, data []byte) bool {
	_, known := m[name]
	return len(name) <= MaxName && len(data) <= MaxData && (known || len(m) < MaxNamed)
}

func copied[V any](m map[string]V) map[string]V {
	if m == nil {
		return make(map[string]V)
	}
	return maps.Clone(m)
}

// First is the state of a cluster at its beginning: one node, which is the
// cohort of every partition.
func First(c Cluster, self Node) State {
	self.Version, self.Changed, self.Status = 1, 1, Active
	s := State{
		Cluster: c, Revision: 1, Nodes: []Node{self},
		Members: []Member{self.Member}, Cells: make([]Cell, c.Partitions),
	}
	for i := range s.Cells {
		s.Cells[i].Cohort = []Member{self.Member}
	}
	return s
}
