package logins

import (
	"crypto/tls"
	"errors"
	"strings"
)

// BadCertificate is an error of whoever judges a certificate.
type BadCertificate struct{ Err error }

// Error says what is wrong with it.
func (b BadCertificate) Error() string { return b.Err.Error() }

// Unwrap gives what it says.
func (b BadCertificate) Unwrap() error { return b.Err }

// IsCertificate tells whether a handshake has failed because of the certificate that the other
// side has shown, or has not.
func IsCertificate(err error) bool {
	var own BadCertificate
	var verified *tls.CertificateVerificationError
	return errors.As(err, &own) || errors.As(err, &verified) || err != nil && SaysCertificate(err.Error())
}

// SaysCertificate is IsCertificate of a text, where the library gives no more. That none was
// shown has no error of its own.
func SaysCertificate(text string) bool {
	return strings.Contains(text, "tls: client didn't provide a certificate") || strings.Contains(text, "tls: failed to verify certificate")
}
