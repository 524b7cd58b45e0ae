package snapshots_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/norn-dev/norn/internal/objects"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/snapshots"
)

var (
	self = register.Member{Node: "n1", Incarnation: register.Incarnation{1}}
	at   = time.Date(2026, 11, 22, 13, 0, 0, 0, time.UTC)
)

// state is a register that has seen some life.
func state(revision uint64) *register.State {
	s := register.First(register.Cluster{ID: register.UUID{7, 6, 5}, Partitions: 3, Replicas: 3}, register.Node{Member: self, Addresses: []string{"n1:7712"}})
	s, _, _ = s.Apply(&register.Request{
		Changes: []register.Change{{Partition: 1, New: register.Cell{Epoch: 9, Cohort: []register.Member{self}, Leader: self, Nonce: 4}}},
		Queues:  []register.QueueChange{{Name: "mail", Settings: []byte("settings")}},
	})
	s.Revision = revision
	return &s
}

func encode(t *testing.T, s *register.State, at time.Time) (snapshots.Header, []byte) {
	t.Helper()
	h, b, err := snapshots.Encode(s, at, "n1")
	if err != nil {
		t.Fatal(err)
	}
	return h, b
}

func place(t *testing.T) (objects.Store, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := objects.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

func save(t *testing.T, to objects.Store, s *register.State, keep int) snapshots.Header {
	t.Helper()
	h, b := encode(t, s, at.Add(time.Duration(s.Revision)*time.Second))
	if err := snapshots.Save(t.Context(), to, h, b, keep); err != nil {
		t.Fatal(err)
	}
	return h
}

func TestASnapshotReadsAsItWasWritten(t *testing.T) {
	s := state(12)
	h, b := encode(t, s, at)
	got, err := snapshots.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(&got.State, s) || got.Header != h || h.Revision != 12 || h.Node != "n1" || !h.TakenAt.Equal(at) {
		t.Errorf("wrote %+v, read %+v", h, got)
	}
	ref, ok := snapshots.ParseName(h.Name())
	if !ok || ref.Cluster != s.Cluster.ID.String() || ref.Revision != 12 || ref.Generation != 0 || !ref.TakenAt.Equal(at) {
		t.Errorf("%s reads as %+v", h.Name(), ref)
	}
}

// TestNoDamageGoesUnseen changes each byte, and cuts at each length.
func TestNoDamageGoesUnseen(t *testing.T) {
	_, b := encode(t, state(12), at)
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= 1
		if _, err := snapshots.Decode(bad); !errors.Is(err, snapshots.ErrDamaged) && !errors.Is(err, snapshots.ErrVersion) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
		if _, err := snapshots.Decode(b[:i]); !errors.Is(err, snapshots.ErrDamaged) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
}

// TestANewerVersionIsNamed: neither a format nor a state of a newer build is
// taken for damage.
func TestANewerVersionIsNamed(t *testing.T) {
	_, b := encode(t, state(12), at)
	newer := bytes.Replace(b, []byte("snapshot 1\n"), []byte("snapshot 2\n"), 1)
	if _, err := snapshots.Decode(newer); !errors.Is(err, snapshots.ErrVersion) {
		t.Errorf("a newer format: %v", err)
	}
	if _, _, err := snapshots.Pack([]byte{255, 1, 2}, at, "n1"); !errors.Is(err, snapshots.ErrVersion) {
		t.Errorf("a newer state: %v", err)
	}
	// The older ones in the same place lack what is in it: they are not taken.
	to, dir := place(t)
	save(t, to, state(1), 5)
	h := save(t, to, state(2), 5)
	if err := os.WriteFile(filepath.Join(dir, h.Name()), newer, 0o600); err != nil {
		t.Fatal(err)
	}
	if s, _, err := snapshots.Latest(t.Context(), to, ""); !errors.Is(err, snapshots.ErrVersion) {
		t.Errorf("the newest is of a newer version: revision %d, %v", s.Revision, err)
	}
}

func TestTheNewestThatIsWhole(t *testing.T) {
	to, dir := place(t)
	if _, _, err := snapshots.Latest(t.Context(), to, ""); !errors.Is(err, snapshots.ErrNone) {
		t.Errorf("nowhere: %v", err)
	}
	for _, r := range []uint64{3, 20, 100} {
		save(t, to, state(r), 5)
	}
	if err := os.WriteFile(filepath.Join(dir, "norn-notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := snapshots.List(t.Context(), to)
	if err != nil || len(all) != 3 {
		t.Fatal(all, err)
	}
	s, passed, err := snapshots.Latest(t.Context(), to, "")
	if err != nil || s.Revision != 100 || len(passed) != 0 {
		t.Errorf("revision %d, %v, %v", s.Revision, passed, err)
	}
	if s, _, err = snapshots.Latest(t.Context(), to, all[0].Name); err != nil || s.Revision != 3 {
		t.Errorf("by name: revision %d, %v", s.Revision, err)
	}
	if err := os.WriteFile(filepath.Join(dir, all[2].Name), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, passed, err = snapshots.Latest(t.Context(), to, "")
	if err != nil || s.Revision != 20 || len(passed) != 1 || !errors.Is(passed[0], snapshots.ErrDamaged) {
		t.Errorf("with a damaged one: revision %d, %v, %v", s.Revision, passed, err)
	}
	// A generation goes before a revision.
	restored := state(1)
	restored.Generation = 1
	save(t, to, restored, 5)
	if s, _, err = snapshots.Latest(t.Context(), to, ""); err != nil || s.Generation != 1 {
		t.Errorf("generation %d, %v", s.Generation, err)
	}
	other := state(1)
	other.Cluster.ID[0] = 99
	save(t, to, other, 5)
	if _, _, err = snapshots.Latest(t.Context(), to, ""); !errors.Is(err, snapshots.ErrSeveral) {
		t.Errorf("of two clusters: %v", err)
	}
}

func TestOldSnapshotsGo(t *testing.T) {
	to, _ := place(t)
	other := state(1)
	other.Cluster.ID[0] = 1
	save(t, to, other, 3)
	if _, err := snapshots.Begin(t.Context(), to, &snapshots.Header{Cluster: state(1).Cluster.ID.String()}, self, false, at); err != nil {
		t.Fatal(err)
	}
	for r := range uint64(10) {
		save(t, to, state(r+1), 3)
	}
	all, err := snapshots.List(t.Context(), to)
	var revisions []uint64
	for _, l := range all {
		revisions = append(revisions, l.Revision)
	}
	if err != nil || !slices.Equal(revisions, []uint64{1, 8, 9, 10}) {
		t.Errorf("left are %v, %v", revisions, err)
	}
	if left, err := to.List(t.Context(), ""); err != nil || len(left) != 5 {
		t.Errorf("with the note of a restore there are %d, %v", len(left), err)
	}
}

// liar stores something else than it is given.
type liar struct{ objects.Store }

func (l liar) Get(ctx context.Context, name string) ([]byte, error) {
	b, err := l.Store.Get(ctx, name)
	if len(b) > 0 {
		b[len(b)/2] ^= 1
	}
	return b, err
}

// TestASnapshotIsReadBack: one that the place does not give back as it was written
// counts as failed, and nothing older is deleted on its word.
func TestASnapshotIsReadBack(t *testing.T) {
	to, _ := place(t)
	save(t, to, state(1), 1)
	h, b := encode(t, state(2), at)
	if err := snapshots.Save(t.Context(), liar{to}, h, b, 1); !errors.Is(err, snapshots.ErrDamaged) {
		t.Errorf("written to a liar: %v", err)
	}
	if all, err := snapshots.List(t.Context(), to); err != nil || len(all) != 2 {
		t.Errorf("%d are left, %v", len(all), err)
	}
}

// TestGenerationsAreTakenOnce: those who restore at the same time from the same
// place are of different generations, and all are above what was there.
func TestGenerationsAreTakenOnce(t *testing.T) {
	to, _ := place(t)
	s := state(5)
	s.Generation = 4
	h := save(t, to, s, 5)
	older := h
	older.Generation = 2 // an older snapshot is restored: 3 and 4 have been
	taken := make(chan uint64, 8)
	var all sync.WaitGroup
	for range cap(taken) {
		all.Go(func() {
			g, err := snapshots.Begin(t.Context(), to, &older, self, false, at)
			if err != nil {
				t.Error(err)
			}
			taken <- g
		})
	}
	all.Wait()
	close(taken)
	got := slices.Sorted(func(yield func(uint64) bool) {
		for g := range taken {
			if !yield(g) {
				return
			}
		}
	})
	if !slices.Equal(got, []uint64{5, 6, 7, 8, 9, 10, 11, 12}) {
		t.Errorf("generations %v", got)
	}
	older.Generation = register.MaxGeneration
	if g, err := snapshots.Begin(t.Context(), to, &older, self, false, at); err == nil {
		t.Errorf("generation %d is over the limit", g)
	}
}

func TestSplit(t *testing.T) {
	h, _ := encode(t, state(5), at)
	name := h.Name()
	for address, want := range map[string][2]string{
		"/srv/norn":                      {"/srv/norn", ""},
		filepath.Join("/srv", name):      {"/srv", name},
		"file:///srv/" + name:            {"file:///srv", name},
		"s3://b/p?region=x":              {"s3://b/p?region=x", ""},
		"s3://b/p/" + name + "?region=x": {"s3://b/p?region=x", name},
		"s3://b/" + name:                 {"s3://b/", name},
	} {
		if place, name := snapshots.Split(address); place != want[0] || name != want[1] {
			t.Errorf("%s is %q in %q, want %q in %q", address, name, place, want[1], want[0])
		}
	}
	for _, bad := range []string{"", "norn.snapshot", strings.Replace(name, "-g0", "-gx", 1), name + ".part", strings.Replace(name, "20261122", "20261322", 1)} {
		if r, ok := snapshots.ParseName(bad); ok {
			t.Errorf("%q reads as %+v", bad, r)
		}
	}
}

// FuzzDecode: no bytes harm the reader, not even those whose checksum is right.
func FuzzDecode(f *testing.F) {
	_, b, err := snapshots.Encode(state(12), at, "n1")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[:len(b)-sha256.Size])
	f.Add([]byte("norn-register-snapshot 1\n{}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		sum := sha256.Sum256(b)
		if s, err := snapshots.Decode(append(b, sum[:]...)); err == nil && len(s.State.Cells) != s.State.Cluster.Partitions {
			t.Errorf("%d cells of %d", len(s.State.Cells), s.State.Cluster.Partitions)
		}
	})
}
