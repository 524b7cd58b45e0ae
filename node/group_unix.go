//go:build unix

package node

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Masks of what this process makes: files are for the group as well where it was given the
// directory, else they can be read by it.
const (
	groupShares = 0o007
	groupReads  = 0o027
)

// FollowGroup has this process make files that a group may write where one of the directories
// is that group's (those of "" are none): another user of the group, as the next container
// is, goes on with them. It is for the whole process.
func FollowGroup(dirs ...string) {
	mask := groupReads
	for _, dir := range dirs {
		if dir != "" && shared(dir) {
			mask = groupShares
		}
	}
	if before := syscall.Umask(mask); mask == groupReads {
		syscall.Umask(before | mask)
	}
}

// shared tells whether a group may write in a directory, or in the one that it is to be made
// in, and has what is made there, and others may not write.
func shared(dir string) bool {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	info, err := os.Stat(dir)
	for errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir {
		dir = filepath.Dir(dir)
		info, err = os.Stat(dir)
	}
	if err != nil || info.Mode().Perm()&0o022 != 0o020 {
		return false
	}
	of, ok := info.Sys().(*syscall.Stat_t)
	return info.Mode()&fs.ModeSetgid != 0 || ok && int(of.Gid) == os.Getegid()
}
