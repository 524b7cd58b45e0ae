package secrets

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Bounds of a file: each secret travels in a hello, and all are compared with what
// somebody says.
const (
	maxBytes = 4 << 10
	maxLines = 8
)

// ErrFile is returned for a file that holds no secrets, or too many or too long ones.
var ErrFile = errors.New("secrets: bad file")

// Set are secrets. The first is the one to be said, any of them is accepted. An empty
// one asks for nothing.
type Set []string

// Read gives the secrets in a file: each line one, without white space around it; empty
// lines and those that begin with # do not count. The error is ErrFile or of the file
// system.
func Read(file string) (Set, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all Set
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 2*maxBytes)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case len(line) > maxBytes:
			return nil, fmt.Errorf("%w: %s: a secret of %d bytes, over %d", ErrFile, file, len(line), maxBytes)
		case len(all) == maxLines:
			return nil, fmt.Errorf("%w: %s: over %d secrets", ErrFile, file, maxLines)
		}
		all = append(all, line)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("%w: %s: a secret of over %d bytes", ErrFile, file, maxBytes)
	case err != nil:
		return nil, err
	case len(all) == 0:
		return nil, fmt.Errorf("%w: %s is empty", ErrFile, file)
	}
	return all, nil
}

// First is the one to be said, "" where there is none.
func (s Set) First() string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}

// Accepts tells whether what somebody says is one of them; of none only nothing is.
// Hashes are compared, so that the time says nothing of them, nor of their lengths.
func (s Set) Accepts(said []byte) bool {
	if len(s) == 0 {
		return len(said) == 0
	}
	found, given := 0, sha256.Sum256(said)
	for _, one := range s {
		want := sha256.Sum256([]byte(one))
		found |= subtle.ConstantTimeCompare(want[:], given[:])
	}
	return found == 1
}
