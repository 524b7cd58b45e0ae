package storage

import (
	"testing"
	"time"
)

// TestADiskIsSlowInOneDirectory, and elsewhere as it was; what was late is counted.
func TestADiskIsSlowInOneDirectory(t *testing.T) {
	m := &Mood{}
	m.Slow("register", time.Millisecond)
	for _, c := range []struct {
		call, dir string
		want      int64
	}{{"fsync", "facts", 0}, {"write", "register", 0}, {"fsync", "register", 1}, {"fsync", "register", 2}} {
		if errno := m.of(c.call, c.dir); errno != 0 || m.Tardy.Load() != c.want {
			t.Errorf("%s in %s: error %d, %d were late, want %d", c.call, c.dir, errno, m.Tardy.Load(), c.want)
		}
	}
	m.Slow("", 0)
	if _ = m.of("fsync", "register"); m.Tardy.Load() != 2 {
		t.Error("it is slow for ever")
	}
	m.Set("", 1, time.Millisecond)
	if _ = m.of("fsync", "facts"); m.Tardy.Load() != 3 {
		t.Error("a disk that is slow everywhere is not slow in one directory")
	}
	for path, want := range map[string]string{"register/000001.log": "register", "register": "register", "a/b/c": "a", "": ""} { // Any order: each is one.
		if got := top(path); got != want {
			t.Errorf("the first directory of %q is %q", path, got)
		}
	}
}

// TestAMoodLies: a disk that lies says of each sync that it is done, and counts it;
// one write of so many goes astray.
func TestAMoodLies(t *testing.T) {
	var m Mood
	if m.lie() {
		t.Error("an honest disk lies")
	}
	m.Lies.Store(true)
	if first, second := m.lie(), m.lie(); !first || !second || m.Lied.Load() != 2 {
		t.Errorf("a liar has lied %d times", m.Lied.Load())
	}
	m.Astray.Store(2)
	if a, b, c := m.shift(), m.shift(), m.shift(); a != 0 || b != page || c != 0 {
		t.Errorf("writes go %d, %d and %d further, want only the second", a, b, c)
	}
}
