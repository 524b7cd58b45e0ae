package faults

import (
	"errors"
	"fmt"
	"time"

	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/machine"
)

// A machine that is suspended does nothing, and when it goes on its wall clock has gone
// on and its monotonic clock has not, as Linux has it: whoever counts leases by that one
// has missed some time. A stopped program alone is no such machine, for the monotonic
// clock goes on while it stands; so the build for tests takes the time away from it.
// Timers of the system still go by the clock that has gone on: all that are due come at
// once, as they do after SIGCONT.

// nap is how long a node must stand still to count as suspended.
const nap = 500 * time.Millisecond

// heard waits until the log of a node has more than so many lines of an event, and gives
// those beyond.
func (n hands) heard(p *cluster.Process, name string, before int) ([]cluster.Event, error) {
	for end := time.Now().Add(machine.Patience); ; <-time.After(20 * time.Millisecond) {
		all, err := p.Logged(name)
		if err != nil {
			return nil, err
		}
		if len(all) > before || time.Now().After(end) {
			return all[min(before, len(all)):], nil
		}
	}
}

// counts are how many lines of an event the logs of some nodes have.
func counts(some []*cluster.Process, name string) (map[*cluster.Process]int, error) {
	n := map[*cluster.Process]int{}
	for _, p := range some {
		all, err := p.Logged(name)
		if err != nil {
			return nil, err
		}
		n[p] = len(all)
	}
	return n, nil
}

// napping has nodes take a long stop for a time in which the machine was suspended.
func (n hands) napping(some []*cluster.Process) error {
	before, err := counts(some, "clock.set_wrong")
	if err != nil {
		return err
	}
	for _, p := range some {
		if err := n.write(p, fmt.Sprintf("0s 0 %v", nap)); err != nil {
			return err
		}
	}
	for _, p := range some {
		if now, err := n.heard(p, "clock.set_wrong", before[p]); err != nil || len(now) == 0 {
			return errors.Join(err, fmt.Errorf("%s does not read its clock file in %v", p.Name, machine.Patience))
		}
	}
	return nil
}

// suspended: one machine, most or all of them are suspended, and go on.
func (n hands) suspended() error {
	all := len(n.Members())
	some := n.some([]int{1, 1, all/2 + 1, all}[n.Rnd.IntN(4)])
	if len(some) == 1 && n.Rnd.IntN(2) == 0 {
		some[0] = n.leader()
	}
	before, err := counts(some, "clock.suspended")
	if err != nil {
		return err
	}
	if err := n.napping(some); err != nil {
		return err
	}
	n.does("suspend %s", cluster.Names(some))
	began := time.Now()
	for _, p := range some {
		if err := p.Pause(true); err != nil {
			return err
		}
	}
	n.wait(2*time.Second, 15*time.Second)
	asleep := time.Since(began)
	n.does("%s go on after %v", cluster.Names(some), asleep.Round(time.Millisecond))
	var failed []error
	for _, p := range some {
		failed = append(failed, p.Pause(false))
	}
	for _, p := range some {
		failed = append(failed, n.missed(p, before[p], asleep), n.turn(p, 0, 0))
	}
	return errors.Join(failed...)
}

// missed looks at what the monotonic clock of a node that was suspended has missed.
func (n hands) missed(p *cluster.Process, before int, asleep time.Duration) error {
	naps, err := n.heard(p, "clock.suspended", before)
	stood := time.Duration(0)
	for _, e := range naps {
		d, bad := time.ParseDuration(e.For)
		stood, err = stood+d, errors.Join(err, bad)
	}
	cluster.Proven(n.Lab, stood >= asleep-nap, "a suspended machine: %s stood still for %v, and its monotonic clock for %v", p.Name, asleep, stood)
	return err
}

// Of a leap second: by how much a clock is slow that spreads it, and for how long.
const (
	leap     = time.Second
	smearPPM = -100_000
	smear    = 10 * time.Second
)

// step has clocks show so much more than those of the world, one after the other as each
// comes to midnight.
func (n hands) step(off time.Duration, some ...*cluster.Process) (err error) {
	for _, p := range some {
		n.wait(0, n.Cfg.Eta/20)
		err = errors.Join(err, n.turn(p, off, 0))
	}
	return err
}

// slow has clocks go slowly until they have lost the second.
func (n hands) slow(some ...*cluster.Process) (err error) {
	for _, p := range some {
		err = errors.Join(err, n.turn(p, leap, smearPPM))
	}
	return err
}

// leaps: first all clocks come to be a second ahead, so that they never show less than those
// of clients, which go on as they were: an ID from the future is refused, and that is not what
// this is about. Then a second is repeated, by all, by all but one, or little by little.
func (n hands) leaps() error {
	n.wrong()
	all := n.some(len(n.Members()))
	before, err := counts(all, "clock.set_wrong")
	if err != nil {
		return err
	}
	n.does("all go ahead by %v", leap)
	if err := n.step(leap, all...); err != nil {
		return err
	}
	if err := n.agree("all clocks are a second ahead"); err != nil {
		return err
	}
	n.wait(time.Second, 4*time.Second)
	if err := n.repeated(all[0], all[1:]); err != nil {
		return err
	}
	if err := n.agree("a second was repeated"); err != nil {
		return err
	}
	return n.leapt(all, before)
}

// repeated: all clocks repeat a second, each in its way.
func (n hands) repeated(one *cluster.Process, others []*cluster.Process) (err error) {
	how := n.Rnd.IntN(4)
	if how == 1 || how == 3 { // it is further off than eta for a while
		n.Hurt(one, true)
		defer n.Hurt(one, false)
	}
	switch how {
	case 0:
		n.does("all repeat one")
		return n.step(0, append(others, one)...)
	case 1:
		n.does("%s repeat one, and later %s", cluster.Names(others), one.Name)
		err = n.step(0, others...)
		n.wait(2*time.Second, 6*time.Second)
		return errors.Join(err, n.step(0, one))
	case 2:
		n.does("all are slow for %v", smear)
		err = n.slow(append(others, one)...)
		n.wait(smear, smear)
	case 3:
		n.does("%s are slow for %v, %s repeats one amid that", cluster.Names(others), smear, one.Name)
		err = n.slow(others...)
		n.wait(smear/2, smear/2)
		err = errors.Join(err, n.step(0, one))
		n.wait(smear/2, smear/2)
	}
	return errors.Join(err, n.right(append(others, one)...))
}

// agree waits until the cluster serves again with all clocks alike.
func (n hands) agree(what string) error {
	began := time.Now()
	err := n.Whole(n.Caller.GoesOn(), cluster.Rest)
	if err == nil {
		err = n.Serves(n.Caller.GoesOn(), cluster.Rest)
	}
	if err != nil {
		n.Found("stuck", "%s, and all clocks agree: %v", what, err)
		return cluster.ErrStuck
	}
	n.does("it serves %v after that", time.Since(began).Round(100*time.Millisecond))
	return nil
}

// leapt looks whether each clock has lost a second and got it back.
func (n hands) leapt(all []*cluster.Process, before map[*cluster.Process]int) error {
	for _, p := range all {
		stepped := false
		for end := time.Now().Add(machine.Patience); ; <-time.After(20 * time.Millisecond) {
			set, err := n.heard(p, "clock.set_wrong", before[p])
			if err != nil {
				return err
			}
			for i := range set {
				stepped = stepped || i > 0 && set[i].Offset == "0s" && set[i-1].Offset == "1s"
			}
			if stepped || time.Now().After(end) {
				break
			}
		}
		cluster.Proven(n.Lab, stepped, "a leap second: the clock of %s has not gained and lost a second", p.Name)
	}
	return nil
}
