package run

import nornv1 "github.com/norn-dev/norn/proto/norn/v1"

// Durability draws the level of a write; nil is the default.
func (s *State) Durability() *nornv1.Durability {
	c := &s.Plan.Cluster
	switch {
	case !s.Many:
	case s.Chance(c.One):
		return &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE}
	case s.Chance(c.All):
		return &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ALL}
	}
	return nil
}

// Consistency draws the level of a read; nil is the default.
func (s *State) Consistency() *nornv1.Consistency {
	c := &s.Plan.Cluster
	switch {
	case !s.Many || s.Healing:
	case s.Chance(c.One):
		return &nornv1.Consistency{Level: nornv1.ReadLevel_READ_LEVEL_ONE}
	case s.Chance(c.All):
		return &nornv1.Consistency{Level: nornv1.ReadLevel_READ_LEVEL_ALL}
	}
	return nil
}

// Weak tells whether what is acknowledged to a request may be lost all the
// same: with one copy of it on a disk, in a run in which disks get lost.
func (s *State) Weak(m any) bool {
	return s.Many && s.Lossy && One(m)
}

// One tells whether a write asks for a single copy.
func One(m any) bool {
	w, ok := m.(interface{ GetDurability() *nornv1.Durability })
	return ok && w.GetDurability().GetLevel() == nornv1.WriteLevel_WRITE_LEVEL_ONE
}

// Alone tells whether a read asks for a single copy.
func Alone(m any) bool {
	r, ok := m.(interface{ GetConsistency() *nornv1.Consistency })
	return ok && r.GetConsistency().GetLevel() == nornv1.ReadLevel_READ_LEVEL_ONE
}
