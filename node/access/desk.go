package access

import (
	"context"
	"crypto/x509"
	"math"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/internal/jwts"
	"github.com/norn-dev/norn/internal/logins"
	"github.com/norn-dev/norn/internal/secrets"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"github.com/prometheus/client_golang/prometheus"
	gproto "google.golang.org/protobuf/proto"
)

// The names of those who have none of their own.
const (
	rootName      = "root"
	anonymousName = "anonymous"
	selfName      = "node"
)

// loginPause is after how long who was refused because too many answers wait may try again.
const loginPause = 2 * time.Second

// Config is what a desk goes by.
type Config struct {
	// Policy is the zero one but in the hunt.
	Policy Policy
	// Tokens are those of a file as it is now: who shows one may do everything. nil: nobody
	// is asked.
	Tokens func() secrets.Set
	// Anonymous is the role of who comes and shows nothing, but for what is about the cluster and rights;
	// empty: where nobody is asked such a one may do everything, and else nothing.
	Anonymous string
	// Reread is after how long the file with tokens is looked at again for those who are let in.
	Reread time.Duration
	// MaxStale is for how long tokens of the register are taken while no majority of the register
	// is heard; 0: for ever.
	MaxStale time.Duration
	// Always has those who come show something also where there is no file.
	Always bool
	// Names gives the names of a certificate that say whose it is; nil: certificates say nothing.
	Names func(*x509.Certificate) []string
	// JWT judges JSON Web Tokens; nil: they let nobody in.
	JWT *jwts.Verifier
	// Node is the name of this one.
	Node string
	// Audit writes down what was done and refused; nil: nobody does.
	Audit *Audit
}

// Desk judges who comes to a node, and what they ask for. A nil Desk asks nobody.
//
// The zero book lets nobody in by tokens of the register. All methods may be called from many
// goroutines.
type Desk struct {
	o        Config
	register atomic.Pointer[Register]
	book     atomic.Pointer[book]
	file     atomic.Pointer[secrets.Set] // the tokens of the file when they were read last
	cut      atomic.Pointer[time.Time]   // since when no majority of the register is heard; nil: one is
	revision prometheus.Collector

	mu      sync.Mutex    // guards what follows, and who writes book
	changed chan struct{} // closed when rights change
	ends    int64         // when the next token expires, wall ns; in the past: to be looked for

	began time.Time // what now is counted from

	outside atomic.Bool // somebody came with a certificate or a JWT that expires
}

// New makes a desk.
func New(o Config) *Desk {
	d := &Desk{o: o, changed: make(chan struct{}), began: time.Now()}
	d.book.Store(&book{policy: o.Policy})
	d.revision = newRevision(d)
	return d
}

// Of makes a desk that takes these tokens, each of which may do everything.
func Of(tokens ...string) *Desk {
	return New(Config{Tokens: func() secrets.Set { return tokens }})
}

// Caller is who sends requests, and from where.
type Caller struct {
	*guard.Principal

	address, agent string

	file  *secrets.Set // the tokens of the file of which it has shown one; nil: it has shown none
	shown string       // that one

	// moved is when it last read or wrote whole partitions, wall ns, for a backup and for a restore.
	moved [2]atomic.Int64

	as      *identity // what it has shown; nil: a token, or nothing
	arrived *uses     // of its tenant, while its connection is open
}

// Self is the process itself.
func Self() *Caller { return &Caller{Principal: guard.Root(selfName, guard.ByNothing)} }

// Shown is what somebody shows.
type Shown struct {
	// Port is one of package logins, and Logins counts and slows failed ones there; nil: nobody
	// does.
	Port   string
	Logins *logins.Watch
	// Token is empty where there is none, Certificate nil.
	Token       string
	Certificate *x509.Certificate
	Remote      net.Addr
	// Shared says that the address is not a client's own, as that of a proxy.
	Shared bool
	// Agent is what the client calls itself.
	Agent string
	// Send says how a token is sent on this port.
	Send string
}

// Asks tells whether those who come have to show something.
func (d *Desk) Asks() bool { return d != nil && (d.o.Always || d.o.Tokens != nil) }

// Welcomes tells whether who shows nothing is let in with a role.
func (d *Desk) Welcomes() bool { return d != nil && d.o.Anonymous != "" }

// Enter judges what somebody shows, and returns when it may be answered.
//
// The order of what counts: nothing shown, where there is a role for that; a certificate, if no
// token is shown; a token of the file; a JWT; a token of the register. A failure is counted
// against the address, and the answer waits where there were many ([logins.Watch]).
func (d *Desk) Enter(ctx context.Context, s Shown) (*Caller, *proto.Error) {
	c := &Caller{agent: s.Agent}
	if s.Remote != nil {
		c.address = s.Remote.String()
	}
	names := d.namesIn(s.Certificate)
	if d.Welcomes() && s.Token == "" && len(names) == 0 {
		if err := d.identified(c, &identity{proof: guard.ByNothing, names: []string{anonymousName}, roles: []string{d.o.Anonymous}, expires: math.MaxInt64}); err != nil {
			return nil, err
		}
		return c, nil
	}
	if !d.Asks() {
		c.Principal = guard.Root(anonymousName, guard.ByNothing)
		if s.Certificate != nil {
			c.Principal = guard.Root(s.Certificate.Subject.CommonName, guard.ByCertificate)
		}
		return c, nil
	}
	var why *proto.Error
	t := logins.Try{Port: s.Port, Remote: s.Remote, Shared: s.Shared}
	switch {
	case s.Token == "" && len(names) > 0:
		if why = d.identified(c, &identity{proof: guard.ByCertificate, names: names, expires: s.Certificate.NotAfter.UnixNano()}); why != nil {
			t.Reason = logins.Certificate
		}
	case s.Token == "":
		t.Reason = logins.NoToken
	case d.opens(c, s.Token):
		c.Principal = guard.Root(rootName, guard.ByTokenFile)
	case d.o.JWT != nil && jwts.Is(s.Token):
		if why = d.bearer(ctx, c, s.Token); c.Principal == nil {
			t.Reason = logins.WrongToken
		}
	default:
		if c.Principal, why = d.known(&s); c.Principal == nil {
			t.Reason = logins.WrongToken
		}
	}
	if !s.Logins.Judge(ctx, t) {
		e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "too many logins from this address have failed; try again later")
		e.RetryAfter = loginPause
		return nil, e
	}
	if why != nil {
		return nil, why
	}
	if t.Reason != "" {
		return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED, "the auth token is missing or wrong; %s", s.Send)
	}
	return c, nil
}

// Sign puts who a caller is into a request that says so itself, and gives the name for what else
// is stored of it; empty where nobody has rights but those who may do everything.
func (d *Desk) Sign(c *Caller, request gproto.Message) string {
	if d == nil || c == nil || d.book.Load().at == 0 && c.Scope() == nil {
		guard.Sign(request, nil)
		return ""
	}
	guard.Sign(request, c.Principal)
	return c.Name
}

// opens tells whether a token is one of the file, and notes that for its caller.
func (d *Desk) opens(c *Caller, token string) bool {
	file := d.tokens()
	if file == nil || !file.Accepts([]byte(token)) {
		return false
	}
	c.file, c.shown = file, token
	return true
}

// known is who shows a token of the register. Why it lets in nobody is told only to who has
// its secret.
func (d *Desk) known(s *Shown) (*guard.Principal, *proto.Error) {
	b := d.book.Load()
	t := b.find(s.Token)
	if t == nil {
		return nil, nil
	}
	now := time.Now().UnixNano()
	if _, err := b.live(t.id, t.stored.GetName(), now); err != nil {
		return nil, err
	}
	if err := d.stale(); err != nil {
		return nil, err
	}
	if !t.reaches(s.Remote) {
		return nil, unauthenticated("token %s (ID %s) does not let in from %s, only from %s", t.stored.GetName(), t.id, s.Remote, strings.Join(t.stored.GetFrom(), ", "))
	}
	t.used.Store(now)
	return t.principal, nil
}

// Check judges one request of a caller. The scope goes along with the request.
//
// The scope is nil where there is no limit. It travels with the request and judges each task
// where that is kept.
func (d *Desk) Check(c *Caller, m nornv1.Method, request gproto.Message) (*guard.Scope, *proto.Error) {
	p, err := d.current(c)
	if err != nil {
		return nil, err
	}
	scope, err := guard.Check(p, m, request)
	if d == nil {
		return scope, err
	}
	d.o.Audit.judged(c, m, request, err)
	if err == nil && p.Tenant != "" {
		err = d.book.Load().pace(p, m, time.Since(d.began).Nanoseconds())
	}
	return scope, err
}
