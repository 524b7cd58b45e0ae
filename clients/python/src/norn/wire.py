"""Frames and connections: docs/reference/protocol.md, Framing and A connection."""

from __future__ import annotations

import itertools
import socket
import ssl
import struct
import threading
import time
from typing import Any, Union

from norn.errors import Error, late, unavailable
from norn.v1 import cluster_pb2 as clusters, error_pb2 as errors, service_pb2 as pb

VERSIONS = (1, 1)  # the protocol versions spoken here, lowest and highest
PORT = 7711

RESPONSE, ERROR, MORE, CANCEL, DEADLINE, RESERVED = 0x8000, 0x4000, 0x2000, 0x1000, 0x0800, 0x0400
METHOD = 0x03FF  # the bits of the method
HEAD = 10  # bytes that the length counts besides the body
MAX_FRAME = 24 << 20

_GRACE = 0.5  # how long a cancelled request may still take to be answered
_IDLE = 10  # after so long without a byte a connection is asked, after twice as long it is dead
_STUCK = 30  # how long a write may make no progress

_BOOT = getattr(time, "CLOCK_BOOTTIME", None)


def clock() -> float:
    """Seconds of a clock that nobody sets, and that runs on while the machine is suspended where there is such a one."""
    return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)


def encode_frame(request: int, word: int, body: bytes = b"", left: float | None = None) -> bytes:
    """One frame. word is the method and its flags; left, in seconds, is what the sender will still wait."""
    if left is not None:
        word |= DEADLINE
        body = struct.pack(">I", min(max(1, int(left * 1000 + 0.999)), 0xFFFFFFFF)) + body
    return struct.pack(">IQH", HEAD + len(body), request, word) + body


def take_frame(buffer: bytearray) -> tuple[int, int, bytes] | None:
    """Takes the frame at the beginning of a bytearray: (request, word, body), or None while it is not complete."""
    if len(buffer) < 4:
        return None
    (length,) = struct.unpack_from(">I", buffer)
    if not HEAD <= length <= MAX_FRAME:
        raise unavailable("the server sent a frame of length %d: is that a Norn client port?" % length, True)
    if len(buffer) < 4 + length:
        return None
    request, word = struct.unpack_from(">QH", buffer, 4)
    body = bytes(buffer[4 + HEAD:4 + length])
    del buffer[:4 + length]
    return request, word, body


class _Tls:
    """TLS over a socket for one reading and one writing thread. An SSL object does not bear both at once, so it is
    used under a lock, and the socket outside of it."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, name: str) -> None:
        self._sock, self._lock = sock, threading.Lock()
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._in, self._out, server_hostname=name)
        while True:
            try:
                self._ssl.do_handshake()
                break
            except ssl.SSLWantReadError:
                sock.sendall(self._out.read())
                self._feed(sock.recv(1 << 16))
        sock.sendall(self._out.read())

    def _feed(self, data: bytes) -> None:
        if data:
            self._in.write(data)
        else:
            self._in.write_eof()

    def recv(self, size: int) -> bytes:
        while True:
            data, out = self._sock.recv(size), list[bytes]()
            with self._lock:
                self._feed(data)
                try:
                    while not out or out[-1]:
                        out.append(self._ssl.read(size))
                except ssl.SSLWantReadError:
                    pass
            if out:
                return b"".join(out)

    def sendall(self, data: bytes) -> None:
        with self._lock:
            self._ssl.write(data)
            data = self._out.read()
        self._sock.sendall(data)


class Pending:
    """A request that was sent and will have exactly one answer."""

    def __init__(self, connection: Connection, number: int, method: int, end: float) -> None:
        self.sent_at = clock()  # just before it was sent: deadlines of leases count from here
        self.method = method
        self._connection, self._number, self._end = connection, number, end
        self._done, self._first = threading.Event(), threading.Lock()  # only the first answer counts
        self._answer: Any = None  # a message, or an Error

    def cancel(self) -> None:
        """Says that the answer is no longer wanted. It comes all the same: CANCELLED, or the result."""
        if not self._done.is_set():
            self._connection._write(encode_frame(self._number, CANCEL))

    def abandon(self, since: float) -> None:
        """Has result end soon after a cancel, at a time by clock(), if need be without an answer: one that comes later is
        not taken."""
        if not self._done.wait(max(0, since + _GRACE - clock())):
            self._finish(late("no answer from %s in time" % self._connection.address, True))

    def result(self) -> Any:
        """Waits for the answer, until the deadline; raises Error."""
        if not self._done.wait(max(0, self._end - clock())):
            self.cancel()
            known = self._done.wait(_GRACE)
            if not known or isinstance(self._answer, Error) and self._answer.kind == errors.ERROR_KIND_CANCELLED:
                raise late("no answer from %s in time" % self._connection.address, not known)
        if isinstance(self._answer, Error):
            raise self._answer
        return self._answer

    def _finish(self, answer: Any) -> None:
        with self._first:
            if not self._done.is_set():
                self._answer = answer
                self._done.set()


# What answers a method.
REPLIES: dict[int, Any] = {
    pb.METHOD_HELLO: pb.HelloReply, pb.METHOD_PING: pb.PingReply, pb.METHOD_ENQUEUE: pb.EnqueueReply,
    pb.METHOD_CLAIM: pb.ClaimReply, pb.METHOD_RENEW: pb.RenewReply, pb.METHOD_UPDATE: pb.WriteReply,
    pb.METHOD_COMPLETE: pb.WriteReply, pb.METHOD_FAIL: pb.WriteReply, pb.METHOD_RELEASE: pb.WriteReply,
    pb.METHOD_WORK: pb.WorkReply, pb.METHOD_GET: pb.GetReply, pb.METHOD_LIST: pb.ListReply, pb.METHOD_COUNT: pb.CountReply,
    pb.METHOD_LOG: pb.LogReply, pb.METHOD_STATUS: clusters.StatusReply, pb.METHOD_CANCEL: pb.WriteReply,
    pb.METHOD_RETRY: pb.WriteReply, pb.METHOD_EXPLAIN: pb.ExplainReply, pb.METHOD_KEY: pb.KeyReply,
    pb.METHOD_QUEUES: pb.QueuesReply, pb.METHOD_SET_QUEUE: pb.QueuesReply,
}
READS: set[int] = {
    pb.METHOD_HELLO, pb.METHOD_PING, pb.METHOD_GET, pb.METHOD_LIST, pb.METHOD_COUNT, pb.METHOD_LOG, pb.METHOD_STATUS,
    pb.METHOD_EXPLAIN, pb.METHOD_KEY, pb.METHOD_QUEUES}


class Connection:
    """One connection, from its hello to its end. Requests of many threads share it."""

    def __init__(
            self, address: str, auth_token: str = "", cluster_id: str = "", ask: bool = False, agent: str = "norn-python",
            tls: ssl.SSLContext | None = None, versions: tuple[int, int] = VERSIONS, timeout: float = 5) -> None:
        self.address = address
        end = clock() + timeout
        self._state = threading.Condition()  # guards the fields below
        self._pending: dict[int, Pending] = {}
        self._dead: str | None = None
        self._credit = 1  # requests that may be open; the hello is alone
        self._numbers = itertools.count(1)
        self._writing = threading.Lock()  # one frame at a time
        self.placement: pb.Placement | None = None
        self._ahead = time.time_ns() - int(clock() * 1e9)  # of the node's clock before clock()
        try:
            self._dial(address, tls, timeout)
        except (OSError, ValueError) as e:
            raise unavailable("cannot connect to %s: %s" % (address, e), False) from e
        threading.Thread(target=self._read, name="norn " + address, daemon=True).start()
        try:
            hello = pb.Hello(min_version=versions[0], max_version=versions[1], cluster_id=cluster_id, auth_token=auth_token, agent=agent)
            if ask:  # whether it is this cluster, before it is sent the token
                self.start(pb.METHOD_HELLO, pb.Hello(
                    min_version=versions[0], max_version=versions[1], cluster_id=cluster_id, only_cluster=True, agent=agent), end).result()
            self.hello: pb.HelloReply = self.start(pb.METHOD_HELLO, hello, end).result()
            if ask and self.hello.cluster_id != cluster_id:
                raise Error(errors.ERROR_KIND_INCOMPATIBLE, "%s is of cluster %s" % (address, self.hello.cluster_id))
            if not versions[0] <= self.hello.version <= versions[1]:
                raise Error(errors.ERROR_KIND_INCOMPATIBLE, "%s speaks version %d of the protocol, this client %d to %d" % (address, self.hello.version, *versions))
        except Error as e:
            self.close()
            e.effect = errors.EFFECT_NONE  # nothing but the hello was sent
            raise
        self.placement = self.hello.placement
        with self._state:  # one request is kept back for the ping of a full connection
            self._credit = max(1, self.hello.limits.max_in_flight - 1)

    def _dial(self, address: str, tls: ssl.SSLContext | None, timeout: float) -> None:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            host, port = address, str(PORT)
        host = host.strip("[]")
        self._sock = socket.create_connection((host, int(port)), timeout)
        try:
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._stream: Union[_Tls, socket.socket] = _Tls(self._sock, tls, host) if tls else self._sock
            self._sock.settimeout(None)
            for option, seconds in ((socket.SO_RCVTIMEO, _IDLE), (socket.SO_SNDTIMEO, _STUCK)):
                self._sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6)))
        except BaseException:
            self._sock.close()
            raise

    @property
    def alive(self) -> bool:
        """Whether requests can be sent."""
        return self._dead is None

    @property
    def open(self) -> int:
        """The number of requests without an answer."""
        return len(self._pending)

    def start(self, method: int, message: Any, end: float, extra: int = 0) -> Pending:
        """Sends a request as soon as there is credit, and gives its Pending. end is when its answer is due, by clock()."""
        body = message.SerializeToString()
        if len(body) + HEAD + 4 > MAX_FRAME:
            raise Error(errors.ERROR_KIND_INVALID_ARGUMENT, "a request of %d bytes does not fit a frame" % len(body))
        with self._state:
            self._state.wait_for(lambda: self._dead is not None or len(self._pending) < self._credit + extra, max(0, end - clock()))
            if self._dead:
                raise unavailable(self._dead, False)
            if len(self._pending) >= self._credit + extra or clock() >= end:
                raise late("the request could not be sent in time", False)
            number = next(self._numbers)
            pending = self._pending[number] = Pending(self, number, method, end)
        self._write(encode_frame(number, method, body, end - pending.sent_at))
        return pending

    def close(self) -> None:
        """Ends the connection. Requests without an answer fail; they may have happened."""
        self._end("the connection was closed")

    def _write(self, frame: bytes) -> None:
        try:
            with self._writing:
                self._stream.sendall(frame)
        except OSError as e:
            self._end("writing to %s: %s" % (self.address, e))

    def _read(self) -> None:
        buffer, asked = bytearray(), False
        try:
            while True:
                try:
                    data = self._stream.recv(1 << 16)
                except BlockingIOError:  # silence
                    if asked:
                        return self._end("%s is silent" % self.address)
                    asked = True
                    self.start(pb.METHOD_PING, pb.Ping(), clock() + _IDLE, extra=1)
                    continue
                if not data:
                    return self._end("%s closed the connection" % self.address)
                asked = False
                buffer.extend(data)
                frame = take_frame(buffer)
                while frame:
                    self._take(*frame)
                    frame = take_frame(buffer)
        except Exception as e:  # whatever it is: without its reader a connection must not seem to live
            self._end("reading from %s: %s" % (self.address, e))

    def _take(self, request: int, word: int, body: bytes) -> None:
        if not word & RESPONSE or word & ~(RESPONSE | ERROR | METHOD):
            raise ValueError("a frame with flags 0x%04x" % word)
        if request == 0:  # it concerns the whole connection
            raise Error.of(errors.Error.FromString(body)) if word & ERROR else ValueError("an answer to no request")
        with self._state:
            pending = self._pending.get(request)  # there until its answer comes, also when nobody waits for that any more
            if pending is None:
                raise ValueError("an answer without a request (id %d)" % request)
            if word & METHOD != pending.method:
                raise ValueError("an answer of method %d to request %d of method %d" % (word & METHOD, request, pending.method))
            del self._pending[request]
            self._state.notify()
        pending._finish(self._decode(pending, word, body))

    def now_ns(self) -> int:
        """What the node's clock shows, in ns since 1970: the one here may have been set wrongly."""
        return int(clock() * 1e9) + self._ahead

    def _decode(self, pending: Pending, word: int, body: bytes) -> Any:
        """The message, or the Error, in an answer to a request."""
        method = pending.method
        try:
            if word & ERROR:
                return Error.of(errors.Error.FromString(body))
            reply = REPLIES.get(method, pb.Ping).FromString(body)
        except Exception as e:  # of protobuf, whose errors have no kind in common
            return Error(
                errors.ERROR_KIND_INTERNAL, "%s sent an answer to method %d that makes no sense: %s" % (self.address, method, e),
                effect=errors.EFFECT_UNKNOWN)
        if method == pb.METHOD_PING:
            self.placement = reply.placement
        if method in (pb.METHOD_HELLO, pb.METHOD_PING) and reply.HasField("now"):
            # It was the node's time in the middle, to within half the way there and back.
            self._ahead = reply.now.ToNanoseconds() - int((pending.sent_at + clock()) / 2 * 1e9)
        return reply

    def _end(self, why: str) -> None:
        with self._state:
            if self._dead is None:
                self._dead = why
            lost, self._pending = self._pending, {}
            self._state.notify_all()
        for p in lost.values():
            p._finish(unavailable(self._dead, True))
        try:
            self._sock.shutdown(socket.SHUT_RDWR)  # wakes the reader
        except OSError:
            pass
        self._sock.close()
