package gossip

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// maxKeys is one in use, one before and one after, and room for a mistake.
const maxKeys = 8

// ParseKeys reads keys for [Config].Keys: one per line in base64, 16, 24 or 32
// bytes each. Empty lines and what follows # are skipped. Errors wrap
// [ErrConfig]; they name the line and never what is in it.
func ParseKeys(text string) ([][]byte, error) {
	var keys [][]byte
	line := 0
	for s := range strings.Lines(text) {
		line++
		s, _, _ = strings.Cut(s, "#")
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(s)
		if err != nil || len(key) != 16 && len(key) != 24 && len(key) != 32 {
			return nil, fmt.Errorf("%w: line %d is not 16, 24 or 32 bytes in base64", ErrConfig, line)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 || len(keys) > maxKeys {
		return nil, fmt.Errorf("%w: %d keys are not 1 to %d", ErrConfig, len(keys), maxKeys)
	}
	return keys, nil
}
