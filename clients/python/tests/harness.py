"""What the tests share. They run against a server that runs: see README.md."""

import os
import socket
import threading
import time
import unittest

import norn
from norn import wire
from norn.v1 import error_pb2 as errors, service_pb2 as pb

ADDR = os.environ["NORN_ADDR"]
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PATIENCE = 60  # seconds that anything may take on a busy machine

_queues = iter(range(1, 1 << 30))


def queue():
    """A queue that no other test uses."""
    return "python-%d-%d" % (os.getpid(), next(_queues))


class Case(unittest.TestCase):
    def setUp(self):
        self.client = self.make()
        self.q = queue()

    def make(self, *addresses, **options):
        client = norn.Client(*(addresses or (ADDR,)), **options)
        self.addCleanup(client.close)
        return client

    def fails(self, kind, f, *args, unknown=False, **kwargs):
        with self.assertRaises(norn.Error) as caught:
            f(*args, **kwargs)
        self.is_error(caught.exception, kind, unknown)
        return caught.exception

    def is_error(self, e, kind, unknown=False):
        self.assertIsInstance(e, norn.Error)
        kinds = kind if isinstance(kind, tuple) else (kind,)
        self.assertIn(e.name, kinds, str(e))
        self.assertEqual(e.unknown, unknown, str(e))
        self.assertTrue(e.message)

    def one(self, **options):
        """The next task of the queue."""
        claims = self.client.claim([self.q], **options)
        self.assertEqual(len(claims), 1)
        return claims[0]

    def eventually(self, holds):
        end = time.monotonic() + PATIENCE
        while not holds():
            self.assertLess(time.monotonic(), end, "never")
            time.sleep(0.02)


class Raw:
    """A connection without a client, for what a client would not do."""

    def __init__(self, test, hello=True):
        host, _, port = ADDR.rpartition(":")
        self.sock = socket.create_connection((host, int(port)), PATIENCE)
        test.addCleanup(self.sock.close)
        self.buffer = bytearray()
        if hello:
            self.send(wire.encode_frame(1, pb.METHOD_HELLO, pb.Hello(min_version=1, max_version=1).SerializeToString()))
            request, word, body = self.take()
            assert (request, word) == (1, wire.RESPONSE | pb.METHOD_HELLO)
            self.hello = pb.HelloReply.FromString(body)

    def send(self, *frames):
        self.sock.sendall(b"".join(frames))

    def take(self):
        """The next frame, None at the end of the connection."""
        while True:
            frame = wire.take_frame(self.buffer)
            if frame:
                return frame
            data = self.sock.recv(1 << 16)
            if not data:
                return None
            self.buffer.extend(data)

    def error(self):
        """The next frame, as (request, method, Error)."""
        request, word, body = self.take()
        assert word & ~wire.METHOD == wire.RESPONSE | wire.ERROR, hex(word)
        return request, word & wire.METHOD, norn.Error.of(errors.Error.FromString(body))

    def ping(self, number):
        self.send(wire.encode_frame(number, pb.METHOD_PING))


class Proxy:
    """Stands between a client and the server, and cuts the line when a method is answered."""

    def __init__(self, test, method, times=1, silent=False):
        self.method, self.left, self.silent, self.cut = method, times, silent, 0
        self.seen = 0  # answers of the method
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.addr = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.socks = [self.listener]
        test.addCleanup(self.close)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            host, _, port = ADDR.rpartition(":")
            far = socket.create_connection((host, int(port)))
            self.socks += [near, far]
            threading.Thread(target=self.pump, args=(near, far, None), daemon=True).start()
            threading.Thread(target=self.pump, args=(far, near, bytearray()), daemon=True).start()

    def pump(self, source, target, frames):
        try:
            while True:
                data = source.recv(1 << 16)
                if not data:
                    break
                if frames is not None:
                    frames.extend(data)
                    out = b""
                    frame = wire.take_frame(frames)
                    while frame:
                        request, word, body = frame
                        self.seen += word & wire.METHOD == self.method
                        if word & wire.METHOD == self.method and self.left:
                            self.left -= 1
                            self.cut += 1
                            if not self.silent:
                                return
                        else:
                            out += wire.encode_frame(request, word, body)
                        frame = wire.take_frame(frames)
                    data = out
                target.sendall(data)
        except OSError:
            pass
        finally:
            for s in (source, target):
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close(self):
        for s in self.socks:
            s.close()


class Fake:
    """A server that answers as told: with a message, bytes, an Error, or, for None, not at all."""

    def __init__(self, test, answer=lambda method, body: pb.PingReply(), hello=None):
        self.answer, self.hello, self.asked = answer, hello, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.addr = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.socks = [self.listener]
        test.addCleanup(lambda: [s.close() for s in self.socks])
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self.socks.append(sock)
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        buffer = bytearray()
        try:
            while True:
                frame = wire.take_frame(buffer)
                if frame:
                    self.reply(sock, *frame)
                    continue
                data = sock.recv(1 << 16)
                if not data:
                    return
                buffer.extend(data)
        except OSError:
            pass

    def reply(self, sock, request, word, body):
        method = word & wire.METHOD
        if word & wire.CANCEL:
            return
        if word & wire.DEADLINE:
            body = body[4:]
        if method == pb.METHOD_HELLO:
            limits = pb.Limits(max_in_flight=16, max_batch_tasks=10_000, max_batch_bytes=16 << 20)
            out = self.hello or pb.HelloReply(version=1, cluster_id="c", limits=limits)
        else:
            self.asked.append((method, body))
            out = self.answer(method, body)
        if out is None:
            return
        word = wire.RESPONSE | method
        if isinstance(out, norn.Error):
            word |= wire.ERROR
            out = self.message(out)
        sock.sendall(wire.encode_frame(request, word, out if isinstance(out, bytes) else out.SerializeToString()))

    @staticmethod
    def message(e):
        """An Error as it travels."""
        return errors.Error(kind=e.kind, message=e.message, effect=e.effect, lasting=e.lasting, guarantee=e.guarantee)
