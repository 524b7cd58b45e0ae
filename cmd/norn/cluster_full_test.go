package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// smallDisk mounts a file system of a few megabytes for a process. It needs
// root; without, node.TestAFullDiskInACluster shows the same but for the kernel's
// refusal to write.
func (p *process) smallDisk(t *testing.T, size string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not run: mounting a small disk needs root")
	}
	if err := os.MkdirAll(p.data, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "norn-test", p.data).CombinedOutput(); err != nil {
		t.Skipf("not run: a small disk cannot be mounted: %v, %s", err, out)
	}
	t.Cleanup(func() {
		p.destroy()
		if out, err := exec.Command("umount", p.data).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}

// fill writes until the disk is full, and gives the file to remove.
func (p *process) fill(t *testing.T) (ballast string) {
	t.Helper()
	ballast = filepath.Join(p.data, "ballast")
	f, err := os.Create(ballast)
	for piece := make([]byte, 64<<10); err == nil; {
		_, err = f.Write(piece)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return ballast
}

// TestASmallVolume: a node begins on a volume of 24 MiB, with the settings that it has by
// itself, and takes tasks. When the volume fills up the client hears what is free and which
// setting it is; with room again all is as before.
func TestASmallVolume(t *testing.T) {
	c := newCompany(t)
	p := c.add()
	p.smallDisk(t, "24m")
	p.start(t, "--disk-check-interval", "100ms", "--memtable-size", "24MiB")
	if r := p.norn(t, "task", "enqueue", "-q", "q", "x"); r.code != 0 {
		t.Fatalf("a fresh node on a small volume: exit %d: %s", r.code, r.err)
	}
	ballast := filepath.Join(p.data, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 16<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	p.says(t, "disk.low")
	r := p.norn(t, "task", "enqueue", "-q", "q", "--timeout", "2s", "x")
	if r.code != 6 || !strings.Contains(r.err, "less than disk-reserve (9.6 MiB here)") || !strings.Contains(r.err, " MiB are free") {
		t.Errorf("a full volume: exit %d: %s", r.code, r.err)
	}
	if r := p.norn(t, "task", "claim", "-q", "q"); r.code != 0 {
		t.Errorf("a claim beside: exit %d: %s", r.code, r.err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	p.says(t, `"low":false`)
	if r := p.norn(t, "task", "enqueue", "-q", "q", "--timeout", "30s", "x"); r.code != 0 {
		t.Errorf("with room again, and no start between: exit %d: %s", r.code, r.err)
	}
	p.stop(t)
	p.start(t)
	if r := p.norn(t, "task", "enqueue", "-q", "q", "x"); r.code != 0 {
		t.Errorf("with room again: exit %d: %s", r.code, r.err)
	}
}

// TestClusterDiskFull: the kernel takes no more bytes of one of three nodes, under
// load, before the node has noticed that it comes to that. It ends and says why;
// clients go on through the others, and with room again it has everything.
func TestClusterDiskFull(t *testing.T) {
	thorough(t)
	c := newCompany(t)
	for range 3 {
		c.add()
	}
	n3 := c.all[2]
	n3.smallDisk(t, "128m")
	n3.args = append(n3.args, "--disk-reserve", "0", "--disk-stop", "0")
	for _, p := range c.all {
		p.start(t)
	}
	c.settled(3)
	load := c.produce("q", 20, 10*time.Millisecond)
	load.more(t, 500)
	ballast := n3.fill(t)
	if code := n3.failed(t); code == 0 || !strings.Contains(n3.s.log.String(), "no space left on the disk") {
		t.Errorf("n3 ends with %d: %s", code, endOf(n3.s.log.String(), 4000))
	}
	t.Logf("%s", endOf(n3.s.log.String(), 1000))
	load.more(t, 500)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	n3.start(t)
	c.settled(3)
	load.more(t, 500)
	load.end(t)
	for _, p := range c.all {
		p.verified(t)
		p.counted(t, "q", uint64(len(load.acked)))
	}
	c.everywhere(load.acked, load.sent)
}
