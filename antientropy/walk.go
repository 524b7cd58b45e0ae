package antientropy

import (
	"fmt"
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
)

// walk is what an initiator has still to look at in a round.
//
// Every difference is in exactly one of its lists: in asks while nothing is
// known of it but the node, in jobs once the peer has answered, then in push or
// wants. So a message that is lost, or repeated, loses nothing.
type walk struct {
	i      *Initiator
	asks   []Ask // taken from the end, so that few wait
	jobs   []job
	wants  []want
	push   []crdt.Fact
	pushed []Path // where they are from
	size   int    // of push, bytes
	struck []Path // nodes of which nothing came in this round
}

// want is a Want with what has not come of it yet.
type want struct {
	Want
	left   []uint32 // tags that have not been seen
	useful bool     // something came that was new here
}

// matches tells whether a fact with a tag is among those wanted.
func (x *want) matches(f *crdt.Fact, t uint32) bool {
	if !x.Path.holds(f.Task) {
		return false
	}
	_, ok := slices.BinarySearch(x.Tags, t)
	return ok || len(x.Tags) == 0
}

// job is the comparison of one split with what is here.
type job struct {
	ask    Ask
	split  Split
	begun  bool
	cursor cursor
	sums   []crdt.Sum // of slices here
	seen   []bool     // tags of the list that are here, too
	given  bool       // some fact of the list's node goes to the peer
}

// differ puts a node that differs where it belongs, by who has facts of it.
func (w *walk) differ(now clock.Time, p Path, mine, theirs bool) {
	switch {
	case w.leave(now, p):
	case !mine:
		w.wants = append(w.wants, want{Want: Want{Path: p}})
	case !theirs:
		w.jobs = append(w.jobs, job{ask: Ask{Path: p}})
	default:
		w.asks = append(w.asks, Ask{Path: p})
	}
}

// compare works on the jobs until there are none, or enough is there to be
// sent; it is false when the budget is spent before that.
func (w *walk) compare(now clock.Time, b *budget) bool {
	for len(w.jobs) > 0 && w.size < w.i.cfg.PageBytes {
		j := w.jobs[0]
		done := w.run(now, &j, b)
		if !done {
			w.jobs[0] = j
			return w.size >= w.i.cfg.PageBytes
		}
		w.jobs = w.jobs[1:]
	}
	return true
}

// run works on one job; true when it is done.
func (w *walk) run(now clock.Time, j *job, b *budget) bool {
	if j.split.Bits > 0 && !j.ask.Path.Leaf() {
		w.children(now, j)
		return true
	}
	if !j.begun {
		j.begun, j.cursor = true, newCursor(j.ask.Path, Position{})
		if j.split.Bits > 0 {
			j.sums = make([]crdt.Sum, j.ask.groups()<<j.split.Bits)
		}
		j.seen = make([]bool, len(j.split.Tags))
	}
	if j.split.Bits > 0 {
		done := j.cursor.walk(w.i.replica, b, func(f *crdt.Fact) bool {
			h := crdt.HashFact(*f)
			if group, ok := j.ask.group(h); ok {
				part := partOf(h, group, j.ask.Bits, j.split.Bits)
				j.sums[part] = j.sums[part].Add(h)
			}
			return true
		})
		if done {
			w.slices(now, j)
		}
		return done
	}
	if !j.cursor.walk(w.i.replica, b, func(f *crdt.Fact) bool { return w.list(j, f) }) {
		return false
	}
	w.listed(now, j)
	return true
}

// children compares the nodes below a node.
func (w *walk) children(now clock.Time, j *job) {
	theirs := j.split
	differs := false
	each := func(digit int, mine crdt.Sum, tags []uint32) {
		p := j.ask.Path.Child(digit)
		if len(tags) > 0 && mine != (crdt.Sum{}) && tags[0] == tag(w.i.session, mine) {
			w.i.backoff.well(p)
			return
		}
		differs = true
		w.differ(now, p, mine != (crdt.Sum{}), len(tags) > 0)
	}
	n := 0
	for _, c := range w.i.tree.Children(w.i.replica.View(), nil, j.ask.Path) {
		digit := c.Path.index()
		for n < len(theirs.Parts) && int(theirs.Parts[n]) < digit {
			each(int(theirs.Parts[n]), crdt.Sum{}, theirs.Tags[n:n+1])
			n++
		}
		if n < len(theirs.Parts) && int(theirs.Parts[n]) == digit {
			each(digit, c.Node.Sum, theirs.Tags[n:n+1])
			n++
			continue
		}
		each(digit, c.Node.Sum, nil)
	}
	for ; n < len(theirs.Parts); n++ {
		each(int(theirs.Parts[n]), crdt.Sum{}, theirs.Tags[n:n+1])
	}
	if !differs {
		w.nothing(now, j.ask.Path)
	}
}

// slices compares the slices of a leaf and asks for what is in those that
// differ.
func (w *walk) slices(now clock.Time, j *job) {
	var differ []uint32
	n := 0
	for part, sum := range j.sums {
		there := n < len(j.split.Parts) && int(j.split.Parts[n]) == part
		if there != (sum != (crdt.Sum{})) || there && j.split.Tags[n] != tag(w.i.session, sum) {
			differ = append(differ, j.ask.slice(uint32(part), j.split.Bits))
		}
		if there {
			n++
		}
	}
	if len(differ) == 0 {
		w.nothing(now, j.ask.Path)
	}
	for some := range slices.Chunk(differ, maxSlices) {
		w.asks = append(w.asks, Ask{Path: j.ask.Path, Bits: j.ask.Bits + j.split.Bits, Slices: some})
	}
}

// list looks whether a fact is in the peer's list, and if not puts it among
// those to send. It is false when no more go into this request.
func (w *walk) list(j *job, f *crdt.Fact) bool {
	h := crdt.HashFact(*f)
	if _, ok := j.ask.group(h); !ok {
		return true
	}
	if n, ok := slices.BinarySearch(j.split.Tags, tag(w.i.session, h)); ok {
		j.seen[n] = true
		return true
	}
	if w.size >= w.i.cfg.PageBytes {
		return false
	}
	if len(w.push) > 0 && w.size+len(f.Body) > 2*w.i.cfg.PageBytes {
		w.size = w.i.cfg.PageBytes // a page far too long: it begins the next one
		return false
	}
	if n := len(w.pushed); n == 0 || w.pushed[n-1] != j.ask.Path {
		w.pushed = append(w.pushed, j.ask.Path)
	}
	w.push = append(w.push, clone(f))
	w.size += factSize(f)
	j.given = true
	return true
}

// listed asks for the facts of a list that are not here.
func (w *walk) listed(now clock.Time, j *job) {
	var tags []uint32
	for n, t := range j.split.Tags {
		// Of two facts with one tag the first place is marked.
		if !j.seen[n] && (n == 0 || j.split.Tags[n-1] != t) {
			tags = append(tags, t)
		}
	}
	if len(tags) == 0 && !j.given {
		w.nothing(now, j.ask.Path)
	}
	for part := range slices.Chunk(tags, w.tagsMost()) {
		w.wants = append(w.wants, want{Want: Want{Path: j.ask.Path, Tags: part}, left: slices.Clone(part)})
	}
}

// tagsMost bounds the tags of a request: they take half a page at most.
func (w *walk) tagsMost() int { return min(tagsMost, w.i.cfg.PageBytes/8+1) }

// request makes the next request; nil when nothing is left to do.
func (w *walk) request() *Message {
	m := &Message{Kind: KindRequest, Hash: w.i.hash, Push: w.push}
	tags := 0
	for n := range w.wants {
		if n == wantsMost || n > 0 && tags+len(w.wants[n].Tags) > w.tagsMost() {
			break
		}
		tags += len(w.wants[n].Tags)
		m.Wants = append(m.Wants, w.wants[n].Want)
	}
	// While facts are to be moved, nothing more is looked for: less waits.
	if len(m.Wants) == len(w.wants) && len(w.jobs) == 0 {
		n := asksMost
		if len(w.asks) > crowd {
			n = asksCrowd
		}
		n = min(n, len(w.asks))
		m.Asks = slices.Clone(w.asks[len(w.asks)-n:])
		w.asks = w.asks[:len(w.asks)-n]
	}
	if len(m.Push)+len(m.Wants)+len(m.Asks) == 0 {
		return nil
	}
	return m
}

// answered takes the answer to a request. It returns ErrProtocol when that does
// not fit.
func (w *walk) answered(now clock.Time, sent, m *Message) error {
	if len(m.Splits) > len(sent.Asks) || m.Done > uint64(len(sent.Wants)) || m.New > uint64(len(sent.Push)) || m.Refused > uint64(len(sent.Push))-m.New {
		return fmt.Errorf("%w: more than was asked for", ErrProtocol)
	}
	further := len(m.Splits) > 0 || m.Done > 0 || len(sent.Wants) > 0 && m.Next.Compare(sent.Wants[0].After) > 0
	if !further && len(sent.Asks)+len(sent.Wants) > 0 {
		return fmt.Errorf("%w: nothing in it", ErrProtocol)
	}
	res := &w.i.result
	res.Pushed += m.New
	if m.Told {
		res.Refused += m.Refused // what it got meanwhile from others is as good as taken
	} else {
		res.Refused += uint64(len(sent.Push)) - m.New
	}
	res.Moved += uint64(len(sent.Push) + len(m.Facts))
	if m.New == 0 {
		for _, p := range w.pushed {
			w.nothing(now, p)
		}
	}
	w.push, w.pushed, w.size = nil, nil, 0
	for n, s := range m.Splits {
		if !fits(&sent.Asks[n], &s) {
			return fmt.Errorf("%w: %d bits below %v", ErrProtocol, s.Bits, sent.Asks[n].Path)
		}
		w.jobs = append(w.jobs, job{ask: sent.Asks[n], split: s})
	}
	w.asks = append(w.asks, sent.Asks[len(m.Splits):]...)
	w.arrived(now, m)
	return nil
}

// fits tells whether a split can be the answer to an ask.
func fits(a *Ask, s *Split) bool {
	switch {
	case s.Bits == 0:
		return true
	case len(s.Parts) != len(s.Tags) || int(s.Groups) != a.groups():
		return false
	case a.Path.Leaf():
		return s.Bits <= maxSplit && a.Bits+s.Bits <= maxBits
	}
	return s.Bits == a.Path.Child(0).digit()
}

// arrived stores the facts of an answer and brings the wants up to date.
func (w *walk) arrived(now clock.Time, m *Message) {
	changed := 0
	if len(m.Facts) > 0 {
		changed, _ = w.i.replica.Apply(m.Facts)
		w.i.result.Pulled += uint64(changed)
	}
	n := 0 // facts come in the order of the wants
	for k := range m.Facts {
		f := &m.Facts[k]
		var t uint32
		if n < len(w.wants) && len(w.wants[n:])+len(w.wants[n].Tags) > 1 { // not just one for all
			t = tag(w.i.session, crdt.HashFact(*f))
		}
		for at := n; at < len(w.wants); at++ {
			if x := &w.wants[at]; x.matches(f, t) {
				x.left, x.useful, n = without(x.left, t), x.useful || changed > 0, at
				break
			}
		}
	}
	for k := range w.wants[:m.Done] {
		if x := &w.wants[k]; len(x.left) > 0 || !x.useful {
			w.nothing(now, x.Path)
		}
	}
	w.wants = w.wants[m.Done:]
	if len(w.wants) > 0 && m.Next != (Position{}) {
		w.wants[0].After = m.Next
	}
}
