package crdt

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/id"
)

func TestEveryKindHasATest(t *testing.T) {
	for i, c := range codecs() {
		if int(c.kind) != i+1 {
			t.Errorf("kind %d is in place %d", c.kind, i)
		}
	}
	next := Key{Kind: Kind(len(codecs()) + 1)}
	if err := next.check(); !errors.Is(err, ErrUnknown) {
		t.Errorf("kind %d: %v; add it to the codecs of the tests", next.Kind, err)
	}
}

func TestRoundTrip(t *testing.T) {
	for _, c := range codecs() {
		t.Run(c.name, rapid.MakeCheck(func(t *rapid.T) {
			value := c.draw.Draw(t, "value")
			body := value.AppendTo([]byte("before"))
			if !bytes.HasPrefix(body, []byte("before")) {
				t.Fatal("AppendTo has changed what was there")
			}
			body = body[len("before"):]
			got, err := c.decode(body)
			if err != nil {
				t.Fatalf("%x: %v", body, err)
			}
			if !reflect.DeepEqual(got, value) {
				t.Fatalf("%x was %+v, is %+v", body, value, got)
			}
			if value.key().Kind != c.kind {
				t.Fatalf("key %v of kind %d", value.key(), c.kind)
			}
			if err := factOf(someTask(), value).Check(); err != nil {
				t.Fatal(err)
			}
		}))
	}
}

// The exported ways to the bytes agree.
func TestFactAndEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, c := range codecs() {
			value := c.draw.Draw(t, c.name)
			v := reflect.ValueOf(value)
			fact := v.MethodByName("Fact").Call([]reflect.Value{reflect.ValueOf(someTask())})[0].Interface().(Fact)
			encoded := v.MethodByName("Encode").Call(nil)[0].Bytes()
			if want := factOf(someTask(), value); !reflect.DeepEqual(fact, want) || !bytes.Equal(encoded, want.Body) {
				t.Fatalf("fact %+v, encoded %x, want %+v", fact, encoded, want)
			}
		}
	})
}

// One value, one encoding: whatever is done to the bytes, they are refused or
// they are the encoding of what they are read as.
func TestOnlyCanonicalBytesAreRead(t *testing.T) {
	for _, c := range codecs() {
		t.Run(c.name, rapid.MakeCheck(func(t *rapid.T) {
			body := c.draw.Draw(t, "value").AppendTo(nil)
			at := rapid.IntRange(0, len(body)-1).Draw(t, "at")
			other := rapid.OneOf(rapid.SampledFrom([]byte{0, 1, 2, 247, 248, 249, 255}), rapid.Byte()).Draw(t, "byte")
			switch rapid.SampledFrom([]string{"replace", "insert", "delete", "cut", "append"}).Draw(t, "how") {
			case "replace":
				body[at] = other
			case "insert":
				body = slices.Insert(body, at, other)
			case "delete":
				body = slices.Delete(body, at, at+1)
			case "cut":
				body = body[:at]
			case "append":
				body = append(body, other)
			}
			checkCanonical(t, c, body)
		}))
	}
}

// failer is what rapid's and the testing package's T have in common.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func checkCanonical(t failer, c codec, body []byte) {
	t.Helper()
	value, err := c.decode(body)
	if err != nil {
		if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrUnknown) {
			t.Fatalf("%x: %v is no error of this package", body, err)
		}
		if zero := reflect.Zero(reflect.TypeOf(value)).Interface(); !reflect.DeepEqual(value, zero) {
			t.Fatalf("%x: %v, and yet %+v", body, err, value)
		}
		return
	}
	if again := value.AppendTo(nil); !bytes.Equal(again, body) {
		t.Fatalf("%x was read as %+v, whose bytes are %x", body, value, again)
	}
}

func TestNumbersAreMinimalAndInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawUint(t, "a"), drawUint(t, "b")
		x, y := appendUint(nil, a), appendUint(nil, b)
		if bytes.Compare(x, y) != cmp.Compare(a, b) {
			t.Fatalf("%d is %x, %d is %x", a, x, b, y)
		}
		if a <= b && len(x) > len(y) {
			t.Fatalf("%d takes %d bytes, %d takes %d", a, len(x), b, len(y))
		}
	})
	for v, want := range map[uint64]string{
		0: "00", 247: "f7", 248: "f8f8", 255: "f8ff", 256: "f90100", 1 << 32: "fc0100000000", math.MaxUint64: "ffffffffffffffffff",
	} {
		if got := hex.EncodeToString(appendUint(nil, v)); got != want {
			t.Errorf("%d is %s, want %s", v, got, want)
		}
	}
}

func TestDecodersRefuse(t *testing.T) {
	deps := func(ids ...id.ID) []byte { return Enqueued{Dependencies: ids}.Encode() }
	headers := func(keys ...string) []byte {
		e := Enqueued{}
		for _, k := range keys {
			e.Headers = append(e.Headers, Header{Key: k})
		}
		return e.Encode()
	}
	flagged := Update{Token: 1}.Encode()
	flagged[4] = 2
	for _, c := range []struct {
		name string
		kind Kind
		body []byte
		want error
	}{
		{"nothing", KindExpired, nil, ErrMalformed},
		{"version 0", KindExpired, []byte{0, 1, 1}, ErrMalformed},
		{"a newer version", KindExpired, []byte{3, 1, 1}, ErrUnknown},
		{"a number in too many bytes", KindExpired, []byte{1, 0xf8, 247, 1}, ErrMalformed},
		{"a number with a leading zero", KindExpired, []byte{1, 0xf9, 0, 255, 1}, ErrMalformed},
		{"a number cut short", KindExpired, []byte{1, 1, 0xfa, 1}, ErrMalformed},
		{"bytes left over", KindExpired, []byte{1, 1, 1, 0}, ErrMalformed},
		{"more than the largest body", KindUpdate, Update{Data: make([]byte, MaxBody)}.Encode(), ErrMalformed},
		{"a flag that is neither", KindUpdate, flagged, ErrMalformed},
		{"more text than there is", KindCancelled, []byte{1, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, ErrMalformed},
		{"a 33-bit limit of attempts", KindEnqueued, []byte{1, 0, 0, 0, 0, 0, 0, 0xfc, 1, 0, 0, 0, 0}, ErrMalformed},
		{"an unknown policy", KindEnqueued, Enqueued{OnDepFailure: 3}.Encode(), ErrMalformed},
		{"dependencies out of order", KindEnqueued, deps(id.ID{2}, id.ID{1}), ErrMalformed},
		{"a dependency twice", KindEnqueued, deps(id.ID{1}, id.ID{1}), ErrMalformed},
		{"too many dependencies", KindEnqueued, deps(make([]id.ID, maxDependencies+1)...), ErrMalformed},
		{"headers out of order", KindEnqueued, headers("b", "a"), ErrMalformed},
		{"a header twice", KindEnqueued, headers("a", "a"), ErrMalformed},
		{"too many headers", KindEnqueued, headers(make([]string, maxHeaders+1)...), ErrMalformed},
		{"further fields that are none", KindExpired, []byte{1, 1, 1, 2, 0x60, 1}, ErrMalformed},
		{"no further fields", KindCancelled, append(Cancelled{}.Encode(), 0), ErrMalformed},
		{"further fields out of order", KindCancelled, Cancelled{Further: []byte{0x68, 1, 0x60, 1}}.Encode(), ErrMalformed},
		{"a further field with a long number", KindCancelled, Cancelled{Further: []byte{0xe0, 0, 1}}.Encode(), ErrMalformed},
		{"a further field with a long value", KindCancelled, Cancelled{Further: []byte{0x60, 0x81, 0}}.Encode(), ErrMalformed},
		{"a further field with a long length", KindCancelled, Cancelled{Further: []byte{0x62, 0x80, 0}}.Encode(), ErrMalformed},
		{"a further field cut short", KindCancelled, Cancelled{Further: []byte{0x62, 2, 0}}.Encode(), ErrMalformed},
		{"a further field of number 0", KindCancelled, Cancelled{Further: []byte{0, 1}}.Encode(), ErrMalformed},
		{"a further field over the highest number", KindCancelled, Cancelled{Further: []byte{0x80, 0x80, 0x80, 0x80, 0x10, 1}}.Encode(), ErrMalformed},
		{"a group", KindCancelled, Cancelled{Further: []byte{0x63, 0x64}}.Encode(), ErrMalformed},
		{"the end of a group", KindCancelled, Cancelled{Further: []byte{0x64}}.Encode(), ErrMalformed},
		{"an unknown type of field", KindCancelled, Cancelled{Further: []byte{0x66, 1}}.Encode(), ErrMalformed},
		{"too many further fields", KindCancelled, Cancelled{Further: bytes.Repeat([]byte{0x60, 1}, MaxFurther+1)}.Encode(), ErrMalformed},
		{"something behind them", KindCancelled, append(Cancelled{Further: []byte{0x60, 1}}.Encode(), 1), ErrMalformed},
		{"requeued into generation 0", KindRequeued, Requeued{}.Encode(), ErrMalformed},
		{"a tombstone of a ready task", KindTombstone, Tombstone{Outcome: StateReady}.Encode(), ErrMalformed},
		{"a tombstone of an unknown state", KindTombstone, Tombstone{Outcome: 8}.Encode(), ErrMalformed},
	} {
		if v, err := codecOf(c.kind).decode(c.body); !errors.Is(err, c.want) {
			t.Errorf("%s: %v and %+v, want %v", c.name, err, v, c.want)
		}
	}
}

func TestKeyRoundTripAndOrder(t *testing.T) {
	draw := rapid.Custom(func(t *rapid.T) Key {
		return codecOf(Kind(rapid.IntRange(1, 10).Draw(t, "kind"))).draw.Draw(t, "value").key()
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		x, y := a.Append(nil), b.Append(nil)
		if got, err := DecodeKey(x); err != nil || got != a || len(x) != KeySize {
			t.Fatalf("%v is %x, comes back as %v, %v", a, x, got, err)
		}
		if got := a.Compare(b); got != bytes.Compare(x, y) {
			t.Fatalf("%v and %v compare as %d, their bytes as %d", a, b, got, bytes.Compare(x, y))
		}
	})
}

func TestDecodeKeyRefuses(t *testing.T) {
	for _, c := range []struct {
		bytes []byte
		want  error
	}{
		{nil, ErrMalformed},
		{make([]byte, KeySize), ErrMalformed},
		{Key{Kind: KindUpdate}.Append(nil)[:KeySize-1], ErrMalformed},
		{append(Key{Kind: KindUpdate}.Append(nil), 0), ErrMalformed},
		{Key{Kind: KindEnqueued, A: 1}.Append(nil), ErrMalformed},
		{Key{Kind: KindTombstone, B: 1}.Append(nil), ErrMalformed},
		{Key{Kind: KindCompleted, A: 1, B: 1}.Append(nil), ErrMalformed},
		{Key{Kind: 13}.Append(nil), ErrUnknown},
		{Key{Kind: 255}.Append(nil), ErrUnknown},
	} {
		if k, err := DecodeKey(c.bytes); !errors.Is(err, c.want) || k != (Key{}) {
			t.Errorf("%x: %v, %v, want %v", c.bytes, k, err, c.want)
		}
	}
}

func TestCheckRefusesABodyUnderAnotherKey(t *testing.T) {
	f := Completed{Token: 7}.Fact(someTask())
	f.CRC = 0 // which would tell, too
	f.Key.A = 8
	if err := f.Check(); !errors.Is(err, ErrMalformed) {
		t.Errorf("token 7 under token 8: %v", err)
	}
	f = Expired{Token: 7}.Fact(someTask())
	f.CRC = 0
	f.Key.Kind = KindFailed
	if err := f.Check(); !errors.Is(err, ErrMalformed) {
		t.Errorf("expired under failed: %v", err)
	}
	f.Key.Kind = 0
	if err := f.Check(); !errors.Is(err, ErrMalformed) {
		t.Errorf("no kind: %v", err)
	}
	f.Key.Kind = 99
	if err := f.Check(); !errors.Is(err, ErrUnknown) {
		t.Errorf("kind 99: %v", err)
	}
}

// What is stored, sent and hashed never changes: an old store must be readable,
// and nodes of two versions must agree on their trees.
func TestBytesAreStable(t *testing.T) {
	dep := id.ID(slices.Repeat([]byte{0xdd}, id.Size))
	for _, c := range []struct {
		value content
		want  string // in parts, for the reader
	}{
		{Enqueued{
			Queue: "mail", Priority: -3, Payload: []byte("hi"), NotBefore: 300, Dependencies: []id.ID{dep}, OnDepFailure: DepFailureWait,
			Retry: Retry{MaxAttempts: 25, Initial: 1e9, Max: 3600e9, Multiplier: 2000, Jitter: 200, FromQueue: true}, Headers: []Header{{"a", "b"}}, Key: "k", KeyWindow: 248, Admission: 1,
		}, "01 01 046d61696c 05 f9012c 02 01 19 fb3b9aca00 fd034630b8a000 f907d0 c8 016b f8f8 01 " + strings.Repeat("dd", 20) + " 01 0161 0162 026869"},
		{Update{Token: 1<<32 | 2, Seq: 3, Data: []byte("d"), At: 4, Output: true}, "01 fc0100000002 03 04 01 0164"},
		{Completed{Token: 1, Seq: 2, At: 3, Result: []byte("r")}, "01 01 03 02 0172"},
		{Cancelled{At: 1, Reason: "r"}, "01 01 0172"},
		{Failed{Token: 1, Error: "e", At: 2, RetryAt: 3, Counted: true}, "01 01 02 03 01 0165"},
		{Expired{Token: 1, At: 2}, "01 01 02"},
		{Dead{Generation: 1, At: 2, Reason: "r"}, "01 01 02 0172"},
		{DependencyCancelled{Generation: 1, Dependency: dep, At: 2}, "01 01 02 " + strings.Repeat("dd", 20)},
		{Requeued{Generation: 1, AfterToken: 2, At: 3}, "01 01 03 02"},
		{Tombstone{Outcome: StateDead, At: 2, Collected: 3}, "01 02 03 06"},
		{Unblocked{At: 2}, "01 02"},
	} {
		if got, want := hex.EncodeToString(c.value.AppendTo(nil)), strings.ReplaceAll(c.want, " ", ""); got != want {
			t.Errorf("%T:\n got %s\nwant %s", c.value, got, want)
		}
	}
	key := hex.EncodeToString(Key{Kind: KindUpdate, A: 0x0102, B: 3}.Append(nil))
	if want := "02" + "0000000000000102" + "0000000000000003"; key != want {
		t.Errorf("key %s, want %s", key, want)
	}
}

// Of two bodies that differ in their time the earlier one wins, so that a late
// duplicate changes nothing.
func TestTheEarlierWins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		early := rapid.Int64Range(0, math.MaxInt64-1).Draw(t, "early")
		late := rapid.Int64Range(early+1, math.MaxInt64).Draw(t, "late")
		text, other := drawText(t, "text"), drawText(t, "other")
		for _, c := range [][2]content{
			{Update{At: early, Data: []byte(text)}, Update{At: late, Data: []byte(other)}},
			{Completed{At: early, Seq: 9, Result: []byte(text)}, Completed{At: late, Result: []byte(other)}},
			{Cancelled{At: early, Reason: text}, Cancelled{At: late, Reason: other}},
			{Failed{At: early, Error: text, RetryAt: late}, Failed{At: late, Error: other}},
			{Expired{At: early}, Expired{At: late}},
			{Dead{At: early, Reason: text}, Dead{At: late, Reason: other}},
			{DependencyCancelled{At: early, Dependency: id.ID{9}}, DependencyCancelled{At: late}},
			{Requeued{At: early, AfterToken: 9}, Requeued{At: late}},
			{Tombstone{At: early, Collected: late, Outcome: StateCancelled}, Tombstone{At: late, Outcome: StateCompleted}},
			{Tombstone{Collected: early, Outcome: StateCancelled}, Tombstone{Collected: late, Outcome: StateCompleted}},
			{Unblocked{At: early}, Unblocked{At: late}},
			{Enqueued{Admission: early, Queue: text}, Enqueued{Admission: late, Queue: other}},
		} {
			a, b := c[0].AppendTo(nil), c[1].AppendTo(nil)
			if !Wins(a, b) || Wins(b, a) || Wins(a, a) {
				t.Fatalf("%+v does not win over %+v", c[0], c[1])
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, c := range codecs() {
		for seed := range 3 {
			f.Add(byte(c.kind), c.draw.Example(seed).AppendTo(nil))
		}
	}
	f.Add(byte(KindCancelled), Cancelled{Further: []byte{0x60, 1, 0x6a, 2, 'n', 'o', 0x95, 1, 1, 2, 3, 4}}.Encode())
	f.Add(byte(0), []byte(nil))
	f.Add(byte(KindEnqueued), []byte{1, 0xff, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		if kind == 0 || int(kind) > len(codecs()) {
			fact := Fact{Key: Key{Kind: Kind(kind)}, Body: body}
			if err := fact.Check(); err == nil {
				t.Fatalf("a fact of kind %d was taken", kind)
			}
			return
		}
		c := codecOf(Kind(kind))
		checkCanonical(t, c, body)
		if value, err := c.decode(body); err == nil {
			if err := (Fact{Key: value.key(), Body: body}).Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func FuzzDecodeKey(f *testing.F) {
	f.Add(Key{Kind: KindUpdate, A: 1, B: 2}.Append(nil))
	f.Add(Key{Kind: KindEnqueued, A: 1}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := DecodeKey(b)
		if err == nil && !bytes.Equal(k.Append(nil), b) {
			t.Errorf("%x was read as %v", b, k)
		}
	})
}
