package sim

import nornv1 "github.com/norn-dev/norn/proto/norn/v1"

// durability draws the level of a write; nil is the default.
func (s *sim) durability() *nornv1.Durability {
	c := &s.plan.Cluster
	switch {
	case s.fleet == nil:
	case s.Chance(c.One):
		return &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE}
	case s.Chance(c.All):
		return &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ALL}
	}
	return nil
}

// consistency draws the level of a read; nil is the default.
func (s *sim) consistency() *nornv1.Consistency {
	c := &s.plan.Cluster
	switch {
	case s.fleet == nil || s.healing:
	case s.Chance(c.One):
		return &nornv1.Consistency{Level: nornv1.ReadLevel_READ_LEVEL_ONE}
	case s.Chance(c.All):
		return &nornv1.Consistency{Level: nornv1.ReadLevel_READ_LEVEL_ALL}
	}
	return nil
}

// weak tells whether what is acknowledged to a request may be lost all the
// same: with one copy of it on a disk, in a run in which disks get lost.
func (s *sim) weak(m any) bool {
	return s.fleet != nil && s.fleet.lossy && one(m)
}

// one tells whether a write asks for a single copy.
func one(m any) bool {
	w, ok := m.(interface{ GetDurability() *nornv1.Durability })
	return ok && w.GetDurability().GetLevel() == nornv1.WriteLevel_WRITE_LEVEL_ONE
}

// alone tells whether a read asks for a single copy.
func alone(m any) bool {
	r, ok := m.(interface{ GetConsistency() *nornv1.Consistency })
	return ok && r.GetConsistency().GetLevel() == nornv1.ReadLevel_READ_LEVEL_ONE
}
