package web

import (
	"crypto/tls"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/norn-dev/norn/node/access"
)

func ask(t *testing.T, h http.Handler, method, at string, head ...string) *http.Response {
	t.Helper()
	r := localRequest(method, at, nil)
	for i := 0; i < len(head); i += 2 {
		r.Header.Set(head[i], head[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func TestPages(t *testing.T) {
	h := NewServer(&backend{registry: prometheus.NewRegistry()}, Options{}).Handler
	all := slices.Sorted(maps.Keys(readPages()))
	if len(all) < 15 || !slices.Contains(all, "/") || !slices.Contains(all, "/pages/vendor/preact.js") {
		t.Fatalf("the pages are %v", all)
	}
	for _, at := range all {
		r := ask(t, h, "GET", at)
		kind := kinds[path.Ext(at)]
		if at == "/" {
			kind = kinds[".html"]
		}
		if r.StatusCode != 200 || r.Header.Get("Content-Type") != kind || r.ContentLength == 0 {
			t.Errorf("%s: %d, %q", at, r.StatusCode, r.Header.Get("Content-Type"))
		}
		if r.Header.Get("Content-Security-Policy") != policy || r.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s may do what it likes: %v", at, r.Header)
		}
		if again := ask(t, h, "GET", at, "If-None-Match", r.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
			t.Errorf("%s is sent again though it is known: %d", at, again.StatusCode)
		}
		if head := ask(t, h, "HEAD", at); head.StatusCode != 200 {
			t.Errorf("HEAD %s: %d", at, head.StatusCode)
		}
		if post := ask(t, h, "POST", at); post.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", at, post.StatusCode)
		}
	}
	for _, at := range []string{"/pages/", "/pages", "/pages/index.html", "/pages/vendor/", "/pages/../web.go", "/index.html"} {
		if r := ask(t, h, "GET", at); r.StatusCode == 200 {
			t.Errorf("%s is served", at)
		}
	}
}

// The pages are the same for everybody: they ask for the token themselves. Where there is
// a certificate they are served over TLS only, so that the token is never typed into a
// page that came in plain.
func TestPagesNeedNoTokenButTLS(t *testing.T) {
	b := &backend{registry: prometheus.NewRegistry()}
	h := NewServer(b, Options{Access: access.Of("secret")}).Handler
	if r := ask(t, h, "GET", "/"); r.StatusCode != 200 {
		t.Errorf("the page wants a token: %d", r.StatusCode)
	}
	if r := ask(t, h, "GET", "/api/v1/ping"); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("the API wants none: %d", r.StatusCode)
	}
	h = NewServer(b, Options{TLS: &tls.Config{}, Hosts: []string{"node.lan"}}).Handler
	for _, at := range []string{"/", "/?x", "/pages/app.js"} {
		r := ask(t, h, "GET", "http://node.lan:7713"+at)
		body, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusForbidden || r.Header.Get("Location") != "" || !strings.Contains(string(body), "let it speak https://") {
			t.Errorf("%s in plain: %d, to %q, %s", at, r.StatusCode, r.Header.Get("Location"), body)
		}
	}
	if r := ask(t, h, "GET", "https://node.lan:7713/"); r.StatusCode != 200 {
		t.Errorf("over TLS: %d", r.StatusCode)
	}
}

// own gives the files that are not others', by name.
func own(t *testing.T) map[string]string {
	t.Helper()
	out := make(map[string]string)
	err := fs.WalkDir(files, "pages", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(name, "/vendor/") {
			return err
		}
		body, err := files.ReadFile(name)
		out[strings.TrimPrefix(name, "pages/")] = string(body)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What a page loads is served, and what is served is loaded.
func TestPagesLoadWhatIsServed(t *testing.T) {
	loaded := map[string]bool{"/": true, "/pages/vendor/LICENSES.txt": true}
	imports := regexp.MustCompile(`from "\./([^"]+)"`)
	links := regexp.MustCompile(`(?:src|href)="(pages/[^"]+)"`)
	absolute := regexp.MustCompile(`(?:src|href)="/|fetch\(["'\x60]/|url\(/`) // a proxy may serve the pages below a path
	within := regexp.MustCompile(`from *"\./([^"]+)"`)                        // of vendor files
	pages := readPages()
	for name, body := range own(t) {
		for _, m := range imports.FindAllStringSubmatch(body, -1) {
			loaded["/pages/"+m[1]] = true
		}
		for _, m := range links.FindAllStringSubmatch(body, -1) {
			loaded["/"+m[1]] = true
		}
		if m := absolute.FindString(body); m != "" {
			t.Errorf("%s has an address that is not below that of the page: %s", name, m)
		}
		for _, no := range []string{"innerHTML", "dangerouslySet", "eval(", "document.write", "javascript:"} {
			if strings.Contains(body, no) {
				t.Errorf("%s has %s", name, no)
			}
		}
	}
	for _, m := range within.FindAllStringSubmatch(string(pages["/pages/vendor/hooks.js"].body), -1) {
		loaded["/pages/vendor/"+m[1]] = true
	}
	for at := range loaded {
		if pages[at] == nil {
			t.Errorf("%s is not served", at)
		}
	}
	for at := range pages {
		if !loaded[at] {
			t.Errorf("nothing loads %s", at)
		}
	}
	index := own(t)["index.html"]
	if regexp.MustCompile(`<script[^>]*>[^<]|<style| on[a-z]+=| style=`).MatchString(index) {
		t.Errorf("the page has script or style of its own, which its policy forbids:\n%s", index)
	}
}

// The pages ask the API for nothing that it does not have.
func TestPagesAskWhatThereIs(t *testing.T) {
	known := make(map[string]bool)
	for _, rt := range routes() {
		known[rt.verb+" "+rt.path] = true
	}
	call := regexp.MustCompile("\\b(get|post|patch|remove)\\([`\"](/api/v1/[^`\"]*)[`\"]")
	path := regexp.MustCompile("[`\"](/api/v1/[^`\"?]*)[`\"]")
	asked := make(map[string]bool)
	for name, body := range own(t) {
		for _, m := range call.FindAllStringSubmatch(body, -1) {
			verb := strings.Replace(strings.ToUpper(m[1]), "REMOVE", http.MethodDelete, 1)
			is := verb + " " + variable0.ReplaceAllString(m[2], variable)
			asked[is] = true
			if !known[is] {
				t.Errorf("%s asks for %s", name, is)
			}
		}
		for _, m := range path.FindAllStringSubmatch(body, -1) {
			at := variable0.ReplaceAllString(m[1], variable)
			if !known["GET "+at] && !known["POST "+at] && !known["PATCH "+at] {
				t.Errorf("%s names %s, which there is not", name, at)
			}
		}
	}
	if len(asked) < 12 {
		t.Errorf("only %d requests were found: %v", len(asked), slices.Sorted(maps.Keys(asked)))
	}
}

// A resumption catches up with nothing (docs/how-to/schedules.md), and the question says so.
func TestPagesSayWhatAResumptionSkips(t *testing.T) {
	ask := regexp.MustCompile(`label="resume" ask=\$\{html` + "`([^`]*)`").FindStringSubmatch(own(t)["schedules.js"])
	if ask == nil || strings.Contains(ask[1], "catch") || !strings.Contains(ask[1], "is skipped") {
		t.Errorf("the question is %q", ask)
	}
}

// Times are shown of a schedule that has made all its launches, too, and none of them has one.
func TestPagesSayThatAScheduleHasEnded(t *testing.T) {
	if !strings.Contains(own(t)["schedules.js"], "${s.ended && html`<p class=\"quiet\">It has ended: nothing of this is launched.</p>`}") {
		t.Error("the next times are shown as if they were launched")
	}
}

// variable0 is a value that is put into a path of the pages.
var variable0 = regexp.MustCompile(`\$\{[^}]*\}`)

// The versions of what others wrote are those that the Makefile fetches.
func TestVendoredVersions(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	licences := string(readPages()["/pages/vendor/LICENSES.txt"].body)
	for _, name := range []string{"preact", "htm", "uplot", "dagre"} {
		m := regexp.MustCompile(strings.ToUpper(name) + `\s*:= (\S+)`).FindSubmatch(makefile)
		if m == nil || !strings.Contains(licences, fmt.Sprintf("\n== %s %s\n", name, m[1])) {
			t.Errorf("the Makefile fetches %s %s, which LICENSES.txt does not name", name, m)
		}
	}
}
