package serve

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/node/peer"
)

// readToken gives the token that clients must send; "" when they need none.
func readToken(cfg *config.Config) (string, error) {
	return readSecret("auth-token-file", cfg.AuthTokenFile, "everybody would get in")
}

// readSecret gives what a file holds, without white space around it; "" without a
// file.
func readSecret(name, file, otherwise string) (string, error) {
	if file == "" {
		return "", nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	secret := strings.TrimSpace(string(b))
	if secret == "" {
		return "", fmt.Errorf("%s: %s is empty; %s", name, file, otherwise)
	}
	if len(secret) > maxSecret {
		return "", fmt.Errorf("%s: %s holds %d bytes, over %d", name, file, len(secret), maxSecret)
	}
	return secret, nil
}

// maxSecret bounds a secret in bytes: it travels in each hello.
const maxSecret = 4 << 10

// readTLS gives the TLS of the client port, nil when it is plain.
func readTLS(cfg *config.Config, log *slog.Logger) (*tls.Config, error) {
	if cfg.TLSCert == "" {
		return nil, nil
	}
	m := &material{name: "tls", cert: cfg.TLSCert, key: cfg.TLSKey, ca: cfg.TLSClientCA, caName: "tls-client-ca", every: cfg.TLSReload, log: log}
	if err := m.open(); err != nil {
		return nil, err
	}
	return m.clients(), nil
}

// readPeers gives what nodes must have in common.
func readPeers(cfg *config.Config, log *slog.Logger) (s peer.Security, err error) {
	if s.Secret, err = readSecret("peer-secret-file", cfg.PeerSecretFile, "every node would know it"); err != nil || cfg.PeerTLSCert == "" {
		return s, err
	}
	m := &material{name: "peer-tls", cert: cfg.PeerTLSCert, key: cfg.PeerTLSKey, ca: cfg.PeerTLSCA, caName: "peer-tls-ca", every: cfg.TLSReload, log: log}
	if err := m.open(); err != nil {
		return s, err
	}
	s.TLS = m.peers()
	return s, nil
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
