package faults

import (
	"os"
	"path/filepath"
	"time"

	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/storage"
)

// disks are the faults of disks that take a file system of their own for each
// node (F6, F11).
func disks() []Fault {
	return []Fault{
		{Name: "disk-full", About: "the disk of one node fills up, and is freed again (F6)", Layers: cluster.Limited, run: (*nemesis).filled},
		{Name: "power-loss", About: "one node loses power: what was not synced is gone (F11)", Layers: cluster.Limited | cluster.Powered, run: func(n *nemesis) error { return n.unplugged(1) }},
		{Name: "power-loss-all", About: "all nodes lose power at once (F11)", Layers: cluster.Limited | cluster.Powered, run: func(n *nemesis) error { return n.unplugged(len(n.Members())) }},
	}
}

// filled: a node has no room, a little or none at all. It may end, saying so;
// then it is started again once there is room.
func (n *nemesis) filled() error {
	p := n.one()
	left := int64(0)
	if n.Rnd.IntN(2) == 0 {
		left = 40 << 20 // under the reserve, over what ends the program
	}
	n.Hurt(p, true)
	p.May(true)
	defer n.Hurt(p, false)
	n.does("fill the disk of %s but for %d MiB", p.Name, left>>20)
	ballast := filepath.Join(p.Disk(), "ballast")
	if err := storage.Fill(p.Disk(), ballast, left); err != nil {
		return err
	}
	n.wait(3*time.Second, 10*time.Second)
	n.does("free the disk of %s", p.Name)
	if err := os.Remove(ballast); err != nil {
		return err
	}
	if p.Ends(time.Second) {
		n.does("%s had ended with status %d; start it", p.Name, p.Cmd.ProcessState.ExitCode())
		return n.Begin(p)
	}
	p.May(false)
	return nil
}

// unplugged: what nodes have not synced is gone.
func (n *nemesis) unplugged(k int) error {
	all := n.some(k)
	n.does("power loss of %s", cluster.Names(all))
	for _, p := range all {
		p.May(true)
		if err := storage.PowerOff(p.Disk()); err != nil {
			return err
		}
	}
	for _, p := range all {
		if err := p.Kill(); err != nil {
			return err
		}
		if err := n.Layers.Remount(p); err != nil {
			return err
		}
	}
	n.wait(0, 3*time.Second)
	n.does("start %s", cluster.Names(all))
	for _, p := range all {
		if err := n.Begin(p); err != nil {
			return err
		}
	}
	return nil
}
