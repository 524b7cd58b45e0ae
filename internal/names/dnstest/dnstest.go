package dnstest

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// Answer is what the server says to a question. Without an address the name is not known.
type Answer struct {
	Found  []netip.Addr // of IPv4
	After  time.Duration
	Silent bool // nothing is said
}

// Server counts questions. Make one with [Start].
type Server struct {
	conn  net.PacketConn
	asked atomic.Int64
}

// Start runs a server that answers by name, without the dot at its end. The resolver asks
// it and nobody else.
func Start(t testing.TB, answer func(name string) Answer) (*Server, *net.Resolver) {
	t.Helper()
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, ended := &Server{conn: c}, make(chan struct{})
	go func() {
		defer close(ended)
		s.serve(t, answer)
	}()
	t.Cleanup(func() {
		_ = c.Close()
		<-ended
	})
	return s, &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var to net.Dialer
		ask, err := to.DialContext(ctx, "udp", c.LocalAddr().String())
		if err == nil {
			context.AfterFunc(ctx, func() { _ = ask.Close() }) // it would wait for its own time-out
		}
		return ask, err
	}}
}

// Asked is how often an address of IPv4 was asked for.
func (s *Server) Asked() int { return int(s.asked.Load()) }

func (s *Server) serve(t testing.TB, answer func(name string) Answer) {
	b := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(b)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(b[:n]); err != nil || len(m.Questions) != 1 {
			t.Error("dnstest: not a question")
			continue
		}
		q := m.Questions[0]
		a := answer(strings.TrimSuffix(q.Name.String(), "."))
		if q.Type == dnsmessage.TypeA {
			s.asked.Add(1)
			for _, ip := range a.Found {
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}, Body: &dnsmessage.AResource{A: ip.As4()}})
			}
		}
		if a.Silent {
			continue
		}
		m.Response, m.Additionals = true, nil
		if len(a.Found) == 0 {
			m.RCode = dnsmessage.RCodeNameError
		}
		reply, err := m.Pack()
		if err != nil {
			t.Error(err)
		}
		time.AfterFunc(a.After, func() { _, _ = s.conn.WriteTo(reply, from) })
	}
}
