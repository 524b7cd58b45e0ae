package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/norn-dev/norn/jepsen/lab/machine"
	"github.com/norn-dev/norn/jepsen/lab/storage"
)

// Layers are what lies between a node and the disk of the machine. A run has those that
// any of its faults needs, one on the other.
type Layers uint8

const (
	// Limited is a file system of the node's own, which can be full.
	Limited Layers = 1 << iota
	// Powered is one in a file, ext4, that can be shut down as when the power fails.
	Powered
	// Moody is a file system of ours (FUSE) that fails, lies and is late.
	Moody
)

// Needs says why this machine has no such layers; nil when it has.
func (y Layers) Needs() error {
	if y&Limited != 0 {
		if err := machine.Privileged("mount", "umount"); err != nil {
			return err
		}
	}
	if y&Powered != 0 {
		if err := storage.Loops(); err != nil {
			return err
		}
	}
	if y&Moody != 0 {
		return storage.Fuse()
	}
	return nil
}

// Sizes of the file systems of nodes. That in a file takes what is written to it, and no more.
const (
	smallDisk = 256 << 20
	powerDisk = 2 << 30
)

// lay makes the layers of a new node, whose directory is there.
func (y Layers) lay(p *Process) error {
	if y&Moody != 0 {
		p.Kept, p.Mood = p.Data+".kept", &storage.Mood{}
		if err := os.Mkdir(p.Kept, 0o700); err != nil {
			return err
		}
	}
	if y&Powered != 0 {
		f, err := os.Create(p.image())
		if err != nil {
			return err
		}
		if err := errors.Join(f.Truncate(powerDisk), f.Close()); err != nil {
			return err
		}
		if _, err := machine.Command("mkfs.ext4", "-q", "-m", "0", p.image()); err != nil {
			return err
		}
	}
	return y.mount(p)
}

// image is the file that the file system of a node is in.
func (p *Process) image() string { return p.Data + ".img" }

// mount mounts them, from the disk up.
func (y Layers) mount(p *Process) error {
	var err error
	switch {
	case y&Powered != 0:
		_, err = machine.Command("mount", "-o", "loop", p.image(), p.Disk())
	case y&Limited != 0:
		_, err = machine.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", smallDisk), "norn-lab", p.Disk())
	}
	if err != nil || y&Moody == 0 {
		return err
	}
	return storage.MountRot(p.Kept, p.Data, p.Mood)
}

// unmount takes them down; nobody uses them any more.
func (y Layers) unmount(p *Process) error {
	if y&Moody != 0 {
		if err := storage.Unmount(p.Data); err != nil {
			return err
		}
	}
	if y&(Limited|Powered) == 0 {
		return nil
	}
	return storage.Unmount(p.Disk())
}

// Remount takes them down and mounts them again, as when the power is back.
func (y Layers) Remount(p *Process) error {
	if err := y.unmount(p); err != nil {
		return err
	}
	return y.mount(p)
}

// unmount unmounts what this run has mounted.
func (l *Lab) unmount() error {
	var all []error
	for _, at := range machine.Mounts() {
		if rel, err := filepath.Rel(l.Dir, at); err == nil && filepath.IsLocal(rel) {
			all = append(all, storage.Unmount(at))
		}
	}
	return errors.Join(all...)
}
