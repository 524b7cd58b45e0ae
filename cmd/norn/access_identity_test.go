package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// TestCertificatesAndJWTsLogIn: a worker with a certificate works, and a JWT does what its claim
// says; what another key has signed, and a certificate without a map, is nobody.
func TestCertificatesAndJWTsLogIn(t *testing.T) {
	cert, key := certificateUntil(t, time.Now().Add(time.Hour), "worker-1.acme.example")
	keys := newKeySet(t)
	keys.add("2030-01")
	s := ownServer(t, t.TempDir(), "--auth", "access", "--auth-token-file", write(t, "r00t\n"), "--tls-cert", cert, "--tls-key", key, "--tls-client-ca", cert, "--auth-cert", "san-dns",
		"--auth-jwt-issuer", "https://id.example", "--auth-jwt-audience", "norn", "--auth-jwt-keys", keys.file)
	as := func(token string, args ...string) result {
		return nornWith(t, "", []string{"NORN_ADDR=" + s.addr, "NORN_AUTH_TOKEN=" + token, "NORN_TLS_CA=" + cert, "NORN_TLS_CERT=" + cert, "NORN_TLS_KEY=" + key}, args...)
	}
	on := func(token string, args ...string) string {
		t.Helper()
		r := as(token, args...)
		if r.code != 0 {
			t.Fatalf("%v: %+v", args, r)
		}
		return r.out
	}
	if r := as("", "access", "whoami"); r.code == 0 || !strings.Contains(r.err, "nobody has given roles to the certificate of worker-1.acme.example") {
		t.Errorf("without a map: %+v", r)
	}
	on("r00t", "access", "map", "set", "workers", "--cert", "worker-*.acme.example", "--role", "worker")
	if out := on("", "access", "whoami"); !strings.Contains(out, "worker-1.acme.example") || !strings.Contains(out, "certificate") {
		t.Error(out)
	}
	if r := as("", "task", "enqueue", "-q", "mail", "x"); r.code == 0 || !strings.Contains(r.err, "worker-1.acme.example (role worker) may not enqueue") {
		t.Errorf("%+v", r)
	}
	ci := keys.sign("2030-01", "producer")
	id := strings.TrimSpace(on(ci, "task", "enqueue", "-q", "mail", "hello"))
	if out := on("", "task", "claim", "-q", "mail", "-o", "json"); !strings.Contains(out, id) {
		t.Errorf("the worker has claimed %s", out)
	}
	if out := on(ci, "access", "whoami", "-o", "json"); !strings.Contains(out, `"proof": "jwt"`) || !strings.Contains(out, "ci@acme") {
		t.Error(out)
	}
	if out := on("r00t", "access", "map", "list"); !strings.Contains(out, "worker-*.acme.example") {
		t.Error(out)
	}
	stranger := newKeySet(t)
	stranger.add("2030-01")
	for what, token := range map[string]string{"somebody else's key": stranger.sign("2030-01", "admin"), "no JWT": "eyJ.a.b"} {
		if r := as(token, "access", "whoami"); r.code == 0 || !strings.Contains(r.err, "missing or wrong") {
			t.Errorf("%s: %+v", what, r)
		}
	}
	on("r00t", "access", "map", "rm", "workers")
	if r := as("", "access", "whoami"); r.code == 0 {
		t.Errorf("without a map any more: %+v", r)
	}
}

// keySet is what an issuer signs with.
type keySet struct {
	t    *testing.T
	file string
	keys map[string]*ecdsa.PrivateKey
}

func newKeySet(t *testing.T) *keySet {
	return &keySet{t, write(t, ""), make(map[string]*ecdsa.PrivateKey)}
}

func (k *keySet) add(id string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		k.t.Fatal(err)
	}
	k.keys[id] = key
	var set jose.JSONWebKeySet
	for id, key := range k.keys {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: key.Public(), KeyID: id, Use: "sig"})
	}
	text, err := json.Marshal(set)
	if err != nil {
		k.t.Fatal(err)
	}
	if err := os.WriteFile(k.file, text, 0o600); err != nil {
		k.t.Fatal(err)
	}
}

func (k *keySet) sign(id, roles string) string {
	k.t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: k.keys[id]}, (&jose.SignerOptions{}).WithHeader("kid", id))
	if err != nil {
		k.t.Fatal(err)
	}
	text, err := jwt.Signed(s).Claims(map[string]any{
		"iss": "https://id.example", "aud": "norn", "sub": "ci@acme", "exp": time.Now().Add(time.Hour).Unix(), "norn_roles": roles,
	}).Serialize()
	if err != nil {
		k.t.Fatal(err)
	}
	return text
}
