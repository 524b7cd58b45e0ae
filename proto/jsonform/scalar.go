package jsonform

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/norn-dev/norn/id"
)

// scalar reads a value that is neither an object nor an array.
func scalar(f protoreflect.FieldDescriptor, t json.Token) (v protoreflect.Value, err error) {
	wrong := func(want string) (protoreflect.Value, error) {
		return v, fmt.Errorf("%s is %s, not %s", f.Name(), describe(t), want)
	}
	text, isText := t.(string)
	n, isNumber := t.(json.Number)
	switch f.Kind() {
	case protoreflect.BoolKind:
		if b, ok := t.(bool); ok {
			return protoreflect.ValueOfBool(b), nil
		}
		return wrong("true or false")
	case protoreflect.StringKind:
		if !isText {
			return wrong("a string")
		}
		return protoreflect.ValueOfString(text), nil
	case protoreflect.BytesKind:
		if !isText {
			return wrong("a string in base64")
		}
		return readBytes(f, text)
	case protoreflect.EnumKind:
		if !isText && !isNumber {
			return wrong("one of " + names(f.Enum()))
		}
		return readEnum(f, text+n.String())
	case protoreflect.MessageKind: // a timestamp
		if !isText {
			return wrong("a time in RFC 3339")
		}
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return v, fmt.Errorf("%s is %.60q, not a time in RFC 3339 (2026-01-02T15:04:05Z)", f.Name(), text)
		}
		return protoreflect.ValueOfMessage(timestamppb.New(at).ProtoReflect()), nil
	}
	if !isNumber && !isText {
		return wrong("a number")
	}
	return readNumber(f, text+n.String(), isText)
}

// readNumber reads the digits of a number. Only 64-bit integers, and the doubles
// that JSON has no number for, may be strings.
func readNumber(f protoreflect.FieldDescriptor, digits string, isText bool) (v protoreflect.Value, err error) {
	switch f.Kind() {
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		n, bad := strconv.ParseFloat(digits, 64)
		special := digits == "NaN" || digits == "Infinity" || digits == "-Infinity"
		if bad != nil || isText != special || !special && (math.IsNaN(n) || math.IsInf(n, 0)) {
			return v, fmt.Errorf("%s is %.60q, not a number", f.Name(), digits)
		}
		if f.Kind() == protoreflect.FloatKind {
			return protoreflect.ValueOfFloat32(float32(n)), nil
		}
		return protoreflect.ValueOfFloat64(n), nil
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		if n, bad := strconv.ParseUint(digits, 10, 64); bad == nil {
			return protoreflect.ValueOfUint64(n), nil
		}
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		if n, bad := strconv.ParseInt(digits, 10, 64); bad == nil {
			return protoreflect.ValueOfInt64(n), nil
		}
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		if n, bad := strconv.ParseUint(digits, 10, 32); bad == nil && !isText {
			return protoreflect.ValueOfUint32(uint32(n)), nil
		}
	default:
		if n, bad := strconv.ParseInt(digits, 10, 32); bad == nil && !isText {
			return protoreflect.ValueOfInt32(int32(n)), nil
		}
	}
	return v, fmt.Errorf("%s is %.60q, not a whole number of the kind %s", f.Name(), digits, f.Kind())
}

// standard turns the URL alphabet of base64 into the standard one.
var standard = strings.NewReplacer("-", "+", "_", "/")

// readBytes reads base64, or the text of a task ID, which has 27 characters: 20
// bytes in base64 have 28, or 27 and a padding that may be absent, but then an ID
// is what is meant.
func readBytes(f protoreflect.FieldDescriptor, text string) (v protoreflect.Value, err error) {
	if isID(f) && len(text) == id.TextSize {
		t, err := id.Parse(text)
		if err != nil {
			return v, fmt.Errorf("%s: %w", f.Name(), err)
		}
		return protoreflect.ValueOfBytes(t.Bytes()), nil
	}
	plain := standard.Replace(strings.TrimRight(text, "="))
	b, err := base64.RawStdEncoding.Strict().DecodeString(plain)
	switch bad := err != nil || strings.ContainsAny(text, "\r\n"); {
	case isID(f) && (bad || len(b) != 0 && len(b) != len(id.ID{})):
		return v, fmt.Errorf("%s is %.60q, not a task ID", f.Name(), text)
	case bad:
		if Read(f) {
			return v, fmt.Errorf("%s is %.60q, not base64 (%s%s takes text)", f.Name(), text, f.Name(), asText)
		}
		return v, fmt.Errorf("%s is %.60q, not base64", f.Name(), text)
	}
	return protoreflect.ValueOfBytes(b), nil
}

// readEnum reads a name without its prefix, or a number that has a name.
func readEnum(f protoreflect.FieldDescriptor, text string) (v protoreflect.Value, err error) {
	values := f.Enum().Values()
	for i := range values.Len() {
		e := values.Get(i)
		if ValueName(e) == text || strconv.Itoa(int(e.Number())) == text {
			return protoreflect.ValueOfEnum(e.Number()), nil
		}
	}
	return v, fmt.Errorf("%s is %.60q, not one of %s", f.Name(), text, names(f.Enum()))
}

// names lists the values of an enum.
func names(e protoreflect.EnumDescriptor) string {
	var all []string
	for i := range e.Values().Len() {
		all = append(all, ValueName(e.Values().Get(i)))
	}
	return strings.Join(all, ", ")
}
