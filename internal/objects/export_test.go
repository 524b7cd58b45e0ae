package objects

// NamePart has files that are written have these names before they are whole, and gives what
// takes that back.
func NamePart(by func(name string) string) (back func()) {
	was := partName
	partName = by
	return func() { partName = was }
}
