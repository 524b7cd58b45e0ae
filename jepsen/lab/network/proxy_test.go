package network

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
	a, b    *Place
	packets net.PacketConn // of node 0
}

func newPair(t *testing.T) *pair {
	t.Helper()
	if err := owners(); err != nil {
		t.Skip(err)
	}
	for try := 1; ; try++ {
		p, err := tryPair(t)
		if err == nil {
			return p
		}
		// A port that was free a moment ago may be somebody's by now.
		if try == 100 {
			t.Fatal(err)
		}
	}
}

func tryPair(t *testing.T) (*pair, error) {
	n, err := NewProxied()
	if err != nil {
		return nil, err
	}
	p := &pair{proxied: n.(*proxied)}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	if p.a, err = p.Place(0); err != nil {
		return nil, err
	}
	if p.b, err = p.Place(1); err != nil {
		return nil, err
	}
	p.a.Started(os.Getpid())
	if p.packets, err = net.ListenPacket("udp", p.a.Peer); err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = p.packets.Close() })
	l, err := net.Listen("tcp", p.b.Peer)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = l.Close() })
	echo, err := net.ListenPacket("udp", p.b.Peer)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = echo.Close() })
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
			to, _ := net.ResolveUDPAddr("udp", p.a.Advertise)
			_, _ = echo.WriteTo(b[:n], to) // packets get lost
		}
	}()
	return p, nil
}

// links sets the links between the two.
func (p *pair) between(t *testing.T, there, back Link) {
	t.Helper()
	if err := p.Set(map[Way]Link{{0, 1}: there, {1, 0}: back}); err != nil {
		t.Fatal(err)
	}
}

// send sends a packet to node 1.
func (p *pair) send(t *testing.T) {
	t.Helper()
	to, err := net.ResolveUDPAddr("udp", p.b.Advertise)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.packets.WriteTo([]byte("hello"), to); err != nil {
		t.Fatal(err)
	}
}

// back counts the packets that come back: as many as are wanted, whenever that
// is, and those that come right behind them.
func (p *pair) back(want int) (n int) {
	b := make([]byte, 16)
	for {
		wait := quiet
		if n < want {
			wait = soon
		}
		_ = p.packets.SetReadDeadline(time.Now().Add(wait))
		if _, _, err := p.packets.ReadFrom(b); err != nil {
			return n
		}
		n++
	}
}

// packet sends one and counts how often it comes back.
func (p *pair) packet(t *testing.T, want int) int {
	t.Helper()
	p.send(t)
	return p.back(want)
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

// soon is how long what must come may take on a busy machine; quiet is for what
// must not come.
const (
	soon  = 60 * time.Second
	quiet = 200 * time.Millisecond
)

// TestProxyCutsOneWay: what is cut in one direction does not arrive, and TCP that
// was under way arrives after healing.
func TestProxyCutsOneWay(t *testing.T) {
	p := newPair(t)
	c, err := net.Dial("tcp", p.b.Advertise)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := answer(c, soon); err != nil {
		t.Fatalf("a good link: %v", err)
	}
	if n := p.packet(t, 1); n != 1 {
		t.Errorf("over a good link a packet came back %d times", n)
	}
	for _, dir := range []struct{ there, back Link }{{Cut(), Link{}}, {Link{}, Cut()}} {
		p.between(t, dir.there, dir.back)
		if n := p.packet(t, 0); n != 0 {
			t.Errorf("cut %v, %v: a packet came back", dir.there, dir.back)
		}
		if took, err := answer(c, quiet); err == nil {
			t.Errorf("cut %v, %v: bytes came back after %v", dir.there, dir.back, took)
		}
		p.between(t, Link{}, Link{})
		_ = c.SetReadDeadline(time.Now().Add(soon))
		if _, err := c.Read(make([]byte, 16)); err != nil {
			t.Errorf("healed: %v", err)
		}
	}
	p.between(t, Link{CutUDP: true}, Link{})
	if n := p.packet(t, 0); n != 0 {
		t.Error("UDP is cut and a packet came back")
	}
	if _, err := answer(c, soon); err != nil {
		t.Errorf("only UDP is cut: %v", err)
	}
}

// TestProxyShapes: late, lost, doubled and slow.
func TestProxyShapes(t *testing.T) {
	p := newPair(t)
	c, err := net.Dial("tcp", p.b.Advertise)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	late := Link{Delay: 150 * time.Millisecond}
	p.between(t, late, late)
	sent := time.Now()
	if n := p.packet(t, 1); n != 1 || time.Since(sent) < 300*time.Millisecond+quiet {
		t.Errorf("late twice: back %d times, after %v", n, time.Since(sent)-quiet)
	}
	if took, err := answer(c, soon); err != nil || took < 300*time.Millisecond {
		t.Errorf("late twice: after %v, %v", took, err)
	}
	p.between(t, Link{Duplicate: 1}, Link{Duplicate: 1})
	if n := p.packet(t, 4); n != 4 {
		t.Errorf("doubled twice: back %d times", n)
	}
	p.between(t, Link{Loss: 0.5}, Link{})
	for range 40 {
		p.send(t)
	}
	if back := p.back(5); back < 5 || back > 35 {
		t.Errorf("half are lost: %d of 40 came back", back)
	}
	p.between(t, Link{Rate: 10 << 10}, Link{})
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
	p.a.Ending(os.Getpid())
	c, err := net.Dial("tcp", p.b.Advertise)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if took, err := answer(c, soon); err == nil {
		t.Errorf("a stranger was answered after %v", took)
	}
	other, err := net.Dial("udp", p.b.Advertise)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if _, err := other.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	_ = p.packets.SetReadDeadline(time.Now().Add(quiet))
	if _, _, err := p.packets.ReadFrom(make([]byte, 16)); err == nil {
		t.Error("a stranger's packet came through")
	}
}
