package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/norn-dev/norn/client"
)

// Authority signs certificates.
type Authority struct {
	key  *ecdsa.PrivateKey
	Cert *x509.Certificate
	pem  []byte
}

// credential is a certificate with its key, as files have them.
type credential struct{ Cert, Key []byte }

// pki is who shows which certificate in a run, and who is believed.
type pki struct {
	Dir string // has what is the same for all nodes, and what clients show

	mu     sync.Mutex // guards what follows
	serial int64
	Ca     *Authority     // signs now
	pool   *x509.CertPool // clients believe
	own    tls.Certificate
}

// Lives is for how long certificates are good that are not to end.
const Lives = 24 * time.Hour

// number is the serial number of one more certificate.
func (k *pki) number() *big.Int {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.serial++
	return big.NewInt(k.serial)
}

// Founds makes one more authority.
func (k *pki) Founds() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	n := k.number()
	about := &x509.Certificate{
		SerialNumber: n, Subject: pkix.Name{CommonName: fmt.Sprintf("authority %d", n)}, NotBefore: time.Now().Add(-Lives), NotAfter: time.Now().Add(Lives),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &Authority{key, cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, err
}

// Issue signs a certificate that is good until some time, for a host; "": for a client.
func (k *pki) Issue(a *Authority, name, host string, until time.Time) (credential, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return credential{}, err
	}
	about := &x509.Certificate{
		SerialNumber: k.number(), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-Lives), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		about.IPAddresses = []net.IP{ip}
	}
	der, err := x509.CreateCertificate(rand.Reader, about, a.Cert, &key.PublicKey, a.key)
	if err != nil {
		return credential{}, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	return credential{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}, err
}

// replace writes a file in the place of another one.
func replace(path string, text []byte) error {
	return errors.Join(os.WriteFile(path+".next", text, 0o600), os.Rename(path+".next", path))
}

// put replaces a certificate and its key, one after the other as operators do: who reads
// them in between finds two that do not belong together.
func (c credential) put(path string) error {
	return errors.Join(replace(path+"-key.pem", c.Key), replace(path+".pem", c.Cert))
}

// Trust has nodes believe some authorities, and clients these and those of before: they
// are told of a new one before anybody shows what it has signed.
func (k *pki) Trust(nodes bool, all ...*Authority) error {
	var text []byte
	pool := x509.NewCertPool()
	for _, a := range all {
		text = slices.Concat(text, a.pem)
		pool.AddCert(a.Cert)
	}
	k.mu.Lock()
	k.pool = pool
	k.mu.Unlock()
	err := replace(filepath.Join(k.Dir, "servers.pem"), text) // for the program as a client
	if nodes {
		err = errors.Join(err, replace(filepath.Join(k.Dir, "ca.pem"), text))
	}
	return err
}

// Show has all clients of the run show a certificate of an authority.
func (k *pki) Show(a *Authority) error {
	c, err := k.Issue(a, "a client", "", time.Now().Add(Lives))
	if err != nil {
		return err
	}
	own, err := tls.X509KeyPair(c.Cert, c.Key)
	if err != nil {
		return err
	}
	k.mu.Lock()
	k.own, k.Ca = own, a
	k.mu.Unlock()
	return c.put(filepath.Join(k.Dir, "client"))
}

// Tls is that of a client: it shows what clients are to show when it connects, or a
// certificate of its own.
func (k *pki) Tls(own *tls.Certificate) *tls.Config {
	now := func() (*tls.Certificate, *x509.CertPool) {
		k.mu.Lock()
		defer k.mu.Unlock()
		if own != nil {
			return own, k.pool
		}
		mine := k.own
		return &mine, k.pool
	}
	return &tls.Config{
		MinVersion:           tls.VersionTLS12,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { c, _ := now(); return c, nil },
		InsecureSkipVerify:   true, // verified below, with the authorities of the moment
		VerifyConnection: func(s tls.ConnectionState) error {
			_, pool := now()
			_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
			return err
		},
	}
}

// Certified gives a node certificates for its ports and has it ask for such. The first
// one founds the authority.
func Certified(l *Lab, p *Process) error {
	if l.Pki == nil {
		l.Pki = &pki{Dir: filepath.Join(l.Dir, "pki")}
		if err := os.Mkdir(l.Pki.Dir, 0o700); err != nil {
			return err
		}
		a, err := l.Pki.Founds()
		if err == nil {
			err = errors.Join(l.Pki.Trust(true, a), l.Pki.Show(a))
		}
		if err != nil {
			return err
		}
	}
	ca, port, peer := filepath.Join(l.Pki.Dir, "ca.pem"), l.Pki.of(p, "port"), l.Pki.of(p, "peer")
	p.Args = append(p.Args, "--tls-cert", port+".pem", "--tls-key", port+"-key.pem", "--tls-client-ca", ca, "--tls-reload", Reload.String(),
		"--peer-tls-cert", peer+".pem", "--peer-tls-key", peer+"-key.pem", "--peer-tls-ca", ca)
	return errors.Join(l.Pki.Give(p, "port", Lives), l.Pki.Give(p, "peer", Lives))
}

// Reload is after how long nodes read certificates again.
const Reload = 300 * time.Millisecond

// of is where a certificate of a node is: for its client port, or for other nodes.
func (k *pki) of(p *Process, what string) string { return filepath.Join(k.Dir, p.Name+"-"+what) }

// Give has a node show another certificate, which is good for some time.
func (k *pki) Give(p *Process, what string, good time.Duration) error {
	host, _, err := net.SplitHostPort(p.Dial)
	if err != nil {
		return err
	}
	k.mu.Lock()
	a := k.Ca
	k.mu.Unlock()
	c, err := k.Issue(a, p.Name, host, time.Now().Add(good))
	if err != nil {
		return err
	}
	return c.put(k.of(p, what))
}

// Secure are the options of every client that speaks with nodes as they want it; of a run
// without certificates as it was.
func (k *pki) Secure(more ...client.Option) []client.Option {
	if k != nil {
		more = append(more, client.WithTLS(k.Tls(nil)))
	}
	return more
}
