package web

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// hosts are the names by which this node is asked. Whoever owns a name can let it point
// here, and then a page of theirs may ask for anything: so what asks for no token is told
// to nobody who asks for it by a name that is not this node's.
type hosts struct {
	named map[string]struct{} // http-hosts without ports
	sites map[string]struct{} // http-hosts as they stand there
	own   func(host string) bool
}

func newHosts(o Options) *hosts {
	h := &hosts{named: make(map[string]struct{}), sites: make(map[string]struct{}), own: o.OwnHost}
	for _, name := range o.Hosts {
		h.sites[strings.ToLower(name)] = struct{}{}
		h.named[hostOf(name)] = struct{}{}
	}
	return h
}

// hostOf is the host of a Host header: without port, brackets and a dot at the end, in
// lower case.
func hostOf(header string) string {
	host := header
	if h, _, err := net.SplitHostPort(header); err == nil {
		host = h
	}
	if inside, ok := strings.CutPrefix(host, "["); ok {
		host = strings.TrimSuffix(inside, "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// check refuses a request by a name that is not this node's. Addresses pass, and localhost
// and what is below it, which nobody can own.
func (h *hosts) check(r *http.Request) *failure {
	host := hostOf(r.Host)
	if _, err := netip.ParseAddr(host); err == nil || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return nil
	}
	if _, ok := h.named[host]; ok || host != "" && h.own != nil && h.own(host) {
		return nil
	}
	return denied("%.100q (Host) is no name of this node: ask by address or as localhost, name it in http-hosts, or set auth-token-file", r.Host)
}

// sameSite tells whether an origin is this node under one of its names in http-hosts, at
// the port that stands there or at the usual one.
func (h *hosts) sameSite(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return false
	}
	_, ok := h.sites[u.Host]
	return ok
}
