package network

import (
	"errors"

	"github.com/norn-dev/norn/jepsen/lab/machine"
)

// Wires join programs that a test starts by itself, as those of a run are
// joined: by namespaces with packet filters where this process may make them,
// else by a proxy on loopback. Clients reach every node, whatever is cut.
type Wires struct{ net Network }

// NewWires makes wires without ends. The error is a [machine.NotRun] where this machine
// allows neither kind.
func NewWires() (*Wires, error) {
	var err error
	w := &Wires{}
	if machine.Namespaces() == nil {
		w.net, err = NewNetns()
	} else {
		w.net, err = NewProxied()
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

// End is where one program runs: Host is what its command begins with, Listen and
// Peer what it binds, Advertise where the others reach its peer port. Started and
// Ending are to be told of its processes.
type End struct {
	Host                    []string
	Listen, Peer, Advertise string
	Started, Ending         func(pid int)
}

// End makes room for program n; they are made in order, from 0.
func (w *Wires) End(n int) (*End, error) {
	p, err := w.net.Place(n)
	if err != nil {
		return nil, err
	}
	e := &End{Host: p.Host, Listen: p.Listen, Peer: p.Peer, Advertise: p.Advertise, Started: p.Started, Ending: p.Ending}
	for _, hear := range []*func(int){&e.Started, &e.Ending} {
		if *hear == nil {
			*hear = func(int) {}
		}
	}
	return e, nil
}

// Isolate cuts one of so many programs off from all others, both ways; nobody is
// told. All other links are good.
func (w *Wires) Isolate(one, programs int) error {
	links := map[Way]Link{}
	for other := range programs {
		if other != one {
			links[Way{one, other}], links[Way{other, one}] = Cut(), Cut()
		}
	}
	return w.net.Set(links)
}

// Heal makes all links good.
func (w *Wires) Heal() error { return w.net.Set(nil) }

// Kind names what the wires are.
func (w *Wires) Kind() string { return w.net.Kind() }

// Close removes them; the programs have ended by then.
func (w *Wires) Close() error {
	if w == nil {
		return errors.New("lab: there are no wires")
	}
	return w.net.Close()
}
