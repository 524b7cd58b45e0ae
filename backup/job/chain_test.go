package job_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/backup/job"
	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/objects"
)

// clock gives backups names of different seconds.
func clock() func() time.Time {
	at := time.Now().Add(-time.Hour)
	var mu sync.Mutex // partitions are read at once
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		at = at.Add(time.Second)
		return at
	}
}

func take(t *testing.T, o job.Options, since *backup.Manifest) *backup.Manifest {
	t.Helper()
	o.Since = since
	m, err := job.Create(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func verified(t *testing.T, from objects.Store, m *backup.Manifest) *backup.Summary {
	t.Helper()
	s, err := job.Verify(t.Context(), from, m, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestAnIncrementalBackup has what has changed, and with those before it all that a full one has:
// tasks, claims that are held now, and what became of claims that were held then.
func TestAnIncrementalBackup(t *testing.T) {
	c, dir := filled(t, 10), place(t, t.TempDir())
	made := id.NewGenerator(1, rand.Uint64)
	var old []client.Task // over a time, so that there are several ranges
	for i := range 1500 {
		old = append(old, client.Task{ID: made.Next(time.Now().Add(-time.Duration(2000-i) * time.Second).UnixNano()), Queue: "mail"})
	}
	if _, err := c.EnqueueMany(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	o := options(c, dir)
	o.Now = clock()
	full := take(t, o, nil)
	same := take(t, o, full)
	if len(same.Parts) > 1 || same.Facts != 0 || same.Held != 1 || same.Depth != 1 {
		t.Errorf("nothing has changed, and it has %d parts, %d facts, %d claims", len(same.Parts), same.Facts, same.Held)
	}
	grants, err := c.Claim(t.Context(), client.ClaimRequest{Queues: []string{"mail"}, Max: 3})
	if err != nil || len(grants) != 3 {
		t.Fatal(len(grants), err)
	}
	if _, err := c.Complete(t.Context(), grants[0].ID, grants[0].Token, client.CompleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.EnqueueMany(t.Context(), []client.Task{{Queue: "new", Payload: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	changed := take(t, o, same)
	again := take(t, o, nil)
	want, got := verified(t, dir, again), verified(t, dir, changed)
	if !got.Same(want) || got.Tasks != 1511 || got.Held != 3 {
		t.Errorf("the chain gives %+v, and a full one %+v", got, want)
	}
	if changed.Facts > again.Facts/2 {
		t.Errorf("the incremental one has %d facts, of %d", changed.Facts, again.Facts)
	}
	r, err := job.Restore(t.Context(), job.RestoreOptions{From: dir, Manifest: changed, To: job.Over(c)})
	if err != nil || r.Written != 1511 || r.Fresh != 0 {
		t.Errorf("restored %+v: %v", r, err)
	}
	if _, err := job.Create(t.Context(), job.Options{From: job.Over(c), Place: dir, Now: o.Now, Scope: backup.Unfinished, Since: full}); err == nil || !strings.Contains(err.Error(), "has scope all") {
		t.Errorf("with another scope: %v", err)
	}
}

// TestAChainWithoutALink is refused, and says which one is missing; so is one in whose place
// there is another one.
func TestAChainWithoutALink(t *testing.T) {
	c, at := filled(t, 20), t.TempDir()
	dir := place(t, at)
	o := options(c, dir)
	o.Now = clock()
	full := take(t, o, nil)
	last := take(t, o, take(t, o, full))
	name := full.Name + backup.ManifestEnd
	whole, err := dir.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(text string) {
		t.Helper()
		_, err := job.Verify(t.Context(), dir, last, nil, nil)
		_, bad := job.Restore(t.Context(), job.RestoreOptions{From: dir, Manifest: last, To: job.Over(c)})
		for _, err := range []error{err, bad} {
			if !errors.Is(err, backup.ErrDamaged) || !strings.Contains(err.Error(), full.Name) || !strings.Contains(err.Error(), text) {
				t.Errorf("%v", err)
			}
		}
	}
	other := *full
	other.By = "somebody else"
	b, err := other.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Put(t.Context(), name, b); err != nil {
		t.Fatal(err)
	}
	refused("is another one")
	if err := dir.Delete(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	refused("is missing")
	if err := dir.Put(t.Context(), name, whole); err != nil {
		t.Fatal(err)
	}
	verified(t, dir, last)
}

func keys(t *testing.T) (private, public string) {
	t.Helper()
	text, pub, err := job.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	private, public = filepath.Join(dir, "private"), filepath.Join(dir, "public")
	if err := errors.Join(os.WriteFile(private, []byte(text), 0o600), os.WriteFile(public, []byte(pub+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	return private, public
}

func read(t *testing.T, file string) *job.Keys {
	t.Helper()
	k, err := job.ReadKeys(file)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestAnEncryptedBackup is taken with the public key alone, and nothing of it can be read
// without the private one; another key is refused with what is wrong.
func TestAnEncryptedBackup(t *testing.T) {
	c, at := filled(t, 30), t.TempDir()
	dir := place(t, at)
	if _, err := c.EnqueueMany(t.Context(), []client.Task{{Queue: "mail", Payload: []byte("SECRET-PAYLOAD-OF-A-TASK")}}); err != nil {
		t.Fatal(err)
	}
	private, public := keys(t)
	o := options(c, dir)
	o.Keys = read(t, public)
	m := take(t, o, nil)
	if len(m.Encrypted) != 1 || !strings.HasPrefix(m.Encrypted[0], "age1") {
		t.Errorf("encrypted to %q", m.Encrypted)
	}
	if _, err := job.Verify(t.Context(), dir, m, nil, nil); !errors.Is(err, backup.ErrSealed) || !strings.Contains(err.Error(), "--key-file") {
		t.Errorf("without a key: %v", err)
	}
	if _, err := job.Verify(t.Context(), dir, m, read(t, public), nil); !errors.Is(err, backup.ErrSealed) || !strings.Contains(err.Error(), "public keys only") {
		t.Errorf("with the public one: %v", err)
	}
	other, _ := keys(t)
	if _, err := job.Verify(t.Context(), dir, m, read(t, other), nil); !errors.Is(err, backup.ErrSealed) || !strings.Contains(err.Error(), "none of its keys") {
		t.Errorf("with another one: %v", err)
	}
	s, err := job.Verify(t.Context(), dir, m, read(t, private), nil)
	if err != nil || s.Tasks != 31 {
		t.Fatalf("%+v: %v", s, err)
	}
	all, err := dir.List(t.Context(), "norn-")
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		b, err := dir.Get(t.Context(), i.Name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte("SECRET")) || strings.HasSuffix(i.Name, ".part") && !bytes.HasPrefix(b, []byte("norn-tasks-part 1 zstd+age\n")) || strings.HasSuffix(i.Name, ".snapshot") {
			t.Errorf("%s is not encrypted", i.Name)
		}
	}
	if err := os.WriteFile(other, []byte("AGE-SECRET-KEY-1NONE\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := job.ReadKeys(other); !errors.Is(err, job.ErrKey) || strings.Contains(err.Error(), "1NONE") || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a key that is none: %v", err)
	}
}

// TestTwoGoOnWithOne: two that go on with the same interrupted backup at once do not write over
// each other's parts: what has a manifest is whole.
func TestTwoGoOnWithOne(t *testing.T) {
	c, dir := filled(t, 60), place(t, t.TempDir())
	o := options(c, dir)
	o.Place = &failing{Store: dir, left: 2}
	_, err := job.Create(t.Context(), o)
	_, name, found := strings.Cut(err.Error(), "--resume ")
	if !found {
		t.Fatal(err)
	}
	o.Place, o.Resume = dir, name
	errs := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := job.Create(t.Context(), o)
			errs <- err
		}()
	}
	one, two := <-errs, <-errs
	if one != nil && two != nil {
		t.Fatalf("neither is done: %v; %v", one, two)
	}
	m, err := job.Find(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if s := verified(t, dir, m); s.Tasks != 60 {
		t.Errorf("%d tasks", s.Tasks)
	}
}

// TestAFlippedBitInAChain is found with its place, in whichever backup of the chain, also where it
// is in a manifest; and so is a part that is in the place of another one.
func TestAFlippedBitInAChain(t *testing.T) {
	c, dir := filled(t, 40), place(t, t.TempDir())
	o := options(c, dir)
	o.Now = clock()
	full := take(t, o, nil)
	put(t, c, client.Task{Queue: "mail", Payload: []byte("more")})
	last := take(t, o, full)
	for _, name := range []string{full.Parts[0].Name, last.Parts[0].Name, full.Name + backup.ManifestEnd} {
		b, err := dir.Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, damaged := range [][]byte{flipped(b, len(b)/2), flipped(b, len(b)-1), b[:len(b)-1], b[:len(b)/3], nil} {
			if err := dir.Put(t.Context(), name, damaged); err != nil {
				t.Fatal(err)
			}
			if _, err := job.Verify(t.Context(), dir, last, nil, nil); !errors.Is(err, backup.ErrDamaged) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s with %d bytes of %d: %v", name, len(damaged), len(b), err)
			}
		}
		if err := dir.Put(t.Context(), name, b); err != nil {
			t.Fatal(err)
		}
	}
	verified(t, dir, last)
	b, err := dir.Get(t.Context(), full.Parts[0].Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := dir.Put(t.Context(), last.Parts[0].Name, b); err != nil {
		t.Fatal(err)
	}
	if _, err := job.Verify(t.Context(), dir, last, nil, nil); !errors.Is(err, backup.ErrDamaged) || !strings.Contains(err.Error(), last.Parts[0].Name) {
		t.Errorf("a part of another backup: %v", err)
	}
}

func flipped(b []byte, at int) []byte {
	out := bytes.Clone(b)
	out[at] ^= 1
	return out
}

// TestABackupRightAfterAnother: the second one, begun in the second in which the first one was
// finished, has a name of its own, and the first one stays.
func TestABackupRightAfterAnother(t *testing.T) {
	c, dir := filled(t, 10), place(t, t.TempDir())
	o := options(c, dir)
	full := take(t, o, nil)
	put(t, c, client.Task{Queue: "mail"})
	last := take(t, o, full)
	if last.Name == full.Name {
		t.Fatalf("both are %s", full.Name)
	}
	verified(t, dir, full)
	if s := verified(t, dir, last); s.Tasks != 11 {
		t.Errorf("%d tasks", s.Tasks)
	}
}
