package web

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// starved is a listener of a process that was out of file descriptors for a while.
type starved struct {
	net.Listener
	left atomic.Int32
}

func (s *starved) Accept() (net.Conn, error) {
	if s.left.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
	}
	return s.Listener.Accept()
}

// TestAcceptFailsForAWhile: the port goes on, with TLS too; without it the whole
// server would end.
func TestAcceptFailsForAWhile(t *testing.T) {
	for name, o := range map[string]Options{"plain": {}, "TLS": {TLS: certificate(t)}} {
		t.Run(name, func(t *testing.T) {
			var said bytes.Buffer // whole once Serve has returned
			o.Logger = slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			from := &starved{Listener: l}
			from.left.Store(3)
			s := NewServer(&backend{registry: prometheus.NewRegistry()}, o)
			done := make(chan error, 1)
			go func() { done <- s.Serve(from) }()
			scheme := "http://"
			if o.TLS != nil {
				scheme = "https://"
			}
			c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}}
			if r, err := c.Get(scheme + l.Addr().String() + "/livez"); err != nil {
				t.Error(err)
			} else if _ = r.Body.Close(); r.StatusCode != http.StatusOK {
				t.Error(r.Status)
			}
			c.CloseIdleConnections()
			if err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			if err := <-done; err != http.ErrServerClosed {
				t.Error(err)
			}
			if n := strings.Count(said.String(), "too many open files"); n != 3 {
				t.Errorf("%d of 3 errors are said:\n%s", n, said.String())
			}
		})
	}
}
