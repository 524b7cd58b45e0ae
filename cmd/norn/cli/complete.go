package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// CompletionTime is how long a shell waits for names from the server: nobody
// waits longer for a Tab.
const CompletionTime = 700 * time.Millisecond

// Completion offers words for what was typed.
type Completion = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective)

// CompleteWords offers some words, several with commas between them.
func CompleteWords(words ...string) Completion {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return LastOf(words, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// LastOf gives the words that complete what follows the last comma.
func LastOf(words []string, typed string) []string {
	head := ""
	if i := strings.LastIndexByte(typed, ','); i >= 0 {
		head, typed = typed[:i+1], typed[i+1:]
	}
	var out []string
	for _, w := range words {
		if strings.HasPrefix(w, typed) {
			out = append(out, head+w)
		}
	}
	return out
}
