package transport

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
)

// at is a listener whose connections come from TCP addresses, as far as they say.
type at struct{ *MemListener }

type fromTCP struct{ net.Conn }

func (fromTCP) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 6), Port: 40000}
}

func (l at) Accept() (net.Conn, error) {
	nc, err := l.MemListener.Accept()
	if err != nil {
		return nil, err
	}
	return fromTCP{nc}, nil
}

// TestPROXYHeadersOfStrangers: they are known, the client is told what to set where it can
// be, and the log has the proxy's address as one text.
func TestPROXYHeadersOfStrangers(t *testing.T) {
	server, _ := tlsPair(t)
	for name, header := range map[string]string{
		"1": "PROXY TCP4 192.0.2.1 10.0.0.1 12345 7711\r\n",
		"2": "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x01\x0a\x00\x00\x01\x30\x39\x1e\x1f",
	} {
		for _, cfg := range []Config{{}, {TLS: server}} {
			var log noted
			cfg.Logger = slog.New(slog.NewJSONHandler(&log, nil))
			h := &handler{}
			srv, ln := NewServer(cfg, h), NewMemListener(0)
			served := make(chan error, 1)
			go func() { served <- srv.Serve(t.Context(), at{ln}) }()
			nc := rawTo(t, ln)
			if _, err := nc.Write(append([]byte(header), AppendFrame(nil, Frame{Request: 1, Method: 7})...)); err != nil {
				t.Fatal(err)
			}
			if cfg.TLS == nil {
				if f := receive(t, nc); f.Flags != FlagResponse|FlagError || !strings.Contains(string(f.Body), "10.0.0.6:40000 is not named in proxy-from") {
					t.Errorf("version %s: answered %+v %s", name, f, f.Body)
				}
				_, _ = io.Copy(io.Discard, nc)
				if r := h.reasons(); len(r) != 1 || !errors.Is(r[0], ErrPeerProxied) {
					t.Errorf("version %s: closed with %v", name, r)
				}
			}
			_, _ = io.Copy(io.Discard, nc)
			srv.Close()
			<-served
			var line map[string]any
			if err := json.Unmarshal(log.b.Bytes(), &line); err != nil || line["msg"] != "client.refused" || line["remote"] != "10.0.0.6:40000" || !strings.Contains(line["reason"].(string), "PROXY protocol") {
				t.Errorf("version %s: logged %s, %v", name, log.b.String(), err)
			}
		}
	}
}
