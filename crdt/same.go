package crdt

import "bytes"

// SameContent tells whether two bodies of one key say the same but for what nodes have put
// in, times and who had the claim: a client's retry through another node, or what two
// leaders wrote one after the other. Of an enqueue the client's own words count,
// see [SameSpec]. A broken body says nothing.
func SameContent(k Kind, a, b []byte) bool {
	switch k {
	case KindEnqueued:
		x, errX := DecodeEnqueued(a)
		y, errY := DecodeEnqueued(b)
		return errX == nil && errY == nil && SameSpec(x, y)
	case KindUpdate:
		return alike(a, b, DecodeUpdate, func(u *Update) { u.At = 0 })
	case KindCompleted:
		return alike(a, b, DecodeCompleted, func(c *Completed) { c.At, c.Further = 0, WithoutRun(c.Further) })
	case KindCancelled:
		return alike(a, b, DecodeCancelled, func(c *Cancelled) { c.At = 0 })
	case KindFailed: // each leader draws the jitter of the delay anew
		return alike(a, b, DecodeFailed, func(f *Failed) { f.At, f.RetryAt, f.Further = 0, 0, WithoutRun(f.Further) })
	case KindExpired:
		return alike(a, b, DecodeExpired, func(e *Expired) { e.At, e.Further = 0, WithoutRun(e.Further) })
	case KindDead:
		return alike(a, b, DecodeDead, func(d *Dead) { d.At = 0 })
	case KindDependencyCancelled:
		return alike(a, b, DecodeDependencyCancelled, func(d *DependencyCancelled) { d.At = 0 })
	case KindRequeued:
		return alike(a, b, DecodeRequeued, func(q *Requeued) { q.At = 0 })
	case KindTombstone:
		return alike(a, b, DecodeTombstone, func(t *Tombstone) { t.At, t.Collected = 0, 0 })
	case KindUnblocked:
		return alike(a, b, DecodeUnblocked, func(u *Unblocked) { u.At = 0 })
	case KindOlder: // two leaders count up to where they know
		return true
	}
	return bytes.Equal(a, b)
}

// alike compares what two bodies say once strip has taken the nodes' own words out.
func alike[T any, P interface {
	*T
	Encode() []byte
}](a, b []byte, decode func([]byte) (T, error), strip func(*T)) bool {
	x, errX := decode(a)
	y, errY := decode(b)
	if errX != nil || errY != nil {
		return false
	}
	strip(&x)
	strip(&y)
	return bytes.Equal(P(&x).Encode(), P(&y).Encode())
}
