package node

import (
	"crypto/tls"
	"crypto/x509"
	"net"

	"github.com/norn-dev/norn/internal/logins"
	"github.com/norn-dev/norn/node/access"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// door is where clients log in.
type door struct{ *Node }

// admits judges what a client shows, and returns when it may be answered. It runs on the
// goroutine of that client's connection, which waits for nothing else.
func (n door) admits(remote net.Addr, secure *tls.ConnectionState, h *nornv1.Hello) (*access.Caller, *proto.Error) {
	return n.opts.Access.Enter(n.entry, access.Shown{
		Port: logins.Client, Logins: n.opts.Logins, Token: h.GetAuthToken(), Certificate: certificateOf(secure), Remote: remote, Agent: h.GetAgent(),
		Send: "set --auth-token or NORN_AUTH_TOKEN",
	})
}

// certificateOf is what a client has shown that an authority vouches for; nil: nothing.
func certificateOf(s *tls.ConnectionState) *x509.Certificate {
	if s == nil || len(s.VerifiedChains) == 0 {
		return nil
	}
	return s.PeerCertificates[0]
}

// unshaken hears of a client with which there is no TLS.
func (n door) unshaken(remote net.Addr, err error) {
	if logins.IsCertificate(err) {
		n.opts.Logins.Judge(n.entry, logins.Try{Port: logins.Client, Remote: remote, Reason: logins.Certificate})
	}
}
