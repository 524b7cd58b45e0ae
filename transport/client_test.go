package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestRoundTrip(t *testing.T) {
	_, ln := serve(t, Config{}, &handler{handle: echoFrame})
	c := dialTo(t, ln, ClientConfig{})
	for _, size := range []int{0, 1, 100, 1 << 10, 64 << 10, 1 << 20, 16 << 20} {
		text := strings.Repeat("x", size)
		if got, err := callText(t.Context(), c, text); err != nil || got != text {
			t.Fatalf("%d bytes: got %d bytes, %v", size, len(got), err)
		}
	}
	if err := c.Call(t.Context(), 1, nil, nil); err != nil {
		t.Fatalf("nil body and nil decode: %v", err)
	}
	refused := errors.New("decode says no")
	if err := c.Call(t.Context(), 1, nil, func(uint16, []byte) error { return refused }); err != refused {
		t.Fatalf("decode's error came back as %v", err)
	}
}

func TestErrorAnswer(t *testing.T) {
	_, ln := serve(t, Config{}, &handler{handle: func(c *Conn, f Frame) {
		c.Reply(f.Request, f.Method, FlagError|FlagMore|FlagCancel, Bytes("no"))
	}})
	c := dialTo(t, ln, ClientConfig{})
	err := c.Call(t.Context(), 9, nil, func(flags uint16, b []byte) error {
		return fmt.Errorf("%04x %s", flags, b)
	})
	if err == nil || err.Error() != "c000 no" {
		t.Errorf("got %v", err)
	}
	if err := c.Call(t.Context(), 9, nil, nil); !errors.Is(err, ErrRemote) {
		t.Errorf("without decode: %v", err)
	}
}

func TestAnswersInAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held []Frame
		h := &handler{handle: func(c *Conn, f Frame) {
			f.Body = bytes.Clone(f.Body)
			held = append(held, f)
			if len(held) == 10 {
				for i := len(held) - 1; i >= 0; i-- {
					c.Reply(held[i].Request, held[i].Method, 0, Bytes(held[i].Body))
				}
			}
		}}
		_, ln := serve(t, Config{}, h)
		c := dialTo(t, ln, ClientConfig{})
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				want := fmt.Sprint("text ", i)
				if got, err := callText(t.Context(), c, want); err != nil || got != want {
					t.Errorf("got %q, %v; want %q", got, err, want)
				}
			})
		}
		wg.Wait()
	})
}

func TestCancelOfASentCallKeepsItsSlotUntilTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conn *Conn
		var handled, cancelled []uint64
		h := &handler{
			handle: func(c *Conn, f Frame) { conn, handled = c, append(handled, f.Request) },
			cancel: func(_ *Conn, request uint64) { cancelled = append(cancelled, request) },
		}
		_, ln := serve(t, Config{}, h)
		c := dialTo(t, ln, ClientConfig{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := callText(ctx, c, "x")
			done <- err
		}()
		synctest.Wait()
		cancel()
		wantCallError(t, <-done, true, context.Canceled)
		synctest.Wait()
		if len(handled) != 1 || len(cancelled) != 1 || handled[0] != cancelled[0] {
			t.Fatalf("handled %v, cancelled %v", handled, cancelled)
		}
		if n := c.InFlight(); n != 1 {
			t.Errorf("%d in flight before the answer", n)
		}
		conn.Reply(handled[0], 7, 0, nil)
		synctest.Wait()
		if n := c.InFlight(); n != 0 || c.Err() != nil {
			t.Errorf("%d in flight after the answer, err %v", n, c.Err())
		}
	})
}

func TestCancelOfAQueuedCallIsNeverSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := Pipe(8) // the first frame gets stuck
		defer far.Close()
		c := NewClient(near, ClientConfig{})
		ctx, cancel := context.WithCancel(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { _, err := callText(t.Context(), c, "first"); first <- err }()
		synctest.Wait()
		go func() { _, err := callText(ctx, c, "second"); second <- err }()
		synctest.Wait()
		cancel()
		wantCallError(t, <-second, false, context.Canceled)
		if n := c.InFlight(); n != 1 {
			t.Errorf("%d in flight", n)
		}
		go func() {
			f, _ := readOne(far)
			far.Write(AppendFrame(nil, Frame{Request: f.Request, Method: f.Method, Flags: FlagResponse, Body: f.Body}))
		}()
		if err := <-first; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		far.SetReadDeadline(time.Now().Add(time.Second))
		if f, err := readOne(far); err == nil {
			t.Errorf("a withdrawn call was written: %+v", f)
		}
		c.Close()
		<-c.Done()
	})
}

func TestDeadlineTravels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []time.Duration
		h := &handler{handle: func(c *Conn, f Frame) {
			got = append(got, f.Deadline)
			echoFrame(c, f)
		}}
		_, ln := serve(t, Config{}, h)
		c := dialTo(t, ln, ClientConfig{})
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		if text, err := callText(ctx, c, "x"); err != nil || text != "x" {
			t.Fatal(text, err)
		}
		if _, err := callText(t.Context(), c, "x"); err != nil {
			t.Fatal(err)
		}
		if len(got) != 2 || got[0] != 1500*time.Millisecond || got[1] != 0 {
			t.Errorf("the server saw %v", got)
		}
	})
}

func TestDeadlineEndsACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, ln := serve(t, Config{}, &handler{})
		c := dialTo(t, ln, ClientConfig{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := callText(ctx, c, "x")
		wantCallError(t, err, true, context.DeadlineExceeded)
		_, err = callText(ctx, c, "x")
		wantCallError(t, err, false, context.DeadlineExceeded)
	})
}

func TestMaxInFlightOfAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conn *Conn
		var handled []uint64
		h := &handler{handle: func(c *Conn, f Frame) { conn, handled = c, append(handled, f.Request) }}
		_, ln := serve(t, Config{}, h)
		c := dialTo(t, ln, ClientConfig{})
		c.SetMaxInFlight(2)
		results := make(chan error, 10)
		for range 5 {
			go func() { _, err := callText(t.Context(), c, "x"); results <- err }()
		}
		synctest.Wait()
		if len(handled) != 2 {
			t.Fatalf("%d requests arrived, the limit is 2", len(handled))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := callText(ctx, c, "waits for a slot")
		wantCallError(t, err, false, context.DeadlineExceeded)

		conn.Reply(handled[0], 7, 0, nil)
		synctest.Wait()
		if len(handled) != 3 {
			t.Fatalf("%d requests arrived after one answer", len(handled))
		}
		c.SetMaxInFlight(100)
		synctest.Wait()
		if len(handled) != 5 {
			t.Fatalf("%d requests arrived with a higher limit", len(handled))
		}
		for _, request := range handled[1:] {
			conn.Reply(request, 7, 0, nil)
		}
		for range 5 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestCallersWaitForRoomInTheOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers = 20
		near, far := Pipe(16)
		c := NewClient(near, ClientConfig{MaxOutboxBytes: 2000})
		results := make(chan error, callers)
		for range callers {
			go func() { _, err := callText(t.Context(), c, strings.Repeat("x", 900)); results <- err }()
		}
		synctest.Wait()
		if n := c.InFlight(); n != 2 {
			t.Errorf("%d requests in an outbox with room for 2", n)
		}
		// Writing makes room, no answer is needed for that.
		var open []uint64
		for range callers {
			open = append(open, receive(t, far).Request)
			synctest.Wait()
			if n := c.InFlight() - len(open); n > 2 {
				t.Errorf("%d requests in an outbox with room for 2", n)
			}
		}
		for _, request := range open {
			go far.Write(AppendFrame(nil, Frame{Request: request, Method: 7, Flags: FlagResponse}))
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		// What is larger than the whole outbox still goes, alone.
		go callText(t.Context(), c, strings.Repeat("x", 5000))
		if f := receive(t, far); len(f.Body) != 5000 {
			t.Errorf("%d bytes", len(f.Body))
		}
		c.Close()
		<-c.Done()
		far.Close()
	})
}

func TestDeathOfTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := Pipe(20) // room for one frame
		c := NewClient(near, ClientConfig{MaxInFlight: 3})
		sent, stuck, queued, waiting := make(chan error, 1), make(chan error, 1), make(chan error, 1), make(chan error, 1)
		for _, results := range []chan error{sent, stuck, queued, waiting} {
			go func() { _, err := callText(t.Context(), c, "123456"); results <- err }()
			synctest.Wait()
		}
		far.Close()
		wantCallError(t, <-sent, true, ErrConnClosed)
		wantCallError(t, <-stuck, true, ErrConnClosed)
		wantCallError(t, <-queued, false, ErrConnClosed)
		wantCallError(t, <-waiting, false, ErrConnClosed)
		<-c.Done()
		if !errors.Is(c.Err(), ErrConnClosed) {
			t.Errorf("Err: %v", c.Err())
		}
		_, err := callText(t.Context(), c, "x")
		wantCallError(t, err, false, ErrConnClosed)
	})
}

func TestRequestThatCannotBeSent(t *testing.T) {
	_, ln := serve(t, Config{}, &handler{handle: echoFrame})
	c := dialTo(t, ln, ClientConfig{MaxFrame: 1000})
	_, err := callText(t.Context(), c, strings.Repeat("x", 1001))
	wantCallError(t, err, false, ErrFrameTooLarge)
	wantCallError(t, c.Call(t.Context(), 1, failing{}, nil), false, ErrEncode)
	if n := c.InFlight(); n != 0 {
		t.Errorf("%d in flight", n)
	}
	if got, err := callText(t.Context(), c, "still works"); err != nil || got != "still works" {
		t.Error(got, err)
	}
}

type failing struct{}

func (failing) Size() int { return 3 }
func (failing) AppendTo(b []byte) ([]byte, error) {
	return append(b, "abc"...), errors.New("broken body")
}

func TestDialFails(t *testing.T) {
	nobody := errors.New("nobody there")
	_, err := Dial(t.Context(), "a:1", ClientConfig{Dialer: func(context.Context, string) (net.Conn, error) { return nil, nobody }})
	if !errors.Is(err, nobody) || !strings.Contains(err.Error(), "a:1") {
		t.Error(err)
	}
}
