package serve

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/norn-dev/norn/internal/logins"
	"github.com/norn-dev/norn/node/peer"
)

// material is a certificate with its key, and authorities, as their files hold
// them. It looks again when somebody connects and some time has passed, by
// content: files that are links, as secrets of Kubernetes are, escape those who
// wait for events. The certificate with its key is taken over by itself, and so are
// the authorities: what cannot be read leaves the one before in use, and nothing else.
type material struct {
	name          string // of the settings, before -cert, -key and -ca
	cert, key, ca string // files; ca may be empty
	caName        string // of the setting of ca
	every         time.Duration
	log           *slog.Logger
	node          *nodeRules // whose certificate it is, where that is shown to other nodes; nil: to clients

	mu      sync.Mutex // guards what follows
	looked  time.Time
	pairSum [sha256.Size]byte
	poolSum [sha256.Size]byte
	pair    *tls.Certificate
	pool    *x509.CertPool // nil without ca
	said    [2]string      // the last complaints, of the pair and of the pool
	ended   bool           // that pair has expired was said of pair
}

// nodeRules are what must be in the certificates of nodes.
type nodeRules struct {
	name  string // of this one
	names peer.Names
}

// open reads the files for the first time, when they have to be right.
func (m *material) open() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looked = time.Now()
	err := m.readPair()
	if err == nil {
		err = m.readPool()
	}
	m.complain()
	return err
}

// complain says once of each certificate that it has expired. Those who are shown it tell
// this end no more than that it is bad.
func (m *material) complain() {
	if m.pair == nil || m.ended || m.looked.Before(m.pair.Leaf.NotAfter) {
		return
	}
	m.ended = true
	m.log.Error("tls.expired", "settings", m.name, "expires", m.pair.Leaf.NotAfter, "meaning", "whoever verifies this certificate refuses it; write another one to the files of "+m.name+"-cert and "+m.name+"-key, the server reads them by itself")
}

// readPair takes over the certificate and its key, which belong together.
func (m *material) readPair() error {
	cert, err := os.ReadFile(m.cert)
	if err != nil {
		return fmt.Errorf("%s-cert: %w", m.name, err)
	}
	key, err := os.ReadFile(m.key)
	if err != nil {
		return fmt.Errorf("%s-key: %w", m.name, err)
	}
	parts := [2][sha256.Size]byte{sha256.Sum256(cert), sha256.Sum256(key)}
	sum := sha256.Sum256(append(parts[0][:], parts[1][:]...))
	if m.pair != nil && sum == m.pairSum {
		return nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("%s-cert, %s-key: %w", m.name, m.name, err)
	}
	if m.node != nil {
		if err := m.node.own(pair.Leaf); err != nil {
			return fmt.Errorf("%s-cert: %w", m.name, err)
		}
	}
	if m.pair != nil {
		m.log.Info("tls.reloaded", "settings", m.name, "expires", pair.Leaf.NotAfter)
	}
	m.pairSum, m.pair, m.ended = sum, &pair, false
	return nil
}

// readPool takes over the authorities.
func (m *material) readPool() error {
	if m.ca == "" {
		return nil
	}
	text, err := os.ReadFile(m.ca)
	if err != nil {
		return fmt.Errorf("%s: %w", m.caName, err)
	}
	sum := sha256.Sum256(text)
	if m.pool != nil && sum == m.poolSum {
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s: %s holds no certificate in PEM form", m.caName, m.ca)
	}
	if m.pool != nil {
		m.log.Info("tls.reloaded", "settings", m.caName)
	}
	m.poolSum, m.pool = sum, pool
	return nil
}

// now gives what holds now.
func (m *material) now() (*tls.Certificate, *x509.CertPool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.looked) >= m.every {
		m.looked = time.Now()
		for i, err := range []error{m.readPair(), m.readPool()} {
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != "" && text != m.said[i] {
				m.log.Error("tls.not_reloaded", "error", text, "meaning", "what was read from this setting before stays in use; other files are read all the same")
			}
			m.said[i] = text
		}
		m.complain()
	}
	return m.pair, m.pool
}

// own refuses a certificate of this node that others would refuse.
func (n *nodeRules) own(c *x509.Certificate) error {
	if err := bothEnds(c); err != nil {
		return err
	}
	return n.names.Of(c, n.name)
}

// bothEnds refuses a certificate that says what it may be used for and leaves out one of
// what nodes do with it: they dial, and they answer.
func bothEnds(c *x509.Certificate) error {
	if len(c.ExtKeyUsage) == 0 && len(c.UnknownExtKeyUsage) == 0 || slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageAny) {
		return nil
	}
	for _, usage := range nodeUsages() {
		if !slices.Contains(c.ExtKeyUsage, usage) {
			return errors.New("the certificate is not good for a node, which dials and answers: its extended key usage must have serverAuth and clientAuth")
		}
	}
	return nil
}

// nodeUsages are what a certificate of a node must be good for, each of them.
func nodeUsages() []x509.ExtKeyUsage {
	return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
}

// clients is the TLS of the client port. Sessions are not resumed: a client would stay
// known by a certificate whose authority was taken out since.
func (m *material) clients() *tls.Config {
	fresh := func() *tls.Config {
		pair, pool := m.now()
		c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*pair}, SessionTicketsDisabled: true}
		if pool != nil {
			c.ClientCAs, c.ClientAuth = pool, tls.RequireAndVerifyClientCert
		}
		return c
	}
	c := fresh()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return fresh(), nil }
	return c
}

// peers is the TLS between nodes, for both ends. Who shows a certificate of the
// authority that is good for both ends, and whose names fit, may be a node. Which one it
// may be is judged when it has said who it is (node/peer): nodes are dialled by addresses
// that change.
func (m *material) peers() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, _ := m.now()
			return pair, nil
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, _ := m.now()
			return pair, nil
		},
		InsecureSkipVerify: true, // verified below, without names of hosts
		VerifyConnection: func(s tls.ConnectionState) error {
			_, pool := m.now()
			if err := m.verify(s.PeerCertificates, pool); err != nil {
				return logins.BadCertificate{Err: err}
			}
			return nil
		},
	}
}

// verify judges the chain that another node has shown.
func (m *material) verify(chain []*x509.Certificate, pool *x509.CertPool) error {
	if len(chain) == 0 {
		return fmt.Errorf("the other node shows no certificate; %s asks for one", m.caName)
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	for _, usage := range nodeUsages() { // of several the library takes any
		o := x509.VerifyOptions{Roots: pool, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}}
		_, err := chain[0].Verify(o)
		var invalid x509.CertificateInvalidError
		switch {
		case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
			return fmt.Errorf("the certificate of the other node (%s) is not good for a node: its extended key usage must have serverAuth and clientAuth: %w", chain[0].Subject, err)
		case err != nil:
			return fmt.Errorf("the certificate of the other node (%s) is not one of the cluster's, by %s: %w", chain[0].Subject, m.caName, err)
		}
	}
	if m.node == nil {
		return nil
	}
	if err := m.node.names.Any(chain[0]); err != nil {
		return fmt.Errorf("the other node (%s) is none of this cluster: %w", chain[0].Subject, err)
	}
	return nil
}
