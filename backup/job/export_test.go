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

// AnswersWithin has a restore wait for an answer no longer at first, four times as long at most, and repeat at once what was
// not answered; it gives what takes that back.
func AnswersWithin(wait time.Duration) (back func()) {
	first, longest, pause := restoreTime, longestTime, restorePause
	restoreTime, longestTime, restorePause = wait, 4*wait, 0
	return func() { restoreTime, longestTime, restorePause = first, longest, pause }
}

// RequestBytes and LeastBytes bound what is in one request of a restore.
const RequestBytes, LeastBytes = requestBytes, leastBytes
