package proto

import (
	"fmt"
	"strings"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Error is an error of the wire as a Go error. The zero Kind never leaves a
// server.
type Error struct {
	Kind       nornv1.ErrorKind
	Message    string        // one line: what failed and what to do
	Guarantee  string        // the guarantee that could not be given, or ""
	RetryAfter time.Duration // 0: no advice
	Effect     nornv1.Effect // whether it may have happened
	Lasting    bool          // to try again does not help, whatever the kind says
}

// Error gives the message and, where one failed, the guarantee.
func (e *Error) Error() string {
	if e.Guarantee != "" {
		return fmt.Sprintf("%s (missing guarantee: %s)", e.Message, e.Guarantee)
	}
	return e.Message
}

// Proto is the form that travels.
func (e *Error) Proto() *nornv1.Error {
	return &nornv1.Error{
		Kind: e.Kind, Message: e.Message, Guarantee: e.Guarantee,
		RetryAfterSeconds: e.RetryAfter.Seconds(), Effect: e.Effect, Lasting: e.Lasting,
	}
}

// FromProto is the inverse of [Error.Proto].
func FromProto(p *nornv1.Error) *Error {
	return &Error{
		Kind: p.GetKind(), Message: p.GetMessage(), Guarantee: p.GetGuarantee(),
		RetryAfter: Seconds(p.GetRetryAfterSeconds()), Effect: p.GetEffect(), Lasting: p.GetLasting(),
	}
}

// maxMessage bounds the text of an error in bytes: it may quote what a client has sent, and
// the answer to a batch, which has to fit a frame, may have one for each item.
const maxMessage = 1 << 10

// Refused builds an error of an operation that surely had no effect.
func Refused(kind nornv1.ErrorKind, format string, args ...any) *Error {
	text := fmt.Sprintf(format, args...)
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return &Error{Kind: kind, Message: text, Effect: nornv1.Effect_EFFECT_NONE}
}

// Keeping names the guarantee that is kept by refusing.
func (e *Error) Keeping(guarantee string) *Error {
	e.Guarantee = guarantee
	return e
}

// Again says after what pause it helps to ask again.
func (e *Error) Again(after time.Duration) *Error {
	e.RetryAfter = after
	return e
}

// Unsure says that it may have been done all the same.
func (e *Error) Unsure() *Error {
	e.Effect = nornv1.Effect_EFFECT_UNKNOWN
	return e
}

// ForGood says that to try again does not help.
func (e *Error) ForGood() *Error {
	e.Lasting = true
	return e
}

// Invalid builds the refusal of a request that breaks a rule.
func Invalid(format string, args ...any) *Error {
	return Refused(nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT, format, args...)
}

// Seconds turns seconds of the wire into a duration. Values outside the range
// of a duration, and NaN, become the nearest bound or zero.
func Seconds(s float64) time.Duration {
	const most = float64(1<<63-1) / float64(time.Second)
	switch {
	case s != s:
		return 0
	case s >= most:
		return 1<<63 - 1
	case s <= -most:
		return -1 << 63
	}
	return time.Duration(s * float64(time.Second))
}
