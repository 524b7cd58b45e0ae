package viaproxy

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// from is a connection that says where it comes from.
type from struct {
	net.Conn
	at net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.at }

// door is a listener of connections in memory.
type door struct {
	in   chan net.Conn
	done chan struct{}
	once sync.Once
}

func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.in:
		return c, nil
	case <-d.done:
		return nil, net.ErrClosed
	}
}

func (d *door) Close() error   { d.once.Do(func() { close(d.done) }); return nil }
func (d *door) Addr() net.Addr { return &net.TCPAddr{} }

// knock connects from an address.
func (d *door) knock(at string) net.Conn {
	near, far := net.Pipe()
	d.in <- from{near, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(at))}
	return far
}

// noted is a log that is read while it is written.
type noted struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (n *noted) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b.Write(p)
}

func (n *noted) text() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b.String()
}

func listen() (net.Listener, *door, *noted) {
	d, log := &door{in: make(chan net.Conn), done: make(chan struct{})}, &noted{}
	return Listen(d, Options{
		From:   []netip.Prefix{netip.MustParsePrefix("10.0.0.5/32"), netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/8")},
		Within: 10 * time.Second, Logger: slog.New(slog.NewJSONHandler(log, nil)),
	}), d, log
}

const (
	proxy = "10.0.0.5:40000"
	sig2  = "\r\n\r\n\x00\r\nQUIT\n"
	tcp4  = sig2 + "\x21\x11\x00\x0c\xc0\x00\x02\x01\x0a\x00\x00\x01\x30\x39\x1e\x1f"
)

// TestWhoConnects: who is named, whatever comes behind, in whatever pieces.
func TestWhoConnects(t *testing.T) {
	v6 := sig2 + "\x21\x21\x00\x24" + "\x20\x01\x0d\xb8" + strings.Repeat("\x00", 11) + "\x07" + strings.Repeat("\x00", 15) + "\x01" + "\x30\x39\x1e\x1f"
	for _, tc := range []struct{ at, header, remote string }{
		{proxy, "PROXY TCP4 192.0.2.1 10.0.0.1 12345 7711\r\n", "192.0.2.1:12345"},
		{"10.1.255.9:1", "PROXY TCP6 2001:db8::7 fd00::1 12345 7711\r\n", "[2001:db8::7]:12345"},
		{"[fd12::5]:1", "PROXY TCP4 192.0.2.1 10.0.0.1 12345 7711\r\n", "192.0.2.1:12345"},
		{"[::ffff:10.0.0.5]:1", "PROXY TCP4 192.0.2.1 10.0.0.1 12345 7711\r\n", "192.0.2.1:12345"},
		{proxy, "PROXY UNKNOWN\r\n", proxy},
		{proxy, "PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", proxy},
		{proxy, tcp4, "192.0.2.1:12345"},
		{proxy, v6, "[2001:db8::7]:12345"},
		{proxy, sig2 + "\x20\x00\x00\x00", proxy},                                                                         // LOCAL: a check
		{proxy, sig2 + "\x21\x11\x00\x0f\xc0\x00\x02\x01\x0a\x00\x00\x01\x30\x39\x1e\x1f\x04\x00\x00", "192.0.2.1:12345"}, // and a NOOP
		{proxy, "", proxy}, // it may leave it out
		{"10.2.0.1:1", "", "10.2.0.1:1"},
	} {
		for _, behind := range []string{"\x00\x00\x00\x20 a frame", "GET / HTTP/1.1\r\n\r\n", "POST / HTTP/1.1\r\n\r\n", "PUT / HTTP/1.1\r\n\r\n", "\x16\x03\x01 TLS", "P"} {
			for _, pieces := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					l, d, log := listen()
					defer l.Close()
					far := d.knock(tc.at)
					go func() {
						if !pieces {
							_, _ = io.WriteString(far, tc.header+behind)
						}
						for _, b := range []byte(tc.header + behind)[:len(tc.header+behind)*map[bool]int{true: 1}[pieces]] {
							_, _ = far.Write([]byte{b})
							time.Sleep(time.Millisecond)
						}
						_ = far.Close()
					}()
					c, err := l.Accept()
					if err != nil {
						t.Fatal(err)
					}
					got, err := io.ReadAll(c)
					if err != nil || c.RemoteAddr().String() != tc.remote || string(got) != behind || log.text() != "" {
						t.Errorf("%q from %s: %s says %q, %v, logged %s", tc.header, tc.at, c.RemoteAddr(), got, err, log.text())
					}
					_ = c.Close()
				})
			}
		}
	}
}

// TestHeadersOfStrangers are not read here: whoever they are for sees them.
func TestHeadersOfStrangers(t *testing.T) {
	for _, at := range []string{"10.0.0.6:1", "10.2.0.1:1", "192.0.2.1:1", "[fe80::1]:1", "127.0.0.1:1"} {
		synctest.Test(t, func(t *testing.T) {
			l, d, _ := listen()
			defer l.Close()
			far := d.knock(at)
			go func() { _, _ = io.WriteString(far, tcp4+"x"); _ = far.Close() }()
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(c)
			if err != nil || string(got) != tcp4+"x" || c.RemoteAddr().String() != at {
				t.Errorf("%s is %s and says %q, %v", at, c.RemoteAddr(), got, err)
			}
			_ = c.Close()
		})
	}
}

// TestHeadersThatAreNone are refused and logged; the next connection is as good as ever.
func TestHeadersThatAreNone(t *testing.T) {
	for header, logged := range map[string]bool{
		"PROXY TCP4 192.0.2.1\r\n":                         true,
		"PROXY TCP4 evil 10.0.0.1 1 2\r\n":                 true,
		"PROXY TCP4 192.0.2.1 10.0.0.1 12345 7711\n":       true,
		"PROXY " + strings.Repeat("x", 200):                true,
		"PROXY TCP4 192.0.2.1":                             true, // and nothing more
		"PRO":                                              true,
		sig2 + "\x31\x11\x00\x0c":                          true,
		sig2 + "\x21\x11\x00\x02\xc0\x00":                  true,
		sig2 + "\x21\x11\xff\xff" + "\xc0\x00\x02\x01\x0a": true,
		sig2[:7]: true,
		"":       false, // it says nothing at all
	} {
		synctest.Test(t, func(t *testing.T) {
			l, d, log := listen()
			defer l.Close()
			bad := d.knock(proxy)
			go func() { _, _ = io.WriteString(bad, header) }()
			began := time.Now()
			if _, err := bad.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(began) > 10*time.Second {
				t.Errorf("%q: %v after %v", header, err, time.Since(began))
			}
			synctest.Wait()
			if text := log.text(); logged != strings.Contains(text, `"msg":"proxy.refused","remote":"`+proxy+`","reason":"`) || len(text) > 400 {
				t.Errorf("%q: logged %s", header, text)
			}
			good := d.knock(proxy)
			go func() { _, _ = io.WriteString(good, tcp4+"x") }()
			c, err := l.Accept()
			if err != nil || c.RemoteAddr().String() != "192.0.2.1:12345" {
				t.Fatalf("%q: then %v, %v", header, c, err)
			}
			_, _ = c.Close(), good.Close()
		})
	}
}

// TestCloseEndsWhatHasNotBegun: neither who is silent nor who was not accepted is left.
func TestCloseEndsWhatHasNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d, _ := listen()
		silent, waiting := d.knock(proxy), d.knock("192.0.2.1:1")
		synctest.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		for i, c := range []net.Conn{silent, waiting} {
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("%d: %v", i, err)
			}
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

// TestSilentProxiesKeepNobodyOut: as many as may be read at once.
func TestSilentProxiesKeepNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d, log := listen()
		defer l.Close()
		for range maxReading {
			d.knock(proxy)
		}
		synctest.Wait()
		over := d.knock(proxy)
		_, err := over.Read(make([]byte, 1))
		synctest.Wait()
		if !errors.Is(err, io.EOF) || !strings.Contains(log.text(), "too many") {
			t.Errorf("%v, %s", err, log.text())
		}
		far := d.knock("192.0.2.1:1")
		defer far.Close()
		if c, err := l.Accept(); err != nil || c.RemoteAddr().String() != "192.0.2.1:1" {
			t.Error(c, err)
		}
	})
}
