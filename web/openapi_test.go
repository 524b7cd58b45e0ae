package web

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// members calls visit for each member of each object in a JSON text, with the names that
// lead there, and fails where a name is there twice: a decoder would take the last.
func members(t *testing.T, text []byte, visit func(path []string)) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	var value func(path []string)
	value = func(path []string) {
		token, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		switch token {
		case json.Delim('{'):
			seen := make(map[string]bool)
			for d.More() {
				name, _ := d.Token()
				at := append(slices.Clone(path), name.(string))
				if seen[name.(string)] {
					t.Errorf("%s is there twice", strings.Join(at, "/"))
				}
				seen[name.(string)] = true
				visit(at)
				value(at)
			}
			_, _ = d.Token()
		case json.Delim('['):
			for d.More() {
				value(append(slices.Clone(path), "*"))
			}
			_, _ = d.Token()
		}
	}
	value(nil)
}

type description struct {
	Openapi string
	Paths   map[string]map[string]struct {
		OperationID, Description, Summary string
		Parameters                        []struct{ Name, Description string }
		Responses                         map[string]any
	}
	Components struct {
		Responses map[string]any
		Schemas   map[string]struct {
			Description string
			Properties  map[string]struct{ Description string }
		}
	}
}

// TestOpenAPIHoldsTogether resolves every reference. A schema was there under a name that a
// message has, too, so that no generator of clients took the document.
func TestOpenAPIHoldsTogether(t *testing.T) {
	var d description
	b := openAPI(routes())
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	members(t, b, func([]string) {})
	operations := make(map[string]bool)
	for _, rt := range routes() {
		id := d.Paths[rt.path][strings.ToLower(rt.verb)].OperationID
		if id == "" || operations[id] {
			t.Errorf("%s %s: operation %q", rt.verb, rt.path, id)
		}
		operations[id] = true
	}
	for _, kind := range []string{"schemas", "responses"} {
		for _, part := range strings.Split(string(b), `"$ref": "#/components/`+kind+`/`)[1:] {
			name, _, _ := strings.Cut(part, `"`)
			if _, schema := d.Components.Schemas[name]; !schema && d.Components.Responses[name] == nil {
				t.Errorf("nothing describes %s", name)
			}
		}
	}
	if said := d.Paths["/api/v1/tasks"]["get"].Description; !strings.Contains(said, "filter.headers.NAME") {
		t.Errorf("the parameters by header are not described: %q", said)
	}
	if !strings.HasPrefix(d.Openapi, "3.1") || len(operations) != len(routes()) {
		t.Errorf("version %s with %d operations", d.Openapi, len(operations))
	}
}

// TestOpenAPISaysWhatEverythingIs: each operation, field and parameter has words of its own,
// and each operation says with which statuses it fails.
func TestOpenAPISaysWhatEverythingIs(t *testing.T) {
	var d description
	if err := json.Unmarshal(openAPI(routes()), &d); err != nil {
		t.Fatal(err)
	}
	for path, verbs := range d.Paths {
		for verb, o := range verbs {
			for _, p := range o.Parameters {
				if p.Description == "" {
					t.Errorf("%s %s: nothing says what %s is", verb, path, p.Name)
				}
			}
			want := []int{400, 401, 403, 429, 500, 503, 504}
			if verb != "get" {
				want = append(want, 404, 408, 409, 413, 415, 507)
			}
			for _, status := range want {
				if o.Responses[strconv.Itoa(status)] == nil || http.StatusText(status) == "" {
					t.Errorf("%s %s: it can fail with %d", verb, path, status)
				}
			}
			if o.Summary == "" || o.Responses["default"] == nil || o.Responses["200"] == nil {
				t.Errorf("%s %s: %+v", verb, path, o)
			}
		}
	}
	for name, s := range d.Components.Schemas {
		if s.Description == "" {
			t.Errorf("nothing says what a %s is", name)
		}
		for field, p := range s.Properties {
			if p.Description == "" {
				t.Errorf("nothing says what %s.%s is", name, field)
			}
		}
	}
}
