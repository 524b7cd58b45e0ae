package ring

import (
	"errors"
	"fmt"
	"slices"
)

// MaxWeight is the largest weight of a node.
const MaxWeight = 1_000_000

// Node is a member as placement sees it.
type Node struct {
	Member
	// Zone is what fails together: a rack, a data centre. All nodes without
	// one are in one zone together.
	Zone string
	// Weight is how much the node takes, compared with the other nodes; 0
	// takes nothing: the node is leaving. At most [MaxWeight].
	Weight uint32
}

var (
	// ErrReplicas is returned when a number of replicas is not 1 to
	// [MaxReplicas].
	ErrReplicas = errors.New("ring: number of replicas out of range")
	// ErrNodes is returned when nobody may hold anything, or there are more
	// than [MaxNodes] nodes or a weight over [MaxWeight].
	ErrNodes = errors.New("ring: nodes out of range")
	// ErrPlan is returned when a plan is for another number of partitions.
	ErrPlan = errors.New("ring: plan of another cluster")
)

// Place works out who shall hold what, starting from the old plan; see the
// package for what is guaranteed. The order of the nodes makes no difference.
//
// Returns ErrPartitions, ErrReplicas, ErrNodes, or ErrMember for a node that
// is named twice or badly; ErrPlan when old is of another number of
// partitions, other than none.
func Place(old Plan, nodes []Node, partitions, replicas int) (Plan, error) {
	active, err := takers(old, nodes, partitions, replicas)
	if err != nil {
		return Plan{}, err
	}
	b := newBoard(old, active, partitions, min(replicas, len(active)))
	b.drop()
	b.fill()
	loads := b.loads()
	loads.balance(free)
	loads.balance(dear)
	l := newLeads(b, old)
	if !l.balance() {
		l.exchange()
	}
	return l.plan(), nil
}

// takers checks what Place is asked, and gives the nodes that may hold
// something, in order.
func takers(old Plan, nodes []Node, partitions, replicas int) ([]Node, error) {
	if err := ValidPartitions(partitions); err != nil {
		return nil, err
	}
	if n := old.Partitions(); n != 0 && n != partitions {
		return nil, fmt.Errorf("%w: %d partitions, not %d", ErrPlan, n, partitions)
	}
	if replicas < 1 || replicas > MaxReplicas {
		return nil, fmt.Errorf("%w: %d, not 1 to %d", ErrReplicas, replicas, MaxReplicas)
	}
	if len(nodes) > MaxNodes {
		return nil, fmt.Errorf("%w: %d nodes are over %d", ErrNodes, len(nodes), MaxNodes)
	}
	sorted := slices.Clone(nodes)
	slices.SortFunc(sorted, func(a, b Node) int { return a.Compare(b.Member) })
	for i, n := range sorted {
		if err := n.valid(); err != nil {
			return nil, err
		}
		if n.Weight > MaxWeight {
			return nil, fmt.Errorf("%w: weight %d of %q is over %d", ErrNodes, n.Weight, n.Name, MaxWeight)
		}
		if i > 0 && n.Member == sorted[i-1].Member {
			return nil, fmt.Errorf("%w: %q is named twice", ErrMember, n.Name)
		}
	}
	active := slices.DeleteFunc(sorted, func(n Node) bool { return n.Weight == 0 })
	if len(active) == 0 {
		return nil, fmt.Errorf("%w: no node takes anything", ErrNodes)
	}
	return active, nil
}
