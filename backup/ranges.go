package backup

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
)

const (
	// rangeTasks is how many tasks a range has at least, while there are not too many ranges.
	rangeTasks = 256
	// MaxRanges bounds the ranges of a partition, and what may be asked for at a time.
	MaxRanges = 16384
	// SumSize is the length of a sum with its number of facts in bytes.
	SumSize = 24
	// keyed is in bytes 4 to 8 of the IDs of unique keys that say a full second.
	keyed = uint32(id.KindKey)
)

// Range is a run of the IDs of a partition, up to where the next one begins: what the cluster
// held of it, and what the backup has. An incremental backup reads those again of which the
// cluster holds something else by now.
type Range struct {
	From id.ID
	// Facts and Sum are of what the cluster held.
	Facts uint64
	Sum   crdt.Sum
	// Tasks, Kept facts and KeptSum are of what the backup has.
	Tasks, Kept uint64
	KeptSum     crdt.Sum
}

// AppendRanges appends the form of ranges, which begin with the zero ID.
func AppendRanges(dst []byte, all []Range) []byte {
	for i := range all {
		r := &all[i]
		dst = append(dst, r.From[:]...)
		for _, n := range [...]uint64{r.Sum[0], r.Sum[1], r.KeptSum[0], r.KeptSum[1]} {
			dst = binary.BigEndian.AppendUint64(dst, n)
		}
		for _, n := range [...]uint64{r.Facts, r.Tasks, r.Kept} {
			dst = binary.AppendUvarint(dst, n)
		}
	}
	return dst
}

// DecodeRanges is the inverse of [AppendRanges]. ErrDamaged: they are none.
func DecodeRanges(b []byte) (all []Range, err error) {
	r := &reader{b: b}
	for r.at < len(b) && r.err == nil {
		if len(all) > MaxRanges {
			r.fail("more than %d ranges", MaxRanges)
		}
		var one Range
		copy(one.From[:], r.take(id.Size, "an ID"))
		for _, n := range [...]*uint64{&one.Sum[0], &one.Sum[1], &one.KeptSum[0], &one.KeptSum[1]} {
			if b := r.take(8, "a sum"); b != nil {
				*n = binary.BigEndian.Uint64(b)
			}
		}
		one.Facts, one.Tasks, one.Kept = r.uint("a number"), r.uint("a number"), r.uint("a number")
		if n := len(all); n == 0 && !one.From.IsZero() || n > 0 && one.From.Compare(all[n-1].From) <= 0 {
			r.fail("range %d begins with %s", n, one.From)
		}
		all = append(all, one)
	}
	return all, r.err
}

// Bounds is where ranges begin, as a request has it.
func Bounds(all []Range) []byte {
	b := make([]byte, 0, len(all)*id.Size)
	for i := range all {
		b = append(b, all[i].From[:]...)
	}
	return b
}

// DecodeBounds reads where runs of IDs begin: they ascend, and the first is the zero ID.
// ErrDamaged: they are none.
func DecodeBounds(b []byte) ([]id.ID, error) {
	if len(b)%id.Size != 0 || len(b) > MaxRanges*id.Size {
		return nil, fmt.Errorf("%w: %d bytes of IDs, at most %d of %d bytes", ErrDamaged, len(b), MaxRanges, id.Size)
	}
	all := make([]id.ID, 0, len(b)/id.Size)
	for one := range slices.Chunk(b, id.Size) {
		all = append(all, id.ID(one))
		if n := len(all); n == 1 && !all[0].IsZero() || n > 1 && all[n-1].Compare(all[n-2]) <= 0 {
			return nil, fmt.Errorf("%w: ID %d, %s, does not ascend from zero", ErrDamaged, n-1, all[n-1])
		}
	}
	return all, nil
}

// AppendSum appends a sum as a reply has it.
func AppendSum(dst []byte, s crdt.Sum, facts uint64) []byte {
	for _, n := range [...]uint64{s[0], s[1], facts} {
		dst = binary.BigEndian.AppendUint64(dst, n)
	}
	return dst
}

// SameSums compares what two replicas have summed up, and leaves in the first one what is the
// same in both: of what is not the number of facts is 2^64-1. It is false when they are
// not over the same runs.
func SameSums(a, b []byte) bool {
	if len(a) != len(b) || len(a)%SumSize != 0 {
		return false
	}
	for at := 0; at < len(a); at += SumSize {
		if string(a[at:at+SumSize]) != string(b[at:at+SumSize]) {
			binary.BigEndian.PutUint64(a[at+16:], math.MaxUint64)
		}
	}
	return true
}

// SumAt gives one of the sums of a reply, and the number of its facts: 2^64-1 where it is not known, or not
// the same everywhere.
func SumAt(sums []byte, i int) (s crdt.Sum, facts uint64) {
	b := sums[i*SumSize:]
	return crdt.Sum{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}, binary.BigEndian.Uint64(b[16:])
}

// Alike tells of which ranges all those hold the same that have summed them up. Nothing is
// where the sums are of others.
func Alike(all []Range, sums []byte) []bool {
	alike := make([]bool, len(all))
	for i := range alike {
		if len(sums) == len(all)*SumSize {
			_, facts := SumAt(sums, i)
			alike[i] = facts != math.MaxUint64
		}
	}
	return alike
}

// RangesAt makes ranges that begin at bounds. ErrDamaged: they are none.
func RangesAt(bounds []byte) ([]Range, error) {
	from, err := DecodeBounds(bounds)
	if err != nil {
		return nil, err
	}
	if len(from) == 0 {
		return nil, fmt.Errorf("%w: no bounds", ErrDamaged)
	}
	all := make([]Range, len(from))
	for i := range all {
		all[i].From = from[i]
	}
	return all, nil
}

// SpanOf is the run of IDs of one of some ranges.
func SpanOf(all []Range, i int) Span {
	s := Span{From: all[i].From}
	if i+1 < len(all) {
		s.To = all[i+1].From
	}
	return s
}

// Span is a run of IDs from the first up to another one; a zero To is no end.
type Span struct{ From, To id.ID }

// Holds tells whether an ID is in the span.
func (s Span) Holds(i id.ID) bool {
	return i.Compare(s.From) >= 0 && (s.To.IsZero() || i.Compare(s.To) < 0)
}

// AppendSpans appends the form of spans.
func AppendSpans(dst []byte, all []Span) []byte {
	for i := range all {
		dst = append(append(dst, all[i].From[:]...), all[i].To[:]...)
	}
	return dst
}

// DecodeSpans is the inverse of [AppendSpans]. ErrDamaged: they do not ascend.
func DecodeSpans(b []byte) (all []Span, err error) {
	if len(b)%(2*id.Size) != 0 {
		return nil, fmt.Errorf("%w: %d bytes of spans", ErrDamaged, len(b))
	}
	for one := range slices.Chunk(b, 2*id.Size) {
		s := Span{id.ID(one[:id.Size]), id.ID(one[id.Size:])}
		n := len(all)
		if !s.To.IsZero() && s.To.Compare(s.From) <= 0 || n > 0 && (all[n-1].To.IsZero() || s.From.Compare(all[n-1].To) < 0) {
			return nil, fmt.Errorf("%w: span %d does not ascend", ErrDamaged, n)
		}
		all = append(all, s)
	}
	return all, nil
}

// InSpans tells whether an ID is in one of some spans, which ascend.
func InSpans(all []Span, i id.ID) bool {
	n, found := slices.BinarySearchFunc(all, i, func(s Span, i id.ID) int { return s.From.Compare(i) })
	if found {
		return true
	}
	return n > 0 && all[n-1].Holds(i)
}

// Changed compares ranges with the sums of a reply over the same ones, and gives the spans
// that are not the same by now. ErrDamaged: the reply is about others.
func Changed(all []Range, sums []byte) (spans []Span, err error) {
	if len(sums) != len(all)*SumSize {
		return nil, fmt.Errorf("%w: sums of %d bytes over %d ranges", ErrDamaged, len(sums), len(all))
	}
	for i := range all {
		if r := &all[i]; string(AppendSum(nil, r.Sum, r.Facts)) == string(sums[i*SumSize:(i+1)*SumSize]) {
			continue
		}
		var to id.ID
		if i+1 < len(all) {
			to = all[i+1].From
		}
		if n := len(spans); n > 0 && spans[n-1].To == all[i].From {
			spans[n-1].To = to
		} else {
			spans = append(spans, Span{all[i].From, to})
		}
	}
	return spans, nil
}

// Ranger makes the ranges of a partition, of tasks that come in the order of their IDs. It is
// made with [NewRanger].
type Ranger struct {
	all  []Range
	last id.ID
	seen int // tasks in the last range
	per  int
}

// NewRanger makes one; the first range begins with an ID.
func NewRanger(from id.ID) *Ranger {
	return &Ranger{all: []Range{{From: from}}, last: from, per: rangeTasks}
}

// Saw counts a task as the cluster held it, before [Ranger.Kept].
func (r *Ranger) Saw(t *Seen) {
	if unit := unitOf(t.ID); r.seen >= r.per && unit.Compare(r.last) > 0 {
		r.all, r.seen = append(r.all, Range{From: unit}), 0
		if len(r.all) > MaxRanges {
			r.per *= 2
			r.all = halved(r.all)
		}
	}
	one := &r.all[len(r.all)-1]
	one.Facts, one.Sum = one.Facts+uint64(len(t.Facts)), one.Sum.Add(t.Sum)
	r.last, r.seen = t.ID, r.seen+1
}

// Kept counts it as the backup has it.
func (r *Ranger) Kept(t *Seen) {
	one := &r.all[len(r.all)-1]
	one.Tasks, one.Kept, one.KeptSum = one.Tasks+1, one.Kept+uint64(len(t.Facts)), one.KeptSum.Add(t.Sum)
}

// Ranges are those made so far.
func (r *Ranger) Ranges() []Range { return r.all }

// End ends the last range of a partition with the second of its last task, if it is full: what comes later is in
// a range of its own, so that an incremental backup need not read the last one again for it.
func (r *Ranger) End() {
	second := binary.BigEndian.Uint32(r.last[:4])
	if r.seen < r.per || second == math.MaxUint32 || len(r.all) >= MaxRanges {
		return
	}
	var next Range
	binary.BigEndian.PutUint32(next.From[:4], second+1)
	r.all, r.seen = append(r.all, next), 0
}

// Fewer makes as many ranges as there may be.
func Fewer(all []Range) []Range {
	for len(all) > MaxRanges {
		all = halved(all)
	}
	return all
}

// halved joins two ranges each.
func halved(all []Range) []Range {
	out := all[:0]
	for pair := range slices.Chunk(all, 2) {
		one := pair[0]
		for _, o := range pair[1:] {
			one.Facts, one.Sum = one.Facts+o.Facts, one.Sum.Add(o.Sum)
			one.Tasks, one.Kept, one.KeptSum = one.Tasks+o.Tasks, one.Kept+o.Kept, one.KeptSum.Add(o.KeptSum)
		}
		out = append(out, one)
	}
	return out
}

// unitOf is where a range may begin that has an ID: with a second, or, for unique keys of
// one second, with twelve bits of their hash. So the trees of replicas have sums for it.
func unitOf(task id.ID) (unit id.ID) {
	copy(unit[:4], task[:4])
	if binary.BigEndian.Uint32(task[4:8]) == keyed {
		copy(unit[4:], task[4:9])
		unit[9] = task[9] & 0xf0
	}
	return unit
}
