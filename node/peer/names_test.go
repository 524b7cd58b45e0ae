package peer

import (
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"testing"

	"github.com/norn-dev/norn/register"
)

// TestNamesInCertificates: what fits which pattern, for any node and for one.
func TestNamesInCertificates(t *testing.T) {
	cert := func(dns []string, ip, uri string) *x509.Certificate {
		c := &x509.Certificate{DNSNames: dns}
		if ip != "" {
			c.IPAddresses = []net.IP{net.ParseIP(ip)}
		}
		if uri != "" {
			u, err := url.Parse(uri)
			if err != nil {
				t.Fatal(err)
			}
			c.URIs = []*url.URL{u}
		}
		return c
	}
	for _, c := range []struct {
		names   Names
		cert    *x509.Certificate
		node    string
		any, of bool
	}{
		{nil, cert(nil, "", ""), "n1", true, true},
		{nil, nil, "n1", true, true}, // in plain
		{Names{"n1.lan"}, nil, "n1", false, false},
		{Names{"n1.lan"}, cert(nil, "", ""), "n1", false, false},
		{Names{"a.lan", "n1.lan"}, cert([]string{"x", "n1.lan"}, "", ""), "n2", true, true},
		{Names{"N1.lan"}, cert([]string{"n1.LAN"}, "", ""), "n2", true, true},
		{Names{"n1.lan"}, cert([]string{"n1xlan"}, "", ""), "n1", false, false},
		{Names{"n1.lan"}, cert([]string{"n1.lan.evil"}, "", ""), "n1", false, false},
		{Names{"*.lan"}, cert([]string{"n1.lan"}, "", ""), "n2", true, true},
		{Names{"*.lan"}, cert([]string{"a.b.lan"}, "", ""), "n2", false, false},
		{Names{"*.lan"}, cert([]string{".lan"}, "", ""), "n2", false, false},
		{Names{"{name}.lan"}, cert([]string{"n1.lan"}, "", ""), "n1", true, true},
		{Names{"{name}.lan"}, cert([]string{"n1.lan"}, "", ""), "n2", true, false},
		{Names{"{name}.lan"}, cert([]string{"n1.lan"}, "", ""), "", true, false},
		{Names{"{name}.lan"}, cert([]string{"n1.lan"}, "", ""), ".*", true, false}, // no pattern of its own
		{Names{"{name}.lan"}, cert([]string{"*.lan"}, "", ""), "n1", true, false},  // a wildcard is nobody's name
		{Names{"{name}.lan"}, cert([]string{"n1.lan\n"}, "", ""), "n1", false, false},
		{Names{"10.0.0.1"}, cert(nil, "10.0.0.1", ""), "n1", true, true},
		{Names{"{name}"}, cert([]string{"n2"}, "10.0.0.1", ""), "10.0.0.1", true, true},
		{Names{"spiffe://acme/norn/{name}"}, cert(nil, "", "spiffe://acme/norn/n1"), "n1", true, true},
		{Names{"spiffe://acme/norn/{name}"}, cert(nil, "", "spiffe://acme/norn/n1"), "N1", true, false},
		{Names{"spiffe://acme/norn/{name}"}, cert(nil, "", "spiffe://acme/jobs/n1"), "n1", false, false},
		{Names{"spiffe://acme/*/norn"}, cert(nil, "", "spiffe://acme/v1.2/norn"), "n1", true, true},
		{Names{"spiffe://acme/*/norn"}, cert(nil, "", "spiffe://acme/a/b/norn"), "n1", false, false},
		{Names{"*"}, cert(nil, "", "spiffe://acme"), "n1", false, false},
	} {
		if err := c.names.Any(c.cert); (err == nil) != c.any {
			t.Errorf("%v for any node, %v: %v", c.names, c.cert, err)
		}
		if err := c.names.Of(c.cert, c.node); (err == nil) != c.of {
			t.Errorf("%v for node %q, %v: %v", c.names, c.node, c.cert, err)
		}
	}
	for _, bad := range []string{"", "{nam}.lan", "{name", "a b", "}"} {
		if err := (Names{"good.lan", bad}).Validate(); !errors.Is(err, ErrNames) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := (Names{"{name}.lan", "*", "spiffe://a/{name}/{name}"}).Validate(); err != nil {
		t.Error(err)
	}
}

// TestACertificateIsOneNodes: a hello under another name than the certificate's is refused
// before anything of it is remembered, and so is a request to join.
func TestACertificateIsOneNodes(t *testing.T) {
	ours := register.UUID{1}
	n := New(Config{Self: who(2, 0), Cluster: ours, Security: Security{Names: Names{"{name}.nodes"}}})
	defer n.Close()
	for name, ok := range map[string]bool{"n1.nodes": true, "n3.nodes": false, "": false} {
		shown := &x509.Certificate{DNSNames: []string{name}}
		h := Hello{MinVersion: MinVersion, MaxVersion: MaxVersion, Cluster: ours, From: who(1, 0), To: who(2, 0), Boot: 7, Life: 1, Lane: Control, shown: shown}
		n.lives = make(map[register.Incarnation]life)
		reply, refusal := n.greet(&h, nil)
		if (refusal == nil) != ok || (len(n.lives) > 0) != ok || (len(reply.GetCluster()) > 0) != ok {
			t.Errorf("%q says hello as n1: %v, %d lives", name, refusal, len(n.lives))
		}
		r := JoinRequest{MinVersion: MinVersion, MaxVersion: MaxVersion, Node: register.Node{Member: who(1, 0)}, shown: shown}
		if refusal := n.mayAsk(&r, nil); (refusal == nil) != ok {
			t.Errorf("%q asks to join as n1: %v", name, refusal)
		}
	}
}
