package main

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// repository is where links lead that leave docs.
const repository = "https://github.com/norn-dev/norn/blob/main/"

// section is a directory of the site, in the order of the menu.
type section struct{ dir, title, says string }

func sections() []section {
	return []section{
		{"tutorial", "Learn", "Tutorials: from nothing to a cluster that works."},
		{"how-to", "Do", "How-to guides: one task each."},
		{"how-to/coming-from", "Coming from", "What corresponds to what, and what is different."},
		{"reference", "Look up", "Reference: commands, settings, protocols."},
		{"explanation", "Understand", "Explanation: what is promised, how it works, what it costs."},
		{"contributors", "Contribute", "For those who change Norn."},
		{"contributors/adr", "Decisions", "Why things are as they are."},
		{"archive", "Archive", "How it came to be: bugs, long runs, figures."},
	}
}

var (
	pageLink  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	titleLine = regexp.MustCompile(`(?m)^# (.+)\n`)
)

// content writes the pages below docs as Hugo reads them.
func content(docs, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return fmt.Errorf("content: %w", err)
	}
	for i, s := range sections() {
		text := fmt.Sprintf("+++\ntitle = %q\nweight = %d\n+++\n\n%s\n\n{{%% children %%}}\n", s.title, i+1, s.says)
		if err := write(filepath.Join(to, s.dir, "_index.md"), text); err != nil {
			return err
		}
	}
	err := filepath.WalkDir(docs, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".md") {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(docs, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		target := rel
		if rel == "README.md" {
			target = "_index.md"
		}
		return write(filepath.Join(to, target), page(rel, string(text)))
	})
	if err != nil {
		return fmt.Errorf("content: %w", err)
	}
	return nil
}

// page is a page of docs as Hugo reads it: the title in front, links to pages as they are
// on the site.
func page(rel, text string) string {
	title := strings.TrimSuffix(path.Base(rel), ".md")
	if m := titleLine.FindStringSubmatchIndex(text); m != nil {
		title = text[m[2]:m[3]]
		text = text[:m[0]] + text[m[1]:]
	}
	// What looks like a shortcode of Hugo is text here.
	text = strings.NewReplacer("{{<", "{{</*", "{{%", "{{%/*").Replace(text)
	return fmt.Sprintf("+++\ntitle = %q\n+++\n\n%s", strings.ReplaceAll(title, "`", ""), links(rel, text))
}

// links turns the links of a page into those of the site, but not in code.
func links(rel, text string) string {
	fenced := false
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		switch trimmed := strings.TrimSpace(line); {
		case strings.HasPrefix(trimmed, "```"):
			fenced = !fenced
		case !fenced && !strings.HasPrefix(line, "    "):
			lines[i] = pageLink.ReplaceAllStringFunc(line, func(m string) string { return "](" + link(rel, m[2:len(m)-1]) + ")" })
		}
	}
	return strings.Join(lines, "\n")
}

// link is a link of a page of docs as it is on the site.
func link(rel, to string) string {
	file, anchor, hasAnchor := strings.Cut(to, "#")
	if file == "" || strings.Contains(file, ":") {
		return to
	}
	full := path.Join("docs", path.Dir(rel), file)
	inside, is := strings.CutPrefix(full, "docs/")
	switch {
	case full == "docs":
		file = up(rel) + "index.html"
	case !is:
		return repository + full
	case inside == "README.md":
		file = up(rel) + "index.html"
	case strings.HasSuffix(file, ".md"):
		file = strings.TrimSuffix(file, ".md") + ".html"
	default: // a directory
		file = strings.TrimSuffix(file, "/") + "/index.html"
	}
	if hasAnchor {
		file += "#" + anchor
	}
	return file
}

// up leads from a page to the top of the site.
func up(rel string) string { return strings.Repeat("../", strings.Count(rel, "/")) }

func write(name, text string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("content: %w", err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		return fmt.Errorf("content: %w", err)
	}
	return nil
}
