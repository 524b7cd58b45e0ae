package proto

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// ValidQueue reports whether name is [a-zA-Z0-9][a-zA-Z0-9._:/-]{0,127}.
func ValidQueue(name string) bool {
	if len(name) == 0 || len(name) > 128 || !alphanumeric(name[0]) {
		return false
	}
	for i := 1; i < len(name); i++ {
		switch c := name[i]; {
		case alphanumeric(c), c == '.', c == '_', c == ':', c == '/', c == '-':
		default:
			return false
		}
	}
	return true
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// CheckQueue is [ValidQueue] as an error.
func CheckQueue(name string) *Error {
	if !ValidQueue(name) {
		return Invalid("queue name %.140q is not [a-zA-Z0-9][a-zA-Z0-9._:/-]{0,127}", name)
	}
	return nil
}

// CheckSchedule is [CheckQueue] for the name of a schedule: the rule is the same.
func CheckSchedule(name string) *Error {
	if !ValidQueue(name) {
		return Invalid("schedule name %.140q is not [a-zA-Z0-9][a-zA-Z0-9._:/-]{0,127}", name)
	}
	return nil
}

// CheckSpec checks a task against everything that needs no state. maxPayload
// is the server's payload limit in bytes.
func CheckSpec(t *nornv1.TaskSpec, maxPayload int) *Error {
	if err := CheckQueue(t.GetQueue()); err != nil {
		return err
	}
	if n := len(t.GetPayload()); n > maxPayload {
		return Invalid("payload of %d bytes is over the limit of %d bytes; store it elsewhere and enqueue a reference", n, maxPayload)
	}
	if n := SpecBytes(t); n > maxPayload {
		return Invalid("payload of %d bytes, with %d bytes of fields that this server does not know, is over the limit of %d bytes", len(t.GetPayload()), n-len(t.GetPayload()), maxPayload)
	}
	if err := checkFurther(t); err != nil {
		return err
	}
	if n := len(t.GetId()); n != 0 && n != len(id.ID{}) {
		return Invalid("task ID has %d bytes, not 20", n)
	}
	if n := len(t.GetDependencies()); n > MaxDependencies {
		return Invalid("%d dependencies are over the limit of %d", n, MaxDependencies)
	}
	for _, d := range t.GetDependencies() {
		if len(d) != len(id.ID{}) {
			return Invalid("dependency ID has %d bytes, not 20", len(d))
		}
		if string(d) == string(t.GetId()) {
			return Invalid("the task depends on itself")
		}
	}
	if _, ok := nornv1.DependencyFailure_name[int32(t.GetOnDependencyFailure())]; !ok {
		return Invalid("on_dependency_failure has the unknown value %d", t.GetOnDependencyFailure())
	}
	if ts := t.GetNotBefore(); ts != nil && (!ts.IsValid() || ts.Seconds < 0 || ts.Seconds > math.MaxInt64/int64(time.Second)-1) {
		return Invalid("not_before is not a time between 1970 and 2262")
	}
	if err := checkDelay(t); err != nil {
		return err
	}
	if err := CheckKey(t.GetKey(), t.GetKeyWindowSeconds()); err != nil {
		return err
	}
	if err := checkHeaders(t.GetHeaders()); err != nil {
		return err
	}
	if err := CheckKind(t.GetKind()); err != nil {
		return err
	}
	if err := CheckTags(t.GetTags()); err != nil {
		return err
	}
	return checkRetry(t.GetRetry())
}

// checkDelay checks for how long a task is put off.
func checkDelay(t *nornv1.TaskSpec) *Error {
	switch d := t.GetDelaySeconds(); {
	case !(d >= 0 && d <= MaxRetryIn.Seconds()):
		return Invalid("delay_seconds of %v is outside 0 to 100 years", d)
	case d != 0 && t.GetNotBefore() != nil:
		return Invalid("give one of not_before and delay_seconds")
	}
	return nil
}

// CheckRetryIn checks after how many seconds a failed task is to be retried.
func CheckRetryIn(seconds float64) *Error {
	if !(seconds >= 0 && seconds <= MaxRetryIn.Seconds()) {
		return Invalid("retry_in_seconds of %v is outside 0 to 100 years", seconds)
	}
	return nil
}

// CheckKey checks a unique key and its window in seconds.
func CheckKey(key string, window float64) *Error {
	switch {
	case len(key) > MaxKeyBytes:
		return Invalid("unique key of %d bytes is over the limit of %d", len(key), MaxKeyBytes)
	case window == 0:
	case key == "":
		return Invalid("key_window_seconds needs a key")
	case !(window >= MinKeyWindow.Seconds() && window <= MaxKeyWindow.Seconds()):
		return Invalid("key window of %v seconds is outside %v to %v", window, MinKeyWindow, MaxKeyWindow)
	}
	return nil
}

// CheckSettings checks the settings of a queue.
func CheckSettings(s *nornv1.QueueSettings) *Error {
	const longest = 10 * 365 * 24 * 3600 // seconds: beyond it, say KEEP
	if n := len(s.GetNote()); n > MaxNoteBytes {
		return Invalid("the note has %d bytes, over the limit of %d", n, MaxNoteBytes)
	}
	if n := len(s.GetPausedBy()); n > MaxPausedBy {
		return Invalid("paused_by has %d bytes, over the limit of %d", n, MaxPausedBy)
	}
	if s.GetLeaseSeconds() != 0 {
		if _, err := CheckLease(s.GetLeaseSeconds(), 0); err != nil {
			return err
		}
	}
	if _, ok := nornv1.Retention_name[int32(s.GetRetention())]; !ok {
		return Invalid("retention has the unknown value %d", s.GetRetention())
	}
	for _, v := range []float64{s.GetRetentionSeconds(), s.GetDeadRetentionSeconds()} {
		if !(v >= 0 && v <= longest) {
			return Invalid("a retention of %v seconds is outside 0 to ten years", v)
		}
	}
	return checkRetry(s.GetRetry())
}

func checkHeaders(headers map[string]string) *Error {
	size := 0
	// Any order: sizes are summed, and an empty name is refused wherever it is.
	for k, v := range headers {
		if k == "" {
			return Invalid("a header has an empty name")
		}
		size += len(k) + len(v)
	}
	if len(headers) > MaxHeaders || size > MaxHeaderBytes {
		return Invalid("%d headers with %d bytes are over the limit of %d headers and %d bytes", len(headers), size, MaxHeaders, MaxHeaderBytes)
	}
	return nil
}

func checkRetry(r *nornv1.RetryPolicy) *Error {
	if r == nil {
		return nil
	}
	const longest = 365 * 24 * 3600 // a back-off over a year is a typo
	for _, v := range []float64{r.GetInitialSeconds(), r.GetMaxSeconds()} {
		if v != v || v < 0 || v > longest {
			return Invalid("retry: a delay of %v seconds is outside 0 to one year", v)
		}
	}
	if m := r.GetMultiplier(); m != 0 && !(m >= 1 && m <= 1000) {
		return Invalid("retry: the multiplier %v is outside 1 to 1000", m)
	}
	if j := r.GetJitter(); !(j >= 0 && j <= 1) {
		return Invalid("retry: the jitter %v is outside 0 to 1", j)
	}
	return nil
}

// CheckLease gives the lease in a request, def when it is 0, or an error when
// it lies outside [1 s, 24 h].
func CheckLease(seconds float64, def time.Duration) (time.Duration, *Error) {
	if seconds == 0 {
		return def, nil
	}
	d := Seconds(seconds)
	if seconds != seconds || d < clock.MinLease || d > clock.MaxLease {
		return 0, Invalid("lease of %v seconds is outside 1 s to 24 h", seconds)
	}
	return d, nil
}

// Tail is the end of a text, at most so many bytes of it, and UTF-8, as text is on the
// wire: what is not could be sent by nobody any more once it is stored.
func Tail(s string, most int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= most {
		return s
	}
	s = s[len(s)-most:]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}

// SplitError gives what the error of a task says, and apart from it the stack of goroutines
// that a panic brings ("": none). It is how client/worker writes one: the message, an empty
// line, the stack.
func SplitError(text string) (message, stack string) {
	if at := strings.Index(text, "\n\ngoroutine "); at >= 0 {
		return text[:at], text[at+2:]
	}
	return text, ""
}
