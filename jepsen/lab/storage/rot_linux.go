package storage

import (
	"context"
	"os"
	"path/filepath"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	fusewire "github.com/hanwen/go-fuse/v2/fuse"

	"github.com/norn-dev/norn/jepsen/lab/machine"
)

// Fuse says why this machine allows no file system of ours; nil when it does.
func Fuse() error {
	if err := machine.Privileged("umount"); err != nil {
		return err
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		return machine.Unable("needs /dev/fuse")
	}
	return nil
}

// MountRot shows a directory at another one, through a mood. Whoever unmounts it
// ends it.
func MountRot(kept, at string, m *Mood) error {
	root, err := fs.NewLoopbackRoot(kept)
	if err != nil {
		return err
	}
	loopback, ok := root.(*fs.LoopbackNode)
	if !ok {
		return machine.Unable("go-fuse has no loopback nodes here")
	}
	o := &fs.Options{}
	o.DirectMountStrict, o.FsName, o.Name = true, "norn-lab", "rot"
	_, err = fs.Mount(at, &rotNode{loopback, m}, o)
	return err
}

// rotNode is a file or directory whose files have a mood.
type rotNode struct {
	*fs.LoopbackNode
	mood *Mood
}

// WrapChild makes what is in a directory of the same kind.
func (n *rotNode) WrapChild(_ context.Context, ops fs.InodeEmbedder) fs.InodeEmbedder {
	if child, ok := ops.(*fs.LoopbackNode); ok {
		return &rotNode{child, n.mood}
	}
	return ops
}

// Open opens a file.
func (n *rotNode) Open(ctx context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	f, fuseFlags, errno := n.LoopbackNode.Open(ctx, flags)
	return n.wrap(f, top(n.Path(n.Root()))), fuseFlags | fusewire.FOPEN_DIRECT_IO, errno // no cache: every read is ours
}

// Create makes a file.
func (n *rotNode) Create(ctx context.Context, name string, flags, mode uint32, out *fusewire.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	inode, f, fuseFlags, errno := n.LoopbackNode.Create(ctx, name, flags, mode, out)
	return inode, n.wrap(f, top(filepath.Join(n.Path(n.Root()), name))), fuseFlags | fusewire.FOPEN_DIRECT_IO, errno
}

func (n *rotNode) wrap(f fs.FileHandle, dir string) fs.FileHandle {
	if file, ok := f.(*fs.LoopbackFile); ok {
		return &rotFile{file, n.mood, dir}
	}
	return f
}

// rotFile is an open file with a mood.
type rotFile struct {
	*fs.LoopbackFile
	mood *Mood
	dir  string // under the node's own
}

// PassthroughFd keeps the kernel from going past us.
func (f *rotFile) PassthroughFd() (int, bool) { return 0, false }

// Read reads, unless the mood is against it.
func (f *rotFile) Read(ctx context.Context, b []byte, at int64) (fusewire.ReadResult, syscall.Errno) {
	if errno := f.mood.of("read", f.dir); errno != 0 {
		return nil, errno
	}
	return f.LoopbackFile.Read(ctx, b, at)
}

// Write writes, unless the mood is against it, and where it says.
func (f *rotFile) Write(ctx context.Context, b []byte, at int64) (uint32, syscall.Errno) {
	if errno := f.mood.of("write", f.dir); errno != 0 {
		return 0, errno
	}
	return f.LoopbackFile.Write(ctx, b, at+f.mood.shift())
}

// Fsync syncs, unless the mood is against it.
func (f *rotFile) Fsync(ctx context.Context, flags uint32) syscall.Errno {
	if errno := f.mood.of("fsync", f.dir); errno != 0 {
		return errno
	}
	if f.mood.lie() {
		return 0
	}
	return f.LoopbackFile.Fsync(ctx, flags)
}
