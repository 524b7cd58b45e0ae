package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/norn-dev/norn/transport"
)

// TLSFiles are the files of a client that speaks TLS, PEM all of them. They are read for
// each new connection: what is written to them counts from then on.
type TLSFiles struct {
	// CA has the authorities that are trusted; "": the system's.
	CA string
	// Cert and Key are shown to the server; "": nothing is.
	Cert, Key string
	// ServerName is expected in the server's certificate; "": the host of its address.
	ServerName string
}

// WithTLSFiles is [WithTLS] with a configuration that is made of files for each new
// connection. A connection that fails because of a certificate says which one this end has
// shown, or whom it trusts.
func WithTLSFiles(f TLSFiles) Option { return func(o *options) { o.tlsFiles = &f } }

// Load reads the files. The error names the one that is wrong.
func (f TLSFiles) Load() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.ServerName}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, err
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate in PEM form", f.CA)
		}
	}
	if f.Cert == "" {
		return c, nil
	}
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", f.Cert, f.Key, err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

// about adds to an error which certificate it is about, where it is about one.
func (f *TLSFiles) about(err error, used *tls.Config) error {
	switch {
	case f == nil || used == nil:
	case errors.Is(err, transport.ErrUntrusted) && f.CA != "":
		return fmt.Errorf("%w (trusted are the authorities in %s)", err, f.CA)
	case errors.Is(err, transport.ErrUntrusted):
		return fmt.Errorf("%w (trusted are the authorities of this system)", err)
	case errors.Is(err, transport.ErrTLSRefused) && len(used.Certificates) == 0:
		return fmt.Errorf("%w (this end has shown no certificate)", err)
	case errors.Is(err, transport.ErrTLSRefused):
		leaf, ends := used.Certificates[0].Leaf, "expires"
		if time.Now().After(leaf.NotAfter) {
			ends = "HAS EXPIRED"
		}
		return fmt.Errorf("%w (this end has shown %s: %s, which %s at %s)", err, f.Cert, leaf.Subject, ends, leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return err
}
