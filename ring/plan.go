package ring

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
)

const (
	// MaxReplicas is the largest number of replicas of a partition.
	MaxReplicas = 9
	// MaxNodes is the largest number of nodes that a plan names; placement is
	// tested and measured up to 200.
	MaxNodes = 1024
	// MaxName is the longest name of a node, in bytes.
	MaxName = 255
)

// ErrMember is returned when a member can not be where it was to be: it has no
// name or one over [MaxName], is named twice, or is not in the plan.
var ErrMember = errors.New("ring: member does not fit")

// Member is a node in one incarnation, as plans name it. Members that differ
// in their key only are different members: nothing of one is on the other.
type Member struct {
	// Name is 1 to [MaxName] bytes.
	Name string
	// Key tells incarnations apart, and has no meaning here.
	Key [16]byte
}

// Compare orders members by name, then by key: the order of plans.
func (m Member) Compare(o Member) int {
	return cmp.Or(cmp.Compare(m.Name, o.Name), bytes.Compare(m.Key[:], o.Key[:]))
}

func (m Member) valid() error {
	if m.Name == "" || len(m.Name) > MaxName {
		return fmt.Errorf("%w: name of %d bytes, not 1 to %d", ErrMember, len(m.Name), MaxName)
	}
	return nil
}

// Plan says for every partition which members shall hold it. It is a value: no
// method changes it. The zero Plan has no partitions; it is what a cluster has
// before its first placement.
//
// All cohorts of a plan are of one size. The first of a cohort is the
// preferred leader, the others follow in order of [Member.Compare]; so two
// plans that say the same are equal and have equal bytes.
type Plan struct {
	members  []Member // in order, each in some cohort
	replicas int      // size of a cohort
	cohorts  []uint16 // replicas for each partition: indices into members
}

// Partitions is the number of partitions.
func (p Plan) Partitions() int {
	if p.replicas == 0 {
		return 0
	}
	return len(p.cohorts) / p.replicas
}

// Replicas is the size of a cohort: what was asked for, or less where fewer
// nodes can hold anything.
func (p Plan) Replicas() int { return p.replicas }

// Members gives the members that hold anything, in order.
func (p Plan) Members() []Member { return slices.Clone(p.members) }

// Cohort gives the members of a partition, the preferred leader first; none
// for a partition that the plan does not have.
func (p Plan) Cohort(partition Partition) []Member {
	at := p.at(partition)
	out := make([]Member, len(at))
	for i, m := range at {
		out[i] = p.members[m]
	}
	return out
}

// Seats gives the cohort of a partition as indices into [Plan.Members]. Nobody may change it.
func (p Plan) Seats(partition Partition) []uint16 { return p.at(partition) }

// Equal says whether two plans say the same.
func (p Plan) Equal(o Plan) bool {
	return p.replicas == o.replicas && slices.Equal(p.cohorts, o.cohorts) && slices.Equal(p.members, o.members)
}

// at gives the cohort as indices.
func (p Plan) at(partition Partition) []uint16 {
	if int(partition) >= p.Partitions() {
		return nil
	}
	from := int(partition) * p.replicas
	return p.cohorts[from : from+p.replicas]
}

// Replace puts one member in the place of another: a newcomer under the name
// of a dead node, say. Nothing else moves. Returns ErrMember when old is not
// in the plan, or new is already or has no valid name.
func (p Plan) Replace(old, new Member) (Plan, error) {
	if err := new.valid(); err != nil {
		return Plan{}, err
	}
	at, found := slices.BinarySearchFunc(p.members, old, Member.Compare)
	if !found {
		return Plan{}, fmt.Errorf("%w: %q is not in the plan", ErrMember, old.Name)
	}
	if _, there := slices.BinarySearchFunc(p.members, new, Member.Compare); there {
		return Plan{}, fmt.Errorf("%w: %q is in the plan", ErrMember, new.Name)
	}
	members := slices.Clone(p.members)
	members[at] = new
	return newPlan(members, p.replicas, slices.Clone(p.cohorts)), nil
}

// newPlan brings a plan into its one form: members in order, without those
// that hold nothing, and every cohort in order after its first. It keeps what
// it is given.
func newPlan(members []Member, replicas int, cohorts []uint16) Plan {
	used := make([]bool, len(members))
	for _, m := range cohorts {
		used[m] = true
	}
	var order []int
	for m := range members {
		if used[m] {
			order = append(order, m)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return members[a].Compare(members[b]) })
	p := Plan{members: make([]Member, len(order)), replicas: replicas, cohorts: cohorts}
	rank := make([]uint16, len(members))
	for r, m := range order {
		p.members[r], rank[m] = members[m], uint16(r)
	}
	for i, m := range cohorts {
		cohorts[i] = rank[m]
	}
	for i := 0; i < len(cohorts); i += replicas {
		slices.Sort(cohorts[i+1 : i+replicas])
	}
	return p
}
