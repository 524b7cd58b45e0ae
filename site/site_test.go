package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLinksOfThePages(t *testing.T) {
	for _, c := range []struct{ rel, to, want string }{
		{"how-to/a.md", "b.md", "b.html"},
		{"how-to/a.md", "../reference/b.md#c", "../reference/b.html#c"},
		{"how-to/a.md", "#c", "#c"},
		{"how-to/a.md", "../README.md", "../index.html"},
		{"README.md", "archive/", "archive/index.html"},
		{"how-to/a.md", "../images/b.png", "../images/b.png"},
		{"README.md", "../CONTRIBUTING.md", repository + "CONTRIBUTING.md"},
		{"how-to/a.md", "../../examples/x.yml", repository + "examples/x.yml"},
		{"how-to/a.md", "https://example.org/b.md", "https://example.org/b.md"},
	} {
		if got := link(c.rel, c.to); got != c.want {
			t.Errorf("%s: %s becomes %s, want %s", c.rel, c.to, got, c.want)
		}
	}
	got := page("how-to/a.md", "# A `b`\n\n[x](b.md)\n\n    [y](b.md)\n")
	if want := "---\ntitle: \"A b\"\nlayout: page.njk\npermalink: \"how-to/a.html\"\nroot: \"../\"\nself: \"how-to/a.html\"\nsection: \"how-to\"\n---\n\n\n[x](b.html)\n\n    [y](b.md)\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestDeadLinksAreFound(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"index.html":   `<a href="a/b.html#x">1</a><a href="a/b.html#y">2</a><a href="/a/b.html">3</a><a href="https://x.y">4</a>`,
		"a/b.html":     `<h2 id="x">X</h2><a href="../index.html">1</a><img src="c.png"><a href="#top">2</a>`,
		"a/index.html": ``,
	} {
		if err := write(filepath.Join(dir, name), text); err != nil {
			t.Fatal(err)
		}
	}
	found, pages, err := deadLinks(dir)
	if err != nil || pages != 3 {
		t.Fatal(pages, err)
	}
	want := "a/b.html: c.png: there is no a/c.png\nindex.html: /a/b.html: does not work from a file\nindex.html: a/b.html#y: there is no #y"
	if got := strings.Join(found, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestContent writes the pages that there are.
func TestContent(t *testing.T) {
	dir := t.TempDir()
	if err := content("../docs", dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "how-to/go.md"))
	if err != nil || !strings.Contains(string(text), "](workers.html)") || !strings.HasPrefix(string(text), "---\ntitle: \"Enqueue and work from Go\"\n") {
		t.Errorf("%v: %.200s", err, text)
	}
	found := parts("how-to/a.md", "# A\nx\n## B c\n[y](z)\n```\n## no\n```\n")
	if len(found) != 2 || found[1].URL != "how-to/a.html#b-c" || found[1].Title != "A" || found[1].Text != "y ``` ## no ```" {
		t.Errorf("%+v", found)
	}
}
