package client

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/transport"
)

// Nor does waiting help where one side does not take the certificate of the other.
func TestHopelessTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, reason := range []error{transport.ErrUntrusted, transport.ErrTLSRefused, transport.ErrPeerNoTLS} {
			c, err := Dial(t.Context(), []string{"a", "b"}, WithDialer(func(context.Context, string) (net.Conn, error) { return nil, reason }))
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_, err = c.Get(t.Context(), id.ID{1})
			wantIs(t, err, reason)
			wantIs(t, err, ErrUnavailable)
			if time.Since(began) > time.Second {
				t.Errorf("%v: took %v to see that it is hopeless", reason, time.Since(began))
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestWrongPort(t *testing.T) {
	for text, reason := range map[string]error{
		"HTTP/1.1 400 Bad Request\r\n\r\n": transport.ErrPeerHTTP,
		"SSH-2.0-OpenSSH_9.2\r\n":          transport.ErrPeerOther,
		"J\x00\x00\x00\n8.0.36\x00":        transport.ErrPeerOther,
	} {
		synctest.Test(t, func(t *testing.T) {
			c, err := Dial(t.Context(), []string{"a", "b"}, WithDialer(func(context.Context, string) (net.Conn, error) {
				here, there := transport.Pipe(0)
				_, err := there.Write([]byte(text))
				return here, err
			}))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			began := time.Now()
			_, err = c.Get(t.Context(), id.ID{1})
			wantIs(t, err, reason)
			wantIs(t, err, ErrUnavailable)
			wantIsNot(t, err, ErrInvalid)
			if time.Since(began) > time.Second {
				t.Errorf("took %v to see that it is hopeless", time.Since(began))
			}
		})
	}
}

// TestAnotherProtocolAtOneAddress: the next address is good, whatever speaks at this one.
func TestAnotherProtocolAtOneAddress(t *testing.T) {
	for _, text := range []string{
		"SSH-2.0-OpenSSH_9.2\r\n", "220 mail ESMTP\r\n", "J\x00\x00\x00\n8.0.36\x00", "-ERR unknown command\r\n", "N",
		"\xff\xfd\x18\xff\xfd ", "\x00\x00\x00\x00\x00", "\x7f\xff\xff\xff",
	} {
		synctest.Test(t, func(t *testing.T) {
			n := fakenode.New(t, func(fakenode.Request) fakenode.Answer { return fakenode.Answer{} })
			c, err := Dial(t.Context(), []string{"other", "node"}, WithDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				if addr == "node:7711" {
					return n.Dial(ctx, addr)
				}
				here, there := transport.Pipe(0)
				_, err := there.Write([]byte(text))
				if len(text) < 4 {
					_ = there.Close()
				}
				return here, err
			}))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.preferred.Store(0)
			began := time.Now()
			if _, err := c.Get(t.Context(), id.ID{1}); errors.Is(err, ErrUnavailable) || time.Since(began) > time.Second {
				t.Errorf("%q first: %v after %v", text, err, time.Since(began))
			}
		})
	}
}
