package network

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestPortsThatNobodyIsGiven: those of nodes are free, differ, and are none that the system
// gives to whoever asks for any.
func TestPortsThatNobodyIsGiven(t *testing.T) {
	low, high := unasked()
	if low < 1024 || high-low < 1000 || high > mostPort {
		t.Fatalf("ports are drawn from %d to %d", low, high)
	}
	given, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = given.Close() }()
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		b = []byte("32768") // as it is elsewhere, or more
	}
	begins, err := strconv.Atoi(strings.Fields(string(b))[0])
	if err != nil {
		t.Fatal(err)
	}
	if port := given.Addr().(*net.TCPAddr).Port; begins >= high && port >= low && port < high {
		t.Errorf("the system gives port %d to whoever asks", port)
	}
	peer, client, http, err := drawPorts()
	if err != nil || peer == client || peer == http || client == http {
		t.Fatalf("%s, %s and %s, %v", peer, client, http, err)
	}
	for _, at := range []string{peer, client, http} {
		l, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		if port := l.Addr().(*net.TCPAddr).Port; port < low || port >= high {
			t.Errorf("port %d is drawn from %d to %d", port, low, high)
		}
		_ = l.Close() // the next one is another
	}
}
