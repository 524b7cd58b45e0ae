"""IDs of tasks: docs/reference/protocol.md, IDs."""

from __future__ import annotations

import os
import struct
import threading
import time
from typing import Union

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_VALUES = {digit: value for value, digit in enumerate(_DIGITS)}
_EPOCH = 1_400_000_000


def id_text(task: bytes) -> str:
    """The 27 characters of an ID."""
    if len(task) != 20:
        raise ValueError("an ID has 20 bytes, not %d" % len(task))
    n, out = int.from_bytes(task, "big"), []
    for _ in range(27):
        n, digit = divmod(n, 62)
        out.append(_DIGITS[digit])
    return "".join(reversed(out))


def id_bytes(task: str) -> bytes:
    """The 20 bytes of an ID from its text."""
    n = 0
    for c in task:
        if c not in _VALUES:
            raise ValueError("%r is no character of an ID" % c)
        n = n * 62 + _VALUES[c]
    if len(task) != 27 or n >> 160:
        raise ValueError("%r is not an ID" % task)
    return n.to_bytes(20, "big")


class TaskID(str):
    """The ID of a task: its text of 27 characters, which sorts by time, fits JSON and can be shown.

    It is made of a text, of 20 bytes, or of another TaskID; what is none raises ValueError. Everything that this package
    returns is a TaskID, and whatever takes an ID takes all three, so that the two forms cannot be mixed up.
    """

    __slots__ = ()

    def __new__(cls, value: Union[str, bytes]) -> TaskID:
        if isinstance(value, TaskID):
            return value
        if isinstance(value, str):
            id_bytes(value)  # raises ValueError
            return super().__new__(cls, value)
        return super().__new__(cls, id_text(bytes(value)))

    @property
    def raw(self) -> bytes:
        """The 20 bytes that travel on the wire."""
        return id_bytes(self)

    @property
    def time_ns(self) -> int:
        """When it was made, in ns since 1970, by the clock of whoever made it."""
        seconds, rest = struct.unpack_from(">II", self.raw)
        return (int(seconds) + _EPOCH) * 10**9 + (int(rest) >> 2)

    def __repr__(self) -> str:
        return "TaskID(%r)" % str(self)


class Generator:
    """Makes IDs of tasks, each after the one before it. It may be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last, self._generator = 0, os.urandom(4)

    def next(self, wall_ns: int | None = None) -> bytes:
        """The 20 bytes of the next ID, at a wall time in ns; None: now."""
        now = time.time_ns() if wall_ns is None else wall_ns
        with self._lock:
            if self._last - now > 10**9:  # the clock was set back: servers would refuse IDs of the future
                self._last, self._generator = 0, os.urandom(4)
            self._last = max(now, self._last + 1)
            seconds, ns = divmod(self._last, 10**9)
            return struct.pack(">II", seconds - _EPOCH, ns << 2) + self._generator + os.urandom(8)


_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_64 = (1 << 64) - 1


def _rotate(x: int, n: int) -> int:
    return (x << n | x >> 64 - n) & _64


def partition_of(task: bytes, partitions: int) -> int:
    """The partition of an ID: xxhash64 with seed 0, of exactly 20 bytes, modulo their number."""
    a, b, c = struct.unpack("<QQI", task)
    h = (_P5 + 20) & _64
    for lane in (a, b):
        h ^= _rotate(lane * _P2 & _64, 31) * _P1 & _64
        h = (_rotate(h, 27) * _P1 + _P4) & _64
    h = (_rotate(h ^ c * _P1 & _64, 23) * _P2 + _P3) & _64
    h = (h ^ h >> 33) * _P2 & _64
    h = (h ^ h >> 29) * _P3 & _64
    return int((h ^ h >> 32) % partitions)
