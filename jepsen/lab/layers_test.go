package lab

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// laid gives a node with all layers, where the machine has them.
func laid(t *testing.T) (layers, *process) {
	t.Helper()
	y := limited | powered | moody
	var not *NotRun
	if err := y.needs(); errors.As(err, &not) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	for _, one := range []layers{limited, powered, moody} { // what is not allowed alone says nothing about all
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
func empty(t *testing.T) *process {
	t.Helper()
	p := &process{name: "n1", data: filepath.Join(t.TempDir(), "n1")}
	if err := os.Mkdir(p.data, 0o700); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestAllFaultsAndThoseThatNeedNothing: "all" leaves none out, and "mix" has none that
// needs something of the machine.
func TestAllFaultsAndThoseThatNeedNothing(t *testing.T) {
	all, err := find("all")
	if known := Faults(); err != nil || len(all) != len(known) {
		t.Errorf("all: %d of %d faults, %v", len(all), len(known), err)
	}
	mix, err := find("mix")
	if err != nil || len(mix) == 0 {
		t.Fatalf("mix: %d faults, %v", len(mix), err)
	}
	cfg := Config{Nodes: replicas}
	got, err := takes(&cfg, mix)
	if err != nil || got.shaped || got.layers != 0 || cfg.Nodes != replicas {
		t.Errorf("mix takes %+v and %d nodes, %v", got, cfg.Nodes, err)
	}
	some, err := find("power-loss,slow-voters,delay")
	if err != nil {
		t.Fatal(err)
	}
	if got, err = takes(&cfg, some); errors.As(err, new(*NotRun)) {
		t.Skip(err)
	}
	if err != nil || !got.shaped || got.layers != limited|powered|moody || cfg.Nodes != 5 {
		t.Errorf("those take %+v and %d nodes, %v", got, cfg.Nodes, err)
	}
}

// TestAllLayersTogether: what lies between a node and the disk fails, is full and
// loses power, each as if the others were not there.
func TestAllLayersTogether(t *testing.T) {
	y, p := laid(t)
	synced, lost := filepath.Join(p.data, "synced"), filepath.Join(p.data, "lost")
	f, err := os.Create(synced)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = f.WriteString("kept"); err != nil {
		t.Fatal(err)
	}
	d, err := os.Open(p.data)
	if err := errors.Join(err, f.Sync(), d.Sync(), d.Close()); err != nil {
		t.Fatal(err)
	}
	p.mood.set("fsync", 1, 0)
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("a sync that is to fail: %v", err)
	}
	p.mood.set("", 1, 0)
	ballast := filepath.Join(p.disk(), "ballast")
	if err := fill(p.disk(), ballast, 0); err != nil {
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
	if err := errors.Join(f.Close(), powerOff(p.disk()), y.remount(p)); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(synced); err != nil || string(b) != "kept" {
		t.Errorf("what was synced before the power failed: %q, %v", b, err)
	}
	if b, err := os.ReadFile(lost); err == nil && len(b) == 1<<20 {
		t.Error("what was not synced outlived the power")
	}
}
