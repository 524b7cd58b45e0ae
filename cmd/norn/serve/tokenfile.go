package serve

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/norn-dev/norn/internal/jwts"
	"github.com/norn-dev/norn/internal/secrets"
	"github.com/norn-dev/norn/node/access"
	"github.com/norn-dev/norn/node/config"
)

// tokenFile are the tokens of a file. It is read again when somebody comes and some time has
// passed, as certificates are; what cannot be read leaves those of before in use.
type tokenFile struct {
	name  string
	every time.Duration
	log   *slog.Logger

	mu     sync.Mutex // guards what follows
	looked time.Time
	tokens secrets.Set
	said   string // the last complaint
}

// open reads the file for the first time, when it has to be right.
func (f *tokenFile) open() (err error) {
	f.looked = time.Now()
	f.tokens, err = readSecrets("auth-token-file", f.name, "everybody would get in")
	return err
}

// now gives the tokens that hold now.
func (f *tokenFile) now() secrets.Set {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.looked) < f.every {
		return f.tokens
	}
	f.looked = time.Now()
	all, err := readSecrets("auth-token-file", f.name, "the tokens of before stay")
	switch {
	case err != nil && err.Error() != f.said:
		f.said = err.Error()
		f.log.Error("auth.not_reloaded", "error", err, "meaning", "the tokens of before stay in use")
	case err == nil:
		if f.said = ""; !slices.Equal(all, f.tokens) {
			f.log.Info("auth.reloaded", "settings", "auth-token-file")
		}
		f.tokens = all
	}
	return f.tokens
}

// source gives the tokens to whoever asks for them; nil: there are none.
func (f *tokenFile) source() func() secrets.Set {
	if f == nil {
		return nil
	}
	return f.now
}

// openDesk opens the audit log, and makes the desk that all ports ask.
func (c *credentials) openDesk(cfg *config.Config, o *Options) (err error) {
	if c.audit, err = openAudit(cfg, o); err != nil {
		return err
	}
	full := *cfg
	full.Complete() // the node may be called by its address
	if c.jwt, err = openJWT(cfg, o); err != nil {
		return err
	}
	c.desk = access.New(access.Config{
		Tokens: c.tokens.source(), Reread: cfg.TLSReload, MaxStale: cfg.AuthMaxStale, Always: cfg.Auth == "access", Anonymous: cfg.AuthAnonymous, Names: access.NamesOf(cfg.AuthCert), JWT: c.jwt, Node: full.Name, Audit: c.audit,
	})
	return nil
}

// jwtReload is after how long the keys at a URL are read again. A key that is not known has them
// read sooner.
const jwtReload = 5 * time.Minute

// openJWT makes what judges JSON Web Tokens; nil: they let nobody in.
func openJWT(cfg *config.Config, o *Options) (*jwts.Verifier, error) {
	if cfg.AuthJWTKeys == "" {
		return nil, nil
	}
	v, err := jwts.New(jwts.Config{
		Issuer: cfg.AuthJWTIssuer, Audience: cfg.AuthJWTAudience, Keys: cfg.AuthJWTKeys, RolesClaim: cfg.AuthJWTRoles, TenantClaim: cfg.AuthJWTTenant,
		MaxLife: cfg.AuthMaxLife, Leeway: cfg.Eta, Reload: jwtReload, Logger: o.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("auth-jwt-keys: %w", err)
	}
	return v, nil
}

// openAudit opens what the settings name; nil: nothing is written down.
func openAudit(cfg *config.Config, o *Options) (*access.Audit, error) {
	var to io.Writer
	var err error
	switch cfg.AuditLog {
	case "off":
		return nil, nil
	case "stderr":
		to = o.AuditTo
	case "syslog":
		to, err = access.OpenSyslog()
	default:
		to, err = access.OpenFile(cfg.AuditLog)
	}
	if err != nil {
		return nil, fmt.Errorf("audit-log: %w", err)
	}
	full := *cfg
	full.Complete() // the node may be called by its address
	return access.NewAudit(access.AuditConfig{Node: full.Name, To: to, Data: cfg.AuditData, Logger: o.Logger}), nil
}
