"""IDs of tasks: docs/reference/protocol.md, IDs."""

import os
import struct
import threading
import time

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_EPOCH = 1_400_000_000


def id_text(task):
    """The 27 characters of an ID."""
    if len(task) != 20:
        raise ValueError("an ID has 20 bytes, not %d" % len(task))
    n, out = int.from_bytes(task, "big"), []
    for _ in range(27):
        n, digit = divmod(n, 62)
        out.append(_DIGITS[digit])
    return "".join(reversed(out))


def id_bytes(task):
    """The 20 bytes of an ID, from its text or its bytes."""
    if isinstance(task, bytes):
        if len(task) != 20:
            raise ValueError("an ID has 20 bytes, not %d" % len(task))
        return task
    n = 0
    for c in task:
        if c not in _DIGITS:
            raise ValueError("%r is no character of an ID" % c)
        n = n * 62 + _DIGITS.index(c)
    if len(task) != 27 or n >> 160:
        raise ValueError("%r is not an ID" % task)
    return n.to_bytes(20, "big")


class Generator:
    """Makes IDs of kind 0, each after the one before it."""

    def __init__(self):
        self._lock = threading.Lock()
        self._restart()

    def _restart(self):
        self._last, self._generator = 0, os.urandom(4)

    def next(self, wall_ns=None):
        """The next ID, at a wall time in ns; None: now."""
        now = time.time_ns() if wall_ns is None else wall_ns
        with self._lock:
            if self._last - now > 10**9:
                self._restart()  # the clock was set back: servers would refuse IDs of the future
            self._last = max(now, self._last + 1)
            seconds, ns = divmod(self._last, 10**9)
            return struct.pack(">II", seconds - _EPOCH, ns << 2) + self._generator + os.urandom(8)


_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_64 = (1 << 64) - 1


def _rotate(x, n):
    return (x << n | x >> 64 - n) & _64


def partition_of(task, partitions):
    """The partition of an ID: xxhash64 with seed 0, of exactly 20 bytes, modulo their number."""
    a, b, c = struct.unpack("<QQI", task)
    h = (_P5 + 20) & _64
    for lane in (a, b):
        h ^= _rotate(lane * _P2 & _64, 31) * _P1 & _64
        h = (_rotate(h, 27) * _P1 + _P4) & _64
    h = (_rotate(h ^ c * _P1 & _64, 23) * _P2 + _P3) & _64
    h = (h ^ h >> 33) * _P2 & _64
    h = (h ^ h >> 29) * _P3 & _64
    return (h ^ h >> 32) % partitions
