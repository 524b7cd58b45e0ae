package node

import (
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// What a request takes in memory besides its bytes. Without this a frame of
// 24 MiB that holds nothing but twelve million empty tasks would count as
// 24 MiB and take three gigabytes.
const (
	requestCost = 512 // the request itself, its answer, its places in queues
	messageCost = 256 // a message within it, a task for example
	entryCost   = 192 // an entry of a map
	elementCost = 48  // an element of a list
	packedCost  = 8   // a number of a packed list
)

// maxWeight bounds one decoded request, in bytes. A full batch with all its
// headers or dependencies stays below.
const maxWeight = 192 << 20

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

// scale weighs requests before they are decoded.
type scale map[nornv1.Method]shape

// newScale knows the requests of all methods that the core answers.
func newScale() scale {
	s := make(scale)
	for n := range nornv1.Method_name {
		if of := carried(nornv1.Method(n)); of != nil {
			s[nornv1.Method(n)] = shapeOf(of.Request().ProtoReflect().Descriptor())
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

// weigh gives the bytes that a request takes in memory once it is decoded,
// rather too many than too few, and the length of its longest list. What is no
// protobuf is weighed as far as it can be read: decoding will refuse it.
func (s scale) weigh(m nornv1.Method, body []byte) (bytes, longest int) {
	var counts [countedFields]int
	bytes = requestCost + len(body) + s[m].weigh(body, &counts)
	for _, n := range counts {
		longest = max(longest, n)
	}
	return bytes, longest
}

// tooHeavy refuses what decoding alone would make a burden of.
func tooHeavy(weight, longest int) *proto.Error {
	switch {
	case longest > proto.MaxBatchTasks:
		return proto.Invalid("the batch has %d items, over the limit of %d; send smaller batches", longest, proto.MaxBatchTasks)
	case weight > maxWeight:
		return proto.Invalid("the request takes %d bytes of memory, over the limit of %d; send smaller batches", weight, maxWeight)
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
			extra += messageCost
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
