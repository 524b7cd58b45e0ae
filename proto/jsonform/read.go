package jsonform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Unmarshal reads one message in this form into m, which should be empty. It
// refuses what is not JSON, unknown and repeated names, values of another type
// and whatever follows the message, and says at which line and column.
func Unmarshal(b []byte, m proto.Message) error {
	r := &reader{b: b, d: json.NewDecoder(bytes.NewReader(b))}
	r.d.UseNumber()
	if !utf8.Valid(b) {
		return errors.New("it is not UTF-8")
	}
	if at := HalfCharacter(b); at >= 0 {
		line, column := lineOf(b[:at])
		return fmt.Errorf("line %d, column %d: %s", line, column, halfCharacter)
	}
	if err := r.document(m); err != nil {
		line, column := r.position(err)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("it ends too early")
		}
		return fmt.Errorf("line %d, column %d: %w", line, column, err)
	}
	return nil
}

// halfCharacter is what is wrong where [HalfCharacter] finds something.
const halfCharacter = `half a character: \ud800 to \udbff and \udc00 to \udfff come in pairs`

// HalfCharacter is where the first escape of JSON is that stands for half a character (a
// surrogate of UTF-16 without the other one), -1 without one. Package json would put
// U+FFFD in its place, so that another text than was sent would be stored.
func HalfCharacter(b []byte) int {
	const first, second = 0xd800, 0xdc00
	for at := 0; at < len(b); at++ {
		if b[at] != '\\' {
			continue
		}
		switch r := escaped(b[at:]); {
		case r >= second && r < second+0x400:
			return at
		case r >= first && r < second:
			if low := escaped(b[at+6:]); low < second || low >= second+0x400 {
				return at
			}
			at += 11
		default:
			at++ // what it escapes may be another backslash
		}
	}
	return -1
}

// escaped is what a \uXXXX at the beginning of b stands for, -1 where there is none.
func escaped(b []byte) int64 {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	r, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return int64(r)
}

// reader reads JSON token by token. Messages do not contain themselves, so what
// it descends into is as deep as they are.
type reader struct {
	b []byte
	d *json.Decoder
}

// position is where reading has come to, or where the syntax is wrong.
func (r *reader) position(err error) (line, column int) {
	at := int(r.d.InputOffset())
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		at = int(syntax.Offset)
	}
	return lineOf(r.b[:min(max(at, 0), len(r.b))])
}

// lineOf is the position after the end of a text.
func lineOf(before []byte) (line, column int) {
	return 1 + bytes.Count(before, []byte("\n")), len(before) - bytes.LastIndexByte(before, '\n')
}

func (r *reader) document(m proto.Message) error {
	t, err := r.d.Token()
	if err != nil {
		return err
	}
	if t != json.Delim('{') {
		return fmt.Errorf("it is %s, not an object", describe(t))
	}
	if err := r.message(m.ProtoReflect()); err != nil {
		return err
	}
	if _, err := r.d.Token(); err != io.EOF {
		return errors.New("something follows the end of the object")
	}
	return nil
}

// message reads the members of an object, whose beginning was read.
func (r *reader) message(m protoreflect.Message) error {
	seen := make(map[protoreflect.FieldNumber]string)
	for {
		t, err := r.d.Token()
		if err != nil {
			return err
		}
		name, ok := t.(string)
		if !ok {
			return nil // the closing brace: the decoder lets nothing else through
		}
		f, suffix := otherName(m.Descriptor(), name)
		if f == nil {
			if f, err = fieldOf(m.Descriptor(), name); err != nil {
				return err
			}
		}
		if before, again := seen[f.Number()]; again {
			if err := twice(f, before, name); err != nil {
				return err
			}
		}
		seen[f.Number()] = name
		if suffix != "" {
			err = r.content(m, f, suffix)
		} else {
			err = r.member(m, f)
		}
		if err != nil {
			return err
		}
	}
}

// fieldOf finds a field by its name.
func fieldOf(m protoreflect.MessageDescriptor, name string) (protoreflect.FieldDescriptor, error) {
	if f := m.Fields().ByName(protoreflect.Name(name)); f != nil {
		return f, nil
	}
	var known []string
	for i := range m.Fields().Len() {
		known = append(known, Names(m.Fields().Get(i))...)
	}
	return nil, fmt.Errorf("unknown name %.100q; known are: %s", name, strings.Join(known, ", "))
}

// member reads the value of a field.
func (r *reader) member(m protoreflect.Message, f protoreflect.FieldDescriptor) error {
	t, err := r.d.Token()
	if err != nil || t == nil {
		return err // null: unset
	}
	if o := f.ContainingOneof(); o != nil && m.WhichOneof(o) != nil {
		return fmt.Errorf("%s and %s exclude each other", m.WhichOneof(o).Name(), f.Name())
	}
	switch {
	case f.IsList():
		if t != json.Delim('[') {
			return fmt.Errorf("%s is %s, not an array", f.Name(), describe(t))
		}
		return r.list(m.Mutable(f).List(), f)
	case f.IsMap():
		if t != json.Delim('{') {
			return fmt.Errorf("%s is %s, not an object", f.Name(), describe(t))
		}
		return r.entries(m.Mutable(f).Map(), f)
	case isObject(f):
		if t != json.Delim('{') {
			return fmt.Errorf("%s is %s, not an object", f.Name(), describe(t))
		}
		return r.message(m.Mutable(f).Message())
	}
	v, err := scalar(f, t)
	if err == nil {
		m.Set(f, v)
	}
	return err
}

// isObject tells whether a field is a message that is written as an object.
func isObject(f protoreflect.FieldDescriptor) bool {
	return f.Kind() == protoreflect.MessageKind && f.Message().FullName() != timestampName
}

var timestampName = (*timestamppb.Timestamp)(nil).ProtoReflect().Descriptor().FullName()

func (r *reader) list(into protoreflect.List, f protoreflect.FieldDescriptor) error {
	for {
		t, err := r.d.Token()
		if err != nil || t == json.Delim(']') {
			return err
		}
		if !isObject(f) {
			v, err := scalar(f, t)
			if err != nil {
				return err
			}
			into.Append(v)
			continue
		}
		if t != json.Delim('{') {
			return fmt.Errorf("in %s there is %s, not an object", f.Name(), describe(t))
		}
		if err := r.message(into.AppendMutable().Message()); err != nil {
			return err
		}
	}
}

// entries reads a map with names for keys and no objects in it, as all of ours
// are.
func (r *reader) entries(into protoreflect.Map, f protoreflect.FieldDescriptor) error {
	for {
		t, err := r.d.Token()
		if err != nil {
			return err
		}
		name, ok := t.(string)
		if !ok {
			return nil
		}
		key := protoreflect.ValueOfString(name).MapKey()
		if into.Has(key) {
			return fmt.Errorf("%.100q is there twice", name)
		}
		if t, err = r.d.Token(); err != nil {
			return err
		}
		v, err := scalar(f.MapValue(), t)
		if err != nil {
			return err
		}
		into.Set(key, v)
	}
}

// describe names a token for people.
func describe(t json.Token) string {
	switch t := t.(type) {
	case nil:
		return "null"
	case json.Delim:
		if t == '{' {
			return "an object"
		}
		return "an array"
	case bool:
		return "a truth value"
	case json.Number:
		return "a number"
	}
	return "a string"
}

// SetText sets a field from texts, as the parameters of an address have them. path
// is its name, with dots between a message and its fields (filter.key), or between
// a map and a key. A list takes all texts, anything else exactly one.
func SetText(m proto.Message, path string, texts ...string) error {
	into, name := m.ProtoReflect(), path
	for {
		first, rest, nested := strings.Cut(name, ".")
		f, err := fieldOf(into.Descriptor(), first)
		switch {
		case err != nil:
			return err
		case nested && f.IsMap():
			v, err := oneText(f.MapValue(), path, texts)
			if err == nil {
				into.Mutable(f).Map().Set(protoreflect.ValueOfString(rest).MapKey(), v)
			}
			return err
		case nested && isObject(f) && !f.IsList():
			into, name = into.Mutable(f).Message(), rest
			continue
		case nested || f.IsMap() || isObject(f):
			return fmt.Errorf("%s cannot be set by a parameter", path)
		case f.IsList():
			for _, text := range texts {
				v, err := oneText(f, path, []string{text})
				if err != nil {
					return err
				}
				into.Mutable(f).List().Append(v)
			}
			return nil
		}
		v, err := oneText(f, path, texts)
		if err == nil {
			into.Set(f, v)
		}
		return err
	}
}

// oneText reads a value that stands without the marks of JSON.
func oneText(f protoreflect.FieldDescriptor, path string, texts []string) (protoreflect.Value, error) {
	if len(texts) != 1 {
		return protoreflect.Value{}, fmt.Errorf("%s has %d values, not one", path, len(texts))
	}
	var t json.Token = texts[0]
	switch f.Kind() {
	case protoreflect.BoolKind:
		if texts[0] == "true" || texts[0] == "false" {
			t = texts[0] == "true"
		}
	case protoreflect.BytesKind:
		t = strings.ReplaceAll(texts[0], " ", "+") // base64 that nobody has escaped
	case protoreflect.StringKind, protoreflect.EnumKind, protoreflect.MessageKind:
		if !utf8.ValidString(texts[0]) {
			return protoreflect.Value{}, fmt.Errorf("%s is not UTF-8", path)
		}
	default:
		t = json.Number(texts[0])
	}
	return scalar(f, t)
}
