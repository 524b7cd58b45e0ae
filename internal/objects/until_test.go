//go:build unix

package objects_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/norn-dev/norn/internal/objects"
)

// TestAPlaceThatDoesNotAnswer: a write to it ends with its time, no others are begun as
// long as it hangs, and it is used again when it answers. A pipe that nobody reads is as silent as a
// server of files that is gone.
func TestAPlaceThatDoesNotAnswer(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.Put(t.Context(), "a", []byte("a")); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, ".x.part")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(objects.NamePart(func(name string) string { return "." + name + ".part" }))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Put(ctx, "x", []byte("x")); !errors.Is(err, objects.ErrNoAnswer) || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a write: %v", err)
	}
	_, got := s.Get(t.Context(), "a")
	_, listed := s.List(t.Context(), "")
	for what, err := range map[string]error{
		"put": s.Put(t.Context(), "b", nil), "create": s.Create(t.Context(), "b", nil), "get": got, "list": listed, "delete": s.Delete(t.Context(), "a"),
	} {
		if !errors.Is(err, objects.ErrNoAnswer) {
			t.Errorf("%s beside it: %v", what, err)
		}
	}
	f, err := os.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, f)
	_ = f.Close()
	for began := time.Now(); ; runtime.Gosched() {
		b, err := s.Get(t.Context(), "a")
		if err == nil && string(b) == "a" {
			return
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("when it answers again: %q, %v", b, err)
		}
	}
}
