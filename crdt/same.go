package crdt

import "bytes"

// SameContent tells whether two bodies of one key say the same but for the
// time at which a node took them in: a client's retry through another node.
func SameContent(k Kind, a, b []byte) bool {
	switch k {
	case KindUpdate:
		x, errX := DecodeUpdate(a)
		y, errY := DecodeUpdate(b)
		return errX == nil && errY == nil && x.Output == y.Output && bytes.Equal(x.Data, y.Data) && bytes.Equal(x.Further, y.Further)
	case KindCompleted:
		x, errX := DecodeCompleted(a)
		y, errY := DecodeCompleted(b)
		return errX == nil && errY == nil && x.Seq == y.Seq && bytes.Equal(x.Result, y.Result) && bytes.Equal(x.Further, y.Further)
	case KindCancelled:
		x, errX := DecodeCancelled(a)
		y, errY := DecodeCancelled(b)
		return errX == nil && errY == nil && x.Reason == y.Reason && bytes.Equal(x.Further, y.Further)
	}
	return bytes.Equal(a, b)
}
