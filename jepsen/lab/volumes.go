package lab

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

// disks are the faults of disks that take a file system of their own for each
// node (F6, F11).
func disks() []Fault {
	return []Fault{
		{Name: "disk-full", About: "the disk of one node fills up, and is freed again (F6)", layers: limited, run: (*nemesis).filled},
		{Name: "power-loss", About: "one node loses power: what was not synced is gone (F11)", layers: limited | powered, run: func(n *nemesis) error { return n.unplugged(1) }},
		{Name: "power-loss-all", About: "all nodes lose power at once (F11)", layers: limited | powered, run: func(n *nemesis) error { return n.unplugged(len(n.members())) }},
	}
}

// loops says why this machine has no file systems in files; nil when it has.
func loops() error {
	if err := privileged("mount", "umount", "mkfs.ext4", "losetup"); err != nil {
		return err
	}
	if _, err := command("losetup", "--find"); err != nil {
		return notRun("no loop device is free (%v)", err)
	}
	return nil
}

// unmount unmounts what this run has mounted.
func (l *lab) unmount() error {
	var all []error
	for _, at := range mounts() {
		if rel, err := filepath.Rel(l.dir, at); err == nil && filepath.IsLocal(rel) {
			all = append(all, unmount(at))
		}
	}
	return errors.Join(all...)
}

// filled: a node has no room, a little or none at all. It may end, saying so;
// then it is started again once there is room.
func (n *nemesis) filled() error {
	p := n.one()
	left := int64(0)
	if n.rnd.IntN(2) == 0 {
		left = 40 << 20 // under the reserve, over what ends the program
	}
	n.hurt(p, true)
	p.may(true)
	defer n.hurt(p, false)
	n.does("fill the disk of %s but for %d MiB", p.name, left>>20)
	ballast := filepath.Join(p.disk(), "ballast")
	if err := fill(p.disk(), ballast, left); err != nil {
		return err
	}
	n.wait(3*time.Second, 10*time.Second)
	n.does("free the disk of %s", p.name)
	if err := os.Remove(ballast); err != nil {
		return err
	}
	if p.ends(time.Second) {
		n.does("%s had ended with status %d; start it", p.name, p.cmd.ProcessState.ExitCode())
		return n.begin(p)
	}
	p.may(false)
	return nil
}

// unplugged: what nodes have not synced is gone.
func (n *nemesis) unplugged(k int) error {
	all := n.some(k)
	n.does("power loss of %s", names(all))
	for _, p := range all {
		p.may(true)
		if err := powerOff(p.disk()); err != nil {
			return err
		}
	}
	for _, p := range all {
		if err := p.kill(); err != nil {
			return err
		}
		if err := n.layers.remount(p); err != nil {
			return err
		}
	}
	n.wait(0, 3*time.Second)
	n.does("start %s", names(all))
	for _, p := range all {
		if err := n.begin(p); err != nil {
			return err
		}
	}
	return nil
}
