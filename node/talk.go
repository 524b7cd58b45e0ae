package node

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/node/gossip"
	"github.com/norn-dev/norn/register"
)

// How long one look-up of the own name is waited for, and the pause before the next one,
// which doubles.
const (
	ownLookUp    = 5 * time.Second
	ownPause     = 250 * time.Millisecond
	maxOwnPause  = 5 * time.Second
	unmetAfter   = 15 * time.Second // without any other node, before it is said
	unmetAgain   = 10 * time.Minute // and said again
	unmetLook    = time.Second
	maxUnmetSaid = 10 // nodes in that line
)

// talker starts gossip, and says when nobody is reached.
type talker struct{ *membership }

// start starts gossip, at once where this node says an address of its own. A name is looked up
// beside everything else: DNS may be silent, or not know it yet, as that of a container that
// has just started. Until it does others reach this node at what the register says.
func (m talker) start(ctx context.Context, keys [][]byte) error {
	n := m.n
	c := gossip.Config{
		Self: n.self, Cluster: n.cluster.ID, Packets: n.ports.udp, Advertise: n.record().Addresses[0], Client: clientAddress(n),
		Zone: n.cfg.Zone, Keys: keys, Home: m.network.Home, Seeds: n.cfg.Join, Interval: n.cfg.GossipInterval, Logger: n.log, OnChange: m.hear, LookUp: n.names.LookUp,
	}
	if err := c.Check(); err != nil {
		return err
	}
	if _, err := netip.ParseAddrPort(c.Advertise); err == nil {
		return m.as(&c)
	}
	n.joining.Go(func() {
		said := false
		for pause := ownPause; ; pause = min(2*pause, maxOwnPause) {
			err := m.find(ctx, &c)
			if err == nil {
				err = m.as(&c)
			}
			switch {
			case ctx.Err() != nil:
				return
			case err == nil:
				if said {
					n.log.Info("advertise.found", "name", c.Advertise, "address", c.At.String())
				}
				return
			case !errors.Is(err, gossip.ErrLookUp):
				n.fatal(err)
				return
			case !said:
				said = true
				n.log.Warn("advertise.unknown", "name", c.Advertise, "error", err,
					"meaning", "the name of peer-advertise leads nowhere yet: this node runs, and goes on looking it up; others reach it when DNS knows it. Where it stays so, correct peer-advertise or DNS")
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
		}
	})
	return nil
}

// find finds the address behind the name that is advertised. A port that is bound to one
// address is reached there meanwhile.
func (m talker) find(ctx context.Context, c *gossip.Config) (err error) {
	look, cancel := context.WithTimeout(ctx, ownLookUp)
	defer cancel()
	c.At, err = gossip.Reach(look, c.Advertise, c.Packets.LocalAddr(), c.LookUp)
	bound, bad := netip.ParseAddrPort(c.Packets.LocalAddr().String())
	if errors.Is(err, gossip.ErrLookUp) && bad == nil && !bound.Addr().IsUnspecified() {
		c.At, err = netip.AddrPortFrom(bound.Addr().Unmap(), bound.Port()), nil
	}
	return err
}

// as starts gossip. What the register has named meanwhile is searched.
func (m talker) as(c *gossip.Config) error {
	g, err := gossip.New(*c)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gossip = g
	g.SetSeeds(slices.Concat(c.Seeds, elsewhere(m.membership)))
	return nil
}

// elsewhere are the addresses of the other members; mu is held.
func elsewhere(m *membership) (all []string) {
	for who, node := range m.nodes { // Any order: gossip sorts them.
		if who != m.n.self && node.Status != register.Removed {
			all = append(all, node.Addresses...)
		}
	}
	return all
}

// unmet says when no other node was reached for a while: after a start at which all of them
// have new addresses nothing that this one knows leads to any, and only an operator can say
// where one is.
func (m talker) unmet(ctx context.Context) {
	tick := time.NewTicker(unmetLook)
	defer tick.Stop()
	since, said := time.Now(), time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		m.mu.Lock()
		met, all := len(m.up) > 0, elsewhere(m.membership)
		m.mu.Unlock()
		switch {
		case met || len(all) == 0:
			if met && !said.IsZero() {
				m.n.log.Info("peers.met")
			}
			since, said = time.Now(), time.Time{}
		case time.Since(since) >= unmetAfter && (said.IsZero() || time.Since(said) >= unmetAgain):
			said = time.Now()
			slices.Sort(all)
			m.n.log.Warn("peers.unmet", "tried", strings.Join(all[:min(len(all), maxUnmetSaid)], ","), "join", strings.Join(m.n.cfg.Join, ","),
				"meaning", "no other node of the cluster answers where it was. If they run and have new addresses, start this node with --join HOST:PEERPORT of one of them as it is now: it learns the others from that one. Names as peer-advertise need no such thing")
		}
	}
}

// listen opens a port; a name as its host is looked up no longer than ctx.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	var l net.ListenConfig
	return l.Listen(ctx, "tcp", addr)
}
