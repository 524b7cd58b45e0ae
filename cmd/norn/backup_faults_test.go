package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestServersTakeBackups: one node of a cluster writes backups, a full one and incremental ones;
// when it is killed another one goes on, and the newest is whole.
func TestServersTakeBackups(t *testing.T) {
	beside(t)
	place := filepath.Join(t.TempDir(), "place")
	c := startCompany(t, 3, "--backup-tasks-to", place, "--backup-tasks-every", "2s", "--backup-tasks-keep", "3", "--backup-tasks-incrementals", "2")
	lines(t, []string{"NORN_ADDR=" + c.all[0].listen}, "mail", 100)
	var first *process
	eventually(t, "a node writes an incremental backup", func() bool {
		for _, p := range c.all {
			if strings.Contains(p.s.log.String(), `"since":"norn-`) {
				first = p
			}
		}
		return first != nil
	})
	for _, p := range c.all {
		if p != first && strings.Contains(p.s.log.String(), "backup.written") {
			t.Errorf("%s writes backups beside %s", p.name, first.name)
		}
	}
	first.kill(t)
	var next *process
	eventually(t, "another node goes on", func() bool {
		for _, p := range c.all {
			if p != first && strings.Contains(p.s.log.String(), "backup.written") {
				next = p
			}
		}
		return next != nil
	})
	next.kill(t) // so that nothing is deleted while it is read
	if r := nornWith(t, "", nil, "backup", "verify", "-o", "json", place); r.code != 0 || !strings.Contains(r.out, `"tasks": "100"`) && !strings.Contains(r.out, `"tasks":"100"`) {
		t.Errorf("the newest: %+v", r)
	}
}

// TestABackupWhileNodesComeAndGo: while a backup is taken slowly a node is killed and comes back,
// another one joins, and partitions move to it; the backup is whole, and has what was
// acknowledged before it began.
func TestABackupWhileNodesComeAndGo(t *testing.T) {
	thorough(t)
	c := startCompany(t, 3)
	at := []string{"NORN_ADDR=" + strings.Join(c.addresses(), ",")}
	for range 4 {
		if r := nornWith(t, strings.Repeat(strings.Repeat("x", 4000)+"\n", 500), at, "task", "enqueue", "-q", "mail", "--lines", "-"); r.code != 0 {
			t.Fatalf("%+v", r)
		}
	}
	place := filepath.Join(t.TempDir(), "place")
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, the.norn, "backup", "create", "--tasks", "--rate", "500KiB", place)
	cmd.Env = environment(at...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	c.all[1].kill(t)
	c.all[1].start(t)
	c.settled(3)
	c.add().start(t)
	if err := <-ended; err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if got := jsonOf[tasksJSON](t, nil, "backup", "verify", place); got.Tasks != "2000" {
		t.Errorf("verified: %+v", got)
	}
}

// TestARestoreWhileNodesComeAndGo: while tasks are restored slowly into a cluster that has begun anew, the node that the command
// talks to is killed and comes back, another one joins, and partitions move to it; each task is there once.
func TestARestoreWhileNodesComeAndGo(t *testing.T) {
	thorough(t)
	s := ownServer(t, filepath.Join(t.TempDir(), "lost"), "--partitions", "8")
	at := []string{"NORN_ADDR=" + s.addr}
	for range 4 {
		if r := nornWith(t, strings.Repeat(strings.Repeat("x", 4000)+"\n", 500), at, "task", "enqueue", "-q", "mail", "--lines", "-"); r.code != 0 {
			t.Fatalf("%+v", r)
		}
	}
	place := filepath.Join(t.TempDir(), "place")
	made := jsonOf[tasksJSON](t, at, "backup", "create", "--tasks", place)
	if _, err := s.end(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c := newCompany(t)
	first := c.add()
	if r := nornWith(t, "", nil, "backup", "restore", place, "--data", first.data, "--name", first.name, "--partitions", "12", "--replicas", "3"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	first.start(t)
	c.add().start(t)
	c.add().start(t)
	c.settled(3)
	at = []string{"NORN_ADDR=" + strings.Join(c.addresses(), ",")}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, the.norn, "backup", "restore", "--tasks", "--rate", "500KiB", place)
	cmd.Env = environment(at...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	first.kill(t)
	first.start(t)
	c.settled(3)
	c.add().start(t)
	if err := <-ended; err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	got := jsonOf[tasksJSON](t, at, "backup", "create", "--tasks", filepath.Join(t.TempDir(), "again"))
	if got.Tasks != "2000" || got.Root != made.Root {
		t.Errorf("there are %+v, not %+v", got, made)
	}
}
