package main

import (
	"debug/buildinfo"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestLicencesShipWithTheProgram: of each module that is linked, in the version that is, and
// NOTICE names those under the MPL.
func TestLicencesShipWithTheProgram(t *testing.T) {
	info, err := buildinfo.ReadFile(the.norn)
	if err != nil {
		t.Fatal(err)
	}
	text := ok(t, "version", "--licenses")
	notice, err := os.ReadFile("../../NOTICE")
	if err != nil {
		t.Fatal(err)
	}
	if len(info.Deps) < 20 {
		t.Fatalf("%d modules are linked", len(info.Deps))
	}
	mpl := 0
	for _, m := range info.Deps {
		at := strings.Index(text, "\n"+m.Path+" "+m.Version+"\n")
		if at < 0 {
			t.Errorf("there is no licence of %s %s: make licenses", m.Path, m.Version)
			continue
		}
		own, _, _ := strings.Cut(text[at:], strings.Repeat("=", 78))
		if regexp.MustCompile(`(?i)mozilla public license`).MatchString(own) {
			mpl++
			if !regexp.MustCompile(`(?m)^  ` + regexp.QuoteMeta(m.Path) + ` +MPL-2\.0`).Match(notice) {
				t.Errorf("NOTICE does not name %s, which is under the MPL", m.Path)
			}
		}
	}
	if mpl < 3 {
		t.Errorf("%d modules are under the MPL", mpl)
	}
	if v := "the Go standard library and runtime"; !strings.Contains(text, v) {
		t.Errorf("there is no licence of %s", v)
	}
}
