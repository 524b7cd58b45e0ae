package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// A machine that is suspended does nothing, and when it goes on its wall clock has gone
// on and its monotonic clock has not, as Linux has it: whoever counts leases by that one
// has missed some time. A stopped program alone is no such machine, for the monotonic
// clock goes on while it stands; so the build for tests takes the time away from it.
// Timers of the system still go by the clock that has gone on: all that are due come at
// once, as they do after SIGCONT.

// nap is how long a node must stand still to count as suspended.
const nap = 500 * time.Millisecond

// event is a line of a node's log.
type event struct {
	Msg      string
	For      string // of clock.suspended
	Offset   string // of clock.set_wrong
	Settings string // of tls.reloaded
}

// logged are the lines of the node's log that tell of an event, in all its lives.
func (p *process) logged(name string) (all []event, err error) {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(b) {
		var e event
		if bytes.Contains(line, []byte(name)) && json.Unmarshal(line, &e) == nil && e.Msg == name {
			all = append(all, e)
		}
	}
	return all, nil
}

// heard waits until the log of a node has more than so many lines of an event, and gives
// those beyond.
func (n hands) heard(p *process, name string, before int) ([]event, error) {
	for end := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		all, err := p.logged(name)
		if err != nil {
			return nil, err
		}
		if len(all) > before || time.Now().After(end) {
			return all[min(before, len(all)):], nil
		}
	}
}

// counts are how many lines of an event the logs of some nodes have.
func counts(some []*process, name string) (map[*process]int, error) {
	n := map[*process]int{}
	for _, p := range some {
		all, err := p.logged(name)
		if err != nil {
			return nil, err
		}
		n[p] = len(all)
	}
	return n, nil
}

// napping has nodes take a long stop for a time in which the machine was suspended.
func (n hands) napping(some []*process) error {
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
			return errors.Join(err, fmt.Errorf("%s does not read its clock file in %v", p.name, patience))
		}
	}
	return nil
}

// suspended: one machine, most or all of them are suspended, and go on.
func (n hands) suspended() error {
	all := len(n.members())
	some := n.some([]int{1, 1, all/2 + 1, all}[n.rnd.IntN(4)])
	if len(some) == 1 && n.rnd.IntN(2) == 0 {
		some[0] = n.leader()
	}
	before, err := counts(some, "clock.suspended")
	if err != nil {
		return err
	}
	if err := n.napping(some); err != nil {
		return err
	}
	n.does("suspend %s", names(some))
	began := time.Now()
	for _, p := range some {
		if err := p.pause(true); err != nil {
			return err
		}
	}
	n.wait(2*time.Second, 15*time.Second)
	asleep := time.Since(began)
	n.does("%s go on after %v", names(some), asleep.Round(time.Millisecond))
	var failed []error
	for _, p := range some {
		failed = append(failed, p.pause(false))
	}
	for _, p := range some {
		failed = append(failed, n.missed(p, before[p], asleep), n.turn(p, 0, 0))
	}
	return errors.Join(failed...)
}

// missed looks at what the monotonic clock of a node that was suspended has missed.
func (n hands) missed(p *process, before int, asleep time.Duration) error {
	naps, err := n.heard(p, "clock.suspended", before)
	stood := time.Duration(0)
	for _, e := range naps {
		d, bad := time.ParseDuration(e.For)
		stood, err = stood+d, errors.Join(err, bad)
	}
	proven(n.lab, stood >= asleep-nap, "a suspended machine: %s stood still for %v, and its monotonic clock for %v", p.name, asleep, stood)
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
func (n hands) step(off time.Duration, some ...*process) (err error) {
	for _, p := range some {
		n.wait(0, n.cfg.Eta/20)
		err = errors.Join(err, n.turn(p, off, 0))
	}
	return err
}

// slow has clocks go slowly until they have lost the second.
func (n hands) slow(some ...*process) (err error) {
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
	all := n.some(len(n.members()))
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
func (n hands) repeated(one *process, others []*process) (err error) {
	how := n.rnd.IntN(4)
	if how == 1 || how == 3 { // it is further off than eta for a while
		n.hurt(one, true)
		defer n.hurt(one, false)
	}
	switch how {
	case 0:
		n.does("all repeat one")
		return n.step(0, append(others, one)...)
	case 1:
		n.does("%s repeat one, and later %s", names(others), one.name)
		err = n.step(0, others...)
		n.wait(2*time.Second, 6*time.Second)
		return errors.Join(err, n.step(0, one))
	case 2:
		n.does("all are slow for %v", smear)
		err = n.slow(append(others, one)...)
		n.wait(smear, smear)
	case 3:
		n.does("%s are slow for %v, %s repeats one amid that", names(others), smear, one.name)
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
	err := n.whole(n.caller.goesOn(), rest)
	if err == nil {
		err = n.serves(n.caller.goesOn(), rest)
	}
	if err != nil {
		n.found("stuck", "%s, and all clocks agree: %v", what, err)
		return errStuck
	}
	n.does("it serves %v after that", time.Since(began).Round(100*time.Millisecond))
	return nil
}

// leapt looks whether each clock has lost a second and got it back.
func (n hands) leapt(all []*process, before map[*process]int) error {
	for _, p := range all {
		stepped := false
		for end := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
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
		proven(n.lab, stepped, "a leap second: the clock of %s has not gained and lost a second", p.name)
	}
	return nil
}
