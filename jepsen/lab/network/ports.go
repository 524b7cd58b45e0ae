package network

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
)

// A node on loopback gets ports that nobody has when they are drawn. Nobody keeps them
// until it starts, nor while it is down, so they are none that the system gives to those
// who ask for any: connections of every program would take them.

// Of ports that are drawn.
const (
	leastPort = 10_000
	mostPort  = 32_768 // where Linux begins to give ports away, unless it is told otherwise
	draws     = 100
)

// unasked are the ports that may be drawn: from low up to high.
func unasked() (low, high int) {
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err == nil {
		_, err = fmt.Sscan(string(b), &high)
	}
	if err != nil || high <= leastPort+1000 {
		return leastPort, mostPort
	}
	return leastPort, min(high, mostPort)
}

// drawPort draws a port that is free for TCP, and for UDP too.
func drawPort() (string, error) {
	low, high := unasked()
	for range draws {
		at := fmt.Sprintf("127.0.0.1:%d", low+rand.IntN(high-low))
		l, err := net.Listen("tcp", at)
		if err != nil {
			continue // somebody has it
		}
		u, err := net.ListenPacket("udp", at)
		if err == nil {
			err = u.Close() // it was only there to find the port
		}
		if err = errors.Join(err, l.Close()); err == nil {
			return at, nil
		}
	}
	return "", fmt.Errorf("of %d ports that were drawn none was free", draws)
}

// drawPorts draws the three of a node, no two the same.
func drawPorts() (peer, client, http string, err error) {
	for range draws {
		var all [3]string
		for i := range all {
			if all[i], err = drawPort(); err != nil {
				return "", "", "", err
			}
		}
		if all[0] != all[1] && all[0] != all[2] && all[1] != all[2] {
			return all[0], all[1], all[2], nil
		}
	}
	return "", "", "", errors.New("the same port is drawn again and again")
}
