package lab

import (
	"net"
	"os"
	"testing"
	"time"
)

// pair is a proxy with two nodes that this process plays; node 1 gives back what
// it gets.
type pair struct {
	*proxied
	a, b    *place
	packets net.PacketConn // of node 0
}

func newPair(t *testing.T) *pair {
	t.Helper()
	n, err := newProxied()
	if err != nil {
		t.Skip(err)
	}
	p := &pair{proxied: n.(*proxied)}
	t.Cleanup(func() {
		if err := p.close(); err != nil {
			t.Error(err)
		}
	})
	if p.a, err = p.place(0); err != nil {
		t.Fatal(err)
	}
	if p.b, err = p.place(1); err != nil {
		t.Fatal(err)
	}
	p.a.started(os.Getpid())
	if p.packets, err = net.ListenPacket("udp", p.a.peer); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", p.b.peer)
	if err != nil {
		t.Fatal(err)
	}
	echo, err := net.ListenPacket("udp", p.b.peer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _, _ = p.packets.Close(), l.Close(), echo.Close() })
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go func() {
				defer func() { _ = c.Close() }()
				b := make([]byte, 1024)
				for n, err := c.Read(b); err == nil; n, err = c.Read(b) {
					_, _ = c.Write(b[:n]) // the other side may have gone
				}
			}()
		}
	}()
	go func() {
		b := make([]byte, 1024)
		for n, _, err := echo.ReadFrom(b); err == nil; n, _, err = echo.ReadFrom(b) {
			to, _ := net.ResolveUDPAddr("udp", p.a.advertise)
			_, _ = echo.WriteTo(b[:n], to) // packets get lost
		}
	}()
	return p
}

// links sets the links between the two.
func (p *pair) between(t *testing.T, there, back link) {
	t.Helper()
	if err := p.set(map[way]link{{0, 1}: there, {1, 0}: back}); err != nil {
		t.Fatal(err)
	}
}

// packet sends one to node 1 and waits for it to come back so often.
func (p *pair) packet(t *testing.T, wait time.Duration) (back int, took time.Duration) {
	t.Helper()
	to, err := net.ResolveUDPAddr("udp", p.b.advertise)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if _, err := p.packets.WriteTo([]byte("hello"), to); err != nil {
		t.Fatal(err)
	}
	_ = p.packets.SetReadDeadline(begun.Add(wait))
	b := make([]byte, 16)
	for {
		if _, _, err := p.packets.ReadFrom(b); err != nil {
			return back, took
		}
		if back++; back == 1 {
			took = time.Since(begun)
		}
	}
}

// answer sends a word over a connection and waits for it to come back.
func answer(c net.Conn, wait time.Duration) (time.Duration, error) {
	begun := time.Now()
	if _, err := c.Write([]byte("hello")); err != nil {
		return 0, err
	}
	_ = c.SetReadDeadline(begun.Add(wait))
	_, err := c.Read(make([]byte, 16))
	return time.Since(begun), err
}

const soon = 5 * time.Second

// TestProxyCutsOneWay: what is cut in one direction does not arrive, and TCP that
// was under way arrives after healing.
func TestProxyCutsOneWay(t *testing.T) {
	p := newPair(t)
	c, err := net.Dial("tcp", p.b.advertise)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := answer(c, soon); err != nil {
		t.Fatalf("a good link: %v", err)
	}
	if n, _ := p.packet(t, 300*time.Millisecond); n != 1 {
		t.Errorf("over a good link a packet came back %d times", n)
	}
	for _, dir := range []struct{ there, back link }{{cut(), link{}}, {link{}, cut()}} {
		p.between(t, dir.there, dir.back)
		if n, _ := p.packet(t, 200*time.Millisecond); n != 0 {
			t.Errorf("cut %v, %v: a packet came back", dir.there, dir.back)
		}
		if took, err := answer(c, 200*time.Millisecond); err == nil {
			t.Errorf("cut %v, %v: bytes came back after %v", dir.there, dir.back, took)
		}
		p.between(t, link{}, link{})
		_ = c.SetReadDeadline(time.Now().Add(soon))
		if _, err := c.Read(make([]byte, 16)); err != nil {
			t.Errorf("healed: %v", err)
		}
	}
	p.between(t, link{cutUDP: true}, link{})
	if n, _ := p.packet(t, 200*time.Millisecond); n != 0 {
		t.Error("UDP is cut and a packet came back")
	}
	if _, err := answer(c, soon); err != nil {
		t.Errorf("only UDP is cut: %v", err)
	}
}

// TestProxyShapes: late, lost, doubled and slow.
func TestProxyShapes(t *testing.T) {
	p := newPair(t)
	c, err := net.Dial("tcp", p.b.advertise)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	late := link{delay: 150 * time.Millisecond}
	p.between(t, late, late)
	if n, took := p.packet(t, time.Second); n != 1 || took < 300*time.Millisecond {
		t.Errorf("late twice: back %d times, after %v", n, took)
	}
	if took, err := answer(c, soon); err != nil || took < 300*time.Millisecond {
		t.Errorf("late twice: after %v, %v", took, err)
	}
	p.between(t, link{duplicate: 1}, link{duplicate: 1})
	if n, _ := p.packet(t, 300*time.Millisecond); n != 4 {
		t.Errorf("doubled twice: back %d times", n)
	}
	p.between(t, link{loss: 0.5}, link{})
	back := 0
	for range 40 {
		n, _ := p.packet(t, 10*time.Millisecond)
		back += n
	}
	if back < 5 || back > 35 {
		t.Errorf("half are lost: %d of 40 came back", back)
	}
	p.between(t, link{rate: 10 << 10}, link{})
	begun := time.Now()
	if _, err := c.Write(make([]byte, 6<<10)); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(begun.Add(soon))
	for got := 0; got < 6<<10; {
		n, err := c.Read(make([]byte, 1024))
		if err != nil {
			t.Fatal(err)
		}
		got += n
	}
	if took := time.Since(begun); took < 500*time.Millisecond {
		t.Errorf("6 KiB at 10 KiB a second took %v", took)
	}
}

// TestNobodyElseGetsThrough: the proxy carries for its nodes only.
func TestNobodyElseGetsThrough(t *testing.T) {
	p := newPair(t)
	p.a.ending(os.Getpid())
	c, err := net.Dial("tcp", p.b.advertise)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if took, err := answer(c, soon); err == nil {
		t.Errorf("a stranger was answered after %v", took)
	}
	other, err := net.Dial("udp", p.b.advertise)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if _, err := other.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	_ = p.packets.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if _, _, err := p.packets.ReadFrom(make([]byte, 16)); err == nil {
		t.Error("a stranger's packet came through")
	}
}
