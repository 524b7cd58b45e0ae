package session

// Versions of the worker protocol that this build speaks. They are apart from
// those of the framing, which a client without a session speaks too.
const (
	MinVersion = 1
	MaxVersion = 1
)

// Negotiate gives the highest version that both ranges hold, or 0 when there is
// none. A side that names no version speaks 0, which nobody does: a field that
// was left out is refused, not guessed.
func Negotiate(min1, max1, min2, max2 uint32) uint32 {
	if low, high := max(min1, min2), min(max1, max2); low > 0 && low <= high {
		return high
	}
	return 0
}
