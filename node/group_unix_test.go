//go:build unix

package node

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestFilesFollowTheGroup: where a directory was given to a group all files in it may be
// written by that, else by nobody but their owner, and never by others.
func TestFilesFollowTheGroup(t *testing.T) {
	before := syscall.Umask(0o022)
	defer syscall.Umask(before)
	for name, c := range map[string]struct {
		mode  os.FileMode
		group bool
	}{
		"a volume of fsGroup":    {0o770 | os.ModeSetgid, true},
		"the group's, as it is":  {0o775, true},
		"its owner's":            {0o755, false},
		"everybody's":            {0o777 | os.ModeSticky, false},
		"only for a look inside": {0o750, false},
	} {
		t.Run(name, func(t *testing.T) {
			volume := filepath.Join(t.TempDir(), "volume")
			if err := os.Mkdir(volume, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(volume, c.mode); err != nil {
				t.Fatal(err)
			}
			for _, again := range []bool{false, true} {
				cfg := testConfig(t)
				cfg.Data = filepath.Join(volume, "data", "n1")
				syscall.Umask(0o022)
				FollowGroup(cfg.Data, "")
				stop(t, start(t, cfg, Options{}))
				err := filepath.WalkDir(filepath.Join(volume, "data"), func(path string, _ fs.DirEntry, err error) error {
					if err != nil {
						return err
					}
					info, err := os.Stat(path)
					if err != nil {
						return err
					}
					want := os.FileMode(0o060)
					if info.IsDir() {
						want = 0o070
					}
					mode := info.Mode().Perm()
					if c.group && mode&want != want || !c.group && mode&0o020 != 0 || mode&0o007 != 0 {
						t.Errorf("again %v: %s is %s", again, path, info.Mode())
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
}
