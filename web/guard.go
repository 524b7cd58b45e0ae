package web

import (
	"net"
	"net/http"
	"strings"

	"github.com/norn-dev/norn/internal/secrets"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// guard decides who may use the API. It is as strict as the client port: where
// that wants TLS, a certificate or a token, so does the API. Beyond that it keeps
// out what only a browser can be made to do: pages of other sites, and names that
// were bent to this address.
type guard struct {
	tokens  secrets.Set
	wantTLS bool
	origins *http.CrossOriginProtection
}

func newGuard(o Options) *guard {
	return &guard{tokens: o.Tokens, wantTLS: o.TLS != nil, origins: http.NewCrossOriginProtection()}
}

func (g *guard) check(r *http.Request) *failure {
	if g.wantTLS && r.TLS == nil {
		return failed(http.StatusForbidden, proto.Refused(nornv1.ErrorKind_ERROR_KIND_PERMISSION_DENIED, "this server has a certificate: use https:// on this port (plain are /livez, /readyz and /metrics only)"))
	}
	if err := g.origins.Check(r); err != nil {
		return failed(http.StatusForbidden, proto.Refused(nornv1.ErrorKind_ERROR_KIND_PERMISSION_DENIED, "the request comes from a page of another site (%.200s)", r.Header.Get("Origin")))
	}
	if len(g.tokens) == 0 {
		return g.checkHost(r)
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || !g.tokens.Accepts([]byte(token)) {
		return failed(http.StatusUnauthorized, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED, "the auth token is missing or wrong; send it as Authorization: Bearer TOKEN"))
	}
	return nil
}

// knows tells whether who sends a request that passed the check has shown who it is.
func (g *guard) knows(r *http.Request) bool {
	return len(g.tokens) > 0 || r.TLS != nil && len(r.TLS.VerifiedChains) > 0
}

// checkHost refuses names that are not this machine's where the port is for this
// machine alone and asks for no token: whoever owns a name can let it point here,
// and then a page of theirs may ask for anything.
func (g *guard) checkHost(r *http.Request) *failure {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if a, ok := local.(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return nil
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.Trim(strings.TrimSuffix(host, "."), "[]"))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(host) != nil {
		return nil
	}
	return failed(http.StatusForbidden, proto.Refused(nornv1.ErrorKind_ERROR_KIND_PERMISSION_DENIED,
		"this port is for this machine, which %.100q is not: ask for localhost or an IP address, or set auth-token-file", r.Host))
}
