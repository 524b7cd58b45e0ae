package convert

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Sought is what a filter looks for in payloads, and counts what that costs.
type Sought struct {
	text  []byte
	paths []soughtPath
	Bytes int // of the payloads that were searched
}

type soughtPath struct {
	steps []string
	want  string
}

// NewSought makes that of a checked filter.
func NewSought(f *nornv1.Filter) *Sought {
	s := &Sought{text: []byte(f.GetPayloadContains())}
	for _, path := range slices.Sorted(maps.Keys(f.GetPayloadPaths())) {
		s.paths = append(s.paths, soughtPath{strings.Split(path, "."), f.GetPayloadPaths()[path]})
	}
	return s
}

func checkSought(f *nornv1.Filter) *proto.Error {
	if n := len(f.GetPayloadContains()); n > proto.MaxSoughtBytes {
		return proto.Invalid("payload_contains has %d bytes, over the limit of %d", n, proto.MaxSoughtBytes)
	}
	if n := len(f.GetPayloadPaths()); n > proto.MaxPayloadPaths {
		return proto.Invalid("the filter has %d payload_paths, over the limit of %d", n, proto.MaxPayloadPaths)
	}
	for _, path := range slices.Sorted(maps.Keys(f.GetPayloadPaths())) {
		switch value := f.GetPayloadPaths()[path]; {
		case len(path) > proto.MaxPathBytes, len(value) > proto.MaxSoughtBytes:
			return proto.Invalid("payload_paths: a path of %d bytes with a value of %d bytes is over the limit of %d and %d", len(path), len(value), proto.MaxPathBytes, proto.MaxSoughtBytes)
		case slices.Contains(strings.Split(path, "."), ""):
			return proto.Invalid("payload_paths: %q is no path such as user.id or items.0.sku", path)
		}
	}
	return nil
}

// In tells whether a payload has all that is looked for.
func (s *Sought) In(payload []byte) bool {
	if len(s.text) == 0 && len(s.paths) == 0 {
		return true
	}
	s.Bytes += len(payload)
	if !bytes.Contains(payload, s.text) {
		return false
	}
	// Without escapes a value stands there as it is: most payloads need not be read as JSON.
	plain := bytes.IndexByte(payload, '\\') < 0
	for _, p := range s.paths {
		if plain && !bytes.Contains(payload, []byte(p.want)) {
			return false
		}
		if got, ok := valueAt(payload, p.steps); !ok || got != p.want {
			return false
		}
	}
	return true
}

// valueAt gives the text, the number as it is written, true, false or null at a path of a
// payload; ok is false where there is none, or an object or an array, or no JSON.
func valueAt(payload []byte, steps []string) (text string, ok bool) {
	d := json.NewDecoder(bytes.NewReader(payload))
	d.UseNumber()
	for _, step := range steps {
		t, err := d.Token()
		if err != nil || !enter(d, t, step) {
			return "", false
		}
	}
	t, err := d.Token()
	if err != nil {
		return "", false
	}
	switch v := t.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	case nil:
		return "null", true
	}
	return "", false
}

// enter goes to the member of an object, or the element of an array, that a step names; t is
// the token that the value begins with.
func enter(d *json.Decoder, t json.Token, step string) bool {
	switch t {
	case json.Delim('{'):
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return false
			}
			if name == step {
				return true
			}
			if !pass(d) {
				return false
			}
		}
	case json.Delim('['):
		n, err := strconv.ParseUint(step, 10, 32)
		if err != nil {
			return false
		}
		for ; d.More(); n-- {
			if n == 0 {
				return true
			}
			if !pass(d) {
				return false
			}
		}
	}
	return false
}

// pass goes beyond a value.
func pass(d *json.Decoder) bool {
	for depth := 0; ; {
		t, err := d.Token()
		if err != nil {
			return false
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return true
		}
	}
}
