package peer

import (
	"container/list"
	"net"
	"net/netip"
	"sync"

	"github.com/norn-dev/norn/register"
)

// arrivals are the accepted connections. Those that have not proved to be of a member wait in
// two lists, so many in each at most: strangers, and who comes from a member's address. Where
// there is no room the one that is silent for longest gives way. Otherwise whoever connects
// and says nothing would keep members out.
type arrivals struct {
	most, silent int // in all, and in each list

	mu sync.Mutex // guards what follows
	// Invariant: each connection that waits is in all and in one of the lists, which have at
	// most silent each; one that is known is in all alone. One that stayed in a list would be
	// closed for a stranger.
	all   map[net.Conn]*arrival
	lists [2]list.List // of net.Conn, the oldest first: strangers, and those of members' addresses
	homes map[netip.Addr]struct{}
	ended bool
}

// newArrivals takes the limits of all connections, and of those that have not said who they
// are.
func newArrivals(most, silent int) arrivals {
	return arrivals{most: most, silent: silent, all: make(map[net.Conn]*arrival), homes: make(map[netip.Addr]struct{})}
}

// The lists of [arrivals].
const (
	strange = iota
	atHome
)

// arrival is where a connection is in the lists; at is nil once it is known.
type arrival struct {
	at   *list.Element
	list int
}

// maxHomes bounds the addresses that are known to be members'; past it all are learned anew.
const maxHomes = 4 * register.MaxNodes

// enter gives a connection a place; victim gives way to it and is to be closed. Of
// connections of members none gives way.
func (a *arrivals) enter(c net.Conn) (victim net.Conn, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return nil, false
	}
	which := strange
	if _, home := a.homes[addrOf(c)]; home {
		which = atHome
	}
	from := -1
	switch {
	case a.lists[which].Len() >= a.silent:
		from = which
	case len(a.all) < a.most:
	case a.lists[strange].Len() > 0:
		from = strange
	case which == atHome && a.lists[atHome].Len() > 0:
		from = atHome
	default:
		return nil, false
	}
	if from >= 0 {
		victim = a.lists[from].Front().Value.(net.Conn)
		a.forget(victim)
	}
	a.all[c] = &arrival{a.lists[which].PushBack(c), which}
	return victim, true
}

// known notes that a connection is of a member, or otherwise one that may stay; home that
// members come from its address.
func (a *arrivals) known(c net.Conn, home bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if one := a.all[c]; one != nil && one.at != nil {
		a.lists[one.list].Remove(one.at)
		one.at = nil
	}
	if home {
		a.home(addrOf(c))
	}
}

// leave takes a connection out.
func (a *arrivals) leave(c net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(c)
}

// forget is leave; mu is held.
func (a *arrivals) forget(c net.Conn) {
	if one := a.all[c]; one != nil && one.at != nil {
		a.lists[one.list].Remove(one.at)
	}
	delete(a.all, c)
}

// learn notes addresses, HOST:PORT, at which members are. Names are not looked up: what is
// behind them is learned from the connections.
func (a *arrivals) learn(addresses []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, text := range addresses {
		if at, err := netip.ParseAddrPort(text); err == nil {
			a.home(at.Addr().Unmap())
		}
	}
}

// met notes the other end of a connection to a member.
func (a *arrivals) met(c net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.home(addrOf(c))
}

// home notes the address of a member; mu is held.
func (a *arrivals) home(at netip.Addr) {
	if !at.IsValid() {
		return
	}
	if len(a.homes) >= maxHomes {
		clear(a.homes)
	}
	a.homes[at] = struct{}{}
}

// isHome tells whether members are at an address.
func (a *arrivals) isHome(at netip.Addr) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, home := a.homes[at]
	return home
}

// close closes all connections, and takes no more.
func (a *arrivals) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	for c := range a.all { // Any order: all are closed.
		_ = c.Close()
	}
}

// addrOf is the address that a connection comes from; zero: it has none.
func addrOf(c net.Conn) netip.Addr {
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}
