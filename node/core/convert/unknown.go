package convert

import (
	"google.golang.org/protobuf/encoding/protowire"
	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Fields that a newer client has added to what becomes a fact are kept with the fact and
// given back, so that a newer worker reads them though only older servers were between
// (docs/reference/protocol.md, Evolution). A build that knows such a field leaves it where it is: the
// fact of a task must not depend on who took it in. It reads it there, too.

// Unknown gives the fields of a message that this build does not know, in their canonical
// form, nil for none.
func Unknown(m gproto.Message) ([]byte, *proto.Error) {
	raw, bad := proto.Further(m)
	if bad != nil || raw == nil {
		return nil, bad
	}
	b, err := crdt.Further(raw)
	if err != nil {
		return nil, proto.Invalid("%v", err)
	}
	return b, nil
}

// UnknownUpTo is the same where so many bytes are left for them of what a message may have.
func UnknownUpTo(m gproto.Message, most int, what string) ([]byte, *proto.Error) {
	b, bad := Unknown(m)
	if bad == nil && len(b) > most {
		return nil, proto.Invalid("the %s has %d bytes of fields that this server does not know, where %d are left to it", what, len(b), most)
	}
	return b, bad
}

// UnknownOfSpec gives those of a task's spec as an encoded TaskSpec that has nothing else but
// its kind and its tags: those of its retry policy are in the field of that.
func UnknownOfSpec(t *nornv1.TaskSpec) ([]byte, *proto.Error) {
	all, bad := Unknown(t)
	if bad != nil {
		return nil, bad
	}
	var first []byte
	if t.GetRetry() != nil {
		policy, bad := Unknown(t.GetRetry())
		if bad != nil {
			return nil, bad
		}
		if policy != nil {
			number := t.ProtoReflect().Descriptor().Fields().ByName("retry").Number()
			first = protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), policy)
		}
	}
	if first = proto.AppendKind(first, t.GetKind(), t.GetTags()); first == nil {
		return all, nil
	}
	all, err := crdt.Further(append(first, all...))
	if err != nil {
		return nil, proto.Invalid("%v", err)
	}
	return all, nil
}

// AddUnknown puts further fields that came apart from their message into it. What it knows
// itself it has already, and is not replaced.
func AddUnknown(m gproto.Message, encoded []byte) {
	if len(encoded) == 0 {
		return
	}
	other := m.ProtoReflect().New()
	if gproto.Unmarshal(encoded, other.Interface()) == nil {
		m.ProtoReflect().SetUnknown(other.GetUnknown())
	}
}
