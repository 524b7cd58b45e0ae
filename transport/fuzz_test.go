package transport

import (
	"errors"
	"io"
	"testing"
	"time"
)

// FuzzServer sends arbitrary bytes to a server: each request gets one answer
// as long as the bytes are frames, and another connection is unharmed.
func FuzzServer(f *testing.F) {
	f.Add(AppendFrame(nil, Frame{Request: 1, Method: 3, Body: []byte("hi")}))
	f.Add(AppendFrame(AppendFrame(nil, Frame{Request: 1, Method: 3, Deadline: time.Second}), Frame{Request: 1, Flags: FlagCancel}))
	f.Add(append(oversize(1, 900), make([]byte, 890)...))
	f.Add(oversize(1, 1<<31))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{0x16, 3, 1, 0, 0})
	const limit = 512
	_, ln := serve(f, Config{MaxFrame: limit, MaxInFlight: 4, MaxOutboxBytes: 1 << 20}, &handler{handle: echoFrame})
	other := dialTo(f, ln, ClientConfig{})
	f.Fuzz(func(t *testing.T, b []byte) {
		nc := rawTo(t, ln)
		go func() {
			_, _ = nc.Write(b) // it may be cut off while we write
			_ = nc.(*pipeEnd).CloseWrite()
		}()
		requests := make(map[uint64]int)
		for rest := b; ; {
			fr, n, err := ParseFrame(rest, limit)
			if fr.Request != 0 && fr.Flags&(FlagResponse|FlagCancel) == 0 && (n > 0 || errors.Is(err, ErrFrameTooLarge)) {
				requests[fr.Request]++
			}
			if n == 0 {
				break // what comes after a refused frame is not followed here
			}
			rest = rest[n:]
		}
		all, _ := io.ReadAll(nc) // however it ends
		for len(all) > 0 {
			fr, n, err := ParseFrame(all, DefaultMaxFrame)
			if err != nil || n == 0 {
				break // words of another protocol
			}
			all = all[n:]
			if requests[fr.Request]--; fr.Request != 0 && requests[fr.Request] < 0 && len(b) < limit {
				t.Fatalf("an answer that nobody asked for: %+v", fr)
			}
		}
		if got, err := callText(t.Context(), other, "x"); got != "x" {
			t.Fatalf("another connection: %v", err)
		}
	})
}

// FuzzClient answers a client with arbitrary bytes: its calls end, and nothing
// else happens.
func FuzzClient(f *testing.F) {
	answer := func(fr Frame) []byte {
		fr.Flags |= FlagResponse
		return AppendFrame(nil, fr)
	}
	f.Add(answer(Frame{Request: 1, Method: 7, Body: []byte("x")}))
	f.Add(append(answer(Frame{Request: 2}), answer(Frame{Request: 1, Flags: FlagError})...))
	f.Add(answer(Frame{Flags: FlagError, Body: []byte("full")}))
	f.Add(append(oversize(1, 900), make([]byte, 890)...))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	f.Add([]byte(tlsAlert))
	f.Fuzz(func(t *testing.T, b []byte) {
		near, far := Pipe(len(b) + 1<<16)
		c := NewClient(near, ClientConfig{MaxFrame: 512, DecodeError: func([]byte) error { return errors.New("refused") }})
		ended := make(chan error, 2)
		for range cap(ended) {
			go func() { _, err := callText(t.Context(), c, "x"); ended <- err }()
			receive(t, far)
		}
		_, _ = far.Write(b) // the client may have had enough
		_ = far.(*pipeEnd).CloseWrite()
		for range cap(ended) {
			var broken *CallError
			if err := <-ended; err != nil && !errors.As(err, &broken) && !errors.Is(err, ErrRemote) {
				t.Fatalf("a call ended with %v", err)
			}
		}
		<-c.Done()
		if c.Err() == nil || c.InFlight() < 0 {
			t.Fatalf("the client is left with %v and %d requests", c.Err(), c.InFlight())
		}
		_, _ = io.Copy(io.Discard, far)
		_ = far.Close()
	})
}
