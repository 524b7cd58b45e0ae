package store

import "github.com/cockroachdb/pebble/v2/vfs"

// retrying is the file system of a mutant: an fsync that fails is tried again,
// and what the first one has thrown away counts as written.
type retrying struct{ vfs.FS }

func (r retrying) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := r.FS.Create(name, category)
	return retryingFile{f}, err
}

func (r retrying) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := r.FS.ReuseForWrite(from, to, category)
	return retryingFile{f}, err
}

func (r retrying) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := r.FS.OpenReadWrite(name, category, opts...)
	return retryingFile{f}, err
}

type retryingFile struct{ vfs.File }

func (f retryingFile) Sync() error {
	if err := f.File.Sync(); err == nil {
		return nil
	}
	return f.File.Sync()
}

func (f retryingFile) SyncData() error {
	if err := f.File.SyncData(); err == nil {
		return nil
	}
	return f.File.SyncData()
}
