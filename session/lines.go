package session

import (
	"slices"

	"github.com/norn-dev/norn/proto"
)

// Bounds of the log lines that a worker keeps in memory: enough to follow what
// runs. What must last is written as updates of the task.
const (
	maxLineBytes  = 4 << 10
	maxLinesBytes = 4 << 20 // of all tasks together
	// maxReplyBytes bounds one answer, far below a frame.
	maxReplyBytes = proto.MaxSessionLineBytes
)

type line struct {
	claim  Claim
	number uint64
	text   string
}

// lines are the newest log lines of a worker, oldest first.
type lines struct {
	kept  []line
	bytes int
	// last is the number of the newest line per claim, as long as one is kept or
	// the claim is held.
	last map[Claim]uint64
}

// add appends a line; what is longer than maxLineBytes is cut.
func (l *lines) add(c Claim, text string) {
	if l.last == nil {
		l.last = make(map[Claim]uint64)
	}
	if len(text) > maxLineBytes {
		text = text[:maxLineBytes]
	}
	l.last[c]++
	l.kept = append(l.kept, line{c, l.last[c], text})
	l.bytes += len(text) + lineOverhead
	drop := 0
	for l.bytes > maxLinesBytes {
		l.bytes -= len(l.kept[drop].text) + lineOverhead
		drop++
	}
	l.kept = slices.Delete(l.kept, 0, drop)
}

// lineOverhead is what a line costs beside its text.
const lineOverhead = 64

// forget drops the counter of a claim that is over and has no line left.
func (l *lines) forget(c Claim) {
	if _, ok := l.last[c]; ok && !slices.ContainsFunc(l.kept, func(k line) bool { return k.claim == c }) {
		delete(l.last, c)
	}
}

// after gives the kept lines of a claim with numbers above n, as many as fit one
// answer, and the number of the first.
func (l *lines) after(c Claim, n uint64, limit int) (first uint64, texts []string) {
	size := 0
	for _, k := range l.kept {
		if k.claim != c || k.number <= n {
			continue
		}
		if size += len(k.text) + 8; len(texts) > 0 && (size > maxReplyBytes || limit > 0 && len(texts) == limit) {
			break
		}
		if len(texts) == 0 {
			first = k.number
		}
		texts = append(texts, k.text)
	}
	return first, texts
}

// answer gives the lines that are asked for; h is the claim where it is held. It
// reads, so it may be lost and repeated.
func (l *lines) answer(q *GetLogLines, h *held) *LogLines {
	first, texts := l.after(q.Claim, q.After, q.Limit)
	_, known := l.last[q.Claim]
	return &LogLines{
		Request: q.Request, Claim: q.Claim, First: first, Lines: texts,
		Known: known || h != nil, Ended: h == nil || h.phase == ended,
	}
}
