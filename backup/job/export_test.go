package job

import "time"

// NoteEvery has partitions that are done be noted as often, and gives what takes that back.
func NoteEvery(every time.Duration) (back func()) {
	was := noteEvery
	noteEvery = every
	return func() { noteEvery = was }
}

// MuchIs has a partition count as large from so many bytes on, and one that has waited for so long for its turn
// begin anew; it gives what takes that back.
func MuchIs(bytes int, wait time.Duration) (back func()) {
	had, waited := little, muchTime
	little, muchTime = bytes, wait
	return func() { little, muchTime = had, waited }
}
