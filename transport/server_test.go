package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestBatchComesOnceForWhatWasBuffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []string
		h := &handler{
			open:   func(*Conn) { events = append(events, "open") },
			handle: func(_ *Conn, f Frame) { events = append(events, fmt.Sprint("handle ", f.Request)) },
			batch:  func(*Conn) { events = append(events, "batch") },
			cancel: func(_ *Conn, request uint64) { events = append(events, fmt.Sprint("cancel ", request)) },
		}
		_, ln := serve(t, Config{}, h)
		nc := rawTo(t, ln)
		send(t, nc, Frame{Request: 1}, Frame{Request: 2}, Frame{Request: 1, Flags: FlagCancel}, Frame{Request: 3})
		synctest.Wait()
		send(t, nc, Frame{Request: 4})
		synctest.Wait()
		send(t, nc, Frame{Request: 4, Flags: FlagCancel})
		synctest.Wait()
		nc.Close()
		synctest.Wait()
		want := "open,handle 1,handle 2,cancel 1,handle 3,batch,handle 4,batch,cancel 4"
		if got := strings.Join(events, ","); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
		if r := h.reasons(); len(r) != 1 || r[0] != io.EOF {
			t.Errorf("closed with %v", r)
		}
	})
}

func TestAttachmentAndIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conns []*Conn
		h := &handler{open: func(c *Conn) {
			if c.Attachment() != nil || c.RemoteAddr() == nil || c.TLS() != nil {
				t.Errorf("a new connection: %v %v %v", c.Attachment(), c.RemoteAddr(), c.TLS())
			}
			c.SetAttachment(fmt.Sprint("conn ", c.ID()))
			conns = append(conns, c)
		}}
		srv, ln := serve(t, Config{}, h)
		rawTo(t, ln)
		synctest.Wait()
		rawTo(t, ln)
		synctest.Wait()
		if len(conns) != 2 || conns[0].ID() == conns[1].ID() || srv.Conns() != 2 {
			t.Fatalf("%d connections", srv.Conns())
		}
		conns[0].SetAttachment(7) // another type is fine
		if conns[0].Attachment() != 7 || conns[1].Attachment() != "conn 2" {
			t.Errorf("%v %v", conns[0].Attachment(), conns[1].Attachment())
		}
	})
}

func TestShutdownWaitsForReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conn *Conn
		var request uint64
		h := &handler{handle: func(c *Conn, f Frame) { conn, request = c, f.Request }}
		srv := NewServer(Config{}, h)
		ln := NewMemListener(0)
		served := make(chan error, 1)
		go func() { served <- srv.Serve(t.Context(), ln) }()
		c := dialTo(t, ln, ClientConfig{})
		answered := make(chan string, 1)
		go func() {
			err := c.Call(t.Context(), 1, nil, func(_ uint16, b []byte) error { answered <- string(b); return nil })
			if err != nil {
				t.Error(err)
			}
		}()
		idle := rawTo(t, ln)
		synctest.Wait()
		ended := make(chan error, 1)
		go func() { ended <- srv.Shutdown(t.Context()) }()
		synctest.Wait()
		if err := <-served; !errors.Is(err, ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
		if _, err := ln.Dial(t.Context(), ""); !errors.Is(err, net.ErrClosed) {
			t.Errorf("still listening: %v", err)
		}
		if b, err := io.ReadAll(idle); len(b) != 0 || err != nil {
			t.Errorf("the idle connection got %q, %v", b, err)
		}
		select {
		case err := <-ended:
			t.Fatalf("shut down with a request open: %v", err)
		default:
		}
		if !conn.Reply(request, 1, 0, Bytes("goodbye")) {
			t.Error("no replies while shutting down")
		}
		if got := <-answered; got != "goodbye" {
			t.Errorf("got %q", got)
		}
		if err := <-ended; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if conn.Reply(request, 1, 0, nil) {
			t.Error("a reply after the end")
		}
		for _, r := range h.reasons() {
			if !errors.Is(r, ErrServerClosed) {
				t.Errorf("closed with %v", r)
			}
		}
	})
}

func TestShutdownGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handler{} // never answers
		srv := NewServer(Config{}, h)
		ln := NewMemListener(0)
		served := make(chan error, 1)
		go func() { served <- srv.Serve(t.Context(), ln) }()
		c := dialTo(t, ln, ClientConfig{})
		result := make(chan error, 1)
		go func() { _, err := callText(t.Context(), c, "x"); result <- err }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := srv.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
		<-served
		wantCallError(t, <-result, true, ErrConnClosed)
		if n := len(h.reasons()); n != 1 || srv.Conns() != 0 {
			t.Errorf("%d Closed calls, %d connections", n, srv.Conns())
		}
		if err := srv.Serve(t.Context(), NewMemListener(0)); !errors.Is(err, ErrServerClosed) {
			t.Errorf("Serve after the end: %v", err)
		}
	})
}

func TestServeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := NewServer(Config{}, &handler{handle: echoFrame})
		ln := NewMemListener(0)
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- srv.Serve(ctx, ln) }()
		c := dialTo(t, ln, ClientConfig{})
		cancel()
		if err := <-served; !errors.Is(err, context.Canceled) {
			t.Errorf("Serve: %v", err)
		}
		if got, err := callText(t.Context(), c, "alive"); got != "alive" {
			t.Errorf("connections should live on: %v", err)
		}
		srv.Close()
		<-c.Done()
	})
}

func TestFinishLetsTheReplyLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("bad token")
		h := &handler{handle: func(c *Conn, f Frame) {
			c.Reply(f.Request, f.Method, FlagError, Bytes("who are you?"))
			c.Finish(why)
		}}
		_, ln := serve(t, Config{}, h)
		nc := rawTo(t, ln)
		send(t, nc, Frame{Request: 1}, Frame{Request: 2})
		if f := receive(t, nc); string(f.Body) != "who are you?" {
			t.Errorf("got %q", f.Body)
		}
		if rest, err := io.ReadAll(nc); len(rest) != 0 || err != nil {
			t.Errorf("then %q, %v", rest, err)
		}
		nc.Close()
		synctest.Wait()
		if r := h.reasons(); len(r) != 1 || r[0] != why {
			t.Errorf("closed with %v", r)
		}
	})
}

func TestTooManyConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &handler{handle: echoFrame}
		srv, ln := serve(t, Config{MaxConns: 2}, h)
		first, second := dialTo(t, ln, ClientConfig{}), dialTo(t, ln, ClientConfig{})
		for _, c := range []*Client{first, second} {
			if got, err := callText(t.Context(), c, "here"); got != "here" {
				t.Error(err)
			}
		}
		var refused []*Client
		for range maxRefusing + 10 {
			refused = append(refused, dialTo(t, ln, ClientConfig{}))
		}
		synctest.Wait()
		told := 0
		for _, c := range refused {
			<-c.Done()
			if errors.Is(c.Err(), ErrRemote) && strings.Contains(c.Err().Error(), ErrTooManyConns.Error()) {
				told++
			}
		}
		if told < maxRefusing || srv.Conns() != 2 {
			t.Errorf("%d were told, %d connections", told, srv.Conns())
		}
		if got, err := callText(t.Context(), first, "unharmed"); got != "unharmed" {
			t.Error(err)
		}
		first.Close()
		<-first.Done()
		synctest.Wait()
		if got, err := callText(t.Context(), dialTo(t, ln, ClientConfig{}), "room"); got != "room" {
			t.Error(err)
		}
	})
}

// TestSilentConnectionsGiveWay: strangers that connected and said nothing kept everybody else
// out until their time for a hello was over, and then the next ones did.
func TestSilentConnectionsGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, ln := serve(t, Config{MaxConns: 3}, &handler{handle: echoFrame})
		heard := dialTo(t, ln, ClientConfig{})
		if got, err := callText(t.Context(), heard, "one"); got != "one" {
			t.Fatal(err)
		}
		oldest, older := dialTo(t, ln, ClientConfig{}), dialTo(t, ln, ClientConfig{})
		synctest.Wait()
		fresh := dialTo(t, ln, ClientConfig{})
		if got, err := callText(t.Context(), fresh, "two"); got != "two" {
			t.Error(err)
		}
		<-oldest.Done()
		for _, c := range []*Client{older, heard} {
			if got, err := callText(t.Context(), c, "unharmed"); got != "unharmed" {
				t.Error(err)
			}
		}
		late := dialTo(t, ln, ClientConfig{}) // nobody is silent any more
		<-late.Done()
		if n := srv.Conns(); n != 3 {
			t.Errorf("%d connections", n)
		}
	})
}

// A close with unread bytes resets a TCP connection; Finish must not.
func TestFinishOverTCPDoesNotReset(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := NewServer(Config{}, &handler{handle: func(c *Conn, f Frame) {
		c.Reply(f.Request, f.Method, FlagError, Bytes("who are you?"))
		c.Finish(errors.New("bad token"))
	}})
	served := make(chan error, 1)
	go func() { served <- srv.Serve(context.Background(), ln) }()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b := AppendFrame(nil, Frame{Request: 1})
	for range 500 {
		b = AppendFrame(b, Frame{Request: 2, Body: make([]byte, 1000)})
	}
	if _, err := nc.Write(b); err != nil {
		t.Errorf("write: %v", err)
	}
	if f := receive(t, nc); string(f.Body) != "who are you?" {
		t.Errorf("got %q", f.Body)
	}
	if rest, err := io.ReadAll(nc); len(rest) != 0 || err != nil {
		t.Errorf("then %q, %v", rest, err)
	}
	nc.Close()
	srv.Close()
	<-served
}
