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
	kept   []line
	bytes  int
	claims map[Claim]*claimLines
}

// claimLines counts the lines of a claim, as long as one is kept or the claim is held.
type claimLines struct {
	last uint64 // number of the newest
	kept int
	over bool // it is not held any more
}

// add appends a line; what is longer than maxLineBytes is cut.
func (l *lines) add(c Claim, text string) {
	if l.claims == nil {
		l.claims = make(map[Claim]*claimLines)
	}
	if len(text) > maxLineBytes {
		text = text[:maxLineBytes]
	}
	of := l.claims[c]
	if of == nil {
		of = &claimLines{}
		l.claims[c] = of
	}
	of.last++
	of.kept++
	l.kept = append(l.kept, line{c, of.last, text})
	if l.bytes += len(text) + lineOverhead; l.bytes > maxLinesBytes {
		l.drop(maxLinesBytes - maxLinesBytes/8) // not one by one: all others move up
	}
}

// drop forgets the oldest lines until no more than so many bytes are kept.
func (l *lines) drop(most int) {
	n := 0
	for l.bytes > most {
		k := &l.kept[n]
		l.bytes -= len(k.text) + lineOverhead
		of := l.claims[k.claim]
		if of.kept--; of.kept == 0 && of.over {
			delete(l.claims, k.claim)
		}
		n++
	}
	l.kept = slices.Delete(l.kept, 0, n)
}

// lineOverhead is what a line costs beside its text.
const lineOverhead = 64

// forget hears that a claim is over: with its last line its counter goes.
func (l *lines) forget(c Claim) {
	if of := l.claims[c]; of != nil {
		if of.over = true; of.kept == 0 {
			delete(l.claims, c)
		}
	}
}

// Inherit has a new worker take over what outlives a session that was lost, of the same program
// and the same name: the lines, for whoever asks, the slots of handlers that hang, and why no task can be begun.
func Inherit(w, lost *Worker) {
	w.lines, lost.lines = lost.lines, lines{}
	w.stuck, lost.stuck = lost.stuck, nil
	w.trouble, w.resting = lost.trouble, lost.resting
	// Any order: each by itself.
	for c := range w.lines.claims {
		w.lines.forget(c)
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

// answer gives the lines that are asked for; h is the claim where it is held.
//
// Failure and partial failure: whoever follows asks again. Delay and replay: it reads,
// and the lines have numbers. Identity: instance and association by Step, the claim, and
// the number of the request.
func (l *lines) answer(q *GetLogLines, h *held) *LogLines {
	first, texts := l.after(q.Claim, q.After, q.Limit)
	_, known := l.claims[q.Claim]
	return &LogLines{
		Request: q.Request, Claim: q.Claim, First: first, Lines: texts,
		Known: known || h != nil, Ended: h == nil || h.phase == ended,
	}
}
