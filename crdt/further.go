package crdt

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// MaxFurther bounds the further fields of one fact, so that a few bytes cannot ask for much
// time. What clients may send is far below.
const MaxFurther = 1 << 10

// Further gives the canonical form of further fields: those of a client's message that are
// not in the struct of a fact, because a newer build has added them. The fact keeps them as
// they are, so that they are there for whoever knows them: an older node takes them in, and
// hands them out again. raw is their protobuf encoding, as a decoder leaves it over.
//
// One content has one form: ascending by number, those of one number in their order, each
// number and length as short as can be. So a retry through a build that knows a field, and
// writes it here all the same, is the same fact. Groups, which no message of Norn has, are
// refused, and so are more than [MaxFurther] fields (ErrMalformed). nil stands for none.
// The result may share raw.
func Further(raw []byte) ([]byte, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	type span struct{ number, begin, end int }
	var all []span
	canonical, last := true, 0
	dst := make([]byte, 0, len(raw))
	for rest := raw; len(rest) > 0; {
		number, size, short := furtherField(rest)
		if size < 0 || len(all) == MaxFurther {
			return nil, fmt.Errorf("%w: further fields", ErrMalformed)
		}
		canonical = canonical && short && number >= last
		begin := len(dst)
		dst = appendField(dst, rest[:size])
		all, last, rest = append(all, span{number, begin, len(dst)}), number, rest[size:]
	}
	if canonical {
		return raw, nil
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Or(cmp.Compare(a.number, b.number), cmp.Compare(a.begin, b.begin)) })
	sorted := make([]byte, 0, len(dst))
	for _, s := range all {
		sorted = append(sorted, dst[s.begin:s.end]...)
	}
	return sorted, nil
}

// furtherField looks at the first field of an encoding; size is negative when it is none that
// may be there. short tells whether it is encoded as short as can be.
func furtherField(b []byte) (number, size int, short bool) {
	n, kind, tag := protowire.ConsumeTag(b)
	if tag < 0 || n > protowire.MaxValidNumber {
		return 0, -1, false
	}
	short, size = tag == protowire.SizeTag(n), -1
	switch kind {
	case protowire.VarintType:
		var v uint64
		v, size = protowire.ConsumeVarint(b[tag:])
		short = short && size == protowire.SizeVarint(v)
	case protowire.Fixed32Type:
		_, size = protowire.ConsumeFixed32(b[tag:])
	case protowire.Fixed64Type:
		_, size = protowire.ConsumeFixed64(b[tag:])
	case protowire.BytesType:
		var v []byte
		v, size = protowire.ConsumeBytes(b[tag:])
		short = short && size == protowire.SizeBytes(len(v))
	}
	if size < 0 {
		return 0, -1, false
	}
	return int(n), tag + size, short
}

// appendField appends a field that [furtherField] has passed, as short as can be.
func appendField(dst, field []byte) []byte {
	n, kind, tag := protowire.ConsumeTag(field)
	dst = protowire.AppendTag(dst, n, kind)
	switch kind {
	case protowire.VarintType:
		v, _ := protowire.ConsumeVarint(field[tag:])
		return protowire.AppendVarint(dst, v)
	case protowire.BytesType:
		v, _ := protowire.ConsumeBytes(field[tag:])
		return protowire.AppendBytes(dst, v)
	}
	return append(dst, field[tag:]...)
}

// appendFurther appends further fields, which are the last of a body: none take no byte.
func appendFurther(dst, further []byte) []byte {
	if len(further) == 0 {
		return dst
	}
	return appendBytes(dst, further)
}

// further reads them, in their canonical form only.
func (r *reader) further() []byte {
	if r.err != nil || len(r.rest) == 0 {
		return nil
	}
	b := r.bytes()
	last, n := 0, 0
	for rest := b; len(rest) > 0; n++ {
		number, size, short := furtherField(rest)
		if size < 0 || !short || number < last || n == MaxFurther {
			r.fail("further fields")
			return nil
		}
		last, rest = number, rest[size:]
	}
	if n == 0 {
		r.fail("no further fields")
	}
	return b
}

// furtherSize is no less than what [appendFurther] appends.
func furtherSize(further []byte) int {
	if len(further) == 0 {
		return 0
	}
	return 9 + len(further)
}
