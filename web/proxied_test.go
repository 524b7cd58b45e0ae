package web

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// noted is a log that is read while it is written.
type noted struct {
	mu sync.Mutex // guards b
	b  strings.Builder
}

func (n *noted) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b.Write(p)
}

// TestPROXYHeadersOfStrangers: a proxy that nobody has named hears what to set, and so does
// the log.
func TestPROXYHeadersOfStrangers(t *testing.T) {
	for _, header := range []string{"PROXY TCP4 192.0.2.1 10.0.0.1 12345 7713\r\n", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x01\x0a\x00\x00\x01\x30\x39\x1e\x21"} {
		for _, pieces := range []int{1, 3, 100} {
			for _, o := range []Options{{}, {TLS: certificate(t)}} {
				var log noted
				o.Logger = slog.New(slog.NewJSONHandler(&log, nil))
				addr, _ := up(t, &backend{registry: prometheus.NewRegistry()}, o)
				c, err := net.Dial("tcp", addr)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(patient))
				for rest := header + "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"; rest != ""; rest = rest[min(pieces, len(rest)):] {
					if _, err := io.WriteString(c, rest[:min(pieces, len(rest))]); err != nil {
						break // it has hung up already
					}
				}
				_ = c.(*net.TCPConn).CloseWrite()
				got, _ := io.ReadAll(c)
				log.mu.Lock()
				text := log.b.String()
				log.mu.Unlock()
				if !strings.HasPrefix(string(got), "HTTP/1.1 400 ") || !strings.Contains(string(got), "not named in proxy-from: 127.0.0.1:") ||
					!strings.Contains(text, `"msg":"http.refused","remote":"127.0.0.1:`) {
					t.Errorf("%q in pieces of %d, TLS %t: got %q, logged %s", header, pieces, o.TLS != nil, got, text)
				}
			}
		}
	}
}
