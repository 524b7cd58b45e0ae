package serve

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/norn-dev/norn/internal/jwts"
	"github.com/norn-dev/norn/internal/secrets"
	"github.com/norn-dev/norn/node/access"
	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/node/peer"

	"github.com/prometheus/client_golang/prometheus"
)

// ErrSettings is returned when a file that the configuration names with a credential is not
// there, or not what it has to be, and when what it says must not be started.
var ErrSettings = errors.New("settings that cannot be")

// settingsError is an ErrSettings that says what it is by itself.
type settingsError struct{ error }

func (e settingsError) Unwrap() error   { return e.error }
func (settingsError) Is(err error) bool { return err == ErrSettings }

// readSecrets gives what a file holds; none without a file. otherwise is what would be if
// the file were empty.
func readSecrets(name, file, otherwise string) (secrets.Set, error) {
	if file == "" {
		return nil, nil
	}
	all, err := secrets.Read(file)
	if errors.Is(err, secrets.ErrFile) {
		return nil, fmt.Errorf("%s: %w; %s", name, err, otherwise)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return all, nil
}

// credentials are what a server shows to others, and asks of them.
type credentials struct {
	tokens *tokenFile  // nil: nobody is asked for one
	tls    *tls.Config // of the client port; nil: it is plain
	own    *material   // likewise
	peers  peer.Security
	certs  certificates
	audit  *access.Audit  // nil: nothing is written down
	jwt    *jwts.Verifier // nil: they let nobody in
	desk   *access.Desk
	shared bool // an authority signs the certificates of clients and those of nodes
}

// readCredentials reads the files that the configuration names.
func readCredentials(cfg *config.Config, log *slog.Logger) (c credentials, err error) {
	if cfg.AuthTokenFile != "" {
		c.tokens = &tokenFile{name: cfg.AuthTokenFile, every: cfg.TLSReload, log: log}
		if err := c.tokens.open(); err != nil {
			return c, err
		}
	}
	if cfg.TLSCert != "" {
		m := &material{name: "tls", cert: cfg.TLSCert, key: cfg.TLSKey, ca: cfg.TLSClientCA, caName: "tls-client-ca", every: cfg.TLSReload, log: log}
		if err := m.open(); err != nil {
			return c, err
		}
		c.tls, c.own, c.certs = m.clients(), m, append(c.certs, m)
	}
	if c.peers.Secrets, err = readSecrets("peer-secret-file", cfg.PeerSecretFile, "every node would know it"); err != nil || cfg.PeerTLSCert == "" {
		return c, err
	}
	if err := peer.Names(cfg.PeerTLSNames).Validate(); err != nil {
		return c, fmt.Errorf("peer-tls-names: %w", err)
	}
	full := *cfg
	full.Complete() // the node may be called by its address
	m := &material{name: "peer-tls", cert: cfg.PeerTLSCert, key: cfg.PeerTLSKey, ca: cfg.PeerTLSCA, caName: "peer-tls-ca", every: cfg.TLSReload, log: log}
	m.node = &nodeRules{name: full.Name, names: cfg.PeerTLSNames}
	if err := m.open(); err != nil {
		return c, err
	}
	c.peers.TLS, c.peers.Names, c.certs = m.peers(), cfg.PeerTLSNames, append(c.certs, m)
	c.shared = cfg.TLSClientCA != "" && share(cfg.TLSClientCA, cfg.PeerTLSCA)
	return c, nil
}

// share tells whether two files of authorities have one in common. Both were read before.
func share(one, other string) bool {
	known := make(map[string]bool)
	for i, file := range []string{one, other} {
		text, _ := os.ReadFile(file)
		for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
			if i == 1 && known[string(block.Bytes)] {
				return true
			}
			known[string(block.Bytes)] = known[string(block.Bytes)] || i == 0
		}
	}
	return false
}

// certificates are those that a server shows.
type certificates []*material

var expires = prometheus.NewDesc("norn_tls_certificate_expires_timestamp_seconds",
	"When the certificate of these settings expires that this node shows, Unix time.", []string{"settings"}, nil)

// Describe gives the one metric.
func (c certificates) Describe(to chan<- *prometheus.Desc) { to <- expires }

// Collect looks at the files as a connection does: one that is replaced in time is no alarm,
// even where nobody connects.
func (c certificates) Collect(to chan<- prometheus.Metric) {
	for _, m := range c {
		pair, _ := m.now()
		to <- prometheus.MustNewConstMetric(expires, prometheus.GaugeValue, float64(pair.Leaf.NotAfter.Unix()), m.name)
	}
}

// NewLogger makes the log that a configuration asks for. Each line names the node
// that writes it.
func NewLogger(w io.Writer, cfg *config.Config) *slog.Logger {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	o := &slog.HandlerOptions{Level: levels[cfg.LogLevel]}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o)).With("node", cfg.Name)
	}
	return slog.New(slog.NewTextHandler(w, o)).With("node", cfg.Name)
}
