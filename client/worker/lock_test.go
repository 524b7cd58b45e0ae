//go:build unix && !solaris && !aix

package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A lock has one holder, keeps its name over restarts, and each holder began later than
// the one before, whatever the clock says.
func TestLockFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := openLock(path)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	began, err := first.begin(now)
	if err != nil || began != now.UnixNano() {
		t.Fatalf("began %d, %v", began, err)
	}
	again, err := first.begin(now.Add(-time.Hour)) // another instance of the same process
	if err != nil || again != began+1 {
		t.Errorf("began %d, %v", again, err)
	}
	_, err = openLock(path)
	wantIs(t, err, ErrLocked)
	first.close()
	second, err := openLock(path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.close()
	later, err := second.begin(now.Add(-time.Hour))
	if err != nil || later != again+1 || second.name != first.name {
		t.Errorf("began %d, %v; named %s and %s", later, err, first.name, second.name)
	}
	other, err := openLock(path + "-2")
	if err != nil {
		t.Fatal(err)
	}
	defer other.close()
	if other.name == first.name || len(other.name) != 32 {
		t.Errorf("named %s and %s", first.name, other.name)
	}
}

// A file with something else in it is another lock, not a failure.
func TestLockFileWithNonsense(t *testing.T) {
	for _, text := range []string{"", "hello", strings.Repeat("x", 1000), "zz 12\n", "00112233445566778899aabbccddeeff later\n"} {
		path := filepath.Join(t.TempDir(), "lock")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := openLock(path)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		name := l.name
		if _, err := l.begin(time.Now()); err != nil || len(name) != 32 {
			t.Errorf("%q: named %q, %v", text, name, err)
		}
		l.close()
		if l, err = openLock(path); err != nil || l.name != name {
			t.Errorf("%q: named %q, then %+v, %v", text, name, l, err)
		}
		l.close()
	}
	if _, err := openLock(filepath.Join(t.TempDir(), "no", "such", "lock")); err == nil {
		t.Error("a lock where no file can be")
	}
}

// Run keeps the lock for as long as it lasts, and a second worker is refused.
func TestRunKeepsTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		path := filepath.Join(t.TempDir(), "lock")
		cfg := Config{LockFile: path, Name: "w", Pull: true}
		r := start(t, q, cfg, untilDone)
		<-r.events // a handler runs
		_, err := openLock(path)
		wantIs(t, err, ErrLocked)
		second := New(r.client, cfg)
		second.Handle("q", untilDone)
		wantIs(t, second.Run(t.Context()), ErrLocked)
		r.StopNow()
		if err := <-r.ran; err != nil {
			t.Fatal(err)
		}
		l, err := openLock(path)
		if err != nil {
			t.Fatal(err)
		}
		l.close()
	})
}
