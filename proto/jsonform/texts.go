package jsonform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Content of tasks is bytes, and mostly text. So it has other names beside its own, which
// is base64: NAME_text and NAME_json in what is read, and NAME_text in what is written.
const (
	asText = "_text"
	asJSON = "_json"
)

// Read tells whether a field of bytes may be given under its other names, too.
func Read(f protoreflect.FieldDescriptor) bool {
	switch f.FullName() {
	case "norn.v1.TaskSpec.payload", "norn.v1.Completion.result", "norn.v1.UpdateRequest.data", "norn.v1.FurtherUpdate.data":
		return true
	}
	return false
}

// Shown tells whether a field of bytes is followed by its text: null where it is not UTF-8.
func Shown(f protoreflect.FieldDescriptor) bool {
	switch f.FullName() {
	case "norn.v1.Task.payload", "norn.v1.Task.result", "norn.v1.Update.data", "norn.v1.Grant.checkpoint":
		return true
	}
	return false
}

// Names gives the names that a field is read under, its own first.
func Names(f protoreflect.FieldDescriptor) []string {
	name := string(f.Name())
	if !Read(f) {
		return []string{name}
	}
	return []string{name, name + asText, name + asJSON}
}

// textOf is the member that follows a field of bytes.
func textOf(m protoreflect.Message, f protoreflect.FieldDescriptor) Field {
	out := Field{Name: string(f.Name()) + asText}
	if b := m.Get(f).Bytes(); utf8.Valid(b) {
		out.Value = String(string(b))
	}
	return out
}

// otherName finds the field that a name with a suffix is of; nil for no such name.
func otherName(m protoreflect.MessageDescriptor, name string) (f protoreflect.FieldDescriptor, suffix string) {
	for _, suffix := range []string{asText, asJSON} {
		if own, is := strings.CutSuffix(name, suffix); is {
			if f := m.Fields().ByName(protoreflect.Name(own)); f != nil && (Read(f) || Shown(f) && suffix == asText) {
				return f, suffix
			}
		}
	}
	return nil, ""
}

// twice tells whether a field may not be given under a name after another one: an answer has
// both its bytes and their text, and is read as it was written.
func twice(f protoreflect.FieldDescriptor, before, name string) error {
	switch {
	case before == name:
		return fmt.Errorf("%s is there twice", name)
	case Shown(f) && before == string(f.Name()):
		return nil
	}
	return fmt.Errorf("give one of %s", strings.Join(Names(f), ", "))
}

// content reads a field under another name than its own. Of JSON white space between its
// parts goes, and null is a value.
func (r *reader) content(m protoreflect.Message, f protoreflect.FieldDescriptor, suffix string) error {
	if suffix == asJSON {
		var raw json.RawMessage
		if err := r.d.Decode(&raw); err != nil {
			return err
		}
		var b bytes.Buffer
		if err := json.Compact(&b, raw); err != nil {
			return err
		}
		m.Set(f, protoreflect.ValueOfBytes(b.Bytes()))
		return nil
	}
	t, err := r.d.Token()
	if err != nil || t == nil {
		return err // null: unset
	}
	text, ok := t.(string)
	if !ok {
		return fmt.Errorf("%s%s is %s, not a string", f.Name(), suffix, describe(t))
	}
	if Shown(f) && m.Has(f) && text != string(m.Get(f).Bytes()) {
		return fmt.Errorf("%s%s is another one than %s", f.Name(), suffix, f.Name())
	}
	m.Set(f, protoreflect.ValueOfBytes([]byte(text)))
	return nil
}

// Room is about how many bytes a message takes while its JSON is made: it, its tree and its
// text. Content is there three times then, and a control character takes six bytes.
func Room(m proto.Message) int {
	if m == nil {
		return 0
	}
	return 4*proto.Size(m) + roomOfTexts(m.ProtoReflect())
}

func roomOfTexts(m protoreflect.Message) (n int) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
		case Shown(f):
			for _, c := range v.Bytes() {
				n += 3
				if c < ' ' {
					n += 4
				}
			}
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				n += roomOfTexts(v.List().Get(i).Message())
			}
		default:
			n += roomOfTexts(v.Message())
		}
		return true
	})
	return n
}
