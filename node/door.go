package node

import (
	"net"
	"time"

	"github.com/norn-dev/norn/internal/logins"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// loginPause is after how long who was refused because too many answers wait may try again.
const loginPause = 2 * time.Second

// door is where clients log in.
type door struct{ *Node }

// admits judges the token of a client, and returns when it may be answered. It runs on the
// goroutine of that client's connection, which waits for nothing else.
func (n door) admits(remote net.Addr, token string) *proto.Error {
	want := n.opts.AuthTokens
	if len(want) == 0 {
		return nil
	}
	t := logins.Try{Port: logins.Client, Remote: remote}
	switch {
	case want.Accepts([]byte(token)):
	case token == "":
		t.Reason = logins.NoToken
	default:
		t.Reason = logins.WrongToken
	}
	if !n.opts.Logins.Judge(n.entry, t) {
		e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "too many logins from this address have failed; try again later")
		e.RetryAfter = loginPause
		return e
	}
	if t.Reason != "" {
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED, "the auth token is missing or wrong; set --auth-token or NORN_AUTH_TOKEN")
	}
	return nil
}

// unshaken hears of a client with which there is no TLS.
func (n door) unshaken(remote net.Addr, err error) {
	if logins.IsCertificate(err) {
		n.opts.Logins.Judge(n.entry, logins.Try{Port: logins.Client, Remote: remote, Reason: logins.Certificate})
	}
}
