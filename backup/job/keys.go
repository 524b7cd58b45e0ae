package job

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"

	"github.com/norn-dev/norn/backup"
)

// SealedEnd ends the name of the register's snapshot where the backup is encrypted.
const SealedEnd = ".age"

// ErrKey is returned for a key file that cannot be used, and where none of its keys fits.
var ErrKey = errors.New("key file")

// maxKeys bounds a key file, bytes.
const maxKeys = 1 << 20

// Keys are those of a key file: private ones, of which there is the public one too, or public
// ones alone, which encrypt and cannot decrypt. nil encrypts nothing.
type Keys struct {
	file string
	to   []age.Recipient
	text []string // of to
	own  []age.Identity
}

// ReadKeys reads a key file: lines with private (AGE-SECRET-KEY-1…) or public keys (age1…),
// and comments (#). It returns ErrKey.
func ReadKeys(file string) (*Keys, error) {
	in, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrKey, err)
	}
	defer func() { _ = in.Close() }() // what was read counts
	b, err := io.ReadAll(io.LimitReader(in, maxKeys))
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrKey, file, err)
	}
	k := &Keys{file: file}
	for i, line := range strings.Split(string(b), "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if private, err := age.ParseX25519Identity(line); err == nil {
			k.own = append(k.own, private)
			k.to, k.text = append(k.to, private.Recipient()), append(k.text, private.Recipient().String())
			continue
		}
		public, err := age.ParseX25519Recipient(line)
		if err != nil {
			return nil, fmt.Errorf("%w %s: line %d is no key of age, neither private (AGE-SECRET-KEY-1…) nor public (age1…)", ErrKey, file, i+1) // without the line: it is secret
		}
		k.to, k.text = append(k.to, public), append(k.text, public.String())
	}
	if len(k.to) == 0 {
		return nil, fmt.Errorf("%w %s has no keys; norn backup keygen makes one", ErrKey, file)
	}
	return k, nil
}

// NewKey gives the contents of a key file with a new private key, and the public one.
func NewKey() (file, public string, err error) {
	k, err := age.GenerateX25519Identity()
	if err != nil {
		return "", "", err
	}
	public = k.Recipient().String()
	return fmt.Sprintf("# public key: %s\n%s\n", public, k), public, nil
}

// To are the public keys.
func (k *Keys) To() []string {
	if k == nil {
		return nil
	}
	return k.text
}

func (k *Keys) seal() backup.Seal {
	if k == nil {
		return nil
	}
	return k.Seal
}

func (k *Keys) open() backup.Seal {
	if k == nil {
		return nil
	}
	return k.Open
}

// Seal encrypts.
func (k *Keys) Seal(b []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := age.Encrypt(&out, k.to...)
	if err == nil {
		_, err = w.Write(b)
	}
	if err == nil {
		err = w.Close()
	}
	return out.Bytes(), err
}

// Open decrypts. ErrKey: none of the keys fits, or what it is given is not what was encrypted.
func (k *Keys) Open(b []byte) ([]byte, error) {
	if len(k.own) == 0 {
		return nil, fmt.Errorf("%w %s has public keys only, which decrypt nothing: give the one with the private key", ErrKey, k.file)
	}
	r, err := age.Decrypt(bytes.NewReader(b), k.own...)
	var none *age.NoIdentityMatchError
	if errors.As(err, &none) {
		return nil, fmt.Errorf("%w %s: none of its keys is the one that this is encrypted to", ErrKey, k.file)
	}
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrKey, k.file, err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%w %s: %w", ErrKey, k.file, err)
	}
	return out, nil
}
