package node

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/norn-dev/norn/internal/names/dnstest"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestNodesMeetThoughDNSIsSlow: a look-up that takes longer than a node waits for a
// connection serves the next attempt.
func TestNodesMeetThoughDNSIsSlow(t *testing.T) {
	_, r := dnstest.Start(t, func(name string) dnstest.Answer {
		a := dnstest.Answer{Found: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}
		if name == "n1.example" {
			a.After = 3200 * time.Millisecond
		}
		return a
	})
	a := joinConfig(t, "n1")
	var nodes []*Node
	for i, name := range []string{"n1", "n2"} {
		c := a
		if i > 0 {
			_, port, _ := net.SplitHostPort(nodes[0].PeerAddr().String())
			c = joinConfig(t, name)
			c.Join = []string{net.JoinHostPort("n1.example", port)}
		}
		l, err := net.Listen("tcp", "127.0.0.1:0") // its port is to be known before
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		_ = l.Close()
		c.PeerListen, c.PeerAdvertise = "127.0.0.1:"+port, net.JoinHostPort(name+".example", port)
		n := start(t, c, Options{Resolver: r})
		defer stop(t, n)
		nodes = append(nodes, n)
	}
	status := through(t, nodes[1], nornv1.Method_METHOD_STATUS, &nornv1.StatusRequest{}, &nornv1.StatusReply{})
	eventually(t, "both are connected", func() bool {
		nodes[1].members.mu.Lock()
		defer nodes[1].members.mu.Unlock()
		return len(nodes[1].members.up) == 1
	})
	if len(status.GetNodes()) != 2 {
		t.Errorf("%d nodes", len(status.GetNodes()))
	}
}
