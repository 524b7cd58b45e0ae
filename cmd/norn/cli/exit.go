package cli

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/worker"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/transport"
)

// Exit codes. They are a contract with scripts.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitNotFound    = 3
	ExitUnavailable = 4 // no quorum, no leader, no server
	ExitConflict    = 5 // already exists, claim lost, not in this state
	ExitOverloaded  = 6
	ExitServerUsage = 64 // EX_USAGE: usage of `norn server`, where 2 is also how Go ends a panic and SIGQUIT
	ExitDamaged     = 70 // of a server: what is on its disk, or that disk
	ExitUnable      = 71 // EX_OSERR: a worker that cannot start commands on this machine
)

// UsageError is a mistake of the caller that shows after the flags were read.
type UsageError struct{ Err error }

// Error is the text of what it wraps.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap gives that.
func (e UsageError) Unwrap() error { return e.Err }

// Usage is an error of the command line.
func Usage(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Reported is an error that was told already; only its exit code is left.
type Reported struct{ Code int }

// Error is for logs only: nobody is told it.
func (Reported) Error() string { return "reported" }

// FreedError is that of a claim; what it may have been granted is free again.
type FreedError struct{ Err error }

// Error is the text of what it wraps.
func (e FreedError) Error() string { return e.Err.Error() }

// Unwrap gives that.
func (e FreedError) Unwrap() error { return e.Err }

// ExitCode is the exit code for an error.
func ExitCode(err error) int {
	var mistake UsageError
	var told Reported
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &told):
		return told.Code
	case errors.As(err, &mistake), errors.Is(err, id.ErrMalformed):
		return ExitUsage
	case errors.Is(err, client.ErrInvalid), errors.Is(err, client.ErrOutOfWindow):
		return ExitUsage
	case errors.Is(err, worker.ErrUnable):
		return ExitUnable
	case errors.Is(err, client.ErrNotFound):
		return ExitNotFound
	case errors.Is(err, client.ErrAlreadyExists), errors.Is(err, client.ErrClaimLost), errors.Is(err, client.ErrConflict), errors.Is(err, worker.ErrLocked):
		return ExitConflict
	case errors.Is(err, client.ErrOverloaded), errors.Is(err, client.ErrDiskFull):
		return ExitOverloaded
	case errors.Is(err, client.ErrUnavailable), errors.Is(err, client.ErrDeadline):
		return ExitUnavailable
	}
	return ExitFailed
}

// Advice says which guarantee is missing and what to do, where the error itself
// does not.
func Advice(err error) string {
	var answered *proto.Error
	hasAnswer := errors.As(err, &answered)
	var call *client.Error
	var freed FreedError
	switch {
	case errors.Is(err, client.ErrUnknown) && errors.As(err, &freed):
		return "; what it may have been given is ready again"
	case errors.Is(err, client.ErrUnknown) && errors.As(err, &call) && call.Op == "claim":
		return "; what it may have been given is ready again when the lease is over"
	case errors.Is(err, client.ErrUnknown):
		return repeating(call)
	case errors.Is(err, client.ErrUnavailable) && !hasAnswer:
		return " (missing guarantee: a node that answers); " + whomToAsk(err)
	case errors.Is(err, client.ErrDeadline) && !hasAnswer:
		return " (missing guarantee: a node that answers in time); name other nodes with --addr, or give it longer with --timeout"
	case errors.Is(err, client.ErrOverloaded) && (!hasAnswer || !answered.Lasting):
		return "; try again later"
	case errors.Is(err, syscall.EADDRINUSE):
		return "; stop the process that listens there, or choose another address (--listen, --peer-listen, --http-listen)"
	}
	return ""
}

// repeating says whether a call whose outcome is unknown may be made again; nil: nothing
// is known of it.
func repeating(call *client.Error) string {
	switch {
	case call == nil, call.Op == "enqueue":
		return "; repeating it with the same IDs is safe"
	case call.Op == "trigger schedule", call.Op == "backfill schedule":
		return "; it is in `norn schedule history` if it has happened: repeating it launches again"
	case call.Op == "retry":
		return "; `norn task get` shows whether it has happened: repeating it runs what is dead by then"
	}
	return "; repeating it is safe"
}

// whomToAsk says what to change where no node has answered.
func whomToAsk(err error) string {
	for _, a := range []struct {
		is   error
		text string
	}{
		{transport.ErrUntrusted, "name the authority of the server's certificate with --tls-ca, and its name with --tls-server-name"},
		{transport.ErrTLSRefused, "show a certificate that the server trusts with --tls-cert and --tls-key"},
		{transport.ErrPeerNoTLS, "leave out --tls-ca, --tls-cert, --tls-key and --tls-server-name (and NORN_TLS_…), or name a node that speaks TLS with --addr"},
		{transport.ErrPeerTLS, "speak TLS with --tls-ca"},
		{transport.ErrPeerHTTP, "name the client port, 7711 by default, with --addr"},
		{transport.ErrPeerOther, "name the client port of a node, 7711 by default, with --addr"},
		{transport.ErrPeerSilent, "speak TLS with --tls-ca where the node does, or name others with --addr"},
	} {
		if errors.Is(err, a.is) {
			return a.text
		}
	}
	return "start one with `norn server`, or name others with --addr"
}

// Message is what people read about an error.
func Message(err error) string { return Clean(err.Error() + Advice(err)) }

// Clean keeps text from outside from writing over the terminal, and on its
// lines. Not only the control characters of ASCII do: U+009B begins a sequence as ESC [
// does, and U+202E turns around what follows.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) && r != '\n' {
			return ' '
		}
		return r
	}, s)
}

// Complain writes an error on a line of its own, several problems on several.
func (a *App) Complain(text string) {
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		fmt.Fprintf(a.ErrOut, "norn: %s\n", strings.TrimPrefix(line, "norn: "))
	}
}

// finish tells what went wrong and gives the exit code.
func (a *App) finish(cmd *cobra.Command, err error) int {
	var told Reported
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &told):
		return told.Code
	}
	text, code := Message(err), ExitCode(err)
	if !a.started {
		code = ExitUsage
	}
	if code == ExitUsage && cmd.CommandPath() == "norn server" {
		code = ExitServerUsage
	}
	var mistake UsageError
	if !a.started || errors.As(err, &mistake) && !strings.Contains(text, "\n") {
		text += fmt.Sprintf(" (see `%s --help`)", cmd.CommandPath())
	}
	a.Complain(text)
	return code
}
