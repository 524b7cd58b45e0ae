package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheGlossaryNamesWhatIsThere: each word of docs/reference/glossary.md stands once, and where it is
// said to live there is something.
func TestTheGlossaryNamesWhatIsThere(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 3 || cells[1] == "meaning" {
			continue
		}
		word := strings.TrimPrefix(cells[0], "| ")
		if seen[word] {
			t.Errorf("%s stands twice", word)
		}
		seen[word] = true
		for _, place := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[2], -1) {
			if found, err := filepath.Glob(filepath.Join("../..", place[1])); err != nil || len(found) == 0 {
				t.Errorf("%s: there is no %s", word, place[1])
			}
		}
	}
	if len(seen) < 50 {
		t.Errorf("%d words", len(seen))
	}
}
