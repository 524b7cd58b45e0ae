package serve

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/node"
	"github.com/norn-dev/norn/node/config"
)

// sign writes a certificate for some uses and names into a directory of its own.
func (a *authority) sign(uses []x509.ExtKeyUsage, names ...string) (cert, key string) {
	a.t.Helper()
	secret := newKey(a.t)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "n1.nodes"}, NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: uses, DNSNames: names,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, a.cert, &secret.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		a.t.Fatal(err)
	}
	dir := a.t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writePEM(a.t, cert, "CERTIFICATE", der)
	writePEM(a.t, key, "PRIVATE KEY", private)
	return cert, key
}

func both() []x509.ExtKeyUsage { return nodeUsages() }

// shows is a node's material with a certificate that its own end has not judged.
func (a *authority) shows(log *lines, cert, key string) *material {
	a.t.Helper()
	m := &material{name: "peer-tls", cert: cert, key: key, ca: a.file, caName: "peer-tls-ca", every: time.Hour, log: log.log()}
	if err := m.open(); err != nil {
		a.t.Fatal(err)
	}
	return m
}

// TestWhatACertificateOfANodeIsGoodFor: one of the right authority that is for clients alone,
// for servers alone or for signing code is no node's, whoever dials; its own node does not
// start with it.
func TestWhatACertificateOfANodeIsGoodFor(t *testing.T) {
	ca := newAuthority(t, "cluster")
	var log lines
	cert, key := ca.sign(both())
	good := ca.shows(&log, cert, key)
	for name, c := range map[string]struct {
		uses []x509.ExtKeyUsage
		ok   bool
	}{
		"both":       {both(), true},
		"none named": {nil, true},
		"any":        {[]x509.ExtKeyUsage{x509.ExtKeyUsageAny}, true},
		"more":       {append(both(), x509.ExtKeyUsageCodeSigning), true},
		"client":     {[]x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, false},
		"server":     {[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, false},
		"code":       {[]x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning}, false},
		"mail":       {[]x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection, x509.ExtKeyUsageClientAuth}, false},
	} {
		t.Run(name, func(t *testing.T) {
			cert, key := ca.sign(c.uses)
			other := ca.shows(&log, cert, key)
			if _, err := meet(t, good.peers(), other.peers()); (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "extended key usage must have serverAuth and clientAuth") {
				t.Errorf("it dials: %v", err)
			}
			if _, err := meet(t, other.peers(), good.peers()); (err == nil) != c.ok {
				t.Errorf("it is dialled: %v", err)
			}
			cfg := testConfig(t)
			cfg.PeerTLSCert, cfg.PeerTLSKey, cfg.PeerTLSCA = cert, key, ca.file
			if _, err := readCredentials(cfg, log.log()); (err == nil) != c.ok || err != nil && !strings.HasPrefix(err.Error(), "peer-tls-cert: ") {
				t.Errorf("its own node: %v", err)
			}
		})
	}
}

// TestNamesInCertificatesOfNodes: with {name} in peer-tls-names a certificate is good for the
// node of that name alone.
func TestNamesInCertificatesOfNodes(t *testing.T) {
	ca := newAuthority(t, "cluster")
	names := []string{"other", "{name}.nodes"}
	first := testConfig(t)
	first.Name, first.PeerTLSCA, first.PeerTLSNames = "n1", ca.file, names
	first.PeerTLSCert, first.PeerTLSKey = ca.sign(both(), "n1.lan", "n1.nodes")
	var heard lines
	seed := startNode(t, first, &heard)
	for name, c := range map[string]struct {
		san, told string
		joins     bool
	}{
		"n2": {"n2.nodes", "peer.join", true},
		"n3": {"n2.nodes", `asks node \"n3\" for other, {name}.nodes`, false},
		"n4": {"n4.workers", "is none of this cluster", false},
	} {
		t.Run(name, func(t *testing.T) {
			joiner := testConfig(t)
			joiner.Name, joiner.PeerTLSCA, joiner.Join = name, ca.file, []string{seed.PeerAddr().String()}
			joiner.PeerTLSCert, joiner.PeerTLSKey = ca.sign(both(), c.san)
			var said lines
			n := startNode(t, joiner, &said) // it asks nobody for names, so that it begins with the wrong one
			until(t, "the one who is asked says "+c.told, func() bool { return heard.has(c.told) })
			if c.joins {
				until(t, "ready", func() bool { _, claim := n.Ready(); return claim })
			} else if said.has("join.accepted") {
				t.Error("it was let in")
			}
			joiner.PeerTLSNames = names
			if _, err := readCredentials(joiner, said.log()); (err == nil) != c.joins {
				t.Errorf("with the names of the cluster its own node says %v", err)
			}
		})
	}
	bad := *first
	bad.PeerTLSNames = []string{"{node}.nodes"}
	if _, err := readCredentials(&bad, heard.log()); err == nil || !strings.HasPrefix(err.Error(), "peer-tls-names: ") {
		t.Errorf("a pattern that cannot be: %v", err)
	}
}

// TestASharedAuthorityIsTold: where the authority of clients signs for nodes too, and no names
// are asked for.
func TestASharedAuthorityIsTold(t *testing.T) {
	ca, other := newAuthority(t, "one"), newAuthority(t, "two")
	twoFile := filepath.Join(t.TempDir(), "two.pem")
	copyFiles(t, twoFile, other.file, ca.file)
	for name, c := range map[string]struct {
		clients string
		names   []string
		told    bool
	}{
		"apart": {other.file, nil, false}, "shared": {ca.file, nil, true}, "one of two": {twoFile, nil, true}, "with names": {ca.file, []string{"*.nodes"}, false},
	} {
		cfg := testConfig(t)
		cfg.TLSCert, cfg.TLSKey = ca.sign(both(), "n1.nodes")
		cfg.PeerTLSCert, cfg.PeerTLSKey, cfg.PeerTLSCA = cfg.TLSCert, cfg.TLSKey, ca.file
		cfg.TLSClientCA, cfg.PeerTLSNames = c.clients, c.names
		var said lines
		known, err := readCredentials(cfg, said.log())
		if err != nil {
			t.Fatal(err)
		}
		if warnOpen(cfg, &known, said.log()); said.has("server.shared_ca") != c.told {
			t.Errorf("%s: told is %v", name, !c.told)
		}
	}
}

// TestEachFileIsReadAgainByItself: a broken certificate keeps no authority that was taken out,
// for nodes and for clients, and broken authorities keep no certificate.
func TestEachFileIsReadAgainByItself(t *testing.T) {
	ca, revoked := newAuthority(t, "one"), newAuthority(t, "two")
	dir := t.TempDir()
	cert, key := ca.issue(dir, "server", 10)
	roots := filepath.Join(dir, "roots.pem")
	copyFiles(t, roots, ca.file, revoked.file)
	var said lines
	m := &material{name: "peer-tls", cert: cert, key: key, ca: roots, caName: "peer-tls-ca", log: said.log()}
	if err := m.open(); err != nil {
		t.Fatal(err)
	}
	strangers := &material{name: "peer-tls", ca: ca.file, caName: "peer-tls-ca", every: time.Hour, log: said.log()}
	strangers.cert, strangers.key = revoked.sign(both())
	if err := strangers.open(); err != nil {
		t.Fatal(err)
	}
	nodes, clients := m.peers(), m.clients()
	outside := strangers.peers()
	let := func(ok bool) {
		t.Helper()
		if _, err := meet(t, nodes, outside); (err == nil) != ok {
			t.Errorf("as a node: %v", err)
		}
		if _, err := meet(t, clients, outside); (err == nil) != ok {
			t.Errorf("as a client: %v", err)
		}
	}
	let(true)
	if err := os.WriteFile(cert, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	copyFiles(t, roots, ca.file)
	let(false)
	if !said.has("tls.not_reloaded") || !said.has("settings=peer-tls-ca") {
		t.Error("nothing is said of it")
	}
	copyFiles(t, roots, ca.file, revoked.file)
	let(true)
	if err := os.WriteFile(roots, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	ca.issue(dir, "server", 12)
	if serial, err := meet(t, nodes, outside); err != nil || serial != 12 {
		t.Errorf("with broken authorities: serial %d, %v", serial, err)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	copyFiles(t, roots, ca.file)
	let(false)
}

// TestAnOpenPeerPortIsRefused: at a first start, unless nodes prove who they are, the port is
// for this machine, or the operator wants it so. A directory that is there goes on.
func TestAnOpenPeerPortIsRefused(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("open sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ca := newAuthority(t, "cluster")
	for name, c := range map[string]struct {
		change func(*config.Config)
		ok     bool
	}{
		"every address": {func(c *config.Config) { c.PeerListen, c.PeerAdvertise = "0.0.0.0:7712", "127.0.0.1:7712" }, false},
		"every IPv6":    {func(c *config.Config) { c.PeerListen, c.PeerAdvertise = "[::]:7712", "127.0.0.1:7712" }, false},
		"an address":    {func(c *config.Config) { c.PeerListen = "10.0.0.1:7712" }, false},
		"a name":        {func(c *config.Config) { c.PeerListen = "db1.lan:7712" }, false},
		"a joiner":      {func(c *config.Config) { c.PeerListen, c.Join = "10.0.0.1:7712", []string{"10.0.0.2:7712"} }, false},
		"a token":       {func(c *config.Config) { c.PeerListen, c.AuthTokenFile = "10.0.0.1:7712", secret }, false},
		"loopback":      {func(*config.Config) {}, true},
		"IPv6 loopback": {func(c *config.Config) { c.PeerListen = "[::1]:7712" }, true},
		"a secret":      {func(c *config.Config) { c.PeerListen, c.PeerSecretFile = "10.0.0.1:7712", secret }, true},
		"wanted":        {func(c *config.Config) { c.PeerListen, c.InsecurePeers = "10.0.0.1:7712", true }, true},
		"certificates": {func(c *config.Config) {
			c.PeerListen, c.PeerTLSCA = "10.0.0.1:7712", ca.file
			c.PeerTLSCert, c.PeerTLSKey = ca.sign(both())
		}, true},
		"waits to be let in": {func(c *config.Config) { c.PeerListen = "10.0.0.1:7712"; put(t, c.Data, "JOINING") }, false},
		"is there":           {func(c *config.Config) { c.PeerListen = "10.0.0.1:7712"; put(t, c.Data, "IDENTITY") }, true},
		"has an old life":    {func(c *config.Config) { c.PeerListen = "10.0.0.1:7712"; put(t, c.Data, "OLDLIFE") }, true},
	} {
		cfg := testConfig(t)
		c.change(cfg)
		var said lines
		known, err := readCredentials(cfg, said.log())
		if err != nil {
			t.Fatal(err)
		}
		if err = mayListen(cfg, &known); (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "--insecure-peers") {
			t.Errorf("%s: %v", name, err)
		}
	}
	cfg := testConfig(t)
	cfg.PeerListen, cfg.PeerAdvertise = "0.0.0.0:0", "127.0.0.1:1"
	var said lines
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := Run(ctx, cfg, Options{Logger: said.log()}); !errors.Is(err, ErrSettings) {
		t.Errorf("a first start: %v", err)
	}
	if node.Formatted(cfg.Data) {
		t.Error("a directory was made")
	}
}

// put makes a directory with a file in it.
func put(t *testing.T, dir, file string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(dir, 0o750), os.WriteFile(filepath.Join(dir, file), []byte("{}"), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// TestSecretsThatAllMayReadAreTold: of each setting that names one, through links as well.
func TestSecretsThatAllMayReadAreTold(t *testing.T) {
	dir := t.TempDir()
	open, closed, group, link := filepath.Join(dir, "open"), filepath.Join(dir, "closed"), filepath.Join(dir, "group"), filepath.Join(dir, "link")
	for file, mode := range map[string]os.FileMode{open: 0o644, closed: 0o600, group: 0o640} {
		if err := errors.Join(os.WriteFile(file, []byte("x"), 0o600), os.Chmod(file, mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(open, link); err != nil {
		t.Fatal(err)
	}
	fields := func(c *config.Config) map[string]*string {
		return map[string]*string{
			"auth-token-file": &c.AuthTokenFile, "tls-key": &c.TLSKey, "peer-tls-key": &c.PeerTLSKey, "peer-secret-file": &c.PeerSecretFile, "gossip-key-file": &c.GossipKeyFile,
		}
	}
	for file, told := range map[string]bool{open: true, link: true, closed: false, group: false, "": false, filepath.Join(dir, "none"): false} {
		for setting := range fields(testConfig(t)) {
			c := testConfig(t)
			*fields(c)[setting] = file
			var said lines
			if warnReadable(c, said.log()); said.has("server.readable_secret settings="+setting) != told {
				t.Errorf("%s of %q: told is %v", setting, file, !told)
			}
		}
	}
}

// TestOpenToOthersIsMeant: auth: open is refused where others reach the node, unless it is said
// that it is meant. Without the setting a warning is all, as before there was one.
func TestOpenToOthersIsMeant(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*config.Config)
		ok     bool
	}{
		"the client port": {func(c *config.Config) { c.Auth, c.Listen = "open", "0.0.0.0:7711" }, false},
		"the HTTP port":   {func(c *config.Config) { c.Auth, c.HTTPListen = "open", "db1.lan:7780" }, false},
		"loopback":        {func(c *config.Config) { c.Auth = "open" }, true},
		"meant":           {func(c *config.Config) { c.Auth, c.Listen, c.InsecureOpen = "open", "0.0.0.0:7711", true }, true},
		"not said":        {func(c *config.Config) { c.Listen = "0.0.0.0:7711" }, true},
		"tokens":          {func(c *config.Config) { c.Auth, c.Listen = "access", "0.0.0.0:7711" }, true},
	} {
		cfg := testConfig(t)
		c.change(cfg)
		if err := mayBeOpen(cfg); (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "--insecure-open") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
