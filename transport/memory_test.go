package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

func TestPipeBuffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := Pipe(10)
		if n, err := a.Write([]byte("0123456789")); n != 10 || err != nil {
			t.Fatal(n, err)
		}
		a.SetWriteDeadline(time.Now().Add(time.Second))
		began := time.Now()
		if n, err := a.Write([]byte("x")); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("full: %d, %v after %v", n, err, time.Since(began))
		}
		a.SetWriteDeadline(time.Time{})
		go a.Write([]byte("abcdefghijklmnopqrst"))
		got := make([]byte, 30)
		if _, err := io.ReadFull(b, got); err != nil || string(got) != "0123456789abcdefghijklmnopqrst" {
			t.Errorf("%q, %v", got, err)
		}
		b.SetReadDeadline(time.Now().Add(time.Second))
		var timeout net.Error
		if _, err := b.Read(got); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("read: %v", err)
		}
		b.SetReadDeadline(time.Time{})
		go func() {
			<-time.After(time.Minute)
			b.SetReadDeadline(time.Now())
		}()
		if _, err := b.Read(got); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a deadline that comes during a read: %v", err)
		}
	})
}

func TestPipeEnds(t *testing.T) {
	a, b := Pipe(0)
	a.Write([]byte("last words"))
	a.Close()
	if got, err := io.ReadAll(b); string(got) != "last words" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := b.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("write to a closed peer: %v", err)
	}
	if _, err := a.Read(nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read after close: %v", err)
	}
	if _, err := a.Write(nil); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write after close: %v", err)
	}

	a, b = Pipe(0)
	a.(*pipeEnd).CloseWrite()
	if _, err := b.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after CloseWrite: %v", err)
	}
	b.Write([]byte("other way"))
	b.Close()
	if got, err := io.ReadAll(a); string(got) != "other way" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestMemListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := NewMemListener(0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := ln.Dial(ctx, ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nobody accepts: %v", err)
		}
		go ln.Dial(t.Context(), "")
		if _, err := ln.Accept(); err != nil {
			t.Error(err)
		}
		ln.Close()
		ln.Close()
		if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if _, err := ln.Dial(t.Context(), ""); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		if ln.Addr().Network() != "memory" || ln.Addr().String() != "memory" {
			t.Error(ln.Addr())
		}
	})
}
