package serve

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// material is a certificate with its key, and authorities, as their files hold
// them. It looks again when somebody connects and some time has passed, by
// content: files that are links, as secrets of Kubernetes are, escape those who
// wait for events. What cannot be read leaves the one before in use.
type material struct {
	name          string // of the settings, before -cert, -key and -ca
	cert, key, ca string // files; ca may be empty
	caName        string // of the setting of ca
	every         time.Duration
	log           *slog.Logger

	mu     sync.Mutex // guards what follows
	looked time.Time
	sum    [sha256.Size]byte
	pair   *tls.Certificate
	pool   *x509.CertPool // nil without ca
	said   string         // the last complaint
	ended  bool           // that pair has expired was said of pair
}

// open reads the files for the first time, when they have to be right.
func (m *material) open() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looked = time.Now()
	err := m.read()
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

// read takes over what the files hold, or nothing of it.
func (m *material) read() error {
	var all [3][]byte
	for i, f := range []struct{ name, path string }{{m.name + "-cert", m.cert}, {m.name + "-key", m.key}, {m.caName, m.ca}} {
		if f.path == "" {
			continue
		}
		b, err := os.ReadFile(f.path)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		all[i] = b
	}
	h := sha256.New()
	for _, b := range all {
		part := sha256.Sum256(b)
		h.Write(part[:])
	}
	sum := [sha256.Size]byte(h.Sum(nil))
	if m.pair != nil && sum == m.sum {
		return nil
	}
	pair, err := tls.X509KeyPair(all[0], all[1])
	if err != nil {
		return fmt.Errorf("%s-cert, %s-key: %w", m.name, m.name, err)
	}
	var pool *x509.CertPool
	if m.ca != "" {
		pool = x509.NewCertPool()
		if !pool.AppendCertsFromPEM(all[2]) {
			return fmt.Errorf("%s: %s holds no certificate in PEM form", m.caName, m.ca)
		}
	}
	if m.pair != nil {
		m.log.Info("tls.reloaded", "settings", m.name, "expires", pair.Leaf.NotAfter)
	}
	m.sum, m.pair, m.pool, m.ended = sum, &pair, pool, false
	return nil
}

// now gives what holds now.
func (m *material) now() (*tls.Certificate, *x509.CertPool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.looked) >= m.every {
		m.looked = time.Now()
		text := ""
		if err := m.read(); err != nil {
			text = err.Error()
		}
		if text != "" && text != m.said {
			m.log.Error("tls.not_reloaded", "error", text, "meaning", "the certificate of before stays in use")
		}
		m.said = text
		m.complain()
	}
	return m.pair, m.pool
}

// clients is the TLS of the client port.
func (m *material) clients() *tls.Config {
	fresh := func() *tls.Config {
		pair, pool := m.now()
		c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*pair}}
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
// authority is a node: names are not looked at, for nodes are dialled by
// addresses that change, and say themselves who they are (node/peer).
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
		InsecureSkipVerify: true, // verified below, without names
		VerifyConnection: func(s tls.ConnectionState) error {
			_, pool := m.now()
			if len(s.PeerCertificates) == 0 {
				return fmt.Errorf("the other node shows no certificate; %s asks for one", m.caName)
			}
			o := x509.VerifyOptions{Roots: pool, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
			for _, c := range s.PeerCertificates[1:] {
				o.Intermediates.AddCert(c)
			}
			if _, err := s.PeerCertificates[0].Verify(o); err != nil {
				return fmt.Errorf("the certificate of the other node (%s) is not one of the cluster's, by %s: %w", s.PeerCertificates[0].Subject, m.caName, err)
			}
			return nil
		},
	}
}
