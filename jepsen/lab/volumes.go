package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// disks are the faults of disks that take a file system of their own for each
// node (F6, F11).
func disks() []Fault {
	mount := func(*Config) error { return privileged("mount", "umount") }
	return []Fault{
		{Name: "disk-full", About: "the disk of one node fills up, and is freed again (F6)", needs: mount, volume: small, run: (*nemesis).filled},
		{Name: "power-loss", About: "one node loses power: what was not synced is gone (F11)", needs: loops, volume: journalled, group: "power", run: func(n *nemesis) error { return n.unplugged(1) }},
		{Name: "power-loss-all", About: "all nodes lose power at once (F11)", needs: loops, volume: journalled, group: "power", run: func(n *nemesis) error { return n.unplugged(len(n.members())) }},
	}
}

// Sizes of the file systems of nodes.
const (
	smallDisk = 256 << 20
	powerDisk = 512 << 20
)

// small mounts a small file system in memory for a node.
func small(l *lab, p *process) error {
	_, err := command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", smallDisk), "norn-lab", p.data)
	return err
}

// loops says why this machine has no file systems in files; nil when it has.
func loops(*Config) error {
	if err := privileged("mount", "umount", "mkfs.ext4", "losetup"); err != nil {
		return err
	}
	if _, err := command("losetup", "--find"); err != nil {
		return notRun("no loop device is free (%v)", err)
	}
	return nil
}

// journalled makes an ext4 file system in a file and mounts it for a node.
func journalled(l *lab, p *process) error {
	image := p.data + ".img"
	f, err := os.Create(image)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(powerDisk), f.Close()); err != nil {
		return err
	}
	if _, err := command("mkfs.ext4", "-q", "-m", "0", image); err != nil {
		return err
	}
	return l.mount(p)
}

// mount mounts a node's file.
func (l *lab) mount(p *process) error {
	_, err := command("mount", "-o", "loop", p.data+".img", p.data)
	return err
}

// unmount unmounts what this run has mounted.
func (l *lab) unmount() error {
	var all []error
	for _, at := range mounts() {
		if rel, err := filepath.Rel(l.dir, at); err == nil && filepath.IsLocal(rel) {
			_, err := command("umount", at)
			all = append(all, err)
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
	ballast := filepath.Join(p.data, "ballast")
	if err := fill(p.data, ballast, left); err != nil {
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
		if err := powerOff(p.data); err != nil {
			return err
		}
	}
	for _, p := range all {
		if err := p.kill(); err != nil {
			return err
		}
		if _, err := command("umount", p.data); err != nil {
			return err
		}
		if err := n.mount(p); err != nil {
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
