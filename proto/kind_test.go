package proto

import (
	"slices"
	"strings"
	"testing"

	protobuf "google.golang.org/protobuf/proto"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestKindAndTagsAreBounded: what a terminal, a page or a metric shows of them is text.
func TestKindAndTagsAreBounded(t *testing.T) {
	many := make([]string, MaxTags+1)
	for i := range many {
		many[i] = strings.Repeat("t", i+1)
	}
	for _, c := range []struct {
		kind string
		tags []string
		ok   bool
	}{
		{"", nil, true},
		{"send-welcome", []string{"vip", "eu"}, true},
		{`App\Jobs\Émail <b>"`, []string{"a, b", "=x"}, true},
		{strings.Repeat("k", MaxKindBytes), many[:MaxTags], true},
		{strings.Repeat("k", MaxKindBytes+1), nil, false},
		{"a\nb", nil, false},
		{"a\x1b[2J", nil, false},
		{"\xff", nil, false},
		{"", many, false},
		{"", []string{""}, false},
		{"", []string{"a", "b", "a"}, false},
		{"", []string{"\x07"}, false},
		{"", []string{strings.Repeat("t", MaxTagBytes+1)}, false},
	} {
		err := CheckSpec(&nornv1.TaskSpec{Queue: "q", Kind: c.kind, Tags: c.tags}, MaxPayload)
		if (err == nil) != c.ok {
			t.Errorf("kind %q, tags %q: %v", c.kind, c.tags, err)
		}
	}
}

// TestKindAmongFurtherFields: they stand there as a client encodes them, so that a build that
// does not know them has the same bytes, and are found between others.
func TestKindAmongFurtherFields(t *testing.T) {
	spec := &nornv1.TaskSpec{Kind: "send", Tags: []string{"z", "a"}}
	own, err := protobuf.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if got := AppendKind(nil, spec.Kind, spec.Tags); !slices.Equal(got, own) {
		t.Fatalf("% x, want % x", got, own)
	}
	before, behind := []byte{8 << 3, 1}, []byte{15 << 3, 1, 0xa0, 0x06, 1}
	for _, further := range [][]byte{own, slices.Concat(before, own), slices.Concat(own, behind), slices.Concat(before, own, behind)} {
		if kind, tags := KindOf(further), TagsOf(further); kind != "send" || !slices.Equal(tags, spec.Tags) {
			t.Errorf("% x: kind %q, tags %q", further, kind, tags)
		}
		if rest := WithoutKind(further); KindOf(rest) != "" || TagsOf(rest) != nil || len(rest) != len(further)-len(own) {
			t.Errorf("% x without them is % x", further, rest)
		}
	}
	for _, other := range [][]byte{nil, behind, {13 << 3, 1}, {13<<3 | 2, 1, 0xff}, {13<<3 | 2, 9, 'x'}, {0xff}} {
		if kind, tags := KindOf(other), TagsOf(other); kind != "" || tags != nil {
			t.Errorf("% x: kind %q, tags %q", other, kind, tags)
		}
		_ = WithoutKind(other) // ends
	}
	old := &nornv1.Task{FurtherSpec: own}
	if FillKind(old); old.Kind != "send" || !slices.Equal(old.Tags, spec.Tags) {
		t.Errorf("of a server that does not know them: %v", old)
	}
}
