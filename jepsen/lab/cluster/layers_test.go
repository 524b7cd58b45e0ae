package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/norn-dev/norn/jepsen/lab/machine"
	"github.com/norn-dev/norn/jepsen/lab/storage"
)

// laid gives a node with all layers, where the machine has them.
func laid(t *testing.T) (Layers, *Process) {
	t.Helper()
	y := Limited | Powered | Moody
	var not *machine.NotRun
	if err := y.Needs(); errors.As(err, &not) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	for _, one := range []Layers{Limited, Powered, Moody} { // what is not allowed alone says nothing about all
		p := empty(t)
		if err := one.lay(p); err != nil {
			t.Skip("not run: this machine does not mount what it seemed to have: ", err)
		}
		if err := one.unmount(p); err != nil {
			t.Fatal(err)
		}
	}
	p := empty(t)
	if err := y.lay(p); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := y.unmount(p); err != nil {
			t.Error(err)
		}
	})
	return y, p
}

// empty gives a node whose directory is there.
func empty(t *testing.T) *Process {
	t.Helper()
	p := &Process{Name: "n1", Data: filepath.Join(t.TempDir(), "n1")}
	if err := os.Mkdir(p.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestAllLayersTogether: what lies between a node and the disk fails, is full and
// loses power, each as if the others were not there.
func TestAllLayersTogether(t *testing.T) {
	y, p := laid(t)
	synced, lost := filepath.Join(p.Data, "synced"), filepath.Join(p.Data, "lost")
	f, err := os.Create(synced)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = f.WriteString("kept"); err != nil {
		t.Fatal(err)
	}
	d, err := os.Open(p.Data)
	if err := errors.Join(err, f.Sync(), d.Sync(), d.Close()); err != nil {
		t.Fatal(err)
	}
	p.Mood.Set("fsync", 1, 0)
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("a sync that is to fail: %v", err)
	}
	p.Mood.Set("", 1, 0)
	ballast := filepath.Join(p.Disk(), "ballast")
	if err := storage.Fill(p.Disk(), ballast, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(lost, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a write to a full disk: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(lost, make([]byte, 1<<20), 0o600); err != nil {
		t.Errorf("a write to a disk that was freed: %v", err)
	}
	if err := errors.Join(f.Close(), storage.PowerOff(p.Disk()), y.Remount(p)); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(synced); err != nil || string(b) != "kept" {
		t.Errorf("what was synced before the power failed: %q, %v", b, err)
	}
	if b, err := os.ReadFile(lost); err == nil && len(b) == 1<<20 {
		t.Error("what was not synced outlived the power")
	}
}
