package web

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/norn-dev/norn/internal/logins"
	"github.com/norn-dev/norn/node/access"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// guard decides who may use the port. It stands before all routes, and a path that is not
// in the list of open ones needs what the API needs: a new route is closed until somebody
// opens it. The API is as strict as the client port: where that wants TLS, a certificate
// or a token, so does the API. Beyond that it keeps out what only a browser can be made to
// do: pages of other sites, and names that were bent to this address.
type guard struct {
	next        *paths
	access      *access.Desk
	wantTLS     bool
	metricsAuth bool
	hosts       *hosts
	origins     *http.CrossOriginProtection
	sites       map[string]struct{} // other sites that may ask: their origins
	writing     time.Duration       // for a refusal
	m           *metrics
	logins      *logins.Watch
}

func newGuard(o Options, m *metrics, next *paths) *guard {
	g := &guard{
		next: next, access: o.Access, wantTLS: o.TLS != nil, metricsAuth: o.MetricsAuth, writing: o.WriteTimeout, m: m, logins: o.Logins,
		hosts: newHosts(o), origins: http.NewCrossOriginProtection(), sites: make(map[string]struct{}),
	}
	for _, origin := range o.CORSOrigins {
		g.sites[strings.ToLower(origin)] = struct{}{}
	}
	return g
}

// open tells whether a path asks nobody for a token.
func (g *guard) open(path string) bool {
	return g.isHealth(path) || path == "/openapi.json" || path == "/" || strings.HasPrefix(path, "/pages/") || isProfile(path)
}

// isHealth tells whether a path is for probes and monitoring, which come by any name and know
// no token.
func (g *guard) isHealth(path string) bool {
	return path == "/livez" || path == "/readyz" || path == "/metrics" && !g.metricsAuth
}

func isProfile(path string) bool { return strings.HasPrefix(path, "/debug/pprof/") }

// ServeHTTP hands a request on, or refuses it.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if g.isHealth(path) {
		g.next.ServeHTTP(w, r)
		return
	}
	// A page that was bent to this address knows no token. What asks for none is checked by name.
	unasked := !g.access.Asks() || g.access.Welcomes() && tokenOf(r) == ""
	if (unasked || isProfile(path)) && path != "/metrics" {
		if f := g.hosts.check(r); f != nil {
			g.refuse(w, r, f)
			return
		}
	}
	if g.preflight(w, r) {
		return
	}
	if !g.open(path) {
		who, f := g.check(r)
		if f != nil {
			g.refuse(w, r, f)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), callerKey{}, who))
	}
	g.next.ServeHTTP(w, r)
}

// refuse answers, and counts under the path as it is registered; strangers can send any.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request, f *failure) {
	_, pattern := g.next.Handler(r)
	if !strings.HasPrefix(pattern, "/api/") {
		pattern = "other"
	}
	deadline(w, g.writing)
	g.m.counted(pattern, func(w http.ResponseWriter, _ *http.Request) { refuse(w, f) })(w, r)
}

// check decides on a request to what is not open to everybody.
func (g *guard) check(r *http.Request) (*access.Caller, *failure) {
	if g.wantTLS && r.TLS == nil {
		return nil, denied("this server has a certificate: use https:// on this port (plain are /livez, /readyz and /metrics only); so must a proxy in front of it")
	}
	if err := g.origins.Check(r); err != nil && !g.knownSite(r) {
		return nil, otherSite(r)
	}
	return g.login(r)
}

// callerKey is where the context of a request that passed the check has its caller.
type callerKey struct{}

// callerOf is who sends a request that passed the check; nil: there was no check.
func callerOf(ctx context.Context) *access.Caller {
	who, _ := ctx.Value(callerKey{}).(*access.Caller)
	return who
}

// login judges what a request shows, and returns when it may be answered.
func (g *guard) login(r *http.Request) (*access.Caller, *failure) {
	shown := access.Shown{
		Port: logins.HTTP, Logins: g.logins, Token: tokenOf(r), Remote: remoteOf(r.RemoteAddr), Shared: proxied(r), Agent: r.UserAgent(),
		Send: "send it as Authorization: Bearer TOKEN, or as X-Norn-Token: TOKEN where a proxy has Authorization for itself",
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		shown.Certificate = r.TLS.PeerCertificates[0]
	}
	who, err := g.access.Enter(r.Context(), shown)
	switch {
	case err == nil:
		return who, nil
	case err.Kind == nornv1.ErrorKind_ERROR_KIND_OVERLOADED:
		return nil, failed(http.StatusTooManyRequests, err)
	}
	return nil, failed(statusOf(err.Kind), err)
}

// tokenHeader has the token where Authorization is for a proxy, which asks for a password.
const tokenHeader = "X-Norn-Token"

// tokenOf is the token that a request shows; "": none.
func tokenOf(r *http.Request) string {
	if token := r.Header.Get(tokenHeader); token != "" {
		return token
	}
	if scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		return token
	}
	return ""
}

// otherSite refuses what a page of another site asks for, which may be this node's own behind
// a proxy that changes Host.
func otherSite(r *http.Request) *failure {
	origin := r.Header.Get("Origin")
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return denied("the request comes from a page of another site (%.200q), and its Host is %.100q", origin, r.Host)
	}
	return denied("the request comes from a page of another site (%.200s), and its Host is %.100q: if that page is this node's behind a proxy, set http-hosts to %.100s or have the proxy pass Host on; "+
		"if it is another site that may use the API, set http-cors-origins to %.200s", origin, r.Host, u.Host, origin)
}

// proxied tells whether a request says that it comes through a proxy: its address is not that
// of who sends it.
func proxied(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"} {
		if r.Header.Get(name) != "" {
			return true
		}
	}
	return false
}

// remoteOf is an address as the library writes it; nil: it is none.
func remoteOf(text string) net.Addr {
	at, err := netip.ParseAddrPort(text)
	if err != nil {
		return nil
	}
	return net.TCPAddrFromAddrPort(at)
}

func denied(format string, args ...any) *failure {
	return failed(http.StatusForbidden, proto.Refused(nornv1.ErrorKind_ERROR_KIND_PERMISSION_DENIED, format, args...))
}

// knownSite tells whether a request comes from a page that the settings name.
func (g *guard) knownSite(r *http.Request) bool {
	origin := strings.ToLower(r.Header.Get("Origin"))
	_, other := g.sites[origin]
	return other || g.hosts.sameSite(origin)
}

// corsHeaders are those that a page of another site may send, and corsAnswers those that it
// may read beside the few that it always may.
const (
	corsHeaders = "Authorization, X-Norn-Token, Content-Type, Last-Event-ID"
	corsAnswers = "Retry-After, WWW-Authenticate, Allow"
)

// preflight lets a browser pass on what a page of one of the other sites asks for, and
// answers its question whether it may. It carries no token and needs none.
func (g *guard) preflight(w http.ResponseWriter, r *http.Request) (answered bool) {
	if len(g.sites) == 0 {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if _, ok := g.sites[strings.ToLower(origin)]; !ok {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", corsAnswers)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, PATCH, DELETE")
	h.Set("Access-Control-Allow-Headers", corsHeaders)
	h.Set("Access-Control-Max-Age", "600")
	deadline(w, g.writing)
	w.WriteHeader(http.StatusNoContent)
	return true
}

// knows tells whether who sends a request that passed the check has shown who it is.
func (g *guard) knows(r *http.Request) bool {
	return g.access.Asks() && !(g.access.Welcomes() && tokenOf(r) == "") || r.TLS != nil && len(r.TLS.VerifiedChains) > 0
}
