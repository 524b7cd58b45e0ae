package serve

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/norn-dev/norn/node/config"
)

// readToken gives the token that clients must send; "" when they need none.
func readToken(cfg *config.Config) (string, error) {
	if cfg.AuthTokenFile == "" {
		return "", nil
	}
	b, err := os.ReadFile(cfg.AuthTokenFile)
	if err != nil {
		return "", fmt.Errorf("auth-token-file: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", fmt.Errorf("auth-token-file: %s is empty; everybody would get in", cfg.AuthTokenFile)
	}
	return token, nil
}

// readTLS gives the TLS of the client port, nil when it is plain.
func readTLS(cfg *config.Config) (*tls.Config, error) {
	if cfg.TLSCert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(cfg.TLSCert, cfg.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("tls-cert, tls-key: %w", err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if cfg.TLSClientCA != "" {
		pem, err := os.ReadFile(cfg.TLSClientCA)
		if err != nil {
			return nil, fmt.Errorf("tls-client-ca: %w", err)
		}
		c.ClientCAs = x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls-client-ca: %s holds no certificate in PEM form", cfg.TLSClientCA)
		}
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c, nil
}

// NewLogger makes the log that a configuration asks for.
func NewLogger(w io.Writer, cfg *config.Config) *slog.Logger {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	o := &slog.HandlerOptions{Level: levels[cfg.LogLevel]}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
