package proto

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestTheTextOfAnErrorIsBounded, and stays text.
func TestTheTextOfAnErrorIsBounded(t *testing.T) {
	for _, c := range []string{"é", "x", "\x00", "😀", "a😀é"} {
		text := Invalid("%s", strings.Repeat(c, 1<<20)).Message
		if len(text) > maxMessage+len("…") || len(text) < maxMessage-3 || !utf8.ValidString(text) || !strings.HasSuffix(text, "…") {
			t.Errorf("of many %q there are %d bytes: %.20q", c, len(text), text)
		}
	}
	if got := Invalid("%s", strings.Repeat("x", maxMessage)).Message; len(got) != maxMessage {
		t.Errorf("%d bytes are left of what is not too long", len(got))
	}
}
