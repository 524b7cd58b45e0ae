package objects_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/norn-dev/norn/internal/objects"
	"github.com/norn-dev/norn/internal/objects/objectstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, address string) objects.Store {
	t.Helper()
	s, err := objects.Open(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestStores is what holds of every store.
func TestStores(t *testing.T) {
	objectstest.Login(t)
	for name, address := range map[string]string{
		"directory": filepath.Join(t.TempDir(), "a", "b"),
		"file":      "file://" + filepath.ToSlash(t.TempDir()),
		"s3":        objectstest.Serve(t).Address("a/b"),
		"s3 bucket": objectstest.Serve(t).Address(""),
	} {
		t.Run(name, func(t *testing.T) { contract(t, open(t, address)) })
	}
}

func contract(t *testing.T, s objects.Store) {
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if all, err := s.List(ctx, ""); err != nil || len(all) != 0 {
		t.Fatalf("an empty place has %v, %v", all, err)
	}
	if _, err := s.Get(ctx, "x"); !errors.Is(err, objects.ErrNotFound) {
		t.Errorf("reading nothing: %v", err)
	}
	must(s.Delete(ctx, "x"))
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for name, data := range map[string][]byte{"b-2": []byte("two"), "a.1": large, "b-1": nil, "n%3A1~2": []byte("x")} {
		must(s.Put(ctx, name, data))
		if got, err := s.Get(ctx, name); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s reads as %d bytes, %v", name, len(got), err)
		}
	}
	must(s.Put(ctx, "b-2", []byte("other")))
	if got, err := s.Get(ctx, "b-2"); err != nil || string(got) != "other" {
		t.Errorf("after it was replaced: %q, %v", got, err)
	}
	all, err := s.List(ctx, "b-")
	if err != nil || len(all) != 2 || all[0].Name != "b-1" || all[1].Name != "b-2" || all[1].Size != 5 || time.Since(all[1].Modified).Abs() > time.Hour {
		t.Errorf("list: %+v, %v", all, err)
	}
	if err := s.Create(ctx, "b-2", []byte("third")); !errors.Is(err, objects.ErrExists) {
		t.Errorf("creating what exists: %v", err)
	}
	if got, err := s.Get(ctx, "b-2"); err != nil || string(got) != "other" {
		t.Errorf("after that: %q, %v", got, err)
	}
	must(s.Delete(ctx, "b-2"))
	must(s.Create(ctx, "b-2", []byte("new")))
	for _, bad := range []string{"", ".hidden", "a/b", "../x", "ä", strings.Repeat("x", 251)} {
		if err := s.Put(ctx, bad, nil); !errors.Is(err, objects.ErrAddress) {
			t.Errorf("name %q: %v", bad, err)
		}
		if _, err := s.Get(ctx, bad); !errors.Is(err, objects.ErrAddress) {
			t.Errorf("name %q: %v", bad, err)
		}
	}
	one(t, s)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Put(gone, "late", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

// one: of several who create one name one wins.
func one(t *testing.T, s objects.Store) {
	var all sync.WaitGroup
	results := make(chan error, 8)
	for range cap(results) {
		all.Go(func() { results <- s.Create(t.Context(), "one", []byte("mine")) })
	}
	all.Wait()
	close(results)
	won := 0
	for err := range results {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, objects.ErrExists):
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d have created one name", won)
	}
}

func TestAddresses(t *testing.T) {
	for _, bad := range []string{
		"", "http://x/y", "s3://", "s3:///prefix", "s3://key:secret@bucket/x", "s3://bucket/x?colour=red", "s3://bucket?path-style=perhaps",
		"s3://bucket?endpoint=host:9000", "s3://bucket?endpoint=http://host/path", "file://host/x", "s3://%zz",
	} {
		if s, err := objects.Open(bad); !errors.Is(err, objects.ErrAddress) {
			t.Errorf("%q: %v, %v", bad, s, err)
		} else if strings.Contains(err.Error(), "secret@") {
			t.Errorf("the secret is in the error: %v", err)
		}
	}
	if !objects.Remote("s3://bucket") || objects.Remote("/dir") {
		t.Error("remote")
	}
}

// TestWhatAStoreRefuses: what goes wrong with S3 says where, and what to look at.
func TestWhatAStoreRefuses(t *testing.T) {
	objectstest.Login(t)
	server := objectstest.Serve(t)
	s := open(t, server.Address("x"))
	server.Status.Store(http.StatusForbidden)
	err := s.Put(t.Context(), "a", nil)
	if err == nil || !strings.Contains(err.Error(), "s3://backups/x/a") || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") {
		t.Errorf("forbidden: %v", err)
	}
	server.Status.Store(0)
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	if err := open(t, server.Address("x")).Put(t.Context(), "a", nil); err == nil || !strings.Contains(err.Error(), "refused by the store") {
		t.Errorf("a wrong key: %v", err)
	}
	objectstest.Login(t)
	missing := strings.Replace(server.Address("x"), objectstest.Bucket, "nowhere", 1)
	if _, err := open(t, missing).List(t.Context(), ""); !errors.Is(err, objects.ErrNotFound) {
		t.Errorf("a bucket that is not there: %v", err)
	}
}

// TestAStoreWithoutConditions: one that does not know conditional writes still
// replaces nothing that is there.
func TestAStoreWithoutConditions(t *testing.T) {
	objectstest.Login(t)
	server := objectstest.Serve(t)
	server.Unconditional.Store(true)
	s := open(t, server.Address("x"))
	if err := s.Create(t.Context(), "a", []byte("1")); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(t.Context(), "a", []byte("2")); !errors.Is(err, objects.ErrExists) {
		t.Errorf("a second time: %v", err)
	}
}

// TestWhatACrashLeftIsNoObject: a file that was being written is not listed, and
// goes after a day.
func TestWhatACrashLeftIsNoObject(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	old, young := filepath.Join(dir, ".old.part"), filepath.Join(dir, ".young.part")
	for _, path := range []string{old, young} {
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(old, before, before); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "a", nil); err != nil {
		t.Fatal(err)
	}
	if all, err := s.List(t.Context(), ""); err != nil || len(all) != 1 {
		t.Errorf("list %v, %v", all, err)
	}
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old one is still there: %v", err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("the young one: %v", err)
	}
}

// TestAnObjectIsReplacedAsAWhole: who reads the old one reads that to its end.
func TestAnObjectIsReplacedAsAWhole(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.Put(t.Context(), "x", []byte("old")); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := s.Put(t.Context(), "x", []byte("newer")); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(f); err != nil || string(b) != "old" {
		t.Errorf("reads %q, %v", b, err)
	}
}

// TestAPlaceThatCannotBeListed is not one that has nothing.
func TestAPlaceThatCannotBeListed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if all, err := open(t, file).List(t.Context(), ""); err == nil {
		t.Errorf("a file has the objects %v", all)
	}
}
