"""Failures as exceptions: docs/reference/protocol.md, Errors."""

from norn.v1 import error_pb2 as errors, task_pb2 as tasks

# Worth another try.
AGAIN = {errors.ERROR_KIND_UNAVAILABLE, errors.ERROR_KIND_OVERLOADED, errors.ERROR_KIND_DEADLINE_EXCEEDED}
# Answers to a hello that no retry changes, at this address: one of another cluster, a node that wants another token, another
# protocol, or (INVALID_ARGUMENT) the port that nodes talk to each other on.
REFUSED = {
    errors.ERROR_KIND_UNAUTHENTICATED, errors.ERROR_KIND_PERMISSION_DENIED, errors.ERROR_KIND_INCOMPATIBLE,
    errors.ERROR_KIND_UNIMPLEMENTED, errors.ERROR_KIND_INVALID_ARGUMENT}
# These say that no attempt before can have had the effect either.
SETTLED = {errors.ERROR_KIND_INVALID_ARGUMENT, errors.ERROR_KIND_ALREADY_EXISTS}


class Error(Exception):
    """A failure, of the server or of the way to it."""

    def __init__(self, kind, message, guarantee="", retry_after=0.0, effect=errors.EFFECT_NONE):
        super().__init__(message)
        self.kind = kind if kind in errors.ErrorKind.values() and kind else errors.ERROR_KIND_INTERNAL
        self.message = message
        self.guarantee = guarantee  # the guarantee that could not be given, "" when none is concerned
        self.retry_after = retry_after  # seconds to wait before another try; 0: no advice
        self.effect = effect  # whether it may have happened: EFFECT_NONE surely not
        self.state = tasks.STATE_UNSPECIFIED  # of the task, where the answer says it
        self.lasting = False  # it stays so until an operator changes something

    @classmethod
    def of(cls, m, state=tasks.STATE_UNSPECIFIED):
        """The error in a message."""
        e = cls(m.kind, m.message, m.guarantee, m.retry_after_seconds, m.effect)
        e.state, e.lasting = state, m.lasting
        return e

    @property
    def name(self):
        """The kind as text: NOT_FOUND, CLAIM_LOST, …"""
        return errors.ErrorKind.Name(self.kind)[len("ERROR_KIND_"):]

    @property
    def again(self):
        """It is worth another try."""
        return self.kind in AGAIN and not self.lasting

    @property
    def unknown(self):
        """It may have happened. Then it must not be treated as failed."""
        return self.effect != errors.EFFECT_NONE

    def __str__(self):
        parts = [self.name + ": " + self.message]
        if self.guarantee:
            parts.append("missing guarantee: " + self.guarantee)
        if self.unknown:
            parts.append("outcome unknown, it may have happened")
        return "; ".join(parts)


def unavailable(message, sent):
    return Error(errors.ERROR_KIND_UNAVAILABLE, message, effect=errors.EFFECT_UNKNOWN if sent else errors.EFFECT_NONE)


def late(message, sent):
    return Error(errors.ERROR_KIND_DEADLINE_EXCEEDED, message, effect=errors.EFFECT_UNKNOWN if sent else errors.EFFECT_NONE)
