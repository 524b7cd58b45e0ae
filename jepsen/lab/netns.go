package lab

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
)

const (
	// prefix begins the names of all that outlives a process: the process's ID
	// follows. Names of links have 15 bytes at most.
	prefix   = "nl"
	netnsDir = "/run/netns/"
)

// netns joins nodes by a bridge: each has a network namespace with an address of
// its own.
type netns struct {
	name   string // prefix and process
	subnet int    // 198.18.(subnet).0/24, of the range for benchmarks of networks (RFC 2544)
	nodes  int
}

// newNetns makes the bridge.
func newNetns() (*netns, error) {
	if err := sweep(); err != nil {
		return nil, err
	}
	n := &netns{name: fmt.Sprintf("%s%d", prefix, os.Getpid())}
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
			return nil, notRun("no range of addresses is free")
		}
	}
	bridge := n.name + "b"
	return n, n.all(
		[]string{"link", "add", bridge, "type", "bridge"},
		[]string{"addr", "add", n.address(driver) + "/24", "dev", bridge},
		[]string{"link", "set", bridge, "up"},
	)
}

// all runs ip commands; after a failure everything is removed.
func (n *netns) all(commands ...[]string) error {
	for _, c := range commands {
		if _, err := command("ip", c...); err != nil {
			return errors.Join(err, n.close())
		}
	}
	return nil
}

func (n *netns) kind() string { return "network namespaces" }

// address is that of a node, or of the driver.
func (n *netns) address(node int) string {
	if node == driver {
		return fmt.Sprintf("198.18.%d.254", n.subnet)
	}
	return fmt.Sprintf("198.18.%d.%d", n.subnet, node+1)
}

func (n *netns) space(node int) string { return fmt.Sprintf("%sn%d", n.name, node+1) }

func (n *netns) place(node int) (*place, error) {
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
	if _, err := commandWith(table, "nsenter", "--net="+netnsDir+space, "nft", "-f", "-"); err != nil {
		return nil, err
	}
	return &place{
		host: []string{"nsenter", "--net=" + netnsDir + space}, listen: address + ":7711", dial: address + ":7711",
		peer: address + ":7712", advertise: address + ":7712", http: address + ":7713",
	}, nil
}

// set drops packets where they arrive: the sender is not told. What goes to the
// driver, whose filters are the machine's, is dropped where it leaves.
func (n *netns) set(links map[way]link) error {
	for to := range n.nodes {
		rules := "flush chain inet lab in\nflush chain inet lab out\n"
		for from := driver; from < n.nodes; from++ {
			rules += filter("in ip saddr "+n.address(from), links[way{from, to}])
		}
		rules += filter("out ip daddr "+n.address(driver), links[way{to, driver}])
		if _, err := commandWith(rules, "nsenter", "--net="+netnsDir+n.space(to), "nft", "-f", "-"); err != nil {
			return err
		}
	}
	return nil
}

// filter is the rule that makes a link, for packets that match.
func filter(match string, l link) string {
	rule := "add rule inet lab " + match
	switch {
	case l.cutTCP && l.cutUDP:
		return rule + " drop\n"
	case l.cutTCP:
		return rule + " meta l4proto tcp drop\n"
	case l.cutUDP:
		return rule + " meta l4proto udp drop\n"
	case l.loss > 0:
		return rule + fmt.Sprintf(" numgen random mod 1000 < %d drop\n", int(1000*l.loss))
	}
	return ""
}

// close removes what this process has made.
func (n *netns) close() error { return removeNetwork(n.name) }

// removeNetwork removes the namespaces and links whose names begin with a
// process's.
func removeNetwork(name string) error {
	var all []error
	spaces, err := os.ReadDir(netnsDir)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, s := range spaces {
		if owned(s.Name(), name) {
			_, err := command("ip", "netns", "del", s.Name())
			all = append(all, err)
		}
	}
	links, err := net.Interfaces()
	if err != nil {
		return errors.Join(append(all, err)...)
	}
	for _, l := range links {
		if owned(l.Name, name) {
			if _, err := command("ip", "link", "del", l.Name); err != nil && !strings.Contains(err.Error(), "Cannot find device") {
				all = append(all, err) // a veth's other end may have taken it along
			}
		}
	}
	return errors.Join(all...)
}

// owned tells whether a name is that of a process and a letter more.
func owned(name, owner string) bool {
	rest, ok := strings.CutPrefix(name, owner)
	return ok && (rest == "" || rest[0] < '0' || rest[0] > '9')
}
