package policy

import "slices"

// maxBars is how many stretches of instants are barred, each for itself. A clock
// that jumps ahead to more places than that, and comes back each time, has those
// that are nearest to each other taken for one: instants between are lost rather
// than launched twice.
const maxBars = 4

// Bars are stretches of instants ahead of the watermark, in order, that may have
// been launched while the clock was ahead. They do not touch; empty ones come
// last.
type Bars [maxBars]Span

// at is the stretch that holds an instant.
func (b *Bars) at(instant int64) (Span, bool) {
	for _, s := range b {
		if s.holds(instant) {
			return s, true
		}
	}
	return Span{}, false
}

// len is up to where there are any.
func (b *Bars) len() int {
	n := len(b)
	for n > 0 && b[n-1].empty() {
		n--
	}
	return n
}

// with is b and one more, without what lies before a watermark.
func (b Bars) with(bar Span, watermark int64) (out Bars) {
	all := []Span{bar}
	for _, s := range b {
		if !s.empty() && s.To > watermark {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(x, y Span) int {
		if x.From < y.From {
			return -1
		}
		return 1
	})
	for i := 0; i+1 < len(all); { // those that touch are one
		if all[i+1].From > all[i].To {
			i++
			continue
		}
		all[i].To = max(all[i].To, all[i+1].To)
		all = slices.Delete(all, i+1, i+2)
	}
	for len(all) > maxBars {
		near := 0
		for i := range len(all) - 1 {
			if all[i+1].From-all[i].To < all[near+1].From-all[near].To {
				near = i
			}
		}
		all[near].To = all[near+1].To
		all = slices.Delete(all, near+1, near+2)
	}
	copy(out[:], all)
	return out
}
