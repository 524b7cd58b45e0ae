"""Failures as exceptions: docs/reference/protocol.md, Errors."""

from __future__ import annotations

from norn.v1 import error_pb2 as pb, task_pb2 as tasks

# Worth another try.
AGAIN = {pb.ERROR_KIND_UNAVAILABLE, pb.ERROR_KIND_OVERLOADED, pb.ERROR_KIND_DEADLINE_EXCEEDED}
# Answers to a hello that no retry changes, at this address: one of another cluster, a node that wants another token, another
# protocol, or (INVALID_ARGUMENT) the port that nodes talk to each other on.
REFUSED = {
    pb.ERROR_KIND_UNAUTHENTICATED, pb.ERROR_KIND_PERMISSION_DENIED, pb.ERROR_KIND_INCOMPATIBLE,
    pb.ERROR_KIND_UNIMPLEMENTED, pb.ERROR_KIND_INVALID_ARGUMENT}
# These say that no attempt before can have had the effect either.
SETTLED = {pb.ERROR_KIND_INVALID_ARGUMENT, pb.ERROR_KIND_ALREADY_EXISTS}


class Error(Exception):
    """A failure, of the server or of the way to it. `name` says what kind it is, `unknown` whether it may have happened."""

    def __init__(
            self, kind: int, message: str, guarantee: str = "", retry_after: float = 0.0,
            effect: int = pb.EFFECT_NONE) -> None:
        super().__init__(message)
        self.kind: int = kind if kind in pb.ErrorKind.values() and kind else pb.ERROR_KIND_INTERNAL
        self.message = message
        self.guarantee = guarantee  # the guarantee that could not be given, "" when none is concerned
        self.retry_after = retry_after  # seconds to wait before another try; 0: no advice
        self.effect: int = effect  # whether it may have happened: EFFECT_NONE surely not
        self.state: int = tasks.STATE_UNSPECIFIED  # of the task, where the answer says it
        self.lasting = False  # it stays so until an operator changes something

    @classmethod
    def of(cls, m: pb.Error, state: int = tasks.STATE_UNSPECIFIED) -> Error:
        """The error in a message."""
        e = cls(m.kind, m.message, m.guarantee, m.retry_after_seconds, m.effect)
        e.state, e.lasting = state, m.lasting
        return e

    @property
    def name(self) -> str:
        """The kind as text: NOT_FOUND, CLAIM_LOST, …"""
        return str(pb.ErrorKind.Name(self.kind))[len("ERROR_KIND_"):]

    @property
    def again(self) -> bool:
        """It is worth another try."""
        return self.kind in AGAIN and not self.lasting

    @property
    def unknown(self) -> bool:
        """It may have happened. Then it must not be treated as failed."""
        return self.effect != pb.EFFECT_NONE

    def __str__(self) -> str:
        parts = [self.name + ": " + self.message]
        if self.guarantee:
            parts.append("missing guarantee: " + self.guarantee)
        if self.unknown:
            parts.append("outcome unknown, it may have happened")
        return "; ".join(parts)


def unavailable(message: str, sent: bool) -> Error:
    """A connection is missing; sent says whether a request may have gone out."""
    return Error(pb.ERROR_KIND_UNAVAILABLE, message, effect=pb.EFFECT_UNKNOWN if sent else pb.EFFECT_NONE)


def late(message: str, sent: bool) -> Error:
    """The time is over; sent says whether a request may have gone out."""
    return Error(pb.ERROR_KIND_DEADLINE_EXCEEDED, message, effect=pb.EFFECT_UNKNOWN if sent else pb.EFFECT_NONE)


class RetryAfter(Exception):
    """A handler raises it to have its task tried again after so many seconds; the attempt counts."""

    def __init__(self, seconds: float, reason: str = "") -> None:
        super().__init__(reason or "to be tried again after %g s" % seconds)
        self.seconds = seconds


class Snooze(Exception):
    """A handler raises it to put its task off for so many seconds; no attempt is used."""

    def __init__(self, seconds: float, reason: str = "") -> None:
        super().__init__(reason or "put off for %g s" % seconds)
        self.seconds = seconds


class Discard(Exception):
    """A handler raises it when no further attempt can help: the task is dead at once."""


class ClaimEnded(Exception):
    """The claim of a job is over, or the worker must end: what the handler does no longer counts, and it should return."""
