package portion

// Fits tells whether somebody who has own of a number, of which total is taken by all, may
// have n more. Nobody is ever refused by an empty one: what is larger than the limit is let in
// alone.
func Fits(limit, total, own, n int64) bool {
	after := limit - total - n // what is left then
	switch {
	case total == 0:
		return true
	case after < 0:
		return false
	case own == total, own == 0: // nobody else has anything, or it is the first
		return after >= limit/4 || own+n <= after/3
	}
	return own+n <= after/3
}
