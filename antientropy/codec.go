package antientropy

import (
	"encoding/binary"
	"math/bits"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
)

// codecVersion is the first byte of every message.
const codecVersion = 1

// MaxMessage bounds an encoded message in bytes: the largest fact and a page.
const MaxMessage = crdt.MaxBody + 16<<20

// AppendTo appends the canonical bytes.
func (m *Message) AppendTo(dst []byte) []byte {
	dst = append(dst, codecVersion, byte(m.Kind))
	dst = binary.BigEndian.AppendUint64(dst, m.Session)
	dst = binary.AppendUvarint(dst, m.Seq)
	switch m.Kind {
	case KindHello, KindWelcome:
		dst = append(dst, m.Hash)
		dst = binary.BigEndian.AppendUint64(dst, m.Root.Sum[0])
		dst = binary.BigEndian.AppendUint64(dst, m.Root.Sum[1])
		dst = binary.AppendUvarint(dst, m.Root.Count)
	case KindRequest:
		dst = appendFacts(append(dst, m.Hash), m.Push)
		dst = binary.AppendUvarint(dst, uint64(len(m.Asks)))
		for i := range m.Asks {
			dst = m.Asks[i].appendTo(dst)
		}
		dst = binary.AppendUvarint(dst, uint64(len(m.Wants)))
		for i := range m.Wants {
			dst = m.Wants[i].appendTo(dst)
		}
	case KindAnswer:
		dst = binary.AppendUvarint(dst, m.New)
		dst = binary.AppendUvarint(dst, uint64(len(m.Splits)))
		for i := range m.Splits {
			dst = m.Splits[i].appendTo(dst)
		}
		dst = binary.AppendUvarint(appendFacts(dst, m.Facts), m.Done)
		dst = m.Next.appendTo(dst)
	case KindRefusal:
		dst = append(dst, byte(m.Reason))
	}
	return dst
}

// Size is the length of the canonical bytes, without a copy of the facts.
func (m *Message) Size() int {
	rest := *m
	rest.Push, rest.Facts = nil, nil
	var b [512]byte
	n := len(rest.AppendTo(b[:0]))
	switch m.Kind {
	case KindRequest:
		n += sizeFacts(m.Push) - sizeFacts(nil)
	case KindAnswer:
		n += sizeFacts(m.Facts) - sizeFacts(nil)
	}
	return n
}

// sizeFacts is how many bytes appendFacts appends.
func sizeFacts(facts []crdt.Fact) int {
	n := sizeUvarint(uint64(len(facts)))
	var last id.ID
	for i := range facts {
		f := &facts[i]
		n += 2 + 4 + id.Size - shared(&f.Task, &last) + sizeUvarint(f.Key.A) + sizeUvarint(f.Key.B) + sizeUvarint(uint64(len(f.Body))) + len(f.Body)
		last = f.Task
	}
	return n
}

func sizeUvarint(x uint64) int { return (bits.Len64(x|1) + 6) / 7 }

// shared is how many first bytes two IDs have in common.
func shared(a, b *id.ID) (n int) {
	for n < id.Size && a[n] == b[n] {
		n++
	}
	return n
}

// appendFacts appends facts; of each ID only what differs from the one before.
func appendFacts(dst []byte, facts []crdt.Fact) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(facts)))
	var last id.ID
	for i := range facts {
		f := &facts[i]
		n := shared(&f.Task, &last)
		dst = append(append(dst, byte(n)), f.Task[n:]...)
		dst = binary.AppendUvarint(append(dst, byte(f.Key.Kind)), f.Key.A)
		dst = binary.AppendUvarint(dst, f.Key.B)
		dst = append(binary.AppendUvarint(dst, uint64(len(f.Body))), f.Body...)
		dst = binary.BigEndian.AppendUint32(dst, f.CRC)
		last = f.Task
	}
	return dst
}

// appendTo appends the level with four bits to spare, and the prefix.
func (p Path) appendTo(dst []byte, spare uint8) []byte {
	size := (levelBits[p.Level] + 7) / 8
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], p.Prefix)
	return append(append(dst, p.Level<<4|spare), b[8-size:]...)
}

func (a *Ask) appendTo(dst []byte) []byte {
	if a.Bits == 0 {
		return a.Path.appendTo(dst, 0)
	}
	dst = append(a.Path.appendTo(dst, 1), a.Bits)
	dst = binary.AppendUvarint(dst, uint64(len(a.Slices)))
	next := uint32(0)
	for _, s := range a.Slices {
		dst = binary.AppendUvarint(dst, uint64(s-next))
		next = s + 1
	}
	return dst
}

func (w *Want) appendTo(dst []byte) []byte {
	return w.After.appendTo(appendTags(w.Path.appendTo(dst, 0), w.Tags))
}

func (p Position) appendTo(dst []byte) []byte {
	if p == (Position{}) {
		return append(dst, 0)
	}
	return p.Key.Append(append(append(dst, 1), p.Task[:]...))
}

func appendTags(dst []byte, tags []uint32) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(tags)))
	for _, t := range tags {
		dst = binary.BigEndian.AppendUint32(dst, t)
	}
	return dst
}

func (s *Split) appendTo(dst []byte) []byte {
	dst = append(dst, s.Bits)
	if s.Bits == 0 {
		return appendTags(dst, s.Tags)
	}
	dst = binary.AppendUvarint(dst, uint64(s.Groups))
	at := len(dst)
	dst = append(dst, make([]byte, s.bitmap())...)
	for _, part := range s.Parts {
		dst[at+int(part>>3)] |= 0x80 >> (part & 7)
	}
	for _, t := range s.Tags {
		dst = binary.BigEndian.AppendUint32(dst, t)
	}
	return dst
}

// bitmap is the size of the bitmap of a split's parts, bytes.
func (s *Split) bitmap() int { return (int(s.Groups)<<s.Bits + 7) / 8 }

// Decode is the inverse of [Message.AppendTo]. It returns ErrMalformed for
// bytes that are no canonical message, and ErrVersion for one of a version or
// kind that this build does not know. Bodies of facts share the bytes and are
// not looked into; whoever stores them checks them.
func Decode(b []byte) (*Message, error) {
	r := newReader(b)
	m := &Message{Kind: Kind(r.byte()), Session: r.uint64(), Seq: r.uvarint()}
	switch m.Kind {
	case KindHello, KindWelcome:
		m.Hash = r.byte()
		m.Root = Node{crdt.Sum{r.uint64(), r.uint64()}, r.uvarint()}
	case KindRequest:
		m.Hash = r.byte()
		m.Push = r.facts()
		for n := r.count(1); n > 0 && r.err == nil; n-- {
			m.Asks = append(m.Asks, r.ask())
		}
		for n := r.count(3); n > 0 && r.err == nil; n-- {
			m.Wants = append(m.Wants, r.want())
		}
	case KindAnswer:
		m.New = r.uvarint()
		for n := r.count(2); n > 0 && r.err == nil; n-- {
			m.Splits = append(m.Splits, r.split())
		}
		m.Facts, m.Done, m.Next = r.facts(), r.uvarint(), r.position()
	case KindRefusal:
		m.Reason = Reason(r.byte())
	default:
		r.unknown("kind", uint8(m.Kind))
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	return m, nil
}

func (r *reader) facts() []crdt.Fact {
	var facts []crdt.Fact
	var last id.ID
	for n := r.count(9); n > 0 && r.err == nil; n-- {
		f := crdt.Fact{Task: last}
		same := r.byte()
		if same > id.Size {
			r.fail("more than an ID shared")
			break
		}
		rest := r.take(id.Size - uint64(same))
		if len(rest) > 0 && rest[0] == last[same] {
			r.fail("more shared than said")
		}
		copy(f.Task[same:], rest)
		f.Key = crdt.Key{Kind: crdt.Kind(r.byte()), A: r.uvarint(), B: r.uvarint()}
		size := r.uvarint()
		if size > crdt.MaxBody {
			r.fail("body too long")
		}
		f.Body = r.take(size)
		f.CRC = r.uint32()
		facts, last = append(facts, f), f.Task
	}
	return facts
}

// path reads a path and the four bits beside its level.
func (r *reader) path() (p Path, spare uint8) {
	first := r.byte()
	p.Level, spare = first>>4, first&15
	if int(p.Level) >= len(levelBits) {
		r.fail("level")
		return Path{}, 0
	}
	for _, c := range r.take(uint64(levelBits[p.Level]+7) / 8) {
		p.Prefix = p.Prefix<<8 | uint64(c)
	}
	if !p.valid() {
		r.fail("path")
		return Path{}, 0
	}
	return p, spare
}

func (r *reader) ask() (a Ask) {
	var more uint8
	if a.Path, more = r.path(); more == 0 {
		return a
	}
	a.Bits = r.byte()
	n := r.count(1)
	if more != 1 || a.Bits == 0 || a.Bits > maxBits || !a.Path.Leaf() || n == 0 || n > maxSlices {
		r.fail("slices")
		return a
	}
	next := uint64(0)
	for ; n > 0 && r.err == nil; n-- {
		s := r.uvarint()
		if s >= 1<<a.Bits || next+s >= 1<<a.Bits {
			r.fail("slice out of range")
			break
		}
		a.Slices = append(a.Slices, uint32(next+s))
		next += s + 1
	}
	return a
}

func (r *reader) want() (w Want) {
	var spare uint8
	if w.Path, spare = r.path(); spare != 0 {
		r.fail("bits that mean nothing")
	}
	w.Tags, w.After = r.tags(), r.position()
	return w
}

func (r *reader) tags() []uint32 {
	n := r.count(4)
	if n == 0 {
		return nil
	}
	tags := make([]uint32, 0, n)
	for range n {
		t := r.uint32()
		if len(tags) > 0 && tags[len(tags)-1] > t {
			r.fail("tags out of order")
			return nil
		}
		tags = append(tags, t)
	}
	return tags
}

func (r *reader) position() (p Position) {
	switch r.byte() {
	case 0:
		return p
	case 1:
	default:
		r.fail("flag")
		return p
	}
	task, key := r.take(id.Size), r.take(crdt.KeySize)
	if key == nil {
		return p
	}
	p = Position{id.ID(task), crdt.Key{
		Kind: crdt.Kind(key[0]), A: binary.BigEndian.Uint64(key[1:]), B: binary.BigEndian.Uint64(key[9:]),
	}}
	if p == (Position{}) {
		r.fail("no place")
	}
	return p
}

func (r *reader) split() (s Split) {
	if s.Bits = r.byte(); s.Bits == 0 {
		s.Tags = r.tags()
		return s
	}
	groups := r.uvarint()
	if s.Bits > maxSplit || groups == 0 || groups > maxSlices {
		r.fail("parts")
		return s
	}
	s.Groups = uint32(groups)
	for i, c := range r.take(uint64(s.bitmap())) {
		for ; c != 0; c &= 0x7f >> bits.LeadingZeros8(c) {
			part := uint32(i<<3 + bits.LeadingZeros8(c))
			if part >= s.Groups<<s.Bits {
				r.fail("part out of range")
				return s
			}
			s.Parts = append(s.Parts, part)
		}
	}
	for range s.Parts {
		s.Tags = append(s.Tags, r.uint32())
	}
	return s
}
