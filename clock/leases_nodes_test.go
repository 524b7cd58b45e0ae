package clock_test

import (
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/clock/offset"
	"github.com/norn-dev/norn/quorum"
)

// start begins a boot: what is kept is there, learned by restart.
func (s *server) start(w *world) {
	s.boot++
	boot := s.boot
	s.peers = offset.New(offset.Config{Self: s.id, Drift: 1000})
	for _, r := range s.claims {
		r.lease = r.lease.Recover(s.at(w.now))
	}
	var beat func()
	beat = func() {
		if s.down || s.boot != boot {
			return
		}
		for _, peer := range w.servers {
			if peer != s {
				s.ask(w, peer)
			}
		}
		w.after(500*ms, beat)
	}
	beat()
}

// restart stops the node for a while. Its monotonic clock begins anew.
func (s *server) restart(w *world) {
	if s.down {
		return
	}
	w.restarts++
	s.down, s.leads = true, 0
	w.after(w.between(0, 3*sec), func() {
		s.mono = w.between(0, 1000*sec) - w.now
		s.down = false
		s.start(w)
	})
}

// ask sends a heartbeat.
func (s *server) ask(w *world, peer *server) {
	x := offset.Exchange{Peer: peer.id, Sent: s.at(w.now)}
	w.to(peer, func() {
		x.Boot, x.Received = peer.boot, peer.at(w.now).Wall
		x.Answered = x.Received
		w.to(s, func() {
			x.Back = s.at(w.now)
			_ = s.peers.Answered(x) // one that is of no use is just not used
		})
	})
}

// clockOK tells whether the node may lead and accept by its clock.
func (s *server) clockOK(w *world) bool {
	if w.anyClock {
		return true
	}
	ok := s.peers.Judge(s.at(w.now), []uint64{0, 1, 2}, eta).OK
	if !ok {
		w.refused++
	}
	return ok
}

// lapsed tells whether a claim is over, by the node's own rule.
func (s *server) lapsed(w *world, r *record) bool {
	now := s.at(w.now)
	if w.wallOnly {
		return now.Wall > r.lease.End+int64(buffer)
	}
	confirmed := s.peers.Confirmed(now, eta)
	over := r.lease.Lapsed(now, buffer, confirmed)
	if w.atOnce {
		over = over || r.lease.Recovered && confirmed && r.lease.Past(now, buffer)
	}
	switch {
	case over && now.Mono >= r.lease.LapseAt(buffer):
		w.elapsed++
	case over:
		w.byWall++
	}
	return over
}

// free tells whether no claim but token stands in the way.
func (s *server) free(w *world, token uint64) bool {
	for _, r := range s.claims {
		if r.token != token && !r.released && !s.lapsed(w, r) {
			return false
		}
	}
	return true
}

func (s *server) claim(token uint64) *record {
	for _, r := range s.claims {
		if r.token == token {
			return r
		}
	}
	return nil
}

// grant is an acceptor's answer to the leader's record of a claim.
func (s *server) grant(w *world, epoch uint64, r record) bool {
	now := s.at(w.now)
	apart := max(r.lease.Start-now.Wall, now.Wall-r.lease.Start)
	switch {
	case epoch < s.promised, !s.clockOK(w), !s.free(w, r.token), s.claim(r.token) != nil:
		return false
	case apart > int64(eta)/2 && !w.anyClock:
		return false
	}
	s.promised = epoch
	r.lease.Learned, r.lease.Recovered = now.Mono, false
	s.claims = append(s.claims, &r)
	return true
}

// renew is an acceptor's answer to a renewal that the leader sends.
func (s *server) renew(w *world, epoch uint64, r record) bool {
	if epoch < s.promised || !s.clockOK(w) {
		return false
	}
	for _, other := range s.claims {
		if other.token > r.token && !other.released {
			return false
		}
	}
	s.promised = epoch
	own := s.claim(r.token)
	if own == nil {
		own = &record{token: r.token, lease: r.lease}
		own.lease.Learned = s.at(w.now).Mono
		s.claims = append(s.claims, own)
	}
	old := own.lease
	own.lease = own.lease.Renew(s.at(w.now), r.lease.Duration)
	own.lease.End = max(old.End, r.lease.End)
	if w.noRefresh {
		own.lease.Learned, own.lease.Duration = old.Learned, old.Duration
	}
	own.renewals = r.renewals
	return true
}

// commit asks the cohort and tells the leader once, when a majority has
// agreed. One that is not there in a second has failed.
func (w *world) commit(leader *server, try func(*server) bool, done func(bool)) {
	epoch, acks, told := leader.leads, 0, false
	tell := func(ok bool) {
		if !told {
			told = true
			done(ok)
		}
	}
	ack := func() {
		if acks++; acks == quorum.Majority(len(w.servers)) && leader.leads == epoch && leader.promised == epoch {
			tell(true)
		}
	}
	if !try(leader) {
		return
	}
	if w.loose {
		acks++
	}
	ack()
	for _, s := range w.servers {
		if s != leader {
			w.to(s, func() {
				if try(s) {
					w.to(leader, ack)
				}
			})
		}
	}
	w.after(sec, func() { tell(false) })
}

// elect makes a candidate the leader: promises with what each voter holds, the
// union, the push, the register.
func (w *world) elect(c *server) {
	if c.down || !c.clockOK(w) {
		return
	}
	epoch, from := c.promised+1, w.epoch
	c.promised, c.leads = epoch, 0
	votes, pushed := 1, 1
	push := func() {
		for _, s := range w.servers {
			if s != c {
				union := c.snapshot(w)
				w.to(s, func() {
					if epoch < s.promised {
						return
					}
					s.promised = epoch
					s.learn(w, union)
					w.to(c, func() {
						if pushed++; pushed == 2 && w.epoch == from && epoch > from {
							w.epoch = epoch
							w.elections++
							if c.promised == epoch {
								c.leads, c.seq = epoch, 0
							}
						}
					})
				})
			}
		}
	}
	for _, s := range w.servers {
		if s != c {
			w.to(s, func() {
				if epoch <= s.promised {
					return
				}
				s.promised, s.leads = epoch, 0
				have := s.snapshot(w)
				w.to(c, func() {
					if c.promised != epoch || votes > 1 {
						return
					}
					votes++
					c.learn(w, have)
					push()
				})
			})
		}
	}
}

func (s *server) snapshot(w *world) (out []record) {
	for _, r := range s.claims {
		said := *r
		if !w.oldEnds {
			said.lease.End = r.lease.EndBy(s.at(w.now))
		}
		out = append(out, said)
	}
	return out
}

// learn takes in the claims of another node, by vote or push.
func (s *server) learn(w *world, have []record) {
	for _, r := range have {
		own := s.claim(r.token)
		if own == nil {
			own = &record{token: r.token, renewals: -1}
			s.claims = append(s.claims, own)
		}
		own.released = own.released || r.released
		if r.renewals > own.renewals {
			own.renewals = r.renewals
			if own.lease.Start != 0 && !w.oldEnds {
				own.lease.End = own.lease.EndBy(s.at(w.now))
			}
			own.lease = clock.Lease{
				Start: r.lease.Start, End: max(own.lease.End, r.lease.End), Duration: max(own.lease.Duration, r.lease.Duration),
			}.Recover(s.at(w.now))
		}
	}
}

// worker claims the task, holds it, renews it or not, and again.
func (w *world) worker(l *local) {
	var again func()
	again = func() {
		stamp := l.at(w.now).Mono
		for _, s := range w.servers {
			w.to(s, func() {
				if s.leads != 0 {
					w.poll(s, s.at(w.now).Mono, func(token uint64, waited time.Duration) {
						w.begin(l, stamp, token, waited)
					})
				}
			})
		}
		w.after(w.between(100*ms, 5*sec), again)
	}
	w.after(w.between(0, sec), again)
}

// poll waits at the leader until the task is free, at most three seconds.
func (w *world) poll(s *server, received int64, answer func(uint64, time.Duration)) {
	now := s.at(w.now)
	switch {
	case s.leads == 0 || s.down || now.Mono-received > 3*sec:
		return
	case !s.clockOK(w) || !s.free(w, 0):
		boot := s.boot
		w.after(100*ms, func() {
			if s.boot == boot {
				w.poll(s, received, answer)
			}
		})
		return
	}
	s.seq++
	r := record{token: s.leads<<32 | s.seq, lease: clock.Lease{Start: now.Wall, End: now.Wall + int64(w.lease), Duration: w.lease}}
	epoch, waited := s.leads, time.Duration(now.Mono-received)
	w.commit(s, func(a *server) bool { return a.grant(w, epoch, r) }, func(ok bool) {
		if ok {
			w.send(func() { answer(r.token, waited) })
			return
		}
		w.release(r.token)
	})
}

// release tells everybody that a claim is over.
func (w *world) release(token uint64) {
	for _, s := range w.servers {
		w.to(s, func() {
			if r := s.claim(token); r != nil {
				r.released = true
			}
		})
	}
}

// begin is the answer to a worker.
func (w *world) begin(l *local, stamp int64, token uint64, waited time.Duration) {
	now := l.at(w.now).Mono
	if w.fromReceipt {
		stamp, waited = now, 0
	}
	deadline := clock.WorkerDeadline(stamp, waited, w.lease, clock.Margin(w.lease+waited, w.stop))
	if now >= deadline {
		return
	}
	w.grants++
	h := &hold{token: token, begin: w.now, end: l.realOf(deadline) + int64(w.stop)}
	w.holds = append(w.holds, h)
	if w.chance(20) {
		w.after(w.between(0, int64(w.lease)), func() {
			if w.now < h.end {
				h.end, h.released = w.now, true
				w.release(token)
			}
		})
	}
	w.keep(l, h)
}

// keep renews a claim every third of the lease, until the worker forgets it.
func (w *world) keep(l *local, h *hold) {
	w.after(int64(w.lease)/3, func() {
		stamp := l.at(w.now).Mono
		if h.released || w.now >= h.end-int64(w.stop) || w.chance(15) {
			return
		}
		h.renewals++
		n := h.renewals
		for _, s := range w.servers {
			w.to(s, func() { w.renewAt(s, l, h, stamp, n) })
		}
		w.keep(l, h)
	})
}

// renewAt is a renewal at the node that leads.
func (w *world) renewAt(s *server, l *local, h *hold, stamp int64, n int) {
	r := s.claim(h.token)
	now := s.at(w.now)
	if s.leads == 0 || r == nil || r.released || !s.clockOK(w) || !r.lease.Renewable(now) {
		return
	}
	next := record{token: h.token, renewals: max(n, r.renewals), lease: r.lease}
	next.lease.End, next.lease.Duration = max(r.lease.End, now.Wall+int64(w.lease)), w.lease
	epoch := s.leads
	w.commit(s, func(a *server) bool { return a.renew(w, epoch, next) }, func(ok bool) {
		if !ok {
			return
		}
		w.send(func() {
			if w.fromReceipt {
				stamp = l.at(w.now).Mono
			}
			deadline := clock.WorkerDeadline(stamp, 0, w.lease, clock.Margin(w.lease, w.stop))
			if end := l.realOf(deadline) + int64(w.stop); !h.released && w.now < h.end-int64(w.stop) && end > h.end {
				w.renewals++
				h.end = end
			}
		})
	})
}
