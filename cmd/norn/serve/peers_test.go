package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/norn-dev/norn/node"
	"github.com/norn-dev/norn/node/config"

	"github.com/prometheus/client_golang/prometheus"
)

// authority signs certificates for tests.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	file string
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{t: t, file: filepath.Join(t.TempDir(), "ca.pem")}
	a.key = newKey(t)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &a.key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	writePEM(t, a.file, "CERTIFICATE", der)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// issue writes a certificate with its key into a directory.
func (a *authority) issue(dir, name string, serial int64) (cert, key string) {
	a.t.Helper()
	return a.until(dir, name, serial, time.Now().Add(time.Hour))
}

// until is the same for a certificate that is good until some time.
func (a *authority) until(dir, name string, serial int64, end time.Time) (cert, key string) {
	a.t.Helper()
	secret := newKey(a.t)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, about, a.cert, &secret.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePEM(a.t, cert, "CERTIFICATE", der)
	writePEM(a.t, key, "PRIVATE KEY", private)
	return cert, key
}

// lines is a log that is read while it is written.
type lines struct {
	mu  sync.Mutex // guards all
	all strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *lines) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.all.String(), text)
}

func (l *lines) log() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	end := time.After(time.Minute)
	for tick := time.Tick(10 * time.Millisecond); !so(); {
		select {
		case <-tick:
		case <-end:
			t.Fatalf("not so after a minute: %s", what)
		}
	}
}

// startNode starts a node with the credentials of its configuration.
func startNode(t *testing.T, c *config.Config, log *lines) *node.Node {
	t.Helper()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	known, err := readCredentials(c, log.log())
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.Start(c, node.Options{Logger: log.log(), Peers: known.peers, Fatal: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Stop(t.Context()) })
	return n
}

// TestNodesProveThemselves: nodes with certificates of the cluster's authority and
// its secret find together, whatever names are in them; everybody else is told
// what is wrong, and the node that was asked says so too.
func TestNodesProveThemselves(t *testing.T) {
	ca, other := newAuthority(t, "cluster"), newAuthority(t, "strangers")
	dir := t.TempDir()
	secret, wrong, next := filepath.Join(dir, "secret"), filepath.Join(dir, "wrong"), filepath.Join(dir, "next")
	for file, text := range map[string]string{secret: "open sesame\n", wrong: "open barley", next: "open sesame\nopen wheat\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first := testConfig(t)
	first.Name, first.PeerSecretFile, first.PeerTLSCA = "n1", secret, ca.file
	first.PeerTLSCert, first.PeerTLSKey = ca.issue(t.TempDir(), "n1", 2)
	var heard lines
	seed := startNode(t, first, &heard)

	for name, c := range map[string]struct {
		by         *authority // nil: no TLS
		secret     string
		joins      bool
		says, told string // in the log of who asks, and of who is asked
	}{
		"a member":          {ca, secret, true, "join.accepted", "peer.join"},
		"the next secret":   {ca, next, true, "join.accepted", "peer.join"},
		"plain":             {nil, secret, false, "speaks TLS", "does not speak TLS"},
		"another authority": {other, secret, false, "is not one of the cluster's, by peer-tls-ca", "TLS handshake"},
		"no secret":         {ca, "", false, "secret is missing", "secret is missing"},
		"the wrong secret":  {ca, wrong, false, "secret is wrong", "secret is wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			joiner := testConfig(t)
			joiner.Name, joiner.PeerSecretFile, joiner.Join = "n2 "+name, c.secret, []string{seed.PeerAddr().String()}
			if c.by != nil {
				joiner.PeerTLSCA = c.by.file
				joiner.PeerTLSCert, joiner.PeerTLSKey = c.by.issue(t.TempDir(), "some other name", 3)
			}
			var said lines
			n := startNode(t, joiner, &said)
			until(t, "the one who asks says "+c.says, func() bool { return said.has(c.says) })
			until(t, "the one who is asked says "+c.told, func() bool { return heard.has(c.told) })
			if enqueue, _ := n.Ready(); enqueue && !c.joins {
				t.Error("a stranger was let in")
			}
			if c.joins {
				until(t, "ready", func() bool { _, claim := n.Ready(); return claim })
			}
		})
	}
}

// TestCertificatesAreReadAgain: a new pair is shown to the next that connects, an
// authority that is added is believed, and what is broken changes nothing, but
// is told.
func TestCertificatesAreReadAgain(t *testing.T) {
	ca, other := newAuthority(t, "one"), newAuthority(t, "two")
	dir := t.TempDir()
	cert, key := ca.issue(dir, "server", 10)
	roots := filepath.Join(dir, "roots.pem")
	copyFiles(t, roots, ca.file)
	var said lines
	m := &material{name: "peer-tls", cert: cert, key: key, ca: roots, caName: "peer-tls-ca", log: said.log()}
	if err := m.open(); err != nil {
		t.Fatal(err)
	}
	stranger := &material{name: "peer-tls", ca: ca.file, caName: "peer-tls-ca", log: said.log(), every: time.Hour}
	stranger.cert, stranger.key = other.issue(t.TempDir(), "client", 11)
	if err := stranger.open(); err != nil {
		t.Fatal(err)
	}
	serial, err := meet(t, m.peers(), stranger.peers())
	if err == nil || !strings.Contains(err.Error(), "not one of the cluster's") {
		t.Errorf("a certificate of another authority: serial %d, %v", serial, err)
	}
	copyFiles(t, roots, ca.file, other.file)
	if serial, err = meet(t, m.peers(), stranger.peers()); err != nil || serial != 10 {
		t.Errorf("with its authority added: serial %d, %v", serial, err)
	}
	ca.issue(dir, "server", 12)
	if serial, err = meet(t, m.peers(), stranger.peers()); err != nil || serial != 12 {
		t.Errorf("after a new pair: serial %d, %v", serial, err)
	}
	if !said.has("tls.reloaded") {
		t.Error("nothing is said of it")
	}
	if err := os.WriteFile(cert, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if serial, err = meet(t, m.peers(), stranger.peers()); err != nil || serial != 12 {
		t.Errorf("with a broken file: serial %d, %v", serial, err)
	}
	if !said.has("tls.not_reloaded") {
		t.Error("nothing is said of a broken file")
	}
	ca.issue(dir, "server", 13)
	m.ca, m.name = "", "tls"
	if serial, err = meet(t, m.clients(), stranger.peers()); err != nil || serial != 13 {
		t.Errorf("for clients: serial %d, %v", serial, err)
	}
}

// TestWhenCertificatesExpireIsAMetric: also of one that nobody has been shown since it was
// replaced.
func TestWhenCertificatesExpireIsAMetric(t *testing.T) {
	ca, dir := newAuthority(t, "cluster"), t.TempDir()
	soon, later := time.Now().Add(time.Hour).Truncate(time.Second), time.Now().Add(100*time.Hour).Truncate(time.Second)
	cert, key := ca.until(dir, "one", 1, soon)
	c := testConfig(t)
	c.TLSCert, c.TLSKey, c.PeerTLSCert, c.PeerTLSKey, c.PeerTLSCA, c.TLSReload = cert, key, cert, key, ca.file, 0
	known, err := readCredentials(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(known.certs)
	check := func(want time.Time) {
		t.Helper()
		all, err := registry.Gather()
		if err != nil || len(all) != 1 || len(all[0].GetMetric()) != 2 {
			t.Fatalf("%v, %v", all, err)
		}
		for i, settings := range []string{"peer-tls", "tls"} {
			m := all[0].GetMetric()[i]
			if got := m.GetGauge().GetValue(); m.GetLabel()[0].GetValue() != settings || got != float64(want.Unix()) {
				t.Errorf("%v, want %s and %d", m, settings, want.Unix())
			}
		}
	}
	check(soon)
	ca.until(dir, "one", 2, later)
	check(later)
}

// TestExpiredCertificates: the other end refuses one that has expired, and says so; so does
// the one who shows it, once for each, at the start and while it runs.
func TestExpiredCertificates(t *testing.T) {
	ca, dir := newAuthority(t, "cluster"), t.TempDir()
	cert, key := ca.until(dir, "late", 1, time.Now().Add(-time.Minute))
	var said, heard lines
	late := &material{name: "peer-tls", cert: cert, key: key, ca: ca.file, caName: "peer-tls-ca", log: said.log()}
	if err := late.open(); err != nil {
		t.Fatal(err)
	}
	good := &material{name: "peer-tls", ca: ca.file, caName: "peer-tls-ca", log: heard.log()}
	good.cert, good.key = ca.issue(t.TempDir(), "good", 2)
	if err := good.open(); err != nil {
		t.Fatal(err)
	}
	times := func(want int) {
		t.Helper()
		said.mu.Lock()
		defer said.mu.Unlock()
		if n := strings.Count(said.all.String(), "msg=tls.expired settings=peer-tls"); n != want {
			t.Errorf("it was said %d times, want %d: %s", n, want, said.all.String())
		}
	}
	times(1)
	for range 2 {
		if _, err := meet(t, good.peers(), late.peers()); err == nil || !strings.Contains(err.Error(), "expired") {
			t.Errorf("a node with an expired certificate connects: %v", err)
		}
	}
	times(1)
	ca.issue(dir, "late", 3)
	if _, err := meet(t, good.peers(), late.peers()); err != nil {
		t.Errorf("with another certificate: %v", err)
	}
	ca.until(dir, "late", 4, time.Now().Add(-time.Second))
	if _, err := meet(t, good.peers(), late.peers()); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("a node whose certificate has expired while it runs connects: %v", err)
	}
	times(2)
	if heard.has("tls.expired") {
		t.Error("who has a good certificate says that it has expired")
	}
}

// meet has two ends shake hands, and gives the number of the certificate that the
// one who answers has shown, and its error.
func meet(t *testing.T, server, client *tls.Config) (int64, error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	b, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = a.Close(), b.Close() }()
	failed := make(chan error, 1)
	go func() {
		s := tls.Server(a, server)
		err := s.HandshakeContext(t.Context())
		if err == nil {
			_, err = s.Write([]byte("x"))
		}
		if err != nil {
			_ = a.Close()
		}
		failed <- err
	}()
	c := tls.Client(b, client)
	err = c.HandshakeContext(t.Context())
	if err == nil {
		_, _ = c.Read(make([]byte, 1)) // the other side's error counts
	} else {
		_ = b.Close()
	}
	if other := <-failed; other != nil {
		return 0, other
	}
	if err != nil {
		return 0, err
	}
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

func copyFiles(t *testing.T, to string, from ...string) {
	t.Helper()
	var all []byte
	for _, f := range from {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	if err := os.WriteFile(to, all, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestCredentialsThatCannotBe: what is wrong with a file says which setting it is.
func TestCredentialsThatCannotBe(t *testing.T) {
	ca := newAuthority(t, "one")
	cert, key := ca.issue(t.TempDir(), "n", 1)
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]config.Config{
		"peer-tls-ca: ":                 {PeerTLSCert: cert, PeerTLSKey: key, PeerTLSCA: empty},
		"peer-tls-cert, peer-tls-key: ": {PeerTLSCert: cert, PeerTLSKey: empty, PeerTLSCA: ca.file},
		"peer-tls-key: ":                {PeerTLSCert: cert, PeerTLSKey: empty + "er", PeerTLSCA: ca.file},
		"peer-secret-file: ":            {PeerSecretFile: empty},
	} {
		if _, err := readCredentials(&c, slog.New(slog.DiscardHandler)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
