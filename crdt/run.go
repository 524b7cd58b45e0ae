package crdt

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// Run is who had a claim and from when on. The fact that says how the claim has ended says
// it too, so that an attempt is known wherever its end is.
type Run struct {
	Worker string // the name that it gave itself
	Start  int64  // wall ns on the leader; 0: not known
	// Principal is who was let in and claimed the task; empty: not known, or nobody is asked.
	Principal string
	// Completer is the principal that has completed the task, where that is not known to be
	// the one that claimed it.
	Completer string
}

// RunField is the number under which a run stands among the further fields of a fact.
// Clients' messages do not have it: servers alone write it. Builds that do not know it keep
// it, as they keep all further fields.
const RunField = 1000

// Fields of a run.
const (
	runWorker    = 1
	runStart     = 2
	runPrincipal = 3
	runCompleter = 4
)

// AppendRun appends further fields, in their canonical form, with a run instead of the one
// that they may have.
func AppendRun(dst, further []byte, r Run) []byte {
	last := 0
	for rest := further; len(rest) > 0; {
		n, size, _ := furtherField(rest)
		if size < 0 {
			return append(dst, further...) // no caller has such
		}
		last, rest = n, rest[size:]
	}
	if last < RunField {
		return appendRun(append(dst, further...), r)
	}
	all, err := Further(appendRun(WithoutRun(further), r))
	if err != nil { // there are as many as there may be
		return append(dst, further...)
	}
	return append(dst, all...)
}

func appendRun(dst []byte, r Run) []byte {
	size := textSize(runWorker, r.Worker)
	if r.Start != 0 {
		size += protowire.SizeTag(runStart) + protowire.SizeVarint(uint64(r.Start))
	}
	size += textSize(runPrincipal, r.Principal) + textSize(runCompleter, r.Completer)
	dst = protowire.AppendVarint(protowire.AppendTag(dst, RunField, protowire.BytesType), uint64(size))
	dst = appendText(dst, runWorker, r.Worker)
	if r.Start != 0 {
		dst = protowire.AppendVarint(protowire.AppendTag(dst, runStart, protowire.VarintType), uint64(r.Start))
	}
	return appendText(appendText(dst, runPrincipal, r.Principal), runCompleter, r.Completer)
}

func textSize(n protowire.Number, text string) int {
	if text == "" {
		return 0
	}
	return protowire.SizeTag(n) + protowire.SizeBytes(len(text))
}

func appendText(dst []byte, n protowire.Number, text string) []byte {
	if text == "" {
		return dst
	}
	return protowire.AppendString(protowire.AppendTag(dst, n, protowire.BytesType), text)
}

// RunOf gives the run among further fields; ok is false where there is none.
func RunOf(further []byte) (r Run, ok bool) {
	for rest := further; len(rest) > 0; {
		n, size, _ := furtherField(rest)
		if size < 0 {
			return r, false
		}
		if n == RunField {
			if _, kind, tag := protowire.ConsumeTag(rest); kind == protowire.BytesType {
				b, _ := protowire.ConsumeBytes(rest[tag:])
				return decodeRun(b), true
			}
		}
		rest = rest[size:]
	}
	return r, false
}

// decodeRun takes what it knows.
func decodeRun(b []byte) (r Run) {
	for len(b) > 0 {
		n, size, _ := furtherField(b)
		if size < 0 {
			return r
		}
		_, kind, tag := protowire.ConsumeTag(b)
		var text []byte
		if kind == protowire.BytesType {
			text, _ = protowire.ConsumeBytes(b[tag:])
		}
		switch {
		case n == runWorker && text != nil:
			r.Worker = string(text)
		case n == runPrincipal && text != nil:
			r.Principal = string(text)
		case n == runCompleter && text != nil:
			r.Completer = string(text)
		case n == runStart && kind == protowire.VarintType:
			v, _ := protowire.ConsumeVarint(b[tag:])
			r.Start = int64(v)
		}
		b = b[size:]
	}
	return r
}

// WithoutRun gives further fields without the run: those of the client. It may share further.
func WithoutRun(further []byte) []byte {
	var out []byte
	at := 0
	for at < len(further) {
		n, size, _ := furtherField(further[at:])
		if size < 0 {
			return further
		}
		if n == RunField {
			out = append(append(out, further[:at]...), further[at+size:]...)
			return WithoutRun(out)
		}
		at += size
	}
	if len(further) == 0 {
		return nil
	}
	return further
}
