package network

import (
	"fmt"
	"strings"
	"time"
)

// Driver is the number of this process among the ends of links; nodes count
// from 0.
const Driver = -1

// Link is how one node's packets reach another, one way. The zero link is a good
// one.
type Link struct {
	CutTCP, CutUDP bool          // nothing arrives
	Loss           float64       // share of packets that do not arrive
	Duplicate      float64       // share of UDP packets that arrive twice
	Reorder        float64       // share of UDP packets that are held back
	Delay, Jitter  time.Duration // of every packet, and up to so much more
	Rate           int           // bytes per second; 0: no limit
}

// Cut is a link that carries nothing.
func Cut() Link { return Link{CutTCP: true, CutUDP: true} }

// String names what is wrong with the link.
func (l Link) String() string {
	var all []string
	add := func(is bool, format string, args ...any) {
		if is {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	add(l.CutTCP && l.CutUDP, "cut")
	add(l.CutTCP && !l.CutUDP, "TCP cut")
	add(l.CutUDP && !l.CutTCP, "UDP cut")
	add(l.Loss > 0, "%.0f %% lost", 100*l.Loss)
	add(l.Duplicate > 0, "%.0f %% twice", 100*l.Duplicate)
	add(l.Reorder > 0, "%.0f %% out of order", 100*l.Reorder)
	add(l.Delay > 0 || l.Jitter > 0, "%v to %v late", l.Delay, l.Delay+l.Jitter)
	add(l.Rate > 0, "%d KiB/s", l.Rate/1024)
	if len(all) == 0 {
		return "good"
	}
	return strings.Join(all, ", ")
}

// Place is where a node runs.
type Place struct {
	Host            []string // what a command begins with to run there
	Listen, Peer    string   // what the node binds
	Advertise       string   // where other nodes reach the peer port
	Dial            string   // where clients reach the client port
	Http            string
	Started, Ending func(pid int) // hear of its processes; may be nil
}

// Network is what joins the nodes.
type Network interface {
	// place makes room for node n, which is the next one.
	Place(n int) (*Place, error)
	// set makes the links what they are told to be, all others good.
	Set(links map[Way]Link) error
	// kind names it for reports.
	Kind() string
	Close() error
}

// Way is a link's direction.
type Way struct{ From, To int }

// String is for messages.
func (w Way) String() string { return fmt.Sprintf("%d to %d", w.From, w.To) }
