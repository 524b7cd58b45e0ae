package peer

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
)

// ErrNames is returned for a pattern of names that cannot be.
var ErrNames = errors.New("peer: bad pattern of names")

// nameMark stands in a pattern for the name of the node.
const nameMark = "{name}"

// Names are patterns, one of which a name in a node's certificate must fit: its DNS names,
// addresses and URIs count, its subject does not. * stands for one or more characters
// without a slash, outside of URIs without a dot, and {name} for the node's name in the
// register. None: any certificate will do.
type Names []string

// Validate finds patterns that cannot be; errors wrap ErrNames.
func (n Names) Validate() error {
	for _, p := range n {
		rest := strings.ReplaceAll(p, nameMark, "")
		if p == "" || len(p) > 255 || strings.ContainsAny(rest, "{} \t") {
			return fmt.Errorf("%w: %q; a pattern is a DNS name, an address or a URI, in which * and {name} may stand", ErrNames, p)
		}
	}
	return nil
}

// Any refuses a certificate that is no node's, whatever that is called.
func (n Names) Any(c *x509.Certificate) error { return n.check(c, ".+", "a node") }

// Of refuses a certificate that is not that of the node of this name.
func (n Names) Of(c *x509.Certificate, node string) error {
	return n.check(c, regexp.QuoteMeta(node), fmt.Sprintf("node %q", node))
}

func (n Names) check(c *x509.Certificate, node, who string) error {
	if len(n) == 0 {
		return nil
	}
	if c == nil {
		return fmt.Errorf("no certificate was shown, and peer-tls-names asks for one of %s", strings.Join(n, ", "))
	}
	all := namesIn(c)
	for _, pattern := range n {
		uri := strings.Contains(pattern, "://")
		for _, name := range all {
			if uri == strings.Contains(name, "://") && patternFits(pattern, name, node, uri) {
				return nil
			}
		}
	}
	shown := "no names"
	if len(all) > 0 {
		shown = strings.Join(all, ", ")
	}
	return fmt.Errorf("the certificate has %s, and peer-tls-names asks %s for %s", shown, who, strings.Join(n, ", "))
}

// namesIn are the names that a certificate is for.
func namesIn(c *x509.Certificate) []string {
	all := append([]string(nil), c.DNSNames...)
	for _, ip := range c.IPAddresses {
		all = append(all, ip.String())
	}
	for _, u := range c.URIs {
		all = append(all, u.String())
	}
	return all
}

// patternFits compares a name with a pattern; node is what {name} stands for. The case of letters
// counts in URIs alone, and in the names of nodes.
func patternFits(pattern, name, node string, uri bool) bool {
	fold, star := "(?i:", `[^./]+`
	if uri {
		fold, star = "(?:", `[^/]+`
	}
	var text strings.Builder
	for i, part := range strings.Split(pattern, nameMark) {
		if i > 0 {
			text.WriteString(node)
		}
		for j, fixed := range strings.Split(part, "*") {
			if j > 0 {
				text.WriteString(star)
			}
			text.WriteString(fold + regexp.QuoteMeta(fixed) + ")")
		}
	}
	match, err := regexp.MatchString(`^(?s:`+text.String()+`)$`, name)
	return err == nil && match
}

// shownOn is the certificate that the other side of a connection has shown, once the
// handshake is over; nil: none.
func shownOn(nc net.Conn) *x509.Certificate {
	t, ok := nc.(interface{ ConnectionState() tls.ConnectionState })
	if !ok {
		return nil
	}
	if all := t.ConnectionState().PeerCertificates; len(all) > 0 {
		return all[0]
	}
	return nil
}
