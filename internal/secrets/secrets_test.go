package secrets

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want Set // nil: refused
	}{
		"one":              {"s", Set{"s"}},
		"white space":      {"\n \t s t \r\n\n", Set{"s t"}},
		"two":              {"new\nold\n", Set{"new", "old"}},
		"remarks":          {"# since May\nnew\n # until June\nold#1\n", Set{"new", "old#1"}},
		"empty":            {" \n\t\n", nil},
		"only a remark":    {"# s", nil},
		"as long as it is": {strings.Repeat("s", maxBytes), Set{strings.Repeat("s", maxBytes)}},
		"too long":         {strings.Repeat("s", maxBytes+1), nil},
		"far too long":     {strings.Repeat("s", 100*maxBytes), nil},
		"many":             {strings.Repeat("s\n", maxLines), slices.Repeat(Set{"s"}, maxLines)},
		"too many":         {strings.Repeat("s\n", maxLines+1), nil},
	} {
		file := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Read(file)
		if !slices.Equal(got, c.want) || errors.Is(err, ErrFile) != (c.want == nil) {
			t.Errorf("%s: %q %v", name, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "sss") {
			t.Errorf("%s: the error tells the secret", name)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
}

func TestAccepts(t *testing.T) {
	for _, c := range []struct {
		set  Set
		said string
		want bool
	}{
		{nil, "", true}, {nil, "s", false}, {Set{"s"}, "", false}, {Set{"s"}, "s", true}, {Set{"s"}, "t", false},
		{Set{"new", "old"}, "new", true}, {Set{"new", "old"}, "old", true}, {Set{"new", "old"}, "newold", false}, {Set{"new", "old"}, "new\nold", false},
	} {
		if got := c.set.Accepts([]byte(c.said)); got != c.want {
			t.Errorf("%q accepts %q: %t", c.set, c.said, got)
		}
	}
	if a, b := (Set{"new", "old"}).First(), Set(nil).First(); a != "new" || b != "" {
		t.Errorf("said are %q and %q", a, b)
	}
}
