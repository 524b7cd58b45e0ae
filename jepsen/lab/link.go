package lab

import (
	"fmt"
	"strings"
	"time"
)

// driver is the number of this process among the ends of links; nodes count
// from 0.
const driver = -1

// link is how one node's packets reach another, one way. The zero link is a good
// one.
type link struct {
	cutTCP, cutUDP bool          // nothing arrives
	loss           float64       // share of packets that do not arrive
	duplicate      float64       // share of UDP packets that arrive twice
	reorder        float64       // share of UDP packets that are held back
	delay, jitter  time.Duration // of every packet, and up to so much more
	rate           int           // bytes per second; 0: no limit
}

// cut is a link that carries nothing.
func cut() link { return link{cutTCP: true, cutUDP: true} }

// String names what is wrong with the link.
func (l link) String() string {
	var all []string
	add := func(is bool, format string, args ...any) {
		if is {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	add(l.cutTCP && l.cutUDP, "cut")
	add(l.cutTCP && !l.cutUDP, "TCP cut")
	add(l.cutUDP && !l.cutTCP, "UDP cut")
	add(l.loss > 0, "%.0f %% lost", 100*l.loss)
	add(l.duplicate > 0, "%.0f %% twice", 100*l.duplicate)
	add(l.reorder > 0, "%.0f %% out of order", 100*l.reorder)
	add(l.delay > 0 || l.jitter > 0, "%v to %v late", l.delay, l.delay+l.jitter)
	add(l.rate > 0, "%d KiB/s", l.rate/1024)
	if len(all) == 0 {
		return "good"
	}
	return strings.Join(all, ", ")
}

// place is where a node runs.
type place struct {
	host            []string // what a command begins with to run there
	listen, peer    string   // what the node binds
	advertise       string   // where other nodes reach the peer port
	dial            string   // where clients reach the client port
	http            string
	started, ending func(pid int) // hear of its processes; may be nil
}

// network is what joins the nodes.
type network interface {
	// place makes room for node n, which is the next one.
	place(n int) (*place, error)
	// set makes the links what they are told to be, all others good.
	set(links map[way]link) error
	// kind names it for reports.
	kind() string
	close() error
}

// way is a link's direction.
type way struct{ from, to int }
