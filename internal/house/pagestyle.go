package house

import (
	"fmt"
	"strings"
)

// Limits of pages, in runes and lines.
const (
	maxProse     = 120 // a line of prose
	maxRow       = 200 // a row of a table
	maxParagraph = 6   // lines of a paragraph or of an item of a list
	maxPage      = 250 // lines of a page that users read from its beginning
)

// userPages are what people read who use or run Norn.
func userPage(p string) bool {
	for _, dir := range []string{"docs/tutorial", "docs/how-to", "docs/reference", "docs/explanation"} {
		if under(p, dir) && strings.HasSuffix(p, ".md") {
			return true
		}
	}
	return p == "README.md" || p == "docs/README.md"
}

// reference tells pages in which people look up one thing: they may be as long as what they list.
func reference(p string) bool { return under(p, "docs/reference") }

// PageStyle checks how user pages are written.
func PageStyle(t *Tree) []Problem {
	var out []Problem
	for _, f := range t.Files {
		if !userPage(f.Path) || strings.HasPrefix(string(f.Source), "<!-- Made from the source") {
			continue
		}
		out = append(out, styleFaults(f)...)
	}
	return out
}

// styleFaults are the places of a page that are too long.
func styleFaults(f *File) []Problem {
	var out []Problem
	add := func(line int, format string, args ...any) {
		out = append(out, Problem{
			Path: f.Path, Line: line, Rule: "page-style", What: fmt.Sprintf(format, args...),
			Why: "a reader looks for one thing; long lines, long paragraphs and long pages hide it",
			Do:  "one idea a sentence; make a list, a table or a page of its own",
		})
	}
	if n := f.Lines(); n > maxPage && !reference(f.Path) {
		add(0, "a page of %d lines, over %d", n, maxPage)
	}
	paragraph := 0
	proseLines(f, func(n int, line string) {
		text := strings.TrimSpace(line)
		long := len([]rune(line))
		switch {
		case text == "", strings.HasPrefix(text, "#"), strings.HasPrefix(line, "    "), linkTarget(text):
			paragraph = 0
			return
		case strings.HasPrefix(text, "|"):
			if paragraph = 0; long > maxRow {
				add(n, "a row of %d characters, over %d", long, maxRow)
			}
			return
		case strings.HasPrefix(text, "- "), strings.HasPrefix(text, "* "), item(text):
			paragraph = 0
		}
		if long > maxProse {
			add(n, "a line of %d characters, over %d", long, maxProse)
		}
		if paragraph++; paragraph == maxParagraph+1 {
			add(n, "a paragraph of more than %d lines", maxParagraph)
		}
	})
	return out
}

// linkTarget tells whether a line says where a link of the page leads.
func linkTarget(text string) bool {
	return strings.HasPrefix(text, "[") && strings.Contains(text, "]: ")
}

// item tells whether a line begins an item of a numbered list.
func item(text string) bool {
	digits := strings.TrimLeft(text, "0123456789")
	return digits != text && strings.HasPrefix(digits, ". ")
}

// longLines is how many lines of prose over the limit a page has that is not one of users'.
// Each number only goes down.
func longLines() map[string]int { return map[string]int{} }

// ProseLines checks the length of lines in the pages that are not users'.
func ProseLines(t *Tree) []Problem {
	var out []Problem
	for _, f := range t.Files {
		if !strings.HasSuffix(f.Path, ".md") || userPage(f.Path) {
			continue
		}
		var long []int
		proseLines(f, func(n int, line string) {
			text := strings.TrimSpace(line)
			if len([]rune(line)) > maxProse && !strings.HasPrefix(text, "|") && !strings.HasPrefix(line, "    ") && !linkTarget(text) {
				long = append(long, n)
			}
		})
		if limit := longLines()[f.Path]; len(long) > limit {
			out = append(out, Problem{
				Path: f.Path, Line: long[0], Rule: "prose-lines", What: fmt.Sprintf("%d lines of prose over %d characters, at most %d", len(long), maxProse, limit),
				Why: "a change of one word should be one line of a diff, and fit a screen", Do: "break lines at 120 characters",
			})
		}
	}
	return out
}

// maxUserWords is how many words user pages may have together, without blocks of code and
// pages that are made from the source. It only goes down; the goal is 45,000.
const maxUserWords = 45000

// UserWords checks that all that users are to read stays readable.
func UserWords(t *Tree) []Problem {
	words := 0
	for _, f := range t.Files {
		if userPage(f.Path) && !strings.HasPrefix(string(f.Source), "<!-- Made from the source") {
			proseLines(f, func(_ int, line string) { words += len(strings.Fields(line)) })
		}
	}
	if words <= maxUserWords {
		return nil
	}
	return []Problem{{
		Path: "docs/README.md", Rule: "user-words", What: fmt.Sprintf("user pages have %d words, over %d", words, maxUserWords),
		Why: "135,000 words of documentation hid the ones that were needed", Do: "say it shorter, or take out what another page says; what only developers need goes to docs/contributors",
	}}
}
