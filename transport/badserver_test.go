package transport

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAnswerTooLargeForTheClient(t *testing.T) {
	_, ln := serve(t, Config{}, &handler{handle: func(c *Conn, f Frame) {
		c.Reply(f.Request, f.Method, 0, Bytes(make([]byte, 10*len(f.Body))))
	}})
	c := dialTo(t, ln, ClientConfig{MaxFrame: 1000})
	_, err := callText(t.Context(), c, strings.Repeat("x", 300))
	wantCallError(t, err, true, ErrFrameTooLarge)
	if got, err := callText(t.Context(), c, "x"); err != nil || len(got) != 10 {
		t.Errorf("the connection is harmed: %d bytes, %v", len(got), err)
	}
}

func TestServerThatBreaksTheProtocol(t *testing.T) {
	for name, tc := range map[string]struct {
		answer []byte
		is     error
	}{
		"unknown id":     {AppendFrame(nil, Frame{Request: 99, Flags: FlagResponse}), ErrMalformed},
		"another method": {AppendFrame(nil, Frame{Request: 1, Method: 8, Flags: FlagResponse}), ErrMalformed},
		"its error":      {AppendFrame(nil, Frame{Request: 1, Method: 8, Flags: FlagResponse | FlagError}), ErrMalformed},
		"a request":      {AppendFrame(nil, Frame{Request: 1}), ErrMalformed},
		"bad length":     {make([]byte, 20), ErrPeerOther},
		"huge length":    {bytes.Repeat([]byte{0xff}, 20), ErrPeerOther},
		"HTTP":           {[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"), ErrPeerHTTP},
		"TLS":            {[]byte(tlsAlert), ErrPeerTLS},
		"whole refusal":  {AppendFrame(nil, Frame{Flags: FlagResponse | FlagError, Body: []byte("full")}), ErrRemote},
		"closes at once": {nil, ErrConnClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := Pipe(0)
				c := NewClient(near, ClientConfig{})
				result := make(chan error, 1)
				go func() { _, err := callText(t.Context(), c, "x"); result <- err }()
				receive(t, far)
				far.Write(tc.answer)
				if tc.answer == nil {
					far.Close()
				}
				err := <-result
				wantCallError(t, err, true, ErrConnClosed)
				wantCallError(t, err, true, tc.is)
				<-c.Done()
				far.Close()
			})
		})
	}
}

func TestAnswerBeforeTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := Pipe(24)
		c := NewClient(near, ClientConfig{})
		results := make(chan error, 2)
		for range 2 { // the first is stuck, the second queued behind it
			go func() { _, err := callText(t.Context(), c, strings.Repeat("x", 100)); results <- err }()
			synctest.Wait()
		}
		send(t, far, Frame{Request: 2, Method: 7, Flags: FlagResponse})
		for range 2 {
			if err := <-results; !errors.Is(err, ErrMalformed) {
				t.Errorf("got %v", err)
			}
		}
		<-c.Done()
		far.Close()
	})
}

func TestServerThatSendsHalfAFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := Pipe(0)
		c := NewClient(near, ClientConfig{FrameTimeout: 3 * time.Second})
		far.Write([]byte{0, 0, 0})
		began := time.Now()
		<-c.Done()
		if !errors.Is(c.Err(), ErrFrameTimeout) || time.Since(began) != 3*time.Second {
			t.Errorf("after %v: %v", time.Since(began), c.Err())
		}
		far.Close()
	})
}

func TestDecodeErrorOfTheWholeConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := Pipe(0)
		full := errors.New("decoded: full")
		c := NewClient(near, ClientConfig{DecodeError: func(b []byte) error {
			if string(b) != "full" {
				t.Errorf("body %q", b)
			}
			return full
		}})
		send(t, far, Frame{Flags: FlagResponse | FlagError, Body: []byte("full")})
		<-c.Done()
		if !errors.Is(c.Err(), full) {
			t.Error(c.Err())
		}
		far.Close()
	})
}
