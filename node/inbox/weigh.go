package inbox

import (
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// What a request takes in memory besides its bytes. Without this a frame of
// 24 MiB that holds nothing but twelve million empty tasks would count as
// 24 MiB and take three gigabytes.
const (
	// RequestCost is what every request takes.
	RequestCost = 512 // the request itself, its answer, its places in queues
	// MessageCost is what a message within it takes.
	MessageCost = 256 // a message within it, a task for example
	entryCost   = 192 // an entry of a map
	elementCost = 48  // an element of a list
	packedCost  = 8   // a number of a packed list
)

// MaxWeight bounds one decoded request, in bytes. A full batch with all its
// headers or dependencies stays below.
const MaxWeight = 192 << 20

// countedFields: lists with a higher field number are weighed, not counted.
const countedFields = 32

// shape is what the scale has to know of a message: which fields take more
// than their bytes. The index is the field's number.
type shape []part

type part struct {
	kind partKind
	list bool
	sub  shape // of a message
}

type partKind uint8

const (
	plain partKind = iota
	element
	packed
	entry
	submessage
)

// Scale weighs requests before they are decoded.
type Scale map[nornv1.Method]shape

// NewScale knows the requests of all methods that clients have, as of gives them; nil: they have not.
func NewScale(of func(nornv1.Method) *message.Method) Scale {
	s := make(Scale)
	for n := range nornv1.Method_name {
		if has := of(nornv1.Method(n)); has != nil {
			s[nornv1.Method(n)] = shapeOf(has.Request().ProtoReflect().Descriptor())
		}
	}
	return s
}

// shapeOf looks at a message of a request; those do not contain themselves.
func shapeOf(d protoreflect.MessageDescriptor) (s shape) {
	fields := d.Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		p := part{list: f.IsList()}
		switch {
		case f.IsMap():
			p.kind = entry
		case f.Kind() == protoreflect.MessageKind:
			p.kind, p.sub = submessage, shapeOf(f.Message())
		case f.IsPacked():
			p.kind = packed
		case f.IsList():
			p.kind = element
		default:
			continue
		}
		for len(s) <= int(f.Number()) {
			s = append(s, part{})
		}
		s[f.Number()] = p
	}
	return s
}

// Weigh gives the bytes that a request takes in memory once it is decoded,
// rather too many than too few, and the length of its longest list. What is no
// protobuf is weighed as far as it can be read: decoding will refuse it.
func (s Scale) Weigh(m nornv1.Method, body []byte) (bytes, longest int) {
	var counts [countedFields]int
	bytes = RequestCost + len(body) + s[m].weigh(body, &counts)
	for _, n := range counts {
		longest = max(longest, n)
	}
	return bytes, longest
}

// TooHeavy refuses what decoding alone would make a burden of.
func TooHeavy(weight, longest int) *proto.Error {
	switch {
	case longest > proto.MaxBatchTasks:
		return proto.Invalid("the batch has %d items, over the limit of %d; send smaller batches", longest, proto.MaxBatchTasks)
	case weight > MaxWeight:
		return proto.Invalid("the request takes %d bytes of memory, over the limit of %d; send smaller batches", weight, MaxWeight)
	}
	return nil
}

func (s shape) weigh(b []byte, counts *[countedFields]int) (extra int) {
	for len(b) > 0 {
		number, wire, n := protowire.ConsumeTag(b)
		if n < 0 {
			return extra
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, wire, b); n < 0 {
			return extra
		}
		value := b[:n]
		b = b[n:]
		if int(number) >= len(s) {
			continue
		}
		elements := 1
		switch p := &s[number]; p.kind {
		case plain:
			continue
		case entry:
			extra += entryCost
		case submessage:
			extra += MessageCost
			if wire == protowire.BytesType && p.sub != nil {
				_, head := protowire.ConsumeVarint(value)
				extra += p.sub.weigh(value[head:], nil)
			}
		case packed:
			if wire == protowire.BytesType {
				_, head := protowire.ConsumeVarint(value)
				elements = n - head // a byte each, or fewer elements
			}
			extra += packedCost * elements
		case element:
			extra += elementCost
		}
		if counts != nil && number < countedFields && s[number].list {
			counts[number] += elements
		}
	}
	return extra
}
