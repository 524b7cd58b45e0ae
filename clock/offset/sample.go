package offset

import "github.com/norn-dev/norn/clock"

// Interval is where a value surely lies, both ends included. For an offset:
// another wall clock minus this node's, ns.
type Interval struct{ Lo, Hi int64 }

// within tells whether all of it is within d of zero.
func (i Interval) within(d int64) bool { return -d <= i.Lo && i.Hi <= d }

// beyond tells whether none of it is within d of zero.
func (i Interval) beyond(d int64) bool { return i.Lo > d || i.Hi < -d }

// grain is how far a reading of a clock may be from what the clock shows, ns.
const grain = 1000

// sample is what one exchange has shown: the interval of the peer's wall clock
// minus this node's monotonic one at mono. Kept against the monotonic clock,
// because the wall clock may be set.
type sample struct {
	Interval
	mono int64
	diff int64 // this node's wall clock minus its monotonic one, then
}

// sample reads an exchange. When the answer is back, the peer's clock shows at
// least what it showed when the answer left, and at most what it showed when
// the heartbeat came plus all the time since that was sent.
func (p *Peers) sample(x Exchange) (sample, error) {
	if x.Peer == p.self || !usable(x.Sent) || !usable(x.Back) || !isWall(x.Received) || !isWall(x.Answered) {
		return sample{}, ErrImpossible
	}
	// This node may have been suspended, which stops the monotonic clock.
	elapsed := x.Back.Mono - x.Sent.Mono
	if elapsed < 0 {
		return sample{}, ErrImpossible
	}
	elapsed = max(elapsed, x.Back.Wall-x.Sent.Wall)
	if elapsed > p.maxAge {
		return sample{}, ErrStale
	}
	elapsed += p.drifted(elapsed)
	if held := x.Answered - x.Received; held < 0 || held > elapsed {
		return sample{}, ErrImpossible
	}
	return sample{
		Interval: Interval{Lo: x.Answered - x.Back.Mono - grain, Hi: x.Received + elapsed - x.Back.Mono + grain},
		mono:     x.Back.Mono,
		diff:     x.Back.Wall - x.Back.Mono,
	}, nil
}

func isWall(ns int64) bool { return 0 <= ns && ns < maxWall }

func usable(t clock.Time) bool { return isWall(t.Wall) && -maxMono < t.Mono && t.Mono < maxMono }

// drifted is by how much two clocks may come apart in d ≥ 0, rounded up.
func (p *Peers) drifted(d int64) int64 {
	const million = 1_000_000
	return d/million*p.drift + (d%million*p.drift+million-1)/million
}

// at gives the interval of the peer's wall clock minus this node's at now, and
// the sample's age. Where this node's two clocks have come apart since the
// sample, either the wall clock was set, and then the monotonic one tells how
// the peer's went on; or the monotonic one stood still in a suspension, and
// then the wall clock does. The interval holds the truth of both.
func (p *Peers) at(s sample, now clock.Time) (in Interval, age int64, ok bool) {
	age = max(now.Mono-s.mono, s.mono-now.Mono) // now may have been read before the answer came
	if age > p.maxAge {
		return Interval{}, 0, false
	}
	diff := now.Wall - now.Mono
	low, high := min(diff, s.diff), max(diff, s.diff)
	grown := p.drifted(age) + p.drifted(high-low)
	return Interval{Lo: s.Lo - high - grown, Hi: s.Hi - low + grown}, age, true
}

// best gives the narrowest interval of the peer's clock, ok if there is any.
// All samples grow alike, so that its width never shrinks without a new one.
func (p *Peers) best(q *peer, now clock.Time) (best Interval, age int64, ok bool) {
	if !usable(now) {
		return Interval{}, 0, false
	}
	for i := range q.n {
		in, a, fresh := p.at(q.window[(q.next+Window-1-i)%Window], now)
		if fresh && (!ok || in.Hi-in.Lo < best.Hi-best.Lo) {
			best, age, ok = in, a, true
		}
	}
	return best, age, ok
}

// contradicts tells whether a new sample cannot be true together with one that
// is kept: then the peer's clock was set in between.
func (p *Peers) contradicts(q *peer, s sample, now clock.Time) bool {
	fresh, _, _ := p.at(s, now)
	for i := range q.n {
		old, _, ok := p.at(q.window[(q.next+Window-1-i)%Window], now)
		if ok && (old.Hi < fresh.Lo || fresh.Hi < old.Lo) {
			return true
		}
	}
	return false
}
