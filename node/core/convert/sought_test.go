package convert

import (
	"strings"
	"testing"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestSoughtInPayloads: text wherever it is, and values of JSON by their paths, whatever else a
// payload has.
func TestSoughtInPayloads(t *testing.T) {
	const order = `{"user": {"id": 7, "name": "A\u0064a", "vip": true}, "items": [{"sku": "a.1"}, {"sku": "b"}], "note": null, "user2": {"id": "7"}, "": 1, "price": 7.0}`
	paths := func(path, value string) *nornv1.Filter {
		return &nornv1.Filter{PayloadPaths: map[string]string{path: value}}
	}
	for _, c := range []struct {
		payload string
		f       *nornv1.Filter
		want    bool
	}{
		{order, nil, true},
		{"\xff\x00needle", &nornv1.Filter{PayloadContains: "needle"}, true},
		{"Needle", &nornv1.Filter{PayloadContains: "needle"}, false},
		{order, paths("user.id", "7"), true},
		{order, paths("user2.id", "7"), true},
		{order, paths("user.id", "07"), false},
		{order, paths("user.name", "Ada"), true}, // though it is written with an escape
		{order, paths("user.vip", "true"), true},
		{order, paths("items.1.sku", "b"), true},
		{order, paths("items.0.sku", "a.1"), true},
		{order, paths("items.2.sku", "b"), false},
		{order, paths("items.-1.sku", "b"), false},
		{order, paths("items.sku", "b"), false},
		{order, paths("note", "null"), true},
		{order, paths("price", "7.0"), true},
		{order, paths("price", "7"), false},
		{order, paths("user", "7"), false}, // an object
		{order, paths("user.id.more", "7"), false},
		{order, &nornv1.Filter{PayloadContains: "sku", PayloadPaths: map[string]string{"user.id": "7", "items.1.sku": "b"}}, true},
		{order, &nornv1.Filter{PayloadPaths: map[string]string{"user.id": "7", "items.1.sku": "c"}}, false},
		{`[1, [2, 3]]`, paths("1.0", "2"), true},
		{`"7"`, paths("0", "7"), false},
		{`{"a": `, paths("a", ""), false},
		{``, paths("a", ""), false},
		{`{"a": ""}`, paths("a", ""), true},
		{strings.Repeat("[", 100_000), paths("0", "x"), false},
		{`{"b": ` + strings.Repeat("[", 100_000) + `, "a": 1}`, paths("a", "1"), false},
		{"\xff{", paths("a", "\xff"), false},
	} {
		if got := NewSought(c.f).In([]byte(c.payload)); got != c.want {
			t.Errorf("%.200s: %v: %v", c.payload, c.f, got)
		}
	}
}

// TestWhatIsSoughtIsBounded, and a search counts the bytes that it costs.
func TestWhatIsSoughtIsBounded(t *testing.T) {
	many := map[string]string{}
	for i := range proto.MaxPayloadPaths + 1 {
		many[strings.Repeat("a", i+1)] = "x"
	}
	for _, f := range []*nornv1.Filter{
		{PayloadContains: strings.Repeat("a", proto.MaxSoughtBytes+1)},
		{PayloadPaths: many},
		{PayloadPaths: map[string]string{"": "x"}},
		{PayloadPaths: map[string]string{"a..b": "x"}},
		{PayloadPaths: map[string]string{strings.Repeat("a", proto.MaxPathBytes+1): "x"}},
		{PayloadPaths: map[string]string{"a": strings.Repeat("x", proto.MaxSoughtBytes+1)}},
	} {
		if CheckFilter(f) == nil {
			t.Errorf("%.200v is taken", f)
		}
	}
	s := NewSought(&nornv1.Filter{PayloadContains: "x"})
	s.In(make([]byte, 100))
	s.In(make([]byte, 10))
	if s.Bytes != 110 {
		t.Errorf("%d bytes", s.Bytes)
	}
}

func FuzzSought(f *testing.F) {
	f.Add([]byte(`{"a": [1, {"b": "c"}]}`), "a.1.b", "c")
	f.Add([]byte(`[[`), "0", "")
	f.Fuzz(func(t *testing.T, payload []byte, path, value string) {
		s := NewSought(&nornv1.Filter{PayloadPaths: map[string]string{path: value}})
		s.In(payload)
	})
}
