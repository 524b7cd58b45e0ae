package crdt

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/norn-dev/norn/id"
)

// someTask is the task of most tests.
func someTask() id.ID {
	o := id.OrderOf(1_790_000_000_000_000_000, id.KindTask)
	return id.ID(append(o[:], "any generator"[:12]...))
}

// codec is a kind of fact as the tests of all kinds see it.
type codec struct {
	kind   Kind
	name   string
	draw   *rapid.Generator[content] // from the whole range of its fields
	decode func([]byte) (content, error)
}

func newCodec[T content](kind Kind, name string, decoder func([]byte) (T, error), draw func(*rapid.T) T) codec {
	return codec{
		kind: kind, name: name,
		draw: rapid.Custom(func(t *rapid.T) content { return draw(t) }),
		decode: func(b []byte) (content, error) {
			c, err := decoder(b)
			return c, err
		},
	}
}

// numbers come from all lengths of the encoding.
func drawUint(t *rapid.T, name string) uint64 {
	if rapid.Bool().Draw(t, name+" small") {
		return rapid.Uint64Range(0, 300).Draw(t, name)
	}
	return rapid.Uint64().Draw(t, name) >> rapid.IntRange(0, 63).Draw(t, name+" shift")
}

func drawTime(t *rapid.T, name string) int64 { return int64(drawUint(t, name)) }

func drawText(t *rapid.T, name string) string {
	return rapid.OneOf(rapid.String(), rapid.Map(rapid.IntRange(0, 600), func(n int) string { return strings.Repeat("x", n) })).Draw(t, name)
}

// drawBytes gives nil for none, as decoders do.
func drawBytes(t *rapid.T, name string) []byte {
	b := rapid.SliceOf(rapid.Byte()).Draw(t, name)
	if len(b) == 0 {
		return nil
	}
	return b
}

func drawID(t *rapid.T, name string) id.ID {
	return id.ID(rapid.SliceOfN(rapid.Byte(), id.Size, id.Size).Draw(t, name))
}

// drawFurther draws further fields in their canonical form, mostly none.
func drawFurther(t *rapid.T) []byte {
	if rapid.IntRange(0, 2).Draw(t, "has further fields") > 0 {
		return nil
	}
	b, err := Further(drawFields(t))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// drawFields draws protobuf fields in any order and of any length.
func drawFields(t *rapid.T) (b []byte) {
	for range rapid.IntRange(0, 5).Draw(t, "fields") {
		n := protowire.Number(rapid.OneOf(rapid.Int32Range(1, 20), rapid.Int32Range(1, int32(protowire.MaxValidNumber))).Draw(t, "number"))
		v := drawUint(t, "value")
		switch rapid.IntRange(0, 4).Draw(t, "type") {
		case 0:
			b = protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
		case 1:
			b = protowire.AppendFixed32(protowire.AppendTag(b, n, protowire.Fixed32Type), uint32(v))
		case 2:
			b = protowire.AppendFixed64(protowire.AppendTag(b, n, protowire.Fixed64Type), v)
		case 3:
			b = protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), drawBytes(t, "bytes"))
		case 4: // longer than it need be
			b = append(protowire.AppendTag(b, n, protowire.VarintType), byte(v)|0x80, 0)
		}
	}
	return b
}

func drawRetry(t *rapid.T) Retry {
	return Retry{
		MaxAttempts: uint32(drawUint(t, "attempts")),
		Initial:     time.Duration(drawTime(t, "initial")), Max: time.Duration(drawTime(t, "max")),
		Multiplier: uint32(drawUint(t, "multiplier")), Jitter: uint32(drawUint(t, "jitter")),
		FromQueue: rapid.Bool().Draw(t, "from queue"),
	}
}

func drawEnqueued(t *rapid.T) Enqueued {
	e := Enqueued{
		Queue: drawText(t, "queue"), Priority: rapid.Int32().Draw(t, "priority"), Payload: drawBytes(t, "payload"),
		Admission: drawTime(t, "admission"), NotBefore: drawTime(t, "not before"),
		OnDepFailure: OnDepFailure(rapid.IntRange(0, 2).Draw(t, "on failure")), Retry: drawRetry(t),
		Key: drawText(t, "key"), KeyWindow: drawTime(t, "window"), Further: drawFurther(t),
	}
	for range rapid.IntRange(0, 4).Draw(t, "dependencies") {
		e.Dependencies = append(e.Dependencies, drawID(t, "dependency"))
	}
	slices.SortFunc(e.Dependencies, id.ID.Compare)
	e.Dependencies = slices.Compact(e.Dependencies)
	for range rapid.IntRange(0, 4).Draw(t, "headers") {
		e.Headers = append(e.Headers, Header{drawText(t, "header"), drawText(t, "value")})
	}
	slices.SortFunc(e.Headers, func(a, b Header) int { return strings.Compare(a.Key, b.Key) })
	e.Headers = slices.CompactFunc(e.Headers, func(a, b Header) bool { return a.Key == b.Key })
	return e
}

// codecs lists every kind: a new one must be added here.
func codecs() []codec {
	return []codec{
		newCodec(KindEnqueued, "enqueued", DecodeEnqueued, drawEnqueued),
		newCodec(KindUpdate, "update", DecodeUpdate, func(t *rapid.T) Update {
			return Update{Token: drawUint(t, "token"), Seq: drawUint(t, "seq"), Data: drawBytes(t, "data"), At: drawTime(t, "at"), Output: rapid.Bool().Draw(t, "output"), Further: drawFurther(t)}
		}),
		newCodec(KindCompleted, "completed", DecodeCompleted, func(t *rapid.T) Completed {
			return Completed{Token: drawUint(t, "token"), Seq: drawUint(t, "seq"), At: drawTime(t, "at"), Result: drawBytes(t, "result"), Further: drawFurther(t)}
		}),
		newCodec(KindCancelled, "cancelled", DecodeCancelled, func(t *rapid.T) Cancelled {
			return Cancelled{At: drawTime(t, "at"), Reason: drawText(t, "reason"), Further: drawFurther(t)}
		}),
		newCodec(KindFailed, "failed", DecodeFailed, func(t *rapid.T) Failed {
			return Failed{Token: drawUint(t, "token"), Error: drawText(t, "error"), At: drawTime(t, "at"), RetryAt: drawTime(t, "retry at"), Counted: rapid.Bool().Draw(t, "counted"), Further: drawFurther(t)}
		}),
		newCodec(KindExpired, "expired", DecodeExpired, func(t *rapid.T) Expired {
			return Expired{Token: drawUint(t, "token"), At: drawTime(t, "at"), Further: drawFurther(t)}
		}),
		newCodec(KindDead, "dead", DecodeDead, func(t *rapid.T) Dead {
			return Dead{Generation: drawUint(t, "generation"), At: drawTime(t, "at"), Reason: drawText(t, "reason")}
		}),
		newCodec(KindDependencyCancelled, "dependency cancelled", DecodeDependencyCancelled, func(t *rapid.T) DependencyCancelled {
			return DependencyCancelled{Generation: drawUint(t, "generation"), At: drawTime(t, "at"), Dependency: drawID(t, "dependency")}
		}),
		newCodec(KindRequeued, "requeued", DecodeRequeued, func(t *rapid.T) Requeued {
			return Requeued{Generation: max(drawUint(t, "generation"), 1), AfterToken: drawUint(t, "after"), At: drawTime(t, "at"), Further: drawFurther(t)}
		}),
		newCodec(KindTombstone, "tombstone", DecodeTombstone, func(t *rapid.T) Tombstone {
			return Tombstone{Outcome: State(rapid.IntRange(5, 7).Draw(t, "outcome")), At: drawTime(t, "at"), Collected: drawTime(t, "collected")}
		}),
		newCodec(KindUnblocked, "unblocked", DecodeUnblocked, func(t *rapid.T) Unblocked {
			return Unblocked{At: drawTime(t, "at")}
		}),
		newCodec(KindOlder, "older", DecodeOlder, drawOlder),
	}
}

func drawOlder(t *rapid.T) Older {
	o := Older{Ends: Ends{Below: max(drawUint(t, "below"), 1), After: drawUint(t, "after"), Attempts: drawUint(t, "attempts"), Failures: drawUint(t, "failures")}, Claims: drawUint(t, "claims")}
	for token := range uint64(rapid.IntRange(0, int(min(o.Below, MaxEarly))).Draw(t, "early")) {
		var c content = Failed{Token: token, Error: drawText(t, "error"), Further: drawFurther(t)}
		if rapid.Bool().Draw(t, "expired") {
			c = Expired{Token: token, Further: drawFurther(t)}
		}
		o.Early = append(o.Early, Early{c.key(), c.AppendTo(nil)})
	}
	return o
}

func codecOf(k Kind) codec { return codecs()[k-1] }

// drawSmall draws a fact of someTask from a domain so small that keys meet and
// bodies clash.
func drawSmall(t *rapid.T) content {
	token := rapid.Uint64Range(1, 4).Draw(t, "token")
	at := rapid.Int64Range(1, 4).Draw(t, "at")
	generation := rapid.Uint64Range(0, 2).Draw(t, "generation")
	text := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "text")
	flag := rapid.Bool().Draw(t, "flag")
	further := rapid.SampledFrom([][]byte{nil, nil, nil, {0x60, 1}, {0x60, 2}}).Draw(t, "further")
	switch Kind(rapid.IntRange(1, 11).Draw(t, "kind")) {
	case KindEnqueued:
		e := Enqueued{Queue: "q", NotBefore: rapid.SampledFrom([]int64{0, 2, 5}).Draw(t, "not before"), Payload: []byte(text), Further: further}
		if flag {
			e.Dependencies = []id.ID{{1}}
		}
		return e
	case KindUpdate:
		return Update{Token: token, Seq: rapid.Uint64Range(0, 4).Draw(t, "seq"), At: at, Data: []byte(text), Output: flag, Further: further}
	case KindCompleted:
		return Completed{Token: token, At: at, Result: []byte(text), Further: further}
	case KindCancelled:
		return Cancelled{At: at, Reason: text, Further: further}
	case KindFailed:
		return Failed{Token: token, At: at, Error: text, Counted: flag, Further: further, RetryAt: rapid.SampledFrom([]int64{0, 3, 6}).Draw(t, "retry at")}
	case KindExpired:
		return Expired{Token: token, At: at, Further: further}
	case KindDead:
		return Dead{Generation: generation, At: at, Reason: text}
	case KindDependencyCancelled:
		return DependencyCancelled{Generation: generation, At: at, Dependency: id.ID{1}}
	case KindRequeued:
		return Requeued{Generation: generation + 1, AfterToken: rapid.Uint64Range(0, 4).Draw(t, "after"), At: at, Further: further}
	}
	if flag {
		return Unblocked{At: at}
	}
	return Tombstone{At: at, Collected: at + rapid.Int64Range(0, 1).Draw(t, "collected"), Outcome: State(rapid.IntRange(5, 7).Draw(t, "outcome"))}
}

func factOf(task id.ID, c content) Fact { return NewFact(task, c.key(), c.AppendTo(nil)) }

// drawFacts draws facts of someTask, of these kinds only if any are given.
func drawFacts(t *rapid.T, name string, kinds ...Kind) []Fact {
	g := rapid.Custom(func(t *rapid.T) Fact { return factOf(someTask(), drawSmall(t)) })
	if len(kinds) > 0 {
		g = g.Filter(func(f Fact) bool { return slices.Contains(kinds, f.Key.Kind) })
	}
	return rapid.SliceOfN(g, 0, 14).Draw(t, name)
}
