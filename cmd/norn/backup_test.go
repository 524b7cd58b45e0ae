package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/norn-dev/norn/internal/objects/objectstest"
)

type snapshotJSON struct {
	Snapshot, Cluster, Generation, Revision, Node string
	TakenAt                                       string `json:"taken_at"`
	Bytes                                         string
	Partitions                                    int
	Nodes, Queues, Schedules                      []string
}

// TestBackup writes a snapshot by hand, looks into it, and makes a directory of it
// that a server begins the cluster anew with.
func TestBackup(t *testing.T) {
	ok(t, "queue", "set", "backup-queue", "note=kept")
	ok(t, "schedule", "set", "backup-schedule", "--cron", "0 0 1 1 *", "-q", "backup-queue")
	place := filepath.Join(t.TempDir(), "snapshots")
	made := decode[snapshotJSON](t, "backup", "create", place)
	if made.Generation != "0" || made.Node != "norn backup" || made.Bytes == "0" {
		t.Errorf("made %+v", made)
	}
	ok(t, "schedule", "delete", "backup-schedule")
	ok(t, "queue", "set", "backup-queue", "note=changed")
	list := decode[[]snapshotJSON](t, "backup", "inspect", place)
	if len(list) != 1 || list[0].Snapshot != made.Snapshot || list[0].Bytes != made.Bytes || list[0].TakenAt != made.TakenAt {
		t.Errorf("listed %+v, made %+v", list, made)
	}
	file := filepath.Join(place, made.Snapshot)
	got := decode[snapshotJSON](t, "backup", "inspect", file)
	if !slices.Contains(got.Queues, "backup-queue") || !slices.Contains(got.Schedules, "backup-schedule") || !slices.Equal(got.Nodes, []string{"n1 (member)"}) || got.Partitions != 64 {
		t.Errorf("shown %+v", got)
	}
	for _, table := range []string{ok(t, "backup", "inspect", place), ok(t, "backup", "inspect", file)} {
		if !strings.Contains(table, made.Snapshot) {
			t.Errorf("the table is\n%s", table)
		}
	}

	data := filepath.Join(t.TempDir(), "data")
	restored := decode[map[string]string](t, "backup", "restore", place, "--data", data, "--name", "n1")
	if restored["generation"] != "1" || restored["snapshot"] != made.Snapshot || restored["data"] != data {
		t.Errorf("restored %v", restored)
	}
	refused(t, 1, "is not empty", "backup", "restore", place, "--data", data, "--name", "n1")
	s := ownServer(t, data)
	at := []string{"NORN_ADDR=" + s.addr}
	if r := nornWith(t, "", at, "queue", "get", "backup-queue"); r.code != 0 || !strings.Contains(r.out, "kept") {
		t.Errorf("the queue: %+v", r)
	}
	if r := nornWith(t, "", at, "schedule", "list"); r.code != 0 || !strings.Contains(r.out, "backup-schedule") {
		t.Errorf("the schedules: %+v", r)
	}

	empty := t.TempDir()
	if out := ok(t, "backup", "inspect", empty, "-o", "json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("an empty place: %s", out)
	}
	refused(t, 1, "no snapshot of a register", "backup", "restore", empty, "--data", filepath.Join(empty, "data"))
	refused(t, 3, "there is no snapshot", "backup", "inspect", filepath.Join(empty, made.Snapshot))
	refused(t, 3, "there is no snapshot", "backup", "restore", filepath.Join(empty, made.Snapshot), "--data", filepath.Join(empty, "data"))
	gone := filepath.Join(empty, "gone")
	refused(t, 2, "there is no directory "+gone, "backup", "inspect", gone)
	refused(t, 2, "there is no directory "+gone, "backup", "inspect", "file://"+filepath.Join(gone, made.Snapshot))
	refused(t, 2, "there is no directory "+gone, "backup", "restore", gone, "--data", filepath.Join(empty, "data"))
	refused(t, 2, "is not a directory", "backup", "inspect", write(t, "x"))
	refused(t, 2, "not an address", "backup", "restore", "ftp://x", "--data", filepath.Join(empty, "data"))
	// What was said of where the node is reached is in the line that starts it.
	out := ok(t, "backup", "restore", place, "--data", filepath.Join(empty, "two words"), "--name", "n1", "--peer-listen", "0.0.0.0:7712", "--peer-advertise", "n1.example:7712", "--zone", "west")
	if want := "norn server --data '" + filepath.Join(empty, "two words") + "' --name n1 --peer-listen 0.0.0.0:7712 --peer-advertise n1.example:7712 --zone west\n"; !strings.Contains(out, want) {
		t.Errorf("got %s, want %s", out, want)
	}
	refused(t, 2, "not an address", "backup", "create", "ftp://x")
	refused(t, 2, "names a snapshot", "backup", "create", file)
	if err := os.Truncate(file, 100); err != nil {
		t.Fatal(err)
	}
	refused(t, 1, "damaged", "backup", "inspect", file)
}

// TestRestoreFromS3: servers write to a bucket by themselves, the only one is killed
// and its disk is gone; another one, told where the bucket is, is the cluster again.
func TestRestoreFromS3(t *testing.T) {
	objectstest.Login(t)
	place := objectstest.Serve(t).Address("drill")
	lost := filepath.Join(t.TempDir(), "lost")
	s := ownServer(t, lost, "--snapshot-to", place, "--snapshot-every", "1s", "--partitions", "8")
	at := []string{"NORN_ADDR=" + s.addr}
	if r := nornWith(t, "", at, "queue", "pause", "mail", "--note", "stocktaking"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	eventually(t, "a snapshot with the queue", func() bool {
		all := decode[[]snapshotJSON](t, "backup", "inspect", place)
		if len(all) == 0 {
			return false
		}
		address := strings.Replace(place, "drill?", "drill/"+all[len(all)-1].Snapshot+"?", 1)
		return slices.Contains(decode[snapshotJSON](t, "backup", "inspect", address).Queues, "mail")
	})
	if _, err := s.end(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(lost); err != nil {
		t.Fatal(err)
	}
	s = ownServer(t, filepath.Join(t.TempDir(), "anew"), "--restore-from", place)
	at = []string{"NORN_ADDR=" + s.addr}
	if r := nornWith(t, "", at, "queue", "get", "mail"); r.code != 0 || !strings.Contains(r.out, "stocktaking") {
		t.Errorf("the queue: %+v", r)
	}
	if !strings.Contains(s.log.String(), "restore.done") {
		t.Errorf("the log does not tell: %s", s.log.String())
	}
}
