package names

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// lookUpTime bounds one look-up. A resolver that does not answer is asked twice for 5 s by
	// default, for each of its servers and search domains.
	lookUpTime = 30 * time.Second
	// patience is how long a look-up is waited for where an address is known that worked.
	patience = 300 * time.Millisecond
	// stagger is between two addresses of a name that are tried side by side.
	stagger = 300 * time.Millisecond
	// maxHosts bounds the names that are remembered. Past it those are forgotten that nobody
	// looks up: strangers may name any.
	maxHosts = 1024
)

// ErrClosed is returned after [Book.Close].
var ErrClosed = errors.New("names: closed")

// Book remembers what names led to. Make one with [New]; its methods may be called from any
// goroutine.
type Book struct {
	resolver *net.Resolver
	ctx      context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu     sync.Mutex // guards what follows
	hosts  map[string]*host
	closed bool
}

// host is one name.
type host struct {
	known []netip.Addr // of the last look-up that found some; what worked last comes first
	now   *lookUp      // under way; nil: none
}

// lookUp is one question. found and err are set when done is closed.
type lookUp struct {
	done  chan struct{}
	found []netip.Addr
	err   error
}

// New makes a book that asks a resolver; nil: the system's.
func New(r *net.Resolver) *Book {
	if r == nil {
		r = net.DefaultResolver
	}
	b := &Book{resolver: r, hosts: make(map[string]*host)}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

// Close ends all look-ups.
func (b *Book) Close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.cancel()
	b.running.Wait()
}

// ask begins a look-up, or takes part in the one under way. known is what is remembered.
func (b *Book) ask(name string) (l *lookUp, known []netip.Addr, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, nil, ErrClosed
	}
	h := b.hosts[name]
	if h == nil {
		if len(b.hosts) >= maxHosts {
			for other, o := range b.hosts { // Any order: all go that nobody waits for.
				if o.now == nil {
					delete(b.hosts, other)
				}
			}
		}
		h = &host{}
		b.hosts[name] = h
	}
	if h.now == nil {
		l := &lookUp{done: make(chan struct{})}
		h.now = l
		b.running.Go(func() { b.lookUp(name, h, l) })
	}
	return h.now, slices.Clone(h.known), nil
}

func (b *Book) lookUp(name string, h *host, l *lookUp) {
	ctx, cancel := context.WithTimeout(b.ctx, lookUpTime)
	defer cancel()
	found, err := b.resolver.LookupNetIP(ctx, "ip", name)
	for _, a := range found {
		if a = a.Unmap(); !a.IsUnspecified() && !slices.Contains(l.found, a) {
			l.found = append(l.found, a)
		}
	}
	if l.err = err; err == nil && len(l.found) == 0 {
		l.err = &net.AddrError{Err: "no address that can be dialled", Addr: name}
	}
	b.mu.Lock()
	if l.err == nil {
		if len(h.known) > 0 { // what worked is tried first as long as the name leads there
			if at := slices.Index(l.found, h.known[0]); at > 0 {
				l.found[0], l.found[at] = l.found[at], l.found[0]
			}
		}
		h.known = slices.Clone(l.found)
	}
	h.now = nil
	b.mu.Unlock()
	close(l.done)
}

// worked notes the address that a connection was made to.
func (b *Book) worked(name string, a netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h := b.hosts[name]; h != nil {
		h.known = slices.Insert(slices.DeleteFunc(h.known, func(o netip.Addr) bool { return o == a }), 0, a)
	}
}

// split takes HOST:PORT apart. ip is valid where the host is an address.
func split(address string) (name string, ip netip.Addr, port uint16, err error) {
	name, service, err := net.SplitHostPort(address)
	if err != nil {
		return "", ip, 0, err
	}
	n, err := strconv.ParseUint(service, 10, 16)
	if err != nil || n == 0 {
		return "", ip, 0, &net.AddrError{Err: "no port between 1 and 65535", Addr: address}
	}
	if a, err := netip.ParseAddr(name); err == nil {
		ip = a.Unmap()
	}
	if ip.IsValid() && ip.IsUnspecified() {
		return "", ip, 0, &net.AddrError{Err: "no address that can be dialled", Addr: address}
	}
	return name, ip, uint16(n), nil
}

// LookUp gives the addresses behind HOST:PORT, at least one: those of a look-up that ends
// before ctx, else those that are remembered.
func (b *Book) LookUp(ctx context.Context, address string) ([]netip.AddrPort, error) {
	name, ip, port, err := split(address)
	if err != nil || ip.IsValid() {
		return with([]netip.Addr{ip}, port), err
	}
	l, known, err := b.ask(name)
	if err != nil {
		return nil, err
	}
	found, err := l.wait(ctx, known)
	if err != nil && len(known) > 0 {
		return with(known, port), nil
	}
	return with(found, port), err
}

func with(all []netip.Addr, port uint16) []netip.AddrPort {
	out := make([]netip.AddrPort, len(all))
	for i, a := range all {
		out[i] = netip.AddrPortFrom(a, port)
	}
	return out
}

// errSlow is why a look-up is not waited for any longer.
var errSlow = errors.New("names: the look-up is slow")

// wait waits for a look-up: where an address is known not for long.
func (l *lookUp) wait(ctx context.Context, known []netip.Addr) ([]netip.Addr, error) {
	var slow <-chan time.Time
	if len(known) > 0 {
		t := time.NewTimer(patience)
		defer t.Stop()
		slow = t.C
	}
	select {
	case <-l.done:
		return l.found, l.err
	case <-slow:
		return nil, errSlow
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Dial connects to HOST:PORT.
func (b *Book) Dial(ctx context.Context, address string) (net.Conn, error) {
	name, ip, port, err := split(address)
	if err != nil {
		return nil, err
	}
	if ip.IsValid() {
		return dial(ctx, netip.AddrPortFrom(ip, port))
	}
	l, known, err := b.ask(name)
	if err != nil {
		return nil, err
	}
	found, err := l.wait(ctx, known)
	if err != nil && len(known) == 0 {
		return nil, unknown(name, err)
	}
	if err != nil {
		found = known
	}
	c, failed := race(ctx, found, port)
	if failed != nil && errors.Is(err, errSlow) { // it may lead elsewhere by now
		if found, err = l.wait(ctx, nil); err != nil {
			return nil, errors.Join(failed, unknown(name, err))
		}
		found = slices.DeleteFunc(slices.Clone(found), func(a netip.Addr) bool { return slices.Contains(known, a) })
		c, err = race(ctx, found, port)
		failed = errors.Join(failed, err)
		if err == nil && c != nil {
			failed = nil
		}
	}
	if failed != nil {
		return nil, failed
	}
	if at, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		b.worked(name, at.AddrPort().Addr().Unmap())
	}
	return c, nil
}

// unknown says of which name nothing is known.
func unknown(name string, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &net.DNSError{Err: "no answer to the look-up in time", Name: name, IsTimeout: true, UnwrapErr: err}
	}
	return err
}

func dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", to.String())
}

// race tries addresses side by side, each a while after the one before or when that has
// failed; the first connection wins. Without an address there is neither it nor an error.
func race(ctx context.Context, all []netip.Addr, port uint16) (net.Conn, error) {
	type result struct {
		c   net.Conn
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result, len(all))
	var errs []error
	open := 0
	tick := time.NewTicker(stagger)
	defer tick.Stop()
	for next := 0; next < len(all) || open > 0; {
		if next < len(all) {
			to := netip.AddrPortFrom(all[next], port)
			next, open = next+1, open+1
			go func() {
				c, err := dial(ctx, to)
				results <- result{c, err}
			}()
		}
		var later <-chan time.Time
		if next < len(all) {
			later = tick.C
		}
		select {
		case <-later:
		case r := <-results:
			if open--; r.err == nil {
				cancel()
				for ; open > 0; open-- {
					if late := <-results; late.c != nil {
						_ = late.c.Close() // another one was first
					}
				}
				return r.c, nil
			}
			errs = append(errs, r.err)
		}
	}
	return nil, errors.Join(errs...)
}
