package network

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/norn-dev/norn/jepsen/lab/machine"
)

// Netns joins nodes by a bridge: each has a network namespace with an address of
// its own.
type Netns struct {
	name   string // prefix and process
	subnet int    // 198.18.(subnet).0/24, of the range for benchmarks of networks (RFC 2544)
	nodes  int
}

// NewNetns makes the bridge.
func NewNetns() (*Netns, error) {
	if err := machine.Sweep(); err != nil {
		return nil, err
	}
	n := &Netns{name: fmt.Sprintf("%s%d", machine.Prefix, os.Getpid())}
	taken, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	free := func(k int) bool {
		return !slices.ContainsFunc(taken, func(a net.Addr) bool { return strings.HasPrefix(a.String(), fmt.Sprintf("198.18.%d.", k)) })
	}
	for try := 0; ; try++ {
		if n.subnet = (os.Getpid() + try) % 256; free(n.subnet) {
			break
		}
		if try == 256 {
			return nil, machine.Unable("no range of addresses is free")
		}
	}
	bridge := n.name + "b"
	return n, n.all(
		[]string{"link", "add", bridge, "type", "bridge"},
		[]string{"addr", "add", n.address(Driver) + "/24", "dev", bridge},
		[]string{"link", "set", bridge, "up"},
	)
}

// all runs ip commands; after a failure everything is removed.
func (n *Netns) all(commands ...[]string) error {
	for _, c := range commands {
		if _, err := machine.Command("ip", c...); err != nil {
			return errors.Join(err, n.Close())
		}
	}
	return nil
}

// Kind says what joins the nodes.
func (n *Netns) Kind() string { return "network namespaces" }

// address is that of a node, or of the driver.
func (n *Netns) address(node int) string {
	if node == Driver {
		return fmt.Sprintf("198.18.%d.254", n.subnet)
	}
	return fmt.Sprintf("198.18.%d.%d", n.subnet, node+1)
}

func (n *Netns) space(node int) string { return fmt.Sprintf("%sn%d", n.name, node+1) }

// Place makes the namespace of a node, with its address and its end of a link to the bridge.
func (n *Netns) Place(node int) (*Place, error) {
	space, outer, address := n.space(node), fmt.Sprintf("%sv%d", n.name, node+1), n.address(node)
	n.nodes = max(n.nodes, node+1)
	err := n.all(
		[]string{"netns", "add", space},
		[]string{"link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space},
		[]string{"link", "set", outer, "master", n.name + "b"},
		[]string{"link", "set", outer, "up"},
		[]string{"-n", space, "link", "set", "lo", "up"},
		[]string{"-n", space, "addr", "add", address + "/24", "dev", "eth0"},
		[]string{"-n", space, "link", "set", "eth0", "up"},
	)
	if err != nil {
		return nil, err
	}
	table := "table inet lab {\n chain in { type filter hook input priority 0; policy accept; }\n chain out { type filter hook output priority 0; policy accept; }\n}\n"
	if _, err := machine.CommandWith(table, "nsenter", "--net="+machine.NetnsDir+space, "nft", "-f", "-"); err != nil {
		return nil, err
	}
	return &Place{
		Host: []string{"nsenter", "--net=" + machine.NetnsDir + space}, Listen: address + ":7711", Dial: address + ":7711",
		Peer: address + ":7712", Advertise: address + ":7712", Http: address + ":7713",
	}, nil
}

// Set drops packets where they arrive: the sender is not told. What goes to the
// driver, whose filters are the machine's, is dropped where it leaves.
func (n *Netns) Set(links map[Way]Link) error {
	for to := range n.nodes {
		rules := "flush chain inet lab in\nflush chain inet lab out\n"
		for from := Driver; from < n.nodes; from++ {
			rules += filter("in ip saddr "+n.address(from), links[Way{from, to}])
		}
		rules += filter("out ip daddr "+n.address(Driver), links[Way{to, Driver}])
		if _, err := machine.CommandWith(rules, "nsenter", "--net="+machine.NetnsDir+n.space(to), "nft", "-f", "-"); err != nil {
			return err
		}
	}
	return nil
}

// filter is the rule that makes a link, for packets that match.
func filter(match string, l Link) string {
	rule := "add rule inet lab " + match
	switch {
	case l.CutTCP && l.CutUDP:
		return rule + " drop\n"
	case l.CutTCP:
		return rule + " meta l4proto tcp drop\n"
	case l.CutUDP:
		return rule + " meta l4proto udp drop\n"
	case l.Loss > 0:
		return rule + fmt.Sprintf(" numgen random mod 1000 < %d drop\n", int(1000*l.Loss))
	}
	return ""
}

// Close removes what this process has made.
func (n *Netns) Close() error { return machine.RemoveNetwork(n.name) }
