package transport

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The bytes of the protocol: whoever changes these breaks every client.
func TestGoldenFrames(t *testing.T) {
	for _, tc := range []struct {
		name string
		f    Frame
		hex  string
	}{
		{"request", Frame{Request: 1, Method: 3, Body: []byte("hi")}, "0000000c" + "0000000000000001" + "0003" + "6869"},
		{"empty", Frame{Request: 0x0102030405060708, Method: 0x3ff}, "0000000a" + "0102030405060708" + "03ff"},
		{"deadline", Frame{Request: 2, Method: 4, Deadline: 1500 * time.Millisecond, Flags: FlagDeadline, Body: []byte("x")},
			"0000000f" + "0000000000000002" + "0804" + "000005dc" + "78"},
		{"reply", Frame{Request: 2, Method: 4, Flags: FlagResponse}, "0000000a" + "0000000000000002" + "8004"},
		{"error", Frame{Request: 2, Method: 4, Flags: FlagResponse | FlagError, Body: []byte{1}}, "0000000b" + "0000000000000002" + "c004" + "01"},
		{"cancel", Frame{Request: 9, Flags: FlagCancel}, "0000000a" + "0000000000000009" + "1000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := AppendFrame(nil, tc.f)
			if got := hex.EncodeToString(b); got != tc.hex {
				t.Fatalf("encoded as %s, want %s", got, tc.hex)
			}
			got, n, err := ParseFrame(append(b, "next"...), DefaultMaxFrame)
			if err != nil || n != len(b) {
				t.Fatalf("n %d, err %v", n, err)
			}
			wantFrame(t, got, tc.f)
			for cut := range b {
				if _, n, err := ParseFrame(b[:cut], DefaultMaxFrame); n != 0 || err != nil {
					t.Fatalf("%d of %d bytes: n %d, err %v", cut, len(b), n, err)
				}
			}
		})
	}
}

func wantFrame(t testing.TB, got, want Frame) {
	t.Helper()
	if got.Request != want.Request || got.Method != want.Method || got.Flags != want.Flags ||
		got.Deadline != want.Deadline || !bytes.Equal(got.Body, want.Body) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

func TestParseFrameRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, hex string
		is        error
	}{
		{"length under the head", "00000009", ErrMalformed},
		{"length zero", "00000000", ErrMalformed},
		{"over the limit", "00000065" + "0000000000000001" + "0003", ErrFrameTooLarge},
		{"largest length", "ffffffff" + "0000000000000001" + "0003", ErrFrameTooLarge},
		{"reserved bit", "0000000a" + "0000000000000001" + "0403", ErrMalformed},
		{"stream", "0000000a" + "0000000000000001" + "2003", ErrMalformed},
		{"deadline without bytes", "0000000d" + "0000000000000001" + "0803", ErrMalformed},
		{"cancel with a body", "0000000b" + "0000000000000001" + "1000" + "00", ErrMalformed},
		{"cancel as a reply", "0000000a" + "0000000000000001" + "9000", ErrMalformed},
		{"error as a request", "0000000a" + "0000000000000001" + "4003", ErrMalformed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, err := hex.DecodeString(tc.hex)
			if err != nil {
				t.Fatal(err)
			}
			if _, n, err := ParseFrame(b, 100); n != 0 || !errors.Is(err, tc.is) {
				t.Fatalf("n %d, err %v; want %v", n, err, tc.is)
			}
		})
	}
	// The limit itself is fine.
	f := Frame{Request: 1, Method: 1, Body: make([]byte, 90)}
	if _, n, err := ParseFrame(AppendFrame(nil, f), 100); n != 104 || err != nil {
		t.Fatalf("frame of the limit: n %d, err %v", n, err)
	}
}

func TestDeadlineMillis(t *testing.T) {
	for d, want := range map[time.Duration]uint32{
		0: 0, -1: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, time.Second: 1000, 1 << 62: 1<<32 - 1,
	} {
		if got := deadlineMillis(d); got != want {
			t.Errorf("%v: %d, want %d", d, got, want)
		}
	}
	// None left is a deadline too.
	b := AppendFrame(nil, Frame{Request: 1, Deadline: 1})
	clear(b[prefixBytes:])
	if f, _, err := ParseFrame(b, 100); err != nil || f.Deadline <= 0 {
		t.Errorf("deadline %v, err %v", f.Deadline, err)
	}
}

func FuzzReadFrame(f *testing.F) {
	f.Add(AppendFrame(nil, Frame{Request: 1, Method: 3, Body: []byte("hi")}))
	f.Add(AppendFrame(nil, Frame{Request: 1, Method: 3, Deadline: time.Second}))
	f.Add(AppendFrame(AppendFrame(nil, Frame{Request: 9, Flags: FlagCancel}), Frame{Request: 2, Flags: FlagResponse}))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{0, 0, 0, 9, 0, 0, 0})
	f.Add([]byte{0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 512
		frame, n, err := ParseFrame(b, limit)
		if err != nil || n == 0 {
			if n != 0 || frame.Body != nil {
				t.Fatalf("n %d and a body with err %v", n, err)
			}
		} else {
			if n > len(b) || n > limit+lengthBytes || len(frame.Body) > n-prefixBytes {
				t.Fatalf("n %d of %d bytes, body %d", n, len(b), len(frame.Body))
			}
			again := AppendFrame(nil, frame)
			if frame.Deadline != time.Nanosecond && !bytes.Equal(again, b[:n]) {
				t.Fatalf("%x encodes as %x", b[:n], again)
			}
		}
		compareReader(t, b, limit, []int{1})
		compareReader(t, b, limit, []int{len(b) + 1})
	})
}

// compareReader checks that a frameReader fed in pieces finds what ParseFrame
// finds in the whole.
func compareReader(t testing.TB, b []byte, limit int, pieces []int) {
	t.Helper()
	near, far := Pipe(len(b) + 1)
	defer near.Close()
	var pool buffers
	r := &frameReader{src: near, pool: &pool, maxFrame: limit, frameTimeout: time.Minute}
	defer r.release()
	rest, piece := b, 0
	for whole := b; ; {
		want, n, wantErr := ParseFrame(whole, limit)
		got, ok, err := r.next()
		for !ok && err == nil {
			k := min(max(pieces[piece%len(pieces)], 1), len(rest))
			piece++
			if _, err := far.Write(rest[:k]); err != nil && k > 0 {
				t.Fatal(err)
			}
			if rest = rest[k:]; len(rest) == 0 {
				far.Close()
			}
			if fillErr := r.fill(); errors.Is(fillErr, io.EOF) || errors.Is(fillErr, io.ErrUnexpectedEOF) {
				break
			} else if fillErr != nil {
				t.Fatal(fillErr)
			}
			got, ok, err = r.next()
		}
		if (err != nil) != (wantErr != nil) || ok != (n > 0) {
			t.Fatalf("reader: %v %v; whole: n %d, %v", ok, err, n, wantErr)
		}
		if !ok {
			return
		}
		wantFrame(t, got, want)
		whole = whole[n:]
	}
}

func TestReaderFindsTheSameFramesHoweverTheyArrive(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var b []byte
		for i := range rapid.IntRange(1, 8).Draw(rt, "frames") {
			f := Frame{Request: uint64(i) + 1, Method: uint16(rapid.IntRange(0, 1023).Draw(rt, "method"))}
			f.Body = bytes.Repeat([]byte{byte(i)}, rapid.SampledFrom([]int{0, 1, 100, 1010, 1024, 5000, 70_000}).Draw(rt, "size"))
			b = AppendFrame(b, f)
		}
		pieces := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 1<<17), rapid.SampledFrom([]int{14, 100})), 1, 10).Draw(rt, "pieces")
		compareReader(t, b, DefaultMaxFrame, pieces)
	})
}
