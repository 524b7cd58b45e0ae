package reference

import (
	"flag"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the pages instead of comparing them")

// TestPagesAreCurrent: each page that follows from the source is what it says now.
func TestPagesAreCurrent(t *testing.T) {
	for name, of := range map[string]func(string) (string, error){
		"settings": Settings, "metrics": Metrics, "errors": Errors, "limits": Limits,
	} {
		page, err := of("../..")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if lines := strings.Count(page, "\n"); lines < 40 {
			t.Errorf("%s has %d lines", name, lines)
		}
		if err := Compare("../../docs/reference/"+name+".md", page, *rewrite); err != nil {
			t.Error(err)
		}
	}
}

// TestAmounts: constants as people write them.
func TestAmounts(t *testing.T) {
	page, err := Limits("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| `MaxPayload` | 1 MiB |", "| `MaxBatchTasks` | 10,000 |", "| `MaxWait` | 5m |", "| `MaxKeyWindow` | 366 d |", "| `DefaultLease` | 30s |", "| `MaxLogUpdates` | 131,072 |"} {
		if !strings.Contains(page, want) {
			t.Errorf("without %s", want)
		}
	}
}
