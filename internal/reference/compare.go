package reference

import (
	"fmt"
	"os"
)

// Compare tells whether a file of the tree is this page; with rewrite it becomes it.
func Compare(file, page string, rewrite bool) error {
	if rewrite {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			return fmt.Errorf("reference: %w", err)
		}
		return nil
	}
	there, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reference: %w; `make reference` writes it", err)
	}
	if string(there) != page {
		return fmt.Errorf("reference: %s is not what the source says now; run `make reference` and look at the difference", file)
	}
	return nil
}
