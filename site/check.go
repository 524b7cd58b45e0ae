package main

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// leads are what a page of the site has: names that anchors may lead to, and links.
type leads struct {
	ids   map[string]bool
	links []string
}

// deadLinks looks at all pages of a finished site.
func deadLinks(dir string) (found []string, pages int, err error) {
	all, files := map[string]leads{}, map[string]bool{}
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		files[rel] = true
		if strings.HasSuffix(rel, ".html") {
			all[rel], err = read(name)
		}
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("check: %w", err)
	}
	for at, p := range all {
		for _, l := range p.links {
			if why := dead(at, l, all, files); why != "" {
				found = append(found, fmt.Sprintf("%s: %s: %s", at, l, why))
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found), len(all), nil
}

// dead says why a link leads nowhere; "": it does not.
func dead(at, link string, all map[string]leads, files map[string]bool) string {
	u, err := url.Parse(link)
	switch {
	case err != nil:
		return err.Error()
	case u.Scheme != "" || u.Host != "":
		return "" // another site
	case strings.HasPrefix(u.Path, "/"):
		return "does not work from a file"
	}
	to := at
	if u.Path != "" {
		to = path.Join(path.Dir(at), u.Path)
	}
	if !files[to] {
		return "there is no " + to
	}
	if p, is := all[to]; is && u.Fragment != "" && !p.ids[u.Fragment] {
		return "there is no #" + u.Fragment
	}
	return ""
}

// read finds the names and links of a page.
func read(name string) (leads, error) {
	f, err := os.Open(name)
	if err != nil {
		return leads{}, err
	}
	defer func() { _ = f.Close() }()
	doc, err := html.Parse(f)
	if err != nil {
		return leads{}, err
	}
	p := leads{ids: map[string]bool{"": true, "top": true}}
	for n := range doc.Descendants() {
		for _, a := range n.Attr {
			switch {
			case a.Key == "id", a.Key == "name" && n.Data == "a":
				p.ids[a.Val] = true
			case a.Key == "href" && n.Data != "base", a.Key == "src":
				p.links = append(p.links, a.Val)
			}
		}
	}
	return p, nil
}
