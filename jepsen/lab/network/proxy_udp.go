package network

import (
	"net"
	"time"
)

const (
	// datagram is the longest there is; flying is how many may be on their way to
	// one node: more get lost, as in a router.
	datagram = 64 << 10
	flying   = 1024
	// tooLate is how long a slow link keeps a packet at most.
	tooLate = 2 * time.Second
)

// carry takes packets for a node. It knows who sends them by the sender's
// address: nodes send from their peer port.
func (x *proxied) carry(d *door) {
	room := make(chan struct{}, flying)
	b := make([]byte, datagram)
	for {
		n, from, err := d.packets.ReadFromUDP(b)
		if err != nil {
			return // the proxy is closed
		}
		sender := x.sender(from)
		if sender == stranger {
			continue
		}
		w := Way{sender, d.node}
		l, _ := x.at(w)
		if l.CutUDP || x.draws(l.Loss) {
			continue
		}
		times := 1
		if x.draws(l.Duplicate) {
			times = 2
		}
		for range times {
			late := x.late(w, l, n, true)
			if late > tooLate+l.Delay+l.Jitter {
				continue
			}
			if late <= 0 {
				_, _ = d.packets.WriteToUDP(b[:n], d.realPeer) // packets get lost
				continue
			}
			select {
			case room <- struct{}{}:
			default:
				continue
			}
			packet := append([]byte(nil), b[:n]...)
			x.work.Go(func() {
				defer func() { <-room }()
				if x.sleep(late) {
					_, _ = d.packets.WriteToUDP(packet, d.realPeer) // packets get lost
				}
			})
		}
	}
}

// sender finds the node that has a peer address.
func (x *proxied) sender(from *net.UDPAddr) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, d := range x.doors {
		if d.realPeer.Port == from.Port && d.realPeer.IP.Equal(from.IP) {
			return d.node
		}
	}
	return stranger
}
