package transport

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// greetings are what others say first, and a part of it that an error repeats.
var greetings = map[string][2]string{
	"SSH":          {"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", `"SSH-2.0-OpenSSH_9.2p1 Debian-2"`},
	"SMTP":         {"220-mail.example.com ESMTP Exim\r\n220 no spam\r\n", `"220-mail.example.com ESMTP Exim"`},
	"FTP":          {"220 ProFTPD\r\n", `"220 ProFTPD"`},
	"POP3":         {"+OK ready\r\n", `"+OK ready"`},
	"IMAP":         {"* OK [CAPABILITY IMAP4rev1]\r\n", `"* OK [CAPABILITY IMAP4rev1]"`},
	"Redis":        {"-ERR unknown command\r\n", `"-ERR unknown command"`},
	"memcached":    {"ERROR\r\n", `"ERROR"`},
	"MySQL":        {"J\x00\x00\x00\n8.0.36\x00\x08\x00\x00\x00;:#", `8.0.36\x00`},
	"PostgreSQL":   {"E\x00\x00\x00\x84SFATAL\x00VFATAL\x00C0A000\x00", `SFATAL`},
	"its N":        {"N", `"N"`},
	"RFB":          {"RFB 003.008\n", `"RFB 003.008"`},
	"telnet":       {"\xff\xfd\x18\xff\xfd ", `\xff\xfd\x18`},
	"AMQP":         {"AMQP\x00\x00\x09\x01", `"AMQP\x00\x00\t\x01"`},
	"a terminal":   {"\x1b[2J\x1b]0;owned\x07 hello\r\n", `\x1b[2J\x1b]0;owned\a hello`},
	"a long line":  {strings.Repeat("x", 5000), strings.Repeat("x", mostQuoted) + `"…`},
	"a small zero": {"\x00\x00\x00\x02hello", `\x00\x00\x00\x02hello`},
	"an echo":      {string(AppendFrame(nil, Frame{Request: 1, Method: 7, Body: []byte("x")})), `x`},
}

// TestOtherProtocols: a client knows that it is not a node that speaks, be it asked or not,
// in pieces or at once, and what it says.
func TestOtherProtocols(t *testing.T) {
	for name, g := range greetings {
		for _, pieces := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					near, far := Pipe(0)
					c := NewClient(near, ClientConfig{})
					defer func() { far.Close(); <-c.Done() }()
					result := make(chan error, 1)
					go func() { _, err := callText(t.Context(), c, "x"); result <- err }()
					go func() { _, _ = io.Copy(io.Discard, far) }()
					synctest.Wait() // the request is sent: its own failure says nothing of the other side
					if text := g[0]; pieces {
						_, _ = far.Write([]byte(text[:1]))
						synctest.Wait()
						_, _ = far.Write([]byte(text[1:]))
					} else {
						_, _ = far.Write([]byte(text))
					}
					if len(g[0]) < sniffBytes { // there may be more to come
						synctest.Wait()
						_ = far.Close()
					}
					err := <-result
					if !errors.Is(err, ErrPeerOther) || !pieces && !strings.Contains(err.Error(), g[1]) || len(err.Error()) > 600 || strings.ContainsAny(err.Error(), "\x1b\a\x00\r\n") {
						t.Errorf("the error is %q", err)
					}
				})
			})
		}
	}
}

// TestOtherProtocolsAtAServer: they are refused, and what they say is logged.
func TestOtherProtocolsAtAServer(t *testing.T) {
	for name, g := range greetings {
		if name == "its N" || name == "an echo" { // one may become a frame, and one is
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			var log noted
			h := &handler{}
			srv, ln := serve(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, h)
			nc := rawTo(t, ln)
			_, _ = nc.Write([]byte(g[0]))
			_, _ = io.Copy(io.Discard, nc)
			nc.Close()
			srv.Close()
			if r := h.reasons(); len(r) != 1 || !errors.Is(r[0], ErrPeerOther) || !strings.Contains(r[0].Error(), g[1]) || !strings.Contains(log.b.String(), "client.refused") {
				t.Errorf("%s: closed with %v, logged %s", name, r, log.b.String())
			}
		})
	}
}

// TestOtherProtocolsAtALink: nor is it a node that was damaged on its way.
func TestOtherProtocolsAtALink(t *testing.T) {
	for name, g := range greetings {
		if name == "an echo" { // it has no sums
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			near, far := Pipe(0)
			l := NewLink(near, LinkConfig{HelloTimeout: time.Second})
			go func() { _, _ = far.Write([]byte(g[0])) }()
			if err := l.Read(&linkHandler{}); !errors.Is(err, ErrPeerOther) || !strings.Contains(err.Error(), g[1]) {
				t.Errorf("%s: %v", name, err)
			}
			far.Close()
		})
	}
}

// TestAServerThatClosesAtOnce: it may want TLS. A node that ends within its first answer is
// one.
func TestAServerThatClosesAtOnce(t *testing.T) {
	hello := AppendFrame(nil, Frame{Request: 1, Method: 7, Flags: FlagResponse, Body: []byte("hello")})
	for n, want := range map[int]error{0: ErrPeerSilent, 1: io.ErrUnexpectedEOF, 4: io.ErrUnexpectedEOF, 15: io.ErrUnexpectedEOF} {
		synctest.Test(t, func(t *testing.T) {
			near, far := Pipe(0)
			c := NewClient(near, ClientConfig{})
			go func(far net.Conn) { _, _ = readOne(far); _, _ = far.Write(hello[:n]); _ = far.Close() }(far)
			_, err := callText(t.Context(), c, "x")
			wantCallError(t, err, true, want)
			if n == 0 && !strings.Contains(err.Error(), "maybe TLS") || errors.Is(err, ErrPeerOther) {
				t.Errorf("after %d bytes: %v", n, err)
			}
			<-c.Done()
		})
	}
}
