package proto

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Numbers of the fields of a TaskSpec that servers keep among its further fields though they
// know them: builds from before them keep them there, and a task is the same one wherever it
// was taken in.
const (
	kindField protowire.Number = 13
	tagsField protowire.Number = 14
)

// CheckKind checks the kind of a task; "" is none.
func CheckKind(kind string) *Error {
	if len(kind) > MaxKindBytes {
		return Invalid("kind of %d bytes is over the limit of %d bytes", len(kind), MaxKindBytes)
	}
	if !printed(kind) {
		return Invalid("kind %.140q has control characters, or is not UTF-8", kind)
	}
	return nil
}

// CheckTags checks the tags of a task.
func CheckTags(tags []string) *Error {
	if len(tags) > MaxTags {
		return Invalid("%d tags are over the limit of %d", len(tags), MaxTags)
	}
	for i, t := range tags {
		switch {
		case t == "":
			return Invalid("a tag is empty")
		case len(t) > MaxTagBytes:
			return Invalid("tag %.70q of %d bytes is over the limit of %d bytes", t, len(t), MaxTagBytes)
		case !printed(t):
			return Invalid("tag %.70q has control characters, or is not UTF-8", t)
		case slices.Contains(tags[:i], t):
			return Invalid("tag %q is there twice", t)
		}
	}
	return nil
}

func printed(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// AppendKind appends the kind and the tags of a task as they stand among its further fields.
func AppendKind(dst []byte, kind string, tags []string) []byte {
	if kind != "" {
		dst = protowire.AppendString(protowire.AppendTag(dst, kindField, protowire.BytesType), kind)
	}
	for _, t := range tags {
		dst = protowire.AppendString(protowire.AppendTag(dst, tagsField, protowire.BytesType), t)
	}
	return dst
}

// KindOf reads the kind among the further fields of a task; "" is none.
func KindOf(further []byte) (kind string) {
	eachOfKind(further, func(n protowire.Number, v []byte) {
		if n == kindField {
			kind = string(v)
		}
	})
	return kind
}

// TagsOf reads the tags among the further fields of a task.
func TagsOf(further []byte) (tags []string) {
	eachOfKind(further, func(n protowire.Number, v []byte) {
		if n == tagsField {
			tags = append(tags, string(v))
		}
	})
	return tags
}

// eachOfKind calls f with the kind and the tags among further fields. What is no text is
// passed over: a server that did not know the fields took whatever came.
func eachOfKind(further []byte, f func(n protowire.Number, v []byte)) {
	for len(further) > 0 {
		n, typ, tag := protowire.ConsumeTag(further)
		if tag < 0 || n > tagsField {
			return // they ascend
		}
		size := protowire.ConsumeFieldValue(n, typ, further[tag:])
		if size < 0 {
			return
		}
		if n >= kindField && typ == protowire.BytesType {
			if v, _ := protowire.ConsumeBytes(further[tag:]); utf8.Valid(v) {
				f(n, v)
			}
		}
		further = further[tag+size:]
	}
}

// FillKind puts kind and tags of a task that came from a server which does not know them where
// those that know them have them.
func FillKind(t *nornv1.Task) {
	if t != nil && t.GetKind() == "" && len(t.GetTags()) == 0 && len(t.GetFurtherSpec()) > 0 {
		t.Kind, t.Tags = KindOf(t.GetFurtherSpec()), TagsOf(t.GetFurtherSpec())
	}
}

// WithoutKind gives further fields of a task without its kind and its tags. It may share
// further.
func WithoutKind(further []byte) []byte {
	var out []byte
	for at := 0; at < len(further); {
		size, own := 0, false
		if n, typ, tag := protowire.ConsumeTag(further[at:]); tag > 0 {
			own, size = n == kindField || n == tagsField, protowire.ConsumeFieldValue(n, typ, further[at+tag:])
			if size >= 0 {
				size += tag
			}
		}
		if size <= 0 {
			return further
		}
		if !own {
			out = append(out, further[at:at+size]...)
		}
		at += size
	}
	return out
}
