package crdt

import (
	"bytes"
	"errors"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"
)

// Whatever fields there are, in whatever order: one form, which the decoder takes, and which
// has each field of each number, in the order of those of its number.
func TestFurtherFieldsHaveOneForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := drawFields(t)
		one, err := Further(raw)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Further(one); err != nil || !bytes.Equal(again, one) {
			t.Fatalf("%x becomes %x: %v", one, again, err)
		}
		c, err := DecodeCancelled(Cancelled{Further: one}.Encode())
		if err != nil || !bytes.Equal(c.Further, one) {
			t.Fatalf("%x was read as %x: %v", one, c.Further, err)
		}
		was, is := valuesOf(t, raw), valuesOf(t, one)
		if len(was) != len(is) {
			t.Fatalf("%v has become %v", was, is)
		}
		for n, v := range was {
			if v != is[n] {
				t.Fatalf("field %d was %q, is %q", n, v, is[n])
			}
		}
	})
}

// Whatever comes in, what is given back is taken by the decoder, and is its own form.
func FuzzFurther(f *testing.F) {
	f.Add([]byte{0x60, 1})
	f.Add([]byte{0x6a, 2, 'n', 'o', 0xe0, 0, 0x81, 0, 0x95, 1, 1, 2, 3, 4})
	f.Add([]byte{0x63, 0x64})
	f.Fuzz(func(t *testing.T, raw []byte) {
		one, err := Further(raw)
		if err != nil {
			if !errors.Is(err, ErrMalformed) || one != nil {
				t.Fatalf("%x: %x, %v", raw, one, err)
			}
			return
		}
		if again, err := Further(one); err != nil || !bytes.Equal(again, one) || len(one) > len(raw) {
			t.Fatalf("%x becomes %x, and that %x: %v", raw, one, again, err)
		}
		if c, err := DecodeCancelled(Cancelled{Further: one}.Encode()); err != nil || !bytes.Equal(c.Further, one) {
			t.Fatalf("%x was read as %x: %v", one, c.Further, err)
		}
	})
}

// valuesOf gives the values of each number, one after the other.
func valuesOf(t failer, b []byte) map[protowire.Number]string {
	values := map[protowire.Number]string{}
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeField(b)
		if size < 0 {
			t.Fatalf("%x: %v", b, protowire.ParseError(size))
		}
		_, _, tag := protowire.ConsumeTag(b)
		value := string(b[tag:size])
		switch kind {
		case protowire.VarintType:
			v, _ := protowire.ConsumeVarint(b[tag:])
			value = string(protowire.AppendVarint(nil, v))
		case protowire.BytesType:
			v, _ := protowire.ConsumeBytes(b[tag:])
			value = string(protowire.AppendBytes(nil, v))
		}
		values[n] += string(byte(kind)) + value
		b = b[size:]
	}
	return values
}

func TestFurtherFieldsThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		raw []byte
		bad bool
	}{
		"as many as may be":       {bytes.Repeat([]byte{0x60, 1}, MaxFurther), false},
		"too many":                {bytes.Repeat([]byte{0x60, 1}, MaxFurther+1), true},
		"a group":                 {[]byte{0x63, 0x64}, true},
		"cut short":               {[]byte{0x62, 2, 0}, true},
		"a tag alone":             {[]byte{0x60}, true},
		"number 0":                {[]byte{0, 1}, true},
		"over the highest number": {[]byte{0x80, 0x80, 0x80, 0x80, 0x10, 1}, true},
	} {
		if got, err := Further(c.raw); errors.Is(err, ErrMalformed) != c.bad || c.bad && got != nil {
			t.Errorf("%s: %x, %v", name, got, err)
		}
	}
}

// Without further fields nothing is written and nothing is allocated for them; with some the
// spec is another one, by whatever it is told.
func TestFurtherFieldsArePartOfTheSpec(t *testing.T) {
	plain := Enqueued{Queue: "q", Payload: []byte("p")}
	none, one, other := plain, plain, plain
	none.Further, one.Further, other.Further = []byte{}, []byte{0x60, 1}, []byte{0x60, 2}
	if !bytes.Equal(plain.Encode(), none.Encode()) || !SameSpec(plain, none) || plain.SpecDigest() != none.SpecDigest() {
		t.Error("no further fields leave a trace")
	}
	for _, c := range [][2]Enqueued{{plain, one}, {one, other}} {
		if SameSpec(c[0], c[1]) || c[0].SpecDigest() == c[1].SpecDigest() || HashFact(c[0].Fact(someTask())) == HashFact(c[1].Fact(someTask())) {
			t.Errorf("%x and %x are told to be the same", c[0].Further, c[1].Further)
		}
	}
	body := plain.Encode()
	if n := testing.AllocsPerRun(100, func() { _, _ = DecodeEnqueued(body) }); n > 1 {
		t.Errorf("decoding allocates %v times, want once, for the queue", n)
	}
}

// TestTheQueueAlone: the queue of a task is that of its whole decoding, and what is no spec has none.
func TestTheQueueAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEnqueued(t)
		if queue, err := QueueOf(e.Encode()); err != nil || queue != e.Queue {
			t.Fatalf("%q, %v; want %q", queue, err, e.Queue)
		}
	})
	for _, bad := range [][]byte{nil, {0}, {version}, {version, 0}, {version, 0, 5, 'a'}} {
		if queue, err := QueueOf(bad); !errors.Is(err, ErrMalformed) || queue != "" {
			t.Errorf("%x: %q, %v", bad, queue, err)
		}
	}
}

// The view of a task gives those of its newest failure and retry, and of its cancellation.
func TestFurtherFieldsOfATask(t *testing.T) {
	s := setOf(t, []Fact{
		Failed{Token: 1, Further: []byte{0x60, 1}}.Fact(someTask()), Failed{Token: 2, Further: []byte{0x60, 2}}.Fact(someTask()),
		Requeued{Generation: 1, Further: []byte{0x60, 3}}.Fact(someTask()), Requeued{Generation: 2, Further: []byte{0x60, 4}}.Fact(someTask()),
		Cancelled{Further: []byte{0x60, 5}}.Fact(someTask()),
	})
	if f, c, r := view(t, s).Further(); !bytes.Equal(f, []byte{0x60, 2}) || !bytes.Equal(c, []byte{0x60, 5}) || !bytes.Equal(r, []byte{0x60, 4}) {
		t.Errorf("%x, %x, %x", f, c, r)
	}
	if f, c, r := view(t, setOf(t, nil)).Further(); f != nil || c != nil || r != nil {
		t.Errorf("of an empty task: %x, %x, %x", f, c, r)
	}
}
