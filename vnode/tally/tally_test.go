package tally

import "testing"

// TestPrefixIsTheFirstPart of a name, with its slash.
func TestPrefixIsTheFirstPart(t *testing.T) {
	for name, want := range map[string]string{"acme/mail": "acme/", "acme/a/b": "acme/", "acme": "", "": "", "/x": "/"} {
		if got := Prefix(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
