package jwts

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// The limits of a key set.
const (
	maxSet    = 1 << 20 // bytes
	maxKeys   = 100
	minRSA    = 2048 // bits
	fetchTime = 5 * time.Second
)

// source is where a key set is read from.
type source struct {
	file   string
	url    string
	client *http.Client
}

// newSource takes a file name, or a URL.
func newSource(place string) (source, error) {
	if !strings.Contains(place, "://") {
		return source{file: place}, nil
	}
	u, err := url.Parse(place)
	switch {
	case err != nil:
		return source{}, err
	case u.Host == "", u.User != nil:
		return source{}, fmt.Errorf("%q is no URL of a key set", u.Redacted())
	case u.Scheme == "https":
	case u.Scheme == "http":
		if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return source{}, fmt.Errorf("%q: who is on the way could change the keys; use https://", place)
		}
	default:
		return source{}, fmt.Errorf("%q: a key set is a file, or at an https:// URL", place)
	}
	return source{url: place, client: &http.Client{
		Timeout: fetchTime,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("the key set is elsewhere; name that URL")
		},
	}}, nil
}

// read gives the keys by their IDs. A key without an ID is under the empty one.
func (s source) read(ctx context.Context) (map[string]jose.JSONWebKey, error) {
	body, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(body, maxSet+1))
	if err = errors.Join(err, body.Close()); err != nil {
		return nil, err
	}
	if len(text) > maxSet {
		return nil, fmt.Errorf("a key set of more than %d bytes", maxSet)
	}
	return parse(text)
}

func (s source) open(ctx context.Context) (io.ReadCloser, error) {
	if s.url == "" {
		return os.Open(s.file)
	}
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, err
	}
	reply, err := s.client.Do(ask)
	if err != nil {
		return nil, err
	}
	if reply.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s answers %s", s.url, reply.Status), reply.Body.Close())
	}
	return reply.Body, nil
}

// parse reads a key set. Keys that are not for signatures, or of a kind that is not known, are
// left out: an issuer may have them for others. Secret ones are refused: they do not belong there.
func parse(text []byte) (map[string]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("no key set (JWKS): %w", err)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("a key set of %d keys, over %d", len(set.Keys), maxKeys)
	}
	keys := make(map[string]jose.JSONWebKey)
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) != nil || k.Use == "enc" {
			continue
		}
		if !k.IsPublic() {
			return nil, fmt.Errorf("key %.80q is secret: a key set has public keys (RSA, EC, OKP)", k.KeyID)
		}
		if public, is := k.Key.(*rsa.PublicKey); !k.Valid() || is && public.N.BitLen() < minRSA {
			continue
		}
		if _, twice := keys[k.KeyID]; twice {
			return nil, fmt.Errorf("two keys have the ID %.80q", k.KeyID)
		}
		keys[k.KeyID] = k
	}
	if len(keys) == 0 {
		return nil, errors.New("the key set has no key for signatures (RSA of 2048 bits or more, EC, OKP)")
	}
	return keys, nil
}
