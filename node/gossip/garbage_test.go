package gossip

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

// ourKey is the key of the tests that encrypt.
var ourKey = bytes.Repeat([]byte{7}, 32)

// keyed has a node encrypt.
func keyed(c *Config) { c.Keys = [][]byte{ourKey} }

// seal encrypts as memberlist does, with our key.
func seal(t *testing.T, version byte, plain, data []byte) []byte {
	t.Helper()
	block, err := aes.NewCipher(ourKey)
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	nonce := make([]byte, 12)
	return append(append([]byte{version}, nonce...), gcm.Seal(nil, nonce, plain, data)...)
}

func label(t *testing.T, rest ...byte) []byte {
	t.Helper()
	b, err := memberlist.AddLabelHeaderToPacket(rest, ourCluster.String())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// badPadding says that more was padded than there is.
func badPadding() []byte { return bytes.Repeat([]byte{200}, 32) }

// packets are wrong in every way that is known; many pass the encryption, or need none.
func packets(t *testing.T, open bool) [][]byte {
	inside := func(version byte, plain ...byte) []byte {
		if open {
			return label(t, plain...)
		}
		return label(t, seal(t, version, plain, []byte(ourCluster.String()))...)
	}
	all := [][]byte{
		{}, {0}, {StreamByte}, {StreamByte, 0}, {StreamByte, 255}, []byte("GET / HTTP/1.1\r\n\r\n"), label(t), label(t, 1), label(t, make([]byte, 100)...),
		label(t, bytes.Repeat([]byte{1}, 4000)...), bytes.Repeat([]byte{StreamByte}, 60000),
		inside(0), inside(0, badPadding()...), inside(1), inside(1, 255), inside(2, 1),
		inside(1, 7), inside(1, 7, 255), inside(1, 7, 1, 255, 255), inside(1, 9), inside(1, 9, 0x80), inside(1, 12, 1, 2, 3, 4),
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		b := make([]byte, 1+r.IntN(60))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		b[0] %= 15 // a known kind of message
		all = append(all, inside(1, b...))
	}
	return all
}

// TestGarbagePackets pours garbage over a member; the others see it all the
// time, and it sees them.
func TestGarbagePackets(t *testing.T) {
	t.Run("encrypted", func(t *testing.T) { garbagePackets(t, false, cluster(t, 3, keyed)) })
	t.Run("plain", func(t *testing.T) { garbagePackets(t, true, cluster(t, 3)) })
}

func garbagePackets(t *testing.T, open bool, nodes []*node) {
	for i, want := range [][]string{{"n2#1", "n3#1"}, {"n1#1", "n3#1"}, {"n1#1", "n2#1"}} {
		sees(t, nodes[i], want...)
	}
	c, err := net.Dial("udp", nodes[0].address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	before := nodes[0].Stats()
	for _, b := range packets(t, open) {
		_, _ = c.Write(b) // the network may drop it
	}
	eventually(t, "packets were refused", nodes, func() bool { return nodes[0].Stats().PacketsRefused >= before.PacketsRefused+10 })
	after := nodes[0].Stats().PacketsIn
	eventually(t, "it takes packets as before", nodes, func() bool { return nodes[0].Stats().PacketsIn > after+20 })
	sees(t, nodes[0], "n2#1", "n3#1")
	sees(t, nodes[1], "n1#1", "n3#1")
	if n := strings.Count(nodes[0].log.String(), "gossip.refused"); n != 1 {
		t.Errorf("it complains %d times within a minute", n)
	}
}

// sealed is a stream's message.
func sealed(t *testing.T, version byte, plain ...byte) []byte {
	head := binary.BigEndian.AppendUint32([]byte{sealedMark}, uint32(1+12+len(plain)+16))
	return append(head, seal(t, version, plain, append(head[:5:5], ourCluster.String()...))...)
}

func TestGarbageStreams(t *testing.T) {
	all := [][]byte{
		{StreamByte}, {StreamByte, 0}, {StreamByte, 36}, label(t), label(t, 6, 1, 2, 3, 4, 5, 6, 7, 8), label(t, 10), label(t, 10, 255, 255, 255, 255, 1), label(t, 10, 0, 0, 0, 0, 1),
		label(t, sealed(t, 0)...), label(t, sealed(t, 1)...), label(t, sealed(t, 0, badPadding()...)...), label(t, sealed(t, 1, 6)...), label(t, sealed(t, 1, 6, 0xc0)...),
		label(t, sealed(t, 1, 8)...), label(t, sealed(t, 1, 9)...), label(t, sealed(t, 1, 0)...), label(t, sealed(t, 1, 99)...),
		append([]byte{StreamByte, 36}, []byte(strings.Repeat("x", 50))...),
		label(t, 0), label(t, 0, 0xc0), label(t, 6), label(t, 6, 0xc0), label(t, 6, 0xff), label(t, 6, 0xdf, 255, 255, 255, 255), label(t, 8, 1), label(t, 9, 0x80),
		label(t, 9, 0x82, 0xa4, 'A', 'l', 'g', 'o', 0, 0xa3, 'B', 'u', 'f', 0xa1, 6), label(t, 99), label(t, 6, 0x83, 0xa5, 'N', 'o', 'd', 'e', 's', 0xff),
	}
	t.Run("encrypted", func(t *testing.T) { garbageStreams(t, all, keyed) })
	t.Run("plain", func(t *testing.T) { garbageStreams(t, all) })
}

func garbageStreams(t *testing.T, all [][]byte, change ...func(*Config)) {
	nodes := cluster(t, 2, change...)
	sees(t, nodes[0], "n2#1")
	for _, b := range all {
		c, err := net.Dial("tcp", nodes[0].address)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
		_ = c.(*net.TCPConn).CloseWrite()
		if _, err := io.Copy(io.Discard, c); errors.Is(err, errTimeout(err)) {
			t.Errorf("%x: it is not closed", b[:min(len(b), 50)])
		}
		_ = c.Close()
	}
	sees(t, nodes[0], "n2#1")
	after := nodes[0].Stats().StreamsIn
	third := startNode(t, member("n3", 1), "127.0.0.1:0", append(change, seeds(nodes[0].address))...)
	sees(t, third, "n1#1", "n2#1")
	if nodes[0].Stats().StreamsIn == after {
		t.Error("no stream was taken afterwards")
	}
}

// errTimeout gives err when it is a time-out, else something that it is not.
func errTimeout(err error) error {
	var n net.Error
	if errors.As(err, &n) && n.Timeout() {
		return err
	}
	return io.ErrNoProgress
}

// coming is a connection from an address.
type coming struct {
	net.Conn
	from string
}

func (c coming) RemoteAddr() net.Addr {
	a, _ := net.ResolveTCPAddr("tcp", c.from)
	return a
}

// TestTooManyMembersAreNotMadeRoomFor: a header in plain names a million, for which memberlist
// would make room before one has come.
func TestTooManyMembersAreNotMadeRoomFor(t *testing.T) {
	header := func(name string, value ...byte) []byte {
		b := append([]byte{kindState, 0x83, 0xa4}, "Join"...)
		b = append(append(b, 0xc2, 0xa0|byte(len(name))), name...)
		return append(append(append(b, value...), 0xac), "UserStateLen\x00rest"...)
	}
	for _, c := range []struct {
		bytes []byte
		ok    bool
	}{
		{header("Nodes", 3), true},
		{header("Nodes", 0xcd, 0, 9), true},
		{header("Nodes", 0xce, 0, 0x10, 0, 0), false},
		{header("Nodes", 0xcf, 255, 255, 255, 255, 255, 255, 255, 255), false},
		{header("Nodes", 0xff), false}, // negative
		{header("UserStateLen", 0xce, 0, 0x10, 0, 0), false},
		{[]byte{kindState, 0xdf, 0, 0, 0, 1}, false},
		{[]byte{kindState, 0x8f, 0xa0}, false},
		{[]byte{kindState, 0xc0, 0}, false},
		{[]byte{kindState}, false},
		{[]byte{kindState, 0x83, 0xa5, 'N'}, false},
	} {
		b := append(label(t), c.bytes...)
		s := &stream{Conn: reading{bytes.NewReader(b)}, label: ourCluster.String(), plain: true}
		got, err := io.ReadAll(s)
		if c.ok && (err != nil || !bytes.Equal(got, b)) || !c.ok && len(got) > 0 {
			t.Errorf("%q: %q, %v", c.bytes, got, err)
		}
	}
}

// TestManyStreams opens more streams than are served at a time, and says nothing on them: the
// oldest one of a stranger gives way, one of a member to members only.
func TestManyStreams(t *testing.T) {
	home := netip.MustParseAddr("10.0.0.1")
	n := startNode(t, member("a", 1), "127.0.0.1:0", func(c *Config) { c.Home = func(at netip.Addr) bool { return at == home } })
	take := func(from string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { _ = ours.Close() })
		return ours, n.Ingest(coming{theirs, from})
	}
	ended := func(c net.Conn) bool {
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		_, err := c.Read(make([]byte, 1))
		return errors.Is(err, io.EOF)
	}
	members, err := take("10.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	var strangers []net.Conn
	for range maxStreams - 1 {
		c, err := take("10.0.0.9:1")
		if err != nil {
			t.Fatal(err)
		}
		strangers = append(strangers, c)
	}
	if _, err := take("10.0.0.8:1"); err != nil || !ended(strangers[0]) || ended(members) || ended(strangers[1]) {
		t.Errorf("one more: %v; not the oldest stranger gives way", err)
	}
	second, err := take("10.0.0.1:2")
	if err != nil || !ended(strangers[1]) {
		t.Errorf("a member: %v", err)
	}
	for range maxStreams - 2 {
		if _, err := take("10.0.0.1:3"); err != nil {
			t.Error(err)
		}
	}
	if _, err := take("10.0.0.8:1"); !errors.Is(err, ErrBusy) || ended(members) {
		t.Errorf("a stranger where all are members': %v", err)
	}
	if _, err := take("10.0.0.1:4"); err != nil || !ended(members) {
		t.Errorf("a member where all are members': %v", err)
	}
	n.stop()
	if _, err := second.Read(make([]byte, 1)); err == nil || errors.Is(err, errTimeout(err)) {
		t.Errorf("Close leaves a stream open: %v", err)
	}
	if _, err := take("10.0.0.1:1"); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// FuzzStream gives the check before memberlist any bytes, in any pieces.
func FuzzStream(f *testing.F) {
	name := ourCluster.String()
	good := append(append([]byte{StreamByte, byte(len(name))}, name...), 10, 0, 0, 0, 40, 1)
	f.Add(append(good, make([]byte, 60)...), uint8(3))
	f.Add(good[:20], uint8(1))
	f.Add([]byte{StreamByte}, uint8(0))
	f.Fuzz(func(t *testing.T, b []byte, piece uint8) {
		s := &stream{Conn: reading{bytes.NewReader(b)}, label: name}
		var got []byte
		p := make([]byte, int(piece)+1)
		for {
			n, err := s.Read(p)
			got = append(got, p[:n]...)
			if err != nil {
				break
			}
		}
		if len(got) == 0 {
			return
		}
		if !bytes.HasPrefix(b, got) || !bytes.HasPrefix(got, good[:len(good)-5]) || len(got) > len(good)-1+maxStream {
			t.Fatalf("%x is handed on of %x", got, b)
		}
		if length := binary.BigEndian.Uint32(got[len(good)-5:]); uint64(len(got)) > uint64(len(good)-1)+uint64(length) || length < sealedLeast {
			t.Fatalf("%d bytes of a message of %d are handed on", len(got), length)
		}
	})
}

// reading is a connection that only gives.
type reading struct{ *bytes.Reader }

func (reading) Write([]byte) (int, error)        { return 0, io.ErrClosedPipe }
func (reading) Close() error                     { return nil }
func (reading) LocalAddr() net.Addr              { return nil }
func (reading) RemoteAddr() net.Addr             { return nil }
func (reading) SetDeadline(time.Time) error      { return nil }
func (reading) SetReadDeadline(time.Time) error  { return nil }
func (reading) SetWriteDeadline(time.Time) error { return nil }
