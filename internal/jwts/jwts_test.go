package jwts

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// pair is a key of an issuer.
type pair struct {
	id   string
	alg  jose.SignatureAlgorithm
	key  crypto.Signer
	hide string // the algorithm that the key set says; empty: alg
}

func newPair(t *testing.T, id string) pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return pair{id: id, alg: jose.ES256, key: key}
}

// sign makes a token of claims.
func (p pair) sign(t *testing.T, claims map[string]any) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: p.alg, Key: p.key}, (&jose.SignerOptions{}).WithHeader("kid", p.id))
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(s).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// set is a key set of some keys.
func set(t *testing.T, all ...pair) []byte {
	t.Helper()
	var s jose.JSONWebKeySet
	for _, p := range all {
		alg := string(p.alg)
		if p.hide != "" {
			alg = p.hide
		}
		s.Keys = append(s.Keys, jose.JSONWebKey{Key: p.key.Public(), KeyID: p.id, Algorithm: alg, Use: "sig"})
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func good() map[string]any {
	return map[string]any{"iss": "https://id.example", "aud": []string{"norn", "other"}, "sub": "ci@acme", "exp": now.Add(time.Hour).Unix(), "norn_roles": []string{"producer", "viewer"}}
}

func config(keys string) Config {
	return Config{Issuer: "https://id.example", Audience: "norn", Keys: keys, RolesClaim: "norn_roles", TenantClaim: "norn_tenant", MaxLife: 24 * time.Hour,
		Leeway: 2 * time.Second, Reload: time.Minute, Logger: slog.New(slog.DiscardHandler)}
}

func newVerifier(t *testing.T, keys []byte) (*Verifier, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, keys, 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := New(config(file))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	v.looked.Store(now.UnixNano())
	return v, file
}

// TestAGoodTokenSaysWhoItIs: also by the smaller ways of saying roles, and a second time.
func TestAGoodTokenSaysWhoItIs(t *testing.T) {
	p := newPair(t, "k1")
	v, _ := newVerifier(t, set(t, p))
	for _, roles := range []any{[]string{"producer", "viewer"}, "producer viewer"} {
		claims := good()
		claims["norn_roles"], claims["norn_tenant"] = roles, "acme"
		text := p.sign(t, claims)
		if !Is(text) {
			t.Errorf("%s is not taken for a token", text)
		}
		first, err := v.Verify(t.Context(), text, now)
		if err != nil || first.Subject != "ci@acme" || first.Tenant != "acme" || strings.Join(first.Roles, ",") != "producer,viewer" || !first.Expires.Equal(now.Add(time.Hour+2*time.Second)) {
			t.Errorf("%+v, %v", first, err)
		}
		if again, err := v.Verify(t.Context(), text, now); again != first || err != nil {
			t.Errorf("the second time: %+v, %v", again, err)
		}
		if _, err := v.Verify(t.Context(), text, now.Add(time.Hour+2*time.Second)); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "expired") {
			t.Errorf("after its end: %v", err)
		}
	}
	if claims, err := v.Verify(t.Context(), p.sign(t, map[string]any{"iss": "https://id.example", "aud": "norn", "sub": "x", "exp": now.Add(-time.Second).Unix()}), now); err != nil || claims.Roles != nil {
		t.Errorf("within the leeway, without roles: %+v, %v", claims, err)
	}
}

// TestWhatTheIssuerHasNotSigned lets nobody in, whatever it says.
func TestWhatTheIssuerHasNotSigned(t *testing.T) {
	p, stranger := newPair(t, "k1"), newPair(t, "k1")
	weak := pair{id: "k2", alg: jose.RS256}
	small, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	weak.key, weak.hide = small, "PS256"
	v, _ := newVerifier(t, set(t, p, weak))
	part := func(m map[string]any) string {
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(b)
	}
	body := part(good())
	secret, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: set(t, p)}, (&jose.SignerOptions{}).WithHeader("kid", "k1"))
	if err != nil {
		t.Fatal(err)
	}
	shared, err := jwt.Signed(secret).Claims(good()).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	right := p.sign(t, good())
	cut := strings.Split(right, ".")
	other := good()
	other["sub"] = "root"
	unknown, long := newPair(t, "k9"), weak
	long.alg = jose.RS512
	for name, text := range map[string]string{
		"no algorithm":                         part(map[string]any{"alg": "none", "kid": "k1"}) + "." + body + ".",
		"no algorithm, with a signature":       part(map[string]any{"alg": "none", "kid": "k1"}) + "." + body + "." + cut[2],
		"a shared secret, the public key":      shared,
		"an algorithm that is not taken":       long.sign(t, good()),
		"an algorithm that the key is not for": weak.sign(t, good()),
		"somebody else's key":                  stranger.sign(t, good()),
		"an unknown key":                       unknown.sign(t, good()),
		"other claims":                         cut[0] + "." + part(other) + "." + cut[2],
		"no signature":                         cut[0] + "." + cut[1] + ".",
		"nonsense":                             "eyJ.x.y",
		"a token of too many bytes":            right + strings.Repeat("A", maxToken),
	} {
		if c, err := v.Verify(t.Context(), text, now); !errors.Is(err, ErrUnknown) || errors.Is(err, ErrRefused) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

// TestWhatLetsNobodyIn: signed, and not for this server, or not now.
func TestWhatLetsNobodyIn(t *testing.T) {
	p := newPair(t, "k1")
	v, _ := newVerifier(t, set(t, p))
	for _, c := range []struct {
		claim string
		value any
	}{
		{"exp", now.Add(-2*time.Second - time.Second).Unix()}, {"exp", nil}, {"exp", now.Add(25 * time.Hour).Unix()},
		{"nbf", now.Add(3 * time.Second).Unix()}, {"iat", now.Add(time.Hour).Unix()},
		{"aud", "other"}, {"aud", nil}, {"aud", []string{}}, {"iss", "https://id.example/"}, {"iss", nil},
		{"sub", nil}, {"sub", strings.Repeat("x", 257)},
		{"norn_roles", 7}, {"norn_roles", []any{"producer", 7}}, {"norn_roles", strings.Repeat("r ", 65)}, {"norn_tenant", ""}, {"norn_tenant", 7},
	} {
		claims := good()
		if claims[c.claim] = c.value; c.value == nil {
			delete(claims, c.claim)
		}
		if got, err := v.Verify(t.Context(), p.sign(t, claims), now); !errors.Is(err, ErrRefused) {
			t.Errorf("%s %v: %+v, %v", c.claim, c.value, got, err)
		}
	}
}

// TestKeysAreReadAgain: a new one counts when somebody shows it, one that is gone counts no more;
// what cannot be read changes nothing.
func TestKeysAreReadAgain(t *testing.T) {
	old, next := newPair(t, "2030-01"), newPair(t, "2030-02")
	var served atomic.Pointer[[]byte]
	var asked atomic.Int32
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		if text := served.Load(); text != nil {
			_, _ = w.Write(*text)
			return
		}
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer site.Close()
	v, err := New(config(site.URL))
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	serve := func(all ...pair) {
		text := set(t, all...)
		served.Store(&text)
	}
	verify := func(p pair, at time.Duration) error {
		_, err := v.Verify(t.Context(), p.sign(t, good()), now.Add(at))
		return err
	}
	if err := verify(old, 0); !errors.Is(err, ErrUnknown) {
		t.Errorf("before any key was read: %v", err)
	}
	serve(old)
	if err := verify(old, lookAgain); err != nil {
		t.Errorf("after they could be read: %v", err)
	}
	text := old.sign(t, good())
	if _, err := v.Verify(t.Context(), text, now.Add(lookAgain)); err != nil {
		t.Error(err)
	}
	serve(old, next)
	n := asked.Load()
	for range 5 {
		if err := verify(next, lookAgain+time.Second); !errors.Is(err, ErrUnknown) {
			t.Errorf("a key that nobody has looked for yet: %v", err)
		}
	}
	if asked.Load() != n {
		t.Errorf("unknown keys had the key set asked for %d times within %v", asked.Load()-n, lookAgain)
	}
	if err := verify(next, 2*lookAgain); err != nil {
		t.Errorf("the new key: %v", err)
	}
	served.Store(nil)
	if err := errors.Join(verify(old, 2*lookAgain+time.Minute), verify(next, 2*lookAgain+time.Minute)); err != nil {
		t.Errorf("with nothing that can be read: %v", err)
	}
	serve(next)
	at := 2*lookAgain + 2*time.Minute
	if err := verify(next, at); err != nil {
		t.Error(err)
	}
	if _, err := v.Verify(t.Context(), text, now.Add(at)); !errors.Is(err, ErrUnknown) {
		t.Errorf("a token of a key that is gone, which was good before: %v", err)
	}
}

// TestWhatIsNoKeySet: settings that cannot be are said at the start.
func TestWhatIsNoKeySet(t *testing.T) {
	for _, place := range []string{"http://id.example/keys", "ftp://id.example/keys", "https://", "https://u:p@id.example/keys", filepath.Join(t.TempDir(), "none")} {
		if _, err := New(config(place)); err == nil {
			t.Errorf("%s was taken", place)
		}
	}
	p := newPair(t, "k1")
	for name, text := range map[string][]byte{
		"nothing": nil, "no keys": []byte(`{"keys":[]}`), "a secret": []byte(`{"keys":[{"kty":"oct","kid":"a","k":"c2VjcmV0c2VjcmV0"}]}`),
		"only kinds that nobody knows": []byte(`{"keys":[{"kty":"new","kid":"a"}]}`), "two of one ID": set(t, p, newPair(t, "k1")),
		"too much": []byte(`{"keys":[],"x":"` + strings.Repeat("x", maxSet) + `"}`),
	} {
		file := filepath.Join(t.TempDir(), "keys.json")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(config(file)); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if keys, err := parse([]byte(strings.Replace(string(set(t, p)), `[{`, `[{"kty":"new","kid":"a"},{`, 1))); err != nil || len(keys) != 1 {
		t.Errorf("%v, %v", keys, err)
	}
}

// TestWhatIsRememberedIsBounded: tokens that were good take no more room than they may.
func TestWhatIsRememberedIsBounded(t *testing.T) {
	v, _ := newVerifier(t, set(t, newPair(t, "k1")))
	for i := range 3 * maxVerified {
		v.remember(v.keys.Load(), [32]byte{byte(i), byte(i >> 8), byte(i >> 16)}, &Claims{})
	}
	if n := len(v.good) + len(v.older); n > 2*maxVerified {
		t.Errorf("%d tokens", n)
	}
}
