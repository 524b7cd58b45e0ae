package lab

import (
	"errors"
	"net"
	"os"
	"path/filepath"
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

// TestATakenPortIsDrawnAnew: a run whose node cannot have its port begins anew, a few times;
// one that fails for anything else does not.
func TestATakenPortIsDrawnAnew(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	said := func(text string) error {
		if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return portTaken(&lab{nodes: []*process{{log: log}}}, errors.New("the first node does not serve"))
	}
	other, busy := said("the disk is full"), said("listen tcp 127.0.0.1:12345: bind: address already in use")
	for _, c := range []struct {
		what  string
		ends  []error // of one attempt after the other; then it is done
		tries int
		fails error
	}{
		{"at once", nil, 1, nil},
		{"a port is taken twice", []error{busy, busy}, 3, nil},
		{"ports are always taken", []error{busy, busy, busy, busy, busy, busy, busy}, starts, errTaken},
		{"something else is wrong", []error{busy, other}, 2, other},
	} {
		tries, told := 0, 0
		r, err := begun(func(string) { told++ }, func() (*Result, error) {
			if tries++; tries <= len(c.ends) {
				return nil, c.ends[tries-1]
			}
			return &Result{}, nil
		})
		if tries != c.tries || !errors.Is(err, c.fails) || (r == nil) != (c.fails != nil) || told > tries {
			t.Errorf("%s: %d attempts, %v, %v", c.what, tries, r, err)
		}
	}
}
