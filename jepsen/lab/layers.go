package lab

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// layers are what lies between a node and the disk of the machine. A run has those that
// any of its faults needs, one on the other.
type layers uint8

const (
	// limited is a file system of the node's own, which can be full.
	limited layers = 1 << iota
	// powered is one in a file, ext4, that can be shut down as when the power fails.
	powered
	// moody is a file system of ours (FUSE) that fails, lies and is late.
	moody
)

// needs says why this machine has no such layers; nil when it has.
func (y layers) needs() error {
	if y&limited != 0 {
		if err := privileged("mount", "umount"); err != nil {
			return err
		}
	}
	if y&powered != 0 {
		if err := loops(); err != nil {
			return err
		}
	}
	if y&moody != 0 {
		return fuse()
	}
	return nil
}

// Sizes of the file systems of nodes. That in a file takes what is written to it, and no more.
const (
	smallDisk = 256 << 20
	powerDisk = 2 << 30
)

// lay makes the layers of a new node, whose directory is there.
func (y layers) lay(p *process) error {
	if y&moody != 0 {
		p.kept, p.mood = p.data+".kept", &mood{}
		if err := os.Mkdir(p.kept, 0o700); err != nil {
			return err
		}
	}
	if y&powered != 0 {
		f, err := os.Create(p.image())
		if err != nil {
			return err
		}
		if err := errors.Join(f.Truncate(powerDisk), f.Close()); err != nil {
			return err
		}
		if _, err := command("mkfs.ext4", "-q", "-m", "0", p.image()); err != nil {
			return err
		}
	}
	return y.mount(p)
}

// image is the file that the file system of a node is in.
func (p *process) image() string { return p.data + ".img" }

// mount mounts them, from the disk up.
func (y layers) mount(p *process) error {
	var err error
	switch {
	case y&powered != 0:
		_, err = command("mount", "-o", "loop", p.image(), p.disk())
	case y&limited != 0:
		_, err = command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", smallDisk), "norn-lab", p.disk())
	}
	if err != nil || y&moody == 0 {
		return err
	}
	return mountRot(p.kept, p.data, p.mood)
}

// unmount takes them down; nobody uses them any more.
func (y layers) unmount(p *process) error {
	if y&moody != 0 {
		if err := unmount(p.data); err != nil {
			return err
		}
	}
	if y&(limited|powered) == 0 {
		return nil
	}
	return unmount(p.disk())
}

// remount takes them down and mounts them again, as when the power is back.
func (y layers) remount(p *process) error {
	if err := y.unmount(p); err != nil {
		return err
	}
	return y.mount(p)
}

// unmount takes one file system down. What its last user had open may take a moment to be
// closed, as a file system of ours hears of it later.
func unmount(at string) error {
	for end := time.Now().Add(patience); ; <-time.After(50 * time.Millisecond) {
		if _, err := command("umount", at); err == nil || time.Now().After(end) {
			return err
		}
	}
}
