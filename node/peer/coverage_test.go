package peer

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"pgregory.net/rapid"
)

// TestEveryMessageOfTheCoreTravels: a message that the codec does not know would
// be dropped with each attempt to send it.
func TestEveryMessageOfTheCoreTravels(t *testing.T) {
	files, err := filepath.Glob("../core/message/*.go")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	rapid.Check(t, func(t *rapid.T) {
		for range 30 { // each kind of some twenty surely comes
			known[fmt.Sprintf("%T", drawMessage(t))] = true
		}
	})
	method := regexp.MustCompile(`func \(\*(\w+)\) peerMessage\(\)`)
	found := 0
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range method.FindAllSubmatch(b, -1) {
			if found++; !known["*message."+string(m[1])] {
				t.Errorf("%s: message.%s has no encoding: give it a method number in peer.proto, a row in kinds, and a case in drawMessage", file, m[1])
			}
		}
	}
	if found < 12 {
		t.Errorf("%d messages found in the core", found)
	}
}
