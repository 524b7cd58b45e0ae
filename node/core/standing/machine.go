package standing

import (
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// Env is what the parts of a machine read and write. None of it is another machine.
type Env struct {
	*ground.Ground
	// Policy is the zero one but in the hunt.
	Policy Policy
	// Mark is how far the disk was at least and SetBack that it was set back, by what is kept
	// beside it.
	Mark    uint64
	SetBack bool
	// Boot names this process.
	Boot uint64

	events []Event
}

// Kind is what has changed in what this node stands for.
type Kind uint8

// What others have to do then.
const (
	Review  Kind = iota // look anew who is to lead what
	Recount             // acknowledgements may count by now that did not
	Lost                // this node may lead the partition no more: its disk has lost something
	Unfit               // another node is to lead the partition, as long as this one does
)

// Event is one change; of [Review] and [Recount] the partition says nothing.
type Event struct {
	Kind      Kind
	Partition ring.Partition
}

// say notes a change for the composition, which takes it with [Machine.Drain].
func (e *Env) say(kind Kind, p ring.Partition) {
	e.events = append(e.events, Event{kind, p})
}

// company are the members that share a cohort with this node, or are to: it may be
// the one to lead then, and who has not heard what they know of it may not stand.
func (e *Env) company() []register.Member {
	var all []register.Member
	for p := range e.View.Cells {
		cohort := e.View.Cells[p].Cohort
		if !slices.Contains(cohort, e.Self) && !e.View.Arriving[ring.Partition(p)] {
			continue
		}
		for _, m := range cohort {
			if m != e.Self && !slices.Contains(all, m) {
				all = append(all, m)
			}
		}
	}
	slices.SortFunc(all, register.Member.Compare)
	return all
}

// asked are those whom this node asks what they know of its disk, and for their time: those who
// share a cohort with it, and who comes into one. Where only they know, this node could not lead
// the partition right after they came.
func (e *Env) asked() []register.Member {
	all := slices.Concat(e.company(), e.View.Coming)
	slices.SortFunc(all, register.Member.Compare)
	return slices.Compact(all)
}

// Machine is what this node may stand for: by its disk, by its clock, and by the register.
type Machine struct {
	Disk     *Disk
	Clocks   *Clocks
	Rollback Rollback

	env *Env
}

// New opens the machine of a process over its store. epochs are those that the acceptors
// knew of each partition.
//
// An error means that a record on the disk is damaged, and ends the start.
func New(env Env, epochs []uint64, view store.View, now clock.Time) (*Machine, error) {
	m := &Machine{env: &env}
	var err error
	if err = m.Rollback.began(epochs, view); err != nil {
		return nil, err
	}
	if m.Disk, err = openDisk(m.env, view, now); err != nil {
		return nil, err
	}
	m.Clocks = newClocks(m.env, m.Disk)
	return m, nil
}

// Company are the members that share a cohort with this node, or are to.
func (m *Machine) Company() []register.Member { return m.env.company() }

// Drain gives what has changed since the last time, in order. It is valid until the next
// call of the machine.
func (m *Machine) Drain() []Event {
	events := m.env.events
	m.env.events = m.env.events[:0]
	return events
}

// Work does what is due at the beginning of a round.
func (m *Machine) Work(now clock.Time) {
	m.Disk.work(now)
	m.Clocks.work(now)
}

// Close writes what this round adds to the disk, after all others have written, and marks the
// acknowledgements that leave with it.
func (m *Machine) Close(now clock.Time) {
	m.Disk.save(now)
	m.Rollback.keep(m.env)
	m.Disk.Stamp(&m.env.Round.Ready)
}

// Due is when something is due, mono ns.
func (m *Machine) Due() int64 { return min(m.Disk.next(), m.Clocks.at) }
