package serve

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/norn-dev/norn/internal/secrets"
	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/node/peer"
)

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
	if s.Secrets, err = readSecrets("peer-secret-file", cfg.PeerSecretFile, "every node would know it"); err != nil || cfg.PeerTLSCert == "" {
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
