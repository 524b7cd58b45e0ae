package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

var (
	// ErrInvalid is returned when a request breaks a rule; sending it again
	// cannot help.
	ErrInvalid = errors.New("norn: invalid argument")
	// ErrClusterID is returned by [Dial], besides ErrInvalid, when what is expected with
	// [WithClusterID] is no UUID.
	ErrClusterID = fmt.Errorf("%w: not the ID of a cluster", ErrInvalid)
	// ErrNotFound is returned when a task, queue or worker is not known.
	ErrNotFound = errors.New("norn: not found")
	// ErrAlreadyExists is returned when the ID is taken by a task with another
	// spec.
	ErrAlreadyExists = errors.New("norn: already exists")
	// ErrClaimLost is returned when the claim is over: superseded, lapsed,
	// finished or cancelled.
	ErrClaimLost = errors.New("norn: claim lost")
	// ErrUnavailable is returned when no node, quorum or leader that is needed
	// could be reached before the context ended.
	ErrUnavailable = errors.New("norn: unavailable")
	// ErrNoQuorum is returned, besides ErrUnavailable, when a node answered but
	// could not give the guarantee asked for.
	ErrNoQuorum = errors.New("norn: no quorum")
	// ErrOverloaded is returned when a limit of the servers stayed reached until
	// the context ended.
	ErrOverloaded = errors.New("norn: overloaded")
	// ErrDeadline is returned when the deadline passed; see ErrUnknown for
	// whether it may have happened.
	ErrDeadline = errors.New("norn: deadline exceeded")
	// ErrCancelled is returned when the caller's context was cancelled, or when
	// a task was cancelled.
	ErrCancelled = errors.New("norn: cancelled")
	// ErrUnauthenticated is returned when credentials are missing or wrong.
	ErrUnauthenticated = errors.New("norn: unauthenticated")
	// ErrPermissionDenied is returned when the credentials do not allow this.
	ErrPermissionDenied = errors.New("norn: permission denied")
	// ErrUnimplemented is returned when the server does not know the method or
	// cannot do this yet.
	ErrUnimplemented = errors.New("norn: unimplemented")
	// ErrIncompatible is returned when there is no protocol version in common,
	// or an address leads to another cluster.
	ErrIncompatible = errors.New("norn: incompatible")
	// ErrOutOfWindow is returned when a task or key is older than the cluster
	// remembers.
	ErrOutOfWindow = errors.New("norn: out of window")
	// ErrDiskFull is returned when the servers take no new tasks for want of
	// disk; completions are still taken.
	ErrDiskFull = errors.New("norn: disk full")
	// ErrInternal is returned when the server has a bug or damage, or when an
	// answer makes no sense.
	ErrInternal = errors.New("norn: internal error")
	// ErrUnknown is returned, besides the reason, when the outcome is unknown:
	// the operation may have happened. It never means that it failed.
	ErrUnknown = errors.New("norn: outcome unknown")
	// ErrConflict is returned when the state of the task or queue does not allow
	// it: a completed task cannot be cancelled, a draining queue takes no tasks.
	ErrConflict = errors.New("norn: conflict")
	// ErrClosed is returned when the client is closed.
	ErrClosed = errors.New("norn: client is closed")
)

// Error is what a call returns when it has given up. [errors.Is] matches it
// with the Err… values, [errors.As] finds the [*proto.Error] of the server.
type Error struct {
	Op       string // what was asked for: "enqueue", "claim", …
	Addr     string // the address asked last, "" when none was
	Attempts int    // how often it was sent or a connection was tried
	Unknown  bool   // it may have happened
	Err      error  // the last reason, of a server or of the network
	Ended    error  // why it was not tried again: a context's error, ErrClosed, or nil
}

// Error is one line: what failed, whether it may have happened, and why.
func (e *Error) Error() string {
	s := e.Op
	if e.Unknown {
		s += ": outcome unknown, it may have happened"
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Ended != nil && (e.Err == nil || !errors.Is(e.Err, e.Ended)) {
		s += ": " + e.Ended.Error()
	}
	var answered *proto.Error
	if e.Addr != "" && !errors.As(e.Err, &answered) {
		s += fmt.Sprintf(" (%s, attempt %d)", e.Addr, e.Attempts)
	}
	return s
}

// Unwrap gives the reasons.
func (e *Error) Unwrap() []error {
	var all []error
	for _, err := range []error{e.Err, e.Ended} {
		if err != nil {
			all = append(all, err)
		}
	}
	return all
}

// Is matches the Err… values of this package.
func (e *Error) Is(target error) bool {
	if target == ErrUnknown {
		return e.Unknown
	}
	var answered *proto.Error
	hasAnswer := errors.As(e.Err, &answered)
	switch {
	case target == ErrDeadline && errors.Is(e.Ended, context.DeadlineExceeded),
		target == ErrCancelled && errors.Is(e.Ended, context.Canceled),
		target == ErrClosed && errors.Is(e.Ended, ErrClosed):
		return true
	case hasAnswer && target == ErrNoQuorum:
		return noQuorum(answered)
	case hasAnswer:
		return target == sentinel(answered.Kind)
	}
	// Without an answer the network is to blame, unless the caller ended it
	// before anything was tried.
	return target == ErrUnavailable && e.Err != nil && !errors.Is(e.Err, context.Canceled) && !errors.Is(e.Err, ErrInternal)
}

// noQuorum tells whether a node had too few others in reach for what was asked.
func noQuorum(e *proto.Error) bool {
	return e.Kind == nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE && e.Guarantee != ""
}

// sentinel is the Err… value of a kind. Kinds from the future are internal.
func sentinel(k nornv1.ErrorKind) error {
	switch k {
	case nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT:
		return ErrInvalid
	case nornv1.ErrorKind_ERROR_KIND_NOT_FOUND:
		return ErrNotFound
	case nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS:
		return ErrAlreadyExists
	case nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST:
		return ErrClaimLost
	case nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE:
		return ErrUnavailable
	case nornv1.ErrorKind_ERROR_KIND_OVERLOADED:
		return ErrOverloaded
	case nornv1.ErrorKind_ERROR_KIND_DEADLINE_EXCEEDED:
		return ErrDeadline
	case nornv1.ErrorKind_ERROR_KIND_CANCELLED:
		return ErrCancelled
	case nornv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED:
		return ErrUnauthenticated
	case nornv1.ErrorKind_ERROR_KIND_PERMISSION_DENIED:
		return ErrPermissionDenied
	case nornv1.ErrorKind_ERROR_KIND_UNIMPLEMENTED:
		return ErrUnimplemented
	case nornv1.ErrorKind_ERROR_KIND_INCOMPATIBLE:
		return ErrIncompatible
	case nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW:
		return ErrOutOfWindow
	case nornv1.ErrorKind_ERROR_KIND_DISK_FULL:
		return ErrDiskFull
	case nornv1.ErrorKind_ERROR_KIND_CONFLICT:
		return ErrConflict
	}
	return ErrInternal
}

// again tells whether a server's error is worth another attempt.
func again(e *proto.Error) bool {
	switch e.Kind {
	case nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, nornv1.ErrorKind_ERROR_KIND_OVERLOADED,
		nornv1.ErrorKind_ERROR_KIND_DEADLINE_EXCEEDED:
		return !e.Lasting
	}
	return false
}

// settles tells whether an error says for sure that earlier attempts of the
// same request, whose answers were lost, had no effect either: the rule it
// names held for them too.
func settles(k nornv1.ErrorKind) bool {
	return k == nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT || k == nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS
}
