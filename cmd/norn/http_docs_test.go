package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestHTTPExamples sends the requests of docs/reference/http.md, in their order, to a server
// of its own, and compares the answers with what stands there. Each route has an
// example, and stands in the table.
func TestHTTPExamples(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/http.md")
	if err != nil {
		t.Fatal(err)
	}
	own := ownServer(t, filepath.Join(t.TempDir(), "data"))
	shown := make(map[string]bool)
	values := make(map[string]string)
	for _, block := range regexp.MustCompile("(?s)```http\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		request, answer, _ := strings.Cut(block[1], "\n\n")
		for name, value := range values {
			request = strings.ReplaceAll(request, "<"+name+">", value)
		}
		line, body, _ := strings.Cut(request, "\n")
		verb, path, _ := strings.Cut(line, " ")
		status, form, _ := strings.Cut(answer, "\n")
		var want any
		if err := json.Unmarshal([]byte(form), &want); err != nil {
			t.Fatalf("%s: the answer in the documentation: %v", line, err)
		}
		got := askOf(t, own.http, verb, path, body)
		if why := alike(want, got.body, values); why != "" || fmt.Sprint(got.code) != status {
			t.Fatalf("%s %s: %d %s\nthe documentation has %s %s: %s", line, body, got.code, got.raw, status, form, why)
		}
		path, _, _ = strings.Cut(path, "?")
		shown[verb+" "+described(t).route(path)] = true
	}
	for path, verbs := range described(t).paths {
		for verb, operation := range verbs {
			route := strings.ToUpper(verb) + " " + path
			if !shown[route] {
				t.Errorf("%s has no example", route)
			}
			says, _ := operation.(map[string]any)["summary"].(string)
			if !regexp.MustCompile("(?m)^" + regexp.QuoteMeta("| "+route+" | ") + "[^|]* " + regexp.QuoteMeta("| "+says+" |") + "$").MatchString(string(text)) {
				t.Errorf("%s is not in the table with %q", route, says)
			}
		}
	}
}

// alike says in what got differs from want, in which names may be missing and … is
// any value. A value in angle brackets is kept under its name, or is the one that
// is kept.
func alike(want, got any, values map[string]string) string {
	switch want := want.(type) {
	case map[string]any:
		m, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%v is no object", got)
		}
		for name, v := range want {
			if _, there := m[name]; !there {
				return "there is no " + name
			}
			if why := alike(v, m[name], values); why != "" {
				return name + ": " + why
			}
		}
		return ""
	case []any:
		l, ok := got.([]any)
		if !ok || len(l) != len(want) {
			return fmt.Sprintf("%v has not %d items", got, len(want))
		}
		for i := range want {
			if why := alike(want[i], l[i], values); why != "" {
				return why
			}
		}
		return ""
	case string:
		text, ok := got.(string)
		if want == "…" && ok && text != "" {
			return ""
		}
		if name, placeholder := strings.CutPrefix(want, "<"); placeholder && ok && text != "" {
			name = strings.TrimSuffix(name, ">")
			if values[name] == "" {
				values[name] = text
			}
			want = values[name]
		}
		if want == got {
			return ""
		}
	default:
		if want == got {
			return ""
		}
	}
	return fmt.Sprintf("%v is not %v", got, want)
}
