package transport

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// recordsApart is how long one address of a name may take until the next one is tried beside it.
const recordsApart = 300 * time.Millisecond

func dial(ctx context.Context, addr string, cfg ClientConfig) (net.Conn, error) {
	if cfg.Dialer != nil {
		return cfg.Dialer(ctx, addr)
	}
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: keepAliveIdle, Interval: keepAliveEvery, Count: keepAliveCount,
	}}
	host, port, err := net.SplitHostPort(addr)
	if _, literal := netip.ParseAddr(host); err != nil || literal == nil || host == "" || !strings.HasPrefix(cfg.Network, "tcp") {
		return d.DialContext(ctx, cfg.Network, addr)
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip"+strings.TrimPrefix(cfg.Network, "tcp"), host)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: cfg.Network, Err: err}
	}
	return dialRecords(ctx, mixed(found), func(ctx context.Context, ip netip.Addr) (net.Conn, error) {
		return d.DialContext(ctx, cfg.Network, net.JoinHostPort(ip.String(), port))
	})
}

// mixed gives addresses in a random order, because the same one must not be the first for
// everybody and for ever: a name may stand for several nodes. Of what kind the first was it
// stays, and those of IPv6 and IPv4 take turns.
func mixed(all []netip.Addr) []netip.Addr {
	var kinds [2][]netip.Addr
	for _, ip := range all {
		ip = ip.Unmap()
		kind := 0
		if ip.Is4() != all[0].Unmap().Is4() {
			kind = 1
		}
		kinds[kind] = append(kinds[kind], ip)
	}
	for _, k := range kinds {
		rand.Shuffle(len(k), func(i, j int) { k[i], k[j] = k[j], k[i] })
	}
	var out []netip.Addr
	for i := range all {
		for _, k := range kinds {
			if i < len(k) {
				out = append(out, k[i])
			}
		}
	}
	return out
}

// dialRecords connects to the first of some addresses that answers.
func dialRecords(ctx context.Context, all []netip.Addr, dial func(context.Context, netip.Addr) (net.Conn, error)) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type result struct {
		nc  net.Conn
		err error
	}
	results := make(chan result)
	next := time.NewTimer(0)
	defer next.Stop()
	var last error
	for begun, ended := 0, 0; ; {
		var due <-chan time.Time
		if begun < len(all) {
			due = next.C
		}
		select {
		case <-due:
			ip := all[begun]
			begun++
			next.Reset(recordsApart)
			go func() {
				nc, err := dial(ctx, ip)
				select {
				case results <- result{nc, err}:
				case <-ctx.Done(): // another one was there before
					if nc != nil {
						_ = nc.Close()
					}
				}
			}()
		case r := <-results:
			if r.err == nil {
				return r.nc, nil
			}
			ended++
			if last == nil || errors.Is(last, syscall.ECONNREFUSED) {
				last = r.err // that nobody is there is said where it is so at all of them
			}
			if ended == len(all) {
				return nil, last
			}
			next.Reset(0)
		case <-ctx.Done():
			if last == nil || errors.Is(last, syscall.ECONNREFUSED) {
				last = ctx.Err()
			}
			return nil, last
		}
	}
}
