package transport

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"strings"
	"testing"
	"time"
)

// tlsPair makes configurations for a server named norn.test and its clients.
func tlsPair(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"norn.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		&tls.Config{RootCAs: roots}
}

func TestTLS(t *testing.T) {
	server, client := tlsPair(t)
	states := make(chan *tls.ConnectionState, 1)
	srv, ln := serve(t, Config{TLS: server}, &handler{
		open:   func(c *Conn) { states <- c.TLS() },
		handle: echoFrame,
	})
	c, err := Dial(t.Context(), "norn.test:7700", ClientConfig{Dialer: ln.Dial, TLS: client})
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, 100_000, 3 << 20} {
		text := strings.Repeat("x", size)
		if got, err := callText(t.Context(), c, text); got != text {
			t.Fatal(err)
		}
	}
	if state := within(t, states); state == nil || !state.HandshakeComplete {
		t.Errorf("TLS state %+v", state)
	}
	// A graceful end works through TLS too.
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if err := srv.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	<-c.Done()
}

func TestTLSRefusesAnotherName(t *testing.T) {
	server, client := tlsPair(t)
	_, ln := serve(t, Config{TLS: server}, &handler{})
	_, err := Dial(t.Context(), "evil.test:7700", ClientConfig{Dialer: ln.Dial, TLS: client})
	var invalid x509.HostnameError
	if !errors.As(err, &invalid) || !errors.Is(err, ErrUntrusted) {
		t.Errorf("dial: %v", err)
	}
}

func TestPlainClientOfATLSServer(t *testing.T) {
	server, _ := tlsPair(t)
	_, ln := serve(t, Config{TLS: server}, &handler{})
	_, err := callText(t.Context(), dialTo(t, ln, ClientConfig{}), "hello")
	wantCallError(t, err, true, ErrPeerTLS)

	nc := rawTo(t, ln)
	nc.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
	if b, err := io.ReadAll(nc); err != nil || !strings.Contains(string(b), "over TLS") {
		t.Errorf("got %q, %v", b, err)
	}
}

// A server that wants a certificate says so after the handshake, with TLS 1.3, or in it.
func TestTLSWithoutACertificateThatIsAskedFor(t *testing.T) {
	server, client := tlsPair(t)
	server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, client.RootCAs
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		cfg := client.Clone()
		cfg.MaxVersion = version
		_, ln := serve(t, Config{TLS: server}, &handler{handle: echoFrame})
		c, err := Dial(t.Context(), "norn.test:7700", ClientConfig{Dialer: ln.Dial, TLS: cfg})
		if err == nil {
			<-c.Done() // what is written after the end would hide why it came
			_, err = callText(t.Context(), c, "hello")
		}
		if !errors.Is(err, ErrTLSRefused) {
			t.Errorf("version %x: %v", version, err)
		}
	}
}

func TestTLSClientOfAPlainServer(t *testing.T) {
	_, client := tlsPair(t)
	_, ln := serve(t, Config{}, &handler{})
	if _, err := Dial(t.Context(), "norn.test:7700", ClientConfig{Dialer: ln.Dial, TLS: client}); !errors.Is(err, ErrPeerNoTLS) {
		t.Errorf("dial: %v", err)
	}
}

func TestTLSClientOfAPlainPeer(t *testing.T) {
	_, client := tlsPair(t)
	ln := NewMemListener(0)
	go func() {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		nc.Write([]byte("SSH-2.0-OpenSSH_9.9\r\n"))
		io.Copy(io.Discard, nc)
		nc.Close()
	}()
	_, err := Dial(t.Context(), "norn.test:7700", ClientConfig{Dialer: ln.Dial, TLS: client})
	if !errors.Is(err, ErrPeerNoTLS) {
		t.Errorf("dial: %v", err)
	}
	ln.Close()
}

func TestTLSHandshakeThatNeverComes(t *testing.T) {
	server, _ := tlsPair(t)
	_, ln := serve(t, Config{TLS: server, HelloTimeout: 20 * time.Millisecond}, &handler{})
	nc := rawTo(t, ln)
	if b, err := io.ReadAll(nc); len(b) != 0 || err != nil {
		t.Errorf("got %q, %v", b, err)
	}
}
