package jwts

import (
	"context"
	"crypto"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/internal/seldom"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Algorithms are those that a signature may be made by: with a pair of keys, of which this
// program has the public one. "none" and those with a shared secret are not among them.
func Algorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{jose.RS256, jose.PS256, jose.ES256, jose.ES384, jose.EdDSA}
}

const (
	// maxToken bounds a token, bytes.
	maxToken = 16 << 10
	// maxText bounds a subject, and each role, bytes; maxRoles the roles.
	maxText, maxRoles = 256, 64
	// lookAgain is after how long an unknown key has the key set read again.
	lookAgain = 10 * time.Second
	// maxVerified bounds the tokens that are known to be good, twice.
	maxVerified = 4096
)

// ErrUnknown is returned for what no key of the issuer has signed.
var ErrUnknown = errors.New("no key of the issuer has signed the token")

// ErrRefused is returned for a token that the issuer has signed, and that lets nobody in.
var ErrRefused = errors.New("the JWT lets nobody in")

// Config is what a Verifier goes by.
type Config struct {
	// Issuer and Audience must be in each token.
	Issuer, Audience string
	// Keys is the file or the URL of a JSON Web Key Set.
	Keys string
	// RolesClaim and TenantClaim are the names of claims: a list of names of roles (or one text
	// with spaces between), and the name of a tenant.
	RolesClaim, TenantClaim string
	// MaxLife bounds for how long a token may still let in when it is shown.
	MaxLife time.Duration
	// Leeway is by how much clocks may differ.
	Leeway time.Duration
	// Reload is after how long the keys are read again.
	Reload time.Duration
	// Logger hears of keys.
	Logger *slog.Logger
}

// Claims are what a token says of its bearer.
type Claims struct {
	Subject, Tenant string
	Roles           []string
	// Expires is until when it lets in, with the leeway.
	Expires time.Time
}

// Verifier judges tokens. It may be used by several goroutines.
type Verifier struct {
	o    Config
	from source
	keys atomic.Pointer[map[string]jose.JSONWebKey]
	said seldom.Line

	reading sync.Mutex   // held while keys are read; guards nothing else
	looked  atomic.Int64 // when they were read last, or it was tried, wall ns

	mu          sync.Mutex // guards what follows
	good, older map[[sha256.Size]byte]*Claims
}

// New makes a Verifier. The keys of a file are read here; those of a URL when somebody comes:
// what has them may be down, and others get in all the same.
func New(o Config) (*Verifier, error) {
	from, err := newSource(o.Keys)
	if err != nil {
		return nil, err
	}
	v := &Verifier{o: o, from: from, good: make(map[[sha256.Size]byte]*Claims)}
	if from.url != "" {
		return v, nil
	}
	keys, err := from.read(context.Background())
	if err != nil {
		return nil, err
	}
	v.keys.Store(&keys)
	v.looked.Store(time.Now().UnixNano())
	return v, nil
}

// Close says what waits to be logged.
func (v *Verifier) Close() {
	if v != nil {
		v.said.Close()
	}
}

// Is tells whether a text has the form of a JSON Web Token.
func Is(text string) bool {
	return strings.HasPrefix(text, "eyJ") && strings.Count(text, ".") == 2
}

// Verify judges a token as of now. The claims must not be changed.
func (v *Verifier) Verify(ctx context.Context, token string, now time.Time) (*Claims, error) {
	if len(token) > maxToken {
		return nil, ErrUnknown
	}
	v.refresh(ctx, now)
	sum := sha256.Sum256([]byte(token))
	if c := v.known(sum); c != nil {
		if !now.Before(c.Expires) {
			return nil, fmt.Errorf("%w: it has expired at %s", ErrRefused, c.Expires.Add(-v.o.Leeway).UTC().Format(time.RFC3339))
		}
		return c, nil
	}
	t, err := jwt.ParseSigned(token, Algorithms())
	if err != nil || len(t.Headers) != 1 {
		return nil, fmt.Errorf("%w: %v", ErrUnknown, err)
	}
	keys, key, err := v.keyOf(ctx, &t.Headers[0], now)
	if err != nil {
		return nil, err
	}
	var std jwt.Claims
	rest := make(map[string]any)
	if err := t.Claims(key.Key, &std, &rest); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrUnknown, err)
	}
	c, err := v.judge(&std, rest, now)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	v.remember(keys, sum, c)
	return c, nil
}

// judge looks at what a token says that the issuer has signed.
func (v *Verifier) judge(std *jwt.Claims, rest map[string]any, now time.Time) (*Claims, error) {
	if std.Expiry == nil {
		return nil, errors.New("it has no exp: it has to end")
	}
	if err := std.ValidateWithLeeway(jwt.Expected{Issuer: v.o.Issuer, AnyAudience: jwt.Audience{v.o.Audience}, Time: now}, v.o.Leeway); err != nil {
		return nil, fmt.Errorf("%w (issuer %.80q, audience %.80q, expires %s)", err, std.Issuer, std.Audience, std.Expiry.Time().UTC().Format(time.RFC3339))
	}
	end := std.Expiry.Time().Add(v.o.Leeway)
	c := &Claims{Subject: std.Subject, Expires: end}
	var err error
	switch c.Roles, err = texts(rest[v.o.RolesClaim]); {
	case err != nil:
		return nil, fmt.Errorf("claim %s: %w", v.o.RolesClaim, err)
	case std.Subject == "" || len(std.Subject) > maxText:
		return nil, fmt.Errorf("its sub is not of 1 to %d bytes", maxText)
	case end.After(now.Add(v.o.MaxLife + 2*v.o.Leeway)):
		return nil, fmt.Errorf("it would let in until %s, for longer than %s (auth-max-life)", std.Expiry.Time().UTC().Format(time.RFC3339), v.o.MaxLife)
	}
	if tenant, has := rest[v.o.TenantClaim]; has {
		if c.Tenant, has = tenant.(string); !has || c.Tenant == "" || len(c.Tenant) > maxText {
			return nil, fmt.Errorf("claim %s is no name of a tenant", v.o.TenantClaim)
		}
	}
	return c, nil
}

// texts reads a list of texts, or one with spaces between them.
func texts(claim any) (all []string, err error) {
	switch x := claim.(type) {
	case nil:
	case string:
		all = strings.Fields(x)
	case []any:
		for _, one := range x {
			text, is := one.(string)
			if !is {
				return nil, errors.New("it is no list of texts")
			}
			all = append(all, text)
		}
	default:
		return nil, errors.New("it is no list of texts")
	}
	if len(all) > maxRoles {
		return nil, fmt.Errorf("%d roles are over %d", len(all), maxRoles)
	}
	for _, text := range all {
		if len(text) > maxText {
			return nil, fmt.Errorf("a role of more than %d bytes", maxText)
		}
	}
	return all, nil
}

// keyOf is the key that a token says it is signed with.
func (v *Verifier) keyOf(ctx context.Context, h *jose.Header, now time.Time) (*map[string]jose.JSONWebKey, jose.JSONWebKey, error) {
	keys, k, ok := v.lookUp(h)
	if !ok {
		v.look(ctx, now, lookAgain)
		keys, k, ok = v.lookUp(h)
	}
	if !ok {
		return nil, k, fmt.Errorf("%w: no key with the ID %.80q is known", ErrUnknown, h.KeyID)
	}
	if k.Algorithm != "" && k.Algorithm != h.Algorithm {
		return nil, k, fmt.Errorf("%w: key %.80q is for %s, not for %s", ErrUnknown, h.KeyID, k.Algorithm, h.Algorithm)
	}
	return keys, k, nil
}

// lookUp finds a key by its ID. Where a token names none, the only one is meant.
func (v *Verifier) lookUp(h *jose.Header) (*map[string]jose.JSONWebKey, jose.JSONWebKey, bool) {
	keys := v.keys.Load()
	if keys == nil {
		return nil, jose.JSONWebKey{}, false
	}
	k, ok := (*keys)[h.KeyID]
	if !ok && h.KeyID == "" && len(*keys) == 1 {
		for _, k = range *keys { // Any order: there is one.
			ok = true
		}
	}
	return keys, k, ok
}

// refresh reads the keys again when that is due. Who comes meanwhile goes by those of before.
func (v *Verifier) refresh(ctx context.Context, now time.Time) {
	if now.UnixNano()-v.looked.Load() < int64(v.o.Reload) || !v.reading.TryLock() {
		return
	}
	defer v.reading.Unlock()
	v.readKeys(ctx, now, v.o.Reload)
}

// look reads the keys again unless that was tried lately, and waits for who does so now.
func (v *Verifier) look(ctx context.Context, now time.Time, every time.Duration) {
	v.reading.Lock()
	defer v.reading.Unlock()
	v.readKeys(ctx, now, every)
}

// readKeys is called by who holds reading.
func (v *Verifier) readKeys(ctx context.Context, now time.Time, every time.Duration) {
	if now.UnixNano()-v.looked.Load() < int64(every) {
		return
	}
	v.looked.Store(now.UnixNano())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTime) // others wait for it too
	defer cancel()
	keys, err := v.from.read(ctx)
	if err != nil {
		v.said.Say(func(int) {
			v.o.Logger.Error("auth.not_reloaded", "error", fmt.Errorf("auth-jwt-keys: %w", err), "meaning", "the keys of before stay in use")
		})
		return
	}
	if old := v.keys.Load(); old == nil || !same(*old, keys) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.keys.Store(&keys)
		v.good, v.older = make(map[[sha256.Size]byte]*Claims), nil // a key that is gone vouches for nobody
		v.o.Logger.Info("auth.reloaded", "settings", "auth-jwt-keys")
	}
}

func same(a, b map[string]jose.JSONWebKey) bool {
	if len(a) != len(b) {
		return false
	}
	for id, x := range a { // Any order: all are compared.
		y, is := b[id]
		if !is || x.Algorithm != y.Algorithm {
			return false
		}
		if key, can := x.Key.(interface{ Equal(x crypto.PublicKey) bool }); !can || !key.Equal(y.Key) {
			return false
		}
	}
	return true
}

// known gives the claims of a token that was good before.
func (v *Verifier) known(sum [sha256.Size]byte) *Claims {
	v.mu.Lock()
	defer v.mu.Unlock()
	if c := v.good[sum]; c != nil {
		return c
	}
	return v.older[sum]
}

// remember keeps the claims of a token, if the keys are still those that it was judged by. When
// there are too many, those of the time before are forgotten.
func (v *Verifier) remember(keys *map[string]jose.JSONWebKey, sum [sha256.Size]byte, c *Claims) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.keys.Load() != keys {
		return
	}
	if len(v.good) >= maxVerified {
		v.good, v.older = make(map[[sha256.Size]byte]*Claims), v.good
	}
	v.good[sum] = c
}
