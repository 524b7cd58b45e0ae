package witness

import (
	"fmt"
	"iter"

	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/sim/disk"
	"github.com/norn-dev/norn/register"
)

var self = register.Member{Node: "n1", Incarnation: register.Incarnation{1}}

// lone is a node of its own, and a cluster of it with one partition.
type lone struct {
	disk  *disk.Disk
	found string // the invariant that was broken
}

func (l *lone) String() string                        { return "n1 " }
func (l *lone) Self() register.Member                 { return self }
func (l *lone) Disk() *disk.Disk                      { return l.disk }
func (l *lone) Known() (s register.State, alone bool) { return s, true }
func (l *lone) Look() Look                            { return Look{Partitions: 1, Found: l.found != ""} }
func (l *lone) Nodes() iter.Seq[Node]                 { return func(yield func(Node) bool) { yield(l) } }
func (l *lone) Find(register.Member) Node             { return l }
func (l *lone) Believed() iter.Seq[Claim]             { return func(func(Claim) bool) {} }
func (l *lone) Record(*history.Event)                 {}
func (l *lone) Violation(invariant, format string, args ...any) {
	l.found = invariant
	_ = fmt.Sprintf(format, args...)
}
