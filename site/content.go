package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
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

// entry is a page in the menu.
type entry struct {
	Title string `json:"title"`
	URL   string `json:"url"`
}

// group is a section with its pages in the menu.
type group struct {
	Dir   string  `json:"dir"`
	Title string  `json:"title"`
	Pages []entry `json:"pages"`
}

// content writes the pages below docs as Eleventy reads them, the menu, and what the search
// looks through.
func content(docs, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return fmt.Errorf("content: %w", err)
	}
	texts := map[string]string{}
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
		texts[filepath.ToSlash(rel)] = string(text)
		return nil
	})
	if err != nil {
		return fmt.Errorf("content: %w", err)
	}
	menu, search := []group{}, []found{}
	for _, s := range sections() {
		g := group{Dir: s.dir, Title: s.title}
		list := "# " + s.title + "\n\n" + s.says + "\n\n"
		for _, rel := range slices.Sorted(maps.Keys(texts)) {
			if path.Dir(rel) == s.dir {
				e := entry{title(rel, texts[rel]), strings.TrimSuffix(rel, ".md") + ".html"}
				g.Pages = append(g.Pages, e)
				list += fmt.Sprintf("- [%s](%s)\n", e.Title, path.Base(rel))
			}
		}
		if len(g.Pages) == 0 {
			return fmt.Errorf("content: there is no page in %s", s.dir)
		}
		menu = append(menu, g)
		texts[s.dir+"/index.md"] = list
	}
	for _, rel := range slices.Sorted(maps.Keys(texts)) {
		target := rel
		if rel == "README.md" {
			target = "index.md"
		}
		if err := write(filepath.Join(to, target), page(rel, texts[rel])); err != nil {
			return err
		}
		if !strings.HasPrefix(rel, "archive/") && path.Base(rel) != "index.md" {
			search = append(search, parts(rel, texts[rel])...)
		}
	}
	for i := range search {
		search[i].ID = i
	}
	nav, err := json.Marshal(menu)
	if err != nil {
		return fmt.Errorf("content: %w", err)
	}
	pages, err := json.Marshal(search)
	if err != nil {
		return fmt.Errorf("content: %w", err)
	}
	if err := write(filepath.Join(to, "_data/nav.json"), string(nav)); err != nil {
		return err
	}
	return write(filepath.Join(to, "search.js"), "window.nornPages = "+string(pages)+";\n")
}

// title is that of a page.
func title(rel, text string) string {
	if m := titleLine.FindStringSubmatch(text); m != nil {
		return strings.ReplaceAll(m[1], "`", "")
	}
	return strings.TrimSuffix(path.Base(rel), ".md")
}

// page is a page of docs as Eleventy reads it: its title in front, links to pages as they
// are on the site.
func page(rel, text string) string {
	target := strings.TrimSuffix(rel, ".md") + ".html"
	if rel == "README.md" {
		target = "index.html"
	}
	body := text
	if m := titleLine.FindStringIndex(text); m != nil {
		body = text[:m[0]] + text[m[1]:]
	}
	return fmt.Sprintf("---\ntitle: %q\nlayout: page.njk\npermalink: %q\nroot: %q\nself: %q\nsection: %q\n---\n\n%s",
		title(rel, text), target, up(rel), target, path.Dir(rel), links(rel, body))
}

// found is a part of a page, from a heading to the next, as the search knows it.
type found struct {
	ID      int    `json:"id"`
	Title   string `json:"title"`
	Heading string `json:"heading"`
	URL     string `json:"url"`
	Text    string `json:"text"`
}

var (
	heading = regexp.MustCompile(`(?m)^#{2,3} (.+)$`)
	linked  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// parts are the parts of a page.
func parts(rel, text string) []found {
	url := strings.TrimSuffix(rel, ".md") + ".html"
	if rel == "README.md" {
		url = "index.html"
	}
	of := title(rel, text)
	at, name, anchor := 0, "", ""
	var out []found
	add := func(to int) {
		said := strings.Join(strings.Fields(linked.ReplaceAllString(text[at:to], "$1")), " ")
		out = append(out, found{Title: of, Heading: name, URL: url + anchor, Text: said})
	}
	for _, m := range heading.FindAllStringSubmatchIndex(text, -1) {
		if strings.Count(text[:m[0]], "\n```")%2 == 1 {
			continue // in a block of code
		}
		add(m[0])
		name = strings.ReplaceAll(linked.ReplaceAllString(text[m[2]:m[3]], "$1"), "`", "")
		at, anchor = m[1], "#"+slug(name)
	}
	add(len(text))
	return out
}

// slug is a heading's anchor, as GitHub makes it.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
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
	case strings.HasSuffix(file, ".png"): // stands where it stood: see eleventy.config.mjs
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
