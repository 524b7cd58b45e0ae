package jsonform

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/norn-dev/norn/id"
	norn "github.com/norn-dev/norn/proto"
)

// Of gives the tree of a message; null for nil.
func Of(m proto.Message) Value {
	if m == nil {
		return Value{}
	}
	return message(m.ProtoReflect())
}

// ListOf gives the array of the trees of messages.
func ListOf[M proto.Message](ms []M) Value {
	items := make([]Value, len(ms))
	for i, m := range ms {
		items[i] = Of(m)
	}
	return List(items...)
}

// Marshal writes a message as indented JSON that ends in a newline.
func Marshal(m proto.Message) []byte { return Of(m).JSON() }

// MarshalList writes messages as an indented array that ends in a newline; []
// for none.
func MarshalList[M proto.Message](ms []M) []byte { return ListOf(ms).JSON() }

// Seconds makes the number of seconds in d.
func Seconds(d time.Duration) Value { return float(d.Seconds(), 64) }

// Time makes the form of a timestamp, null for the zero time.
func Time(t time.Time) Value {
	if t.IsZero() {
		return Value{}
	}
	return String(t.UTC().Format(time.RFC3339Nano))
}

func message(m protoreflect.Message) Value {
	if !m.IsValid() {
		return Value{}
	}
	if t, ok := m.Interface().(*timestamppb.Timestamp); ok {
		return Time(t.AsTime())
	}
	fields := m.Descriptor().Fields()
	out := make([]Field, 0, fields.Len())
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.FullName() == "norn.v1.Task.further_spec" {
			if b := norn.WithoutKind(m.Get(f).Bytes()); len(b) > 0 { // the others have names of their own
				out = append(out, Field{string(f.Name()), single(f, protoreflect.ValueOfBytes(b))})
			}
			continue
		}
		if m.Has(f) || !further(f) {
			out = append(out, Field{string(f.Name()), member(m, f)})
		}
		if Shown(f) {
			out = append(out, textOf(m, f))
		}
	}
	return Object(out...)
}

// further tells whether a field has what clients newer than the servers have said. That is
// hardly ever something, so it is there only then.
func further(f protoreflect.FieldDescriptor) bool {
	return f.Kind() == protoreflect.BytesKind && strings.HasPrefix(string(f.Name()), "further")
}

func member(m protoreflect.Message, f protoreflect.FieldDescriptor) Value {
	switch {
	case f.IsList():
		list := m.Get(f).List()
		items := make([]Value, list.Len())
		for i := range items {
			items[i] = single(f, list.Get(i))
		}
		return List(items...)
	case f.IsMap():
		var out []Field
		m.Get(f).Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			out = append(out, Field{k.String(), single(f.MapValue(), v)})
			return true
		})
		slices.SortFunc(out, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
		return Object(out...)
	case f.HasPresence() && !m.Has(f):
		return Value{}
	}
	return single(f, m.Get(f))
}

func single(f protoreflect.FieldDescriptor, v protoreflect.Value) Value {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return Bool(v.Bool())
	case protoreflect.EnumKind:
		return enum(f.Enum(), v.Enum())
	case protoreflect.StringKind:
		return String(v.String())
	case protoreflect.BytesKind:
		if t, err := id.FromBytes(v.Bytes()); err == nil && isID(f) {
			return String(t.String())
		}
		return String(base64.StdEncoding.EncodeToString(v.Bytes()))
	case protoreflect.DoubleKind:
		return float(v.Float(), 64)
	case protoreflect.FloatKind:
		return float(v.Float(), 32)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return Value{kind: number, scalar: strconv.FormatInt(v.Int(), 10)}
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return Value{kind: number, scalar: strconv.FormatUint(v.Uint(), 10)}
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return String(strconv.FormatInt(v.Int(), 10))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return String(strconv.FormatUint(v.Uint(), 10))
	default: // messages and groups
		return message(v.Message())
	}
}

// isID tells whether a field of bytes holds a task ID.
func isID(f protoreflect.FieldDescriptor) bool {
	switch f.Name() {
	case "id", "ids", "dependencies", "depends_on", "task_id", "seed":
		return f.Kind() == protoreflect.BytesKind
	}
	return false
}

// enum gives the name without its prefix: the name of the type in UPPER_SNAKE.
func enum(e protoreflect.EnumDescriptor, n protoreflect.EnumNumber) Value {
	known := e.Values().ByNumber(n)
	if known == nil {
		return Value{kind: number, scalar: strconv.Itoa(int(n))}
	}
	return String(ValueName(known))
}

// ValueName is the name of a value of an enum in this form: without its prefix, in
// lower case.
func ValueName(v protoreflect.EnumValueDescriptor) string {
	e := v.Parent().(protoreflect.EnumDescriptor)
	var prefix strings.Builder
	for i, c := range string(e.Name()) {
		if i > 0 && 'A' <= c && c <= 'Z' {
			prefix.WriteByte('_')
		}
		prefix.WriteRune(c)
	}
	prefix.WriteByte('_')
	return strings.ToLower(strings.TrimPrefix(string(v.Name()), strings.ToUpper(prefix.String())))
}

// EnumName is the name of an enum value in this form.
func EnumName(e protoreflect.Enum) string { return enum(e.Descriptor(), e.Number()).scalar }

func float(f float64, bits int) Value {
	switch {
	case math.IsNaN(f):
		return String("NaN")
	case math.IsInf(f, 1):
		return String("Infinity")
	case math.IsInf(f, -1):
		return String("-Infinity")
	}
	var b []byte
	if bits == 32 {
		b, _ = json.Marshal(float32(f)) // finite numbers do not fail
	} else {
		b, _ = json.Marshal(f)
	}
	return Value{kind: number, scalar: string(b)}
}

// Uint64 makes the form of a 64-bit integer: a decimal string.
func Uint64(n uint64) Value { return String(strconv.FormatUint(n, 10)) }

// Float makes a number; one that JSON cannot write becomes a string.
func Float(f float64) Value { return float(f, 64) }
