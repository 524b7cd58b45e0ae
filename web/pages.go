package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

// files are the dashboard: a page, its style and its modules, which run in the
// browser and ask the API for everything they show. Nothing is built; what others
// wrote is in vendor.
//
//go:embed pages
var files embed.FS

// policy keeps the pages to what this port serves: a payload that looks like HTML
// can make the browser neither run nor fetch anything, and no other site can put
// the pages in a frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// page is a file as it is served.
type page struct {
	kind, tag string // Content-Type, ETag
	body      []byte
}

// kinds are the types of the files by their extension. They do not come from the
// machine, whose table of types may say something else.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// readPages gives the files by their path on the port.
func readPages() map[string]*page {
	pages := make(map[string]*page)
	err := fs.WalkDir(files, "pages", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		kind, ok := kinds[path.Ext(name)]
		if !ok {
			return fmt.Errorf("%s has no type", name)
		}
		sum := sha256.Sum256(body)
		pages["/"+name] = &page{kind: kind, tag: `"` + hex.EncodeToString(sum[:8]) + `"`, body: body}
		return nil
	})
	if err != nil {
		panic(err) // the files are part of the program
	}
	pages["/"] = pages["/pages/index.html"]
	delete(pages, "/pages/index.html")
	return pages
}

// servePages serves the dashboard at / and its files below /pages/. They are the
// same for everybody and say nothing of the node, so that they need no token: the
// page asks for it, and sends it with what it asks of the API.
func (a *api) servePages(mux *paths) {
	for at, p := range readPages() {
		pattern := "GET " + at
		if at == "/" {
			pattern = "GET /{$}"
		}
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			deadline(w, a.o.WriteTimeout)
			if a.guard.wantTLS && r.TLS == nil {
				servePlain(w)
				return
			}
			p.serve(w, r)
		})
	}
}

// plainPage is there where TLS is due and not spoken. Only the browser knows whether it is what
// does not speak it, or a proxy on its way: to send it to https:// in any case has no end.
const (
	plainPage = "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Norn</title>\n" +
		"<p>This node has a certificate, and its dashboard and API are served over TLS alone: ask for https:// on this port.</p>\n" +
		"<p>If you did, a proxy in front of this node speaks plain HTTP to it: let it speak https:// to this port (nginx: proxy_pass https://…).</p>\n" +
		"<script>" + plainScript + "</script>\n"
	plainScript = `if (location.protocol === "http:") location.protocol = "https:";`
)

func servePlain(w http.ResponseWriter) {
	sum := sha256.Sum256([]byte(plainScript))
	h := w.Header()
	h.Set("Content-Type", kinds[".html"])
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusForbidden)
	_, _ = io.WriteString(w, plainPage) // else the client is gone
}

func (p *page) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", p.kind)
	h.Set("ETag", p.tag)
	h.Set("Cache-Control", "no-cache") // asked again each time: after an upgrade all files are of one version
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	http.ServeContent(w, r, strings.TrimPrefix(p.tag, `"`), time.Time{}, bytes.NewReader(p.body))
}
