package gossip

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

// seal encrypts as memberlist does, with the key that follows from the cluster.
func seal(t *testing.T, version byte, plain, data []byte) []byte {
	t.Helper()
	sum := sha256.Sum256(append([]byte("norn gossip "), ourCluster[:]...))
	block, err := aes.NewCipher(sum[:])
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

// packets are wrong in every way that is known; many pass the encryption.
func packets(t *testing.T) [][]byte {
	inside := func(version byte, plain ...byte) []byte {
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
	nodes := cluster(t, 3)
	for i, want := range [][]string{{"n2#1", "n3#1"}, {"n1#1", "n3#1"}, {"n1#1", "n2#1"}} {
		sees(t, nodes[i], want...)
	}
	c, err := net.Dial("udp", nodes[0].address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	before := nodes[0].Stats()
	for _, b := range packets(t) {
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
	nodes := cluster(t, 2)
	sees(t, nodes[0], "n2#1")
	all := [][]byte{
		{StreamByte}, {StreamByte, 0}, {StreamByte, 36}, label(t), label(t, 6, 1, 2, 3, 4, 5, 6, 7, 8), label(t, 10), label(t, 10, 255, 255, 255, 255, 1), label(t, 10, 0, 0, 0, 0, 1),
		label(t, sealed(t, 0)...), label(t, sealed(t, 1)...), label(t, sealed(t, 0, badPadding()...)...), label(t, sealed(t, 1, 6)...), label(t, sealed(t, 1, 6, 0xc0)...),
		label(t, sealed(t, 1, 8)...), label(t, sealed(t, 1, 9)...), label(t, sealed(t, 1, 0)...), label(t, sealed(t, 1, 99)...),
		append([]byte{StreamByte, 36}, []byte(strings.Repeat("x", 50))...),
	}
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
	third := startNode(t, member("n3", 1), "127.0.0.1:0", seeds(nodes[0].address))
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

// TestManyStreams opens more streams than are served at a time, and says
// nothing on them.
func TestManyStreams(t *testing.T) {
	n := startNode(t, member("a", 1), "127.0.0.1:0")
	var ends []net.Conn
	for range maxStreams {
		ours, theirs := net.Pipe()
		ends = append(ends, ours)
		if err := n.Ingest(theirs); err != nil {
			t.Fatal(err)
		}
	}
	ours, theirs := net.Pipe()
	if err := n.Ingest(theirs); !errors.Is(err, ErrBusy) {
		t.Errorf("one more: %v", err)
	}
	if _, err := ours.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("it is not closed: %v", err)
	}
	for _, c := range ends[1:] {
		_ = c.Close()
	}
	eventually(t, "a stream is taken again", []*node{n}, func() bool {
		ours, theirs := net.Pipe()
		defer func() { _ = ours.Close() }()
		return n.Ingest(theirs) == nil
	})
	n.stop()
	if _, err := ends[0].Read(make([]byte, 1)); err == nil || errors.Is(err, errTimeout(err)) {
		t.Errorf("Close leaves a stream open: %v", err)
	}
	ours, theirs = net.Pipe()
	if err := n.Ingest(theirs); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	_ = ours.Close()
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
