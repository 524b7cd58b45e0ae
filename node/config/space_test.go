package config

import "testing"

// TestSpace: the smaller of bytes and a share of the volume, or bytes alone.
func TestSpace(t *testing.T) {
	for _, c := range []struct {
		reserve, stop          string
		volume                 uint64
		wantReserve, wantStop  uint64
		textReserve, textStops string
	}{
		{"512MiB,40%", "64MiB,10%", 1 << 40, 512 << 20, 64 << 20, "512MiB,40%", "64MiB,10%"},
		{"512MiB, 40%", "64MiB,10%", 100 << 20, 40 << 20, 10 << 20, "512MiB,40%", "64MiB,10%"},
		{"512MiB,40%", "64MiB,10%", 0, 512 << 20, 64 << 20, "512MiB,40%", "64MiB,10%"}, // nobody knows
		{"512MiB", "64MiB", 100 << 20, 512 << 20, 64 << 20, "512MiB", "64MiB"},
		{"512MiB,40%", "64MiB", 100 << 20, 64 << 20, 64 << 20, "512MiB,40%", "64MiB"}, // never below the stop
		{"512MiB", "1MiB", 1 << 40, 512 << 20, 32 << 20, "512MiB", "1MiB"},            // room for a memtable and a segment
		{"512MiB,40%", "1KiB", 100 << 20, 40 << 20, 600 << 10, "512MiB,40%", "1KiB"},
		{"0", "0", 100 << 20, 0, 0, "0", "0"},
	} {
		cfg, err := Load(Sources{Flags: map[string]string{"disk-reserve": c.reserve, "disk-stop": c.stop}})
		if err != nil {
			t.Fatalf("%s, %s: %v", c.reserve, c.stop, err)
		}
		reserve, stop := cfg.DiskLimits(c.volume)
		if d := reserve/100 + 1; reserve > c.wantReserve || reserve+d < c.wantReserve || stop > c.wantStop || stop+d < c.wantStop {
			t.Errorf("%s, %s of %d: %d and %d, want %d and %d", c.reserve, c.stop, c.volume, reserve, stop, c.wantReserve, c.wantStop)
		}
		if r, s := cfg.DiskReserve.text(), cfg.DiskStop.text(); r != c.textReserve || s != c.textStops {
			t.Errorf("printed as %q and %q", r, s)
		}
	}
	for _, bad := range []string{"512MiB,", "512MiB,0%", "512MiB,100%", "512MiB,10", "10%", "512MiB,10%,5%", ""} {
		if _, err := Load(Sources{Flags: map[string]string{"disk-reserve": bad}}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if _, err := Load(Sources{Flags: map[string]string{"disk-reserve": "512MiB,5%"}}); err == nil {
		t.Error("a reserve below the stop was taken")
	}
}
