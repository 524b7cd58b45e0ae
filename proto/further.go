package proto

import (
	"google.golang.org/protobuf/encoding/protowire"
	gproto "google.golang.org/protobuf/proto"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// MaxFurther bounds the fields of one stored message that this build does not know, the
// elements of a list one by one: they are sorted, those of a full batch in some tenths of a
// second, while others wait.
const MaxFurther = 128

// Further gives the fields of a message that this build does not know, as they came, nil
// for none. It refuses groups, which no message of Norn has, and more than [MaxFurther].
func Further(m gproto.Message) ([]byte, *Error) {
	raw := m.ProtoReflect().GetUnknown()
	if len(raw) == 0 {
		return nil, nil
	}
	n := 0
	for rest := []byte(raw); len(rest) > 0; n++ {
		number, kind, size := protowire.ConsumeField(rest)
		switch {
		case size < 0:
			return nil, Invalid("its further fields are no protobuf: %v", protowire.ParseError(size))
		case kind == protowire.StartGroupType:
			return nil, Invalid("field %d is a group, which no version of Norn has", number)
		case n == MaxFurther:
			return nil, Invalid("over %d fields that this server does not know; upgrade the server first", MaxFurther)
		}
		rest = rest[size:]
	}
	return raw, nil
}

// SpecBytes is what a task counts towards limits of payload bytes: its payload, and the
// fields that this build does not know. They are stored and handed out with it, and nobody
// can say here which of them are meant to be large.
func SpecBytes(t *nornv1.TaskSpec) int {
	n := len(t.GetPayload()) + len(t.ProtoReflect().GetUnknown())
	if t.GetRetry() != nil {
		n += len(t.GetRetry().ProtoReflect().GetUnknown())
	}
	return n
}

// checkFurther checks the fields of a task that this build does not know.
func checkFurther(t *nornv1.TaskSpec) *Error {
	_, err := Further(t)
	if err == nil && t.GetRetry() != nil {
		_, err = Further(t.GetRetry())
	}
	return err
}
