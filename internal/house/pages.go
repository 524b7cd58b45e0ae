package house

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode"
)

var (
	mdLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mdInline  = regexp.MustCompile("`[^`]*`")
	mdHeading = regexp.MustCompile(`^#{1,6} +(.*?) *#*$`)
	mdText    = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	// docName finds the pages that a comment, a message or another page names.
	docName = regexp.MustCompile(`(?:^|[^\w/.-]|\.\./)(docs/[A-Za-z0-9_/-]+\.md)`)
)

// Pages checks that each link of a page leads to a file of the tree, and its anchor to a
// heading; and that each page that the source names is there.
func Pages(t *Tree) []Problem {
	var out []Problem
	add := func(f *File, line int, format string, args ...any) {
		out = append(out, Problem{
			Path: f.Path, Line: line, Rule: "pages", What: fmt.Sprintf(format, args...),
			Why: "a reader who follows a dead link finds nothing and trusts the rest less",
			Do:  "name the page by its path from the root (docs/README.md lists all), the heading as GitHub spells its anchor",
		})
	}
	for _, f := range t.Files {
		if f.Path == "CHANGELOG.md" || under(f.Path, "internal/house") && f.IsTest() {
			continue // pages of the time of writing; pages that are made up
		}
		if strings.HasSuffix(f.Path, ".md") {
			deadLinks(t, f, add)
		}
		for i, line := range strings.Split(string(f.Source), "\n") {
			for _, m := range docName.FindAllStringSubmatch(line, -1) {
				if !t.Paths[m[1]] {
					add(f, i+1, "there is no page %s", m[1])
				}
			}
		}
	}
	return out
}

// deadLinks reports the links of a page that lead nowhere.
func deadLinks(t *Tree, f *File, add func(*File, int, string, ...any)) {
	proseLines(f, func(n int, line string) {
		for _, m := range mdLink.FindAllStringSubmatch(mdInline.ReplaceAllString(line, "``"), -1) {
			to, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(to, ":") {
				continue // another site
			}
			target := f.Path
			if to != "" {
				target = path.Join(f.Dir(), to)
			}
			switch page := t.File(target); {
			case page == nil && !t.Paths[target] && !t.hasDir(target):
				add(f, n, "the link to %s leads nowhere", m[1])
			case anchor != "" && page != nil && !anchors(page)[anchor]:
				add(f, n, "%s has no heading #%s", target, anchor)
			}
		}
	})
}

// hasDir tells whether there is a file below a directory.
func (t *Tree) hasDir(dir string) bool {
	for p := range t.Paths {
		if under(p, dir) {
			return true
		}
	}
	return false
}

// proseLines calls look with each line of a page outside of fenced blocks, and its number.
func proseLines(f *File, look func(n int, line string)) {
	fenced := false
	for i, line := range strings.Split(string(f.Source), "\n") {
		if fence := strings.TrimSpace(line); strings.HasPrefix(fence, "```") || strings.HasPrefix(fence, "~~~") {
			fenced = !fenced
		} else if !fenced {
			look(i+1, line)
		}
	}
}

// anchors are the anchors of a page's headings, as GitHub makes them.
func anchors(f *File) map[string]bool {
	out := map[string]bool{}
	proseLines(f, func(_ int, line string) {
		m := mdHeading.FindStringSubmatch(line)
		if m == nil {
			return
		}
		base := slug(m[1])
		name := base
		for i := 1; out[name]; i++ {
			name = fmt.Sprintf("%s-%d", base, i)
		}
		out[name] = true
	})
	return out
}

// slug is a heading as an anchor.
func slug(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(mdText.ReplaceAllString(heading, "$1")) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			b.WriteRune(r)
		}
	}
	return b.String()
}

// PageCode checks that each block of Go on a page stands in a Go file below examples or
// client, where a compiler and a test meet it; blanks at both ends and alignment do not count.
func PageCode(t *Tree) []Problem {
	var out []Problem
	code := []string{}
	for _, f := range t.Go(true) {
		if under(f.Path, "examples") || under(f.Path, "client") {
			code = append(code, squeezed(string(f.Source)))
		}
	}
	for _, f := range t.Files {
		if !userPage(f.Path) {
			continue
		}
		for _, b := range goBlocks(f) {
			block, found := squeezed(b.text), false
			for _, c := range code {
				found = found || strings.Contains(c, block)
			}
			if !found {
				out = append(out, Problem{
					Path: f.Path, Line: b.line, Rule: "page-code", What: "this Go code is in no file that a test compiles",
					Why: "code on a page that nothing compiles is wrong after a while, and readers copy it",
					Do:  "write it into examples/pages (or another Go file below examples or client), run it in a test, and copy it",
				})
			}
		}
	}
	return out
}

type block struct {
	line int
	text string
}

// goBlocks are the fenced blocks of Go of a page.
func goBlocks(f *File) (out []block) {
	var lines []string
	in, from := false, 0
	for i, line := range strings.Split(string(f.Source), "\n") {
		switch text := strings.TrimSpace(line); {
		case !in && text == "```go":
			in, from, lines = true, i+1, nil
		case in && text == "```":
			in, out = false, append(out, block{from, strings.Join(lines, "\n")})
		case in:
			lines = append(lines, line)
		}
	}
	return out
}

// squeezed is code without what gofmt decides: blanks, and lines without anything.
func squeezed(code string) string {
	var out []string
	for line := range strings.Lines(code) {
		if words := strings.Fields(line); len(words) > 0 {
			out = append(out, strings.Join(words, " "))
		}
	}
	return strings.Join(out, "\n")
}

// PageTests checks that each test that a page names, outside of the archive, is there.
func PageTests(t *Tree) []Problem {
	var out []Problem
	known := newEvidence(t)
	for _, f := range t.Files {
		if !userPage(f.Path) {
			continue
		}
		proseLines(f, func(n int, line string) {
			for _, m := range quoted.FindAllStringSubmatch(line, -1) {
				if testName.MatchString(m[1]) && !known.exists(m[1]) {
					out = append(out, Problem{
						Path: f.Path, Line: n, Rule: "page-tests", What: "there is no test " + m[1],
						Why: "a promise is as good as the test that holds it", Do: "name the test that holds it now, or take the promise back",
					})
				}
			}
		})
	}
	return out
}
