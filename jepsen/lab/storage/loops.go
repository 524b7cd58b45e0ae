package storage

import (
	"time"

	"github.com/norn-dev/norn/jepsen/lab/machine"
)

// Loops says why this machine has no file systems in files; nil when it has.
func Loops() error {
	if err := machine.Privileged("mount", "umount", "mkfs.ext4", "losetup"); err != nil {
		return err
	}
	if _, err := machine.Command("losetup", "--find"); err != nil {
		return machine.Unable("no loop device is free (%v)", err)
	}
	return nil
}

// Unmount takes one file system down. What its last user had open may take a moment to be
// closed, as a file system of ours hears of it later.
func Unmount(at string) error {
	for end := time.Now().Add(machine.Patience); ; <-time.After(50 * time.Millisecond) {
		if _, err := machine.Command("umount", at); err == nil || time.Now().After(end) {
			return err
		}
	}
}
