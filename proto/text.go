package proto

import (
	"errors"
	"unicode/utf8"

	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
)

var errFound = errors.New("found")

// BadText is where in a message a text is that is not UTF-8, which no message can
// carry, as tasks[0].headers["from"]; empty: nowhere.
func BadText(m protobuf.Message) (path string) {
	_ = protorange.Range(m.ProtoReflect(), func(p protopath.Values) error {
		last := p.Index(-1)
		text, ok := last.Value.Interface().(string)
		key := last.Step.Kind() == protopath.MapIndexStep && badKey(last.Step.MapIndex())
		if ok && !utf8.ValidString(text) || key {
			path = p.Path[1:].String()[1:] // without the message's name and the dot
			return errFound
		}
		return nil
	})
	return path
}

func badKey(k protoreflect.MapKey) bool {
	text, ok := k.Interface().(string)
	return ok && !utf8.ValidString(text)
}
