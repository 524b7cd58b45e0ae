"""Flow control, cancellation, deadlines, lost connections, TLS, and the programs."""

import os
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import norn
from harness import ADDR, HERE, PATIENCE, Case, Proxy, Raw, queue
from norn import wire
from norn.v1 import service_pb2 as pb, task_pb2 as tasks


class Flow(Case):
    def waiting(self, connection, end=PATIENCE):
        return connection.start(pb.METHOD_CLAIM, pb.ClaimRequest(queues=[self.q], wait_seconds=end), wire.clock() + end)

    def taken_up(self):
        """Returns when the server has taken up all requests that were sent before."""
        self.client.count(self.q)

    def test_cancel(self):
        connection = self.client.connection()
        waits = self.waiting(connection)
        self.taken_up()
        start = time.monotonic()
        waits.cancel()
        self.fails("CANCELLED", waits.result)
        self.assertLess(time.monotonic(), start + PATIENCE)
        self.client.enqueue(self.q)
        self.one()  # nobody else took it

    def test_cancel_right_behind(self):
        start = time.monotonic()
        for _ in range(20):
            waits = self.waiting(self.client.connection())
            waits.cancel()
            self.fails("CANCELLED", waits.result)
        self.assertLess(time.monotonic(), start + PATIENCE)

    def test_cancel_too_late(self):
        self.client.enqueue(self.q)
        pending = self.waiting(self.client.connection())
        grants = pending.result().grants
        pending.cancel()
        self.assertEqual(len(grants), 1)
        self.client.status()

    def test_stop_claiming(self):
        caught = []

        def claim():
            try:
                self.client.claim([self.q], wait=PATIENCE)
            except norn.Error as e:
                caught.append(e)

        waiter = threading.Thread(target=claim)
        waiter.start()
        connection = self.client.connection()
        self.eventually(lambda: connection.open == 1)
        self.taken_up()
        self.client.stop_claiming()
        waiter.join(PATIENCE)
        self.is_error(caught[0], "CANCELLED")
        self.fails("CANCELLED", self.client.claim, [self.q])

    def test_deadline(self):
        start = time.monotonic()
        self.assertEqual(self.client.claim([self.q], wait=PATIENCE, timeout=3), [])  # the wait makes room for the answer
        self.assertLess(time.monotonic(), start + PATIENCE)
        r = Raw(self)
        r.send(struct.pack(">IQHI", 14, 7, wire.DEADLINE | pb.METHOD_COUNT, 0))
        request, method, e = r.error()
        self.assertEqual((request, method), (7, pb.METHOD_COUNT))
        self.is_error(e, "DEADLINE_EXCEEDED")

    def test_nobody_waits_for_ever(self):
        connection = self.client.connection()
        pending = connection.start(pb.METHOD_CLAIM, pb.ClaimRequest(queues=[self.q], wait_seconds=PATIENCE), wire.clock() + 2)
        self.taken_up()
        kept, wire._GRACE = wire._GRACE, PATIENCE
        try:
            # Either way it is known that nothing was granted: which of the two clocks is first is a matter of load.
            try:
                self.assertEqual(list(pending.result().grants), [])
            except norn.Error as e:
                self.is_error(e, "DEADLINE_EXCEEDED")
        finally:
            wire._GRACE = kept
        self.eventually(lambda: connection.open == 0)  # its credit came back

    def test_credit(self):
        connection = self.client.connection()
        most = connection.hello.limits.max_in_flight
        self.assertEqual(most, 16)
        waits = [self.waiting(connection) for _ in range(most - 1)]
        self.fails("DEADLINE_EXCEEDED", connection.start, pb.METHOD_COUNT, pb.CountRequest(), wire.clock() + 0.2)
        self.assertEqual(connection.open, most - 1)
        other = self.make()
        answered = []
        extra = [threading.Thread(target=lambda: answered.append(self.client.count(self.q))) for _ in range(50)]
        for t in extra:
            t.start()
        other.enqueue_many([other.spec(self.q) for _ in range(3)])  # ends three of the claims
        for t in extra:
            t.join(PATIENCE)
        self.assertEqual(len(answered), 50)
        self.assertLess(connection.open, most)
        for p in waits:
            p.cancel()
        self.eventually(lambda: connection.open == 0)

    def test_more_than_the_credit(self):
        """The server stops reading, so that the rest waits with the client, and goes on with each answer."""
        r, other = Raw(self), self.client
        most, claim = r.hello.limits.max_in_flight, pb.ClaimRequest(queues=[self.q], wait_seconds=PATIENCE).SerializeToString()
        r.send(*(wire.encode_frame(2 + n, pb.METHOD_CLAIM, claim) for n in range(most)))
        r.ping(1000)
        r.sock.settimeout(0.5)
        with self.assertRaises(socket.timeout):
            r.take()
        r.sock.settimeout(PATIENCE)
        other.enqueue(self.q)
        self.assertEqual({r.take()[0] for _ in range(2)} - set(range(2, 2 + most)), {1000})


class Reconnect(Case):
    def test_enqueue_happens_once(self):
        proxy = Proxy(self, pb.METHOD_ENQUEUE, times=2)
        client = self.make(proxy.addr)
        receipt = client.enqueue(self.q, b"once")
        self.assertEqual((proxy.cut, receipt.existed), (2, True))
        self.assertEqual([t.id for t in self.client.list(self.q)], [receipt.id])

    def test_claim_is_granted_once(self):
        self.client.enqueue(self.q)
        self.client.enqueue(self.q)
        proxy = Proxy(self, pb.METHOD_CLAIM)
        claim, = self.make(proxy.addr).claim([self.q])
        self.assertEqual(proxy.cut, 1)
        self.assertEqual(self.client.count(self.q).total.claimed, 1)
        self.assertEqual(self.client.get(claim.id).claims[-1].token, claim.token)
        self.assertGreater(claim.left(), 20)

    def test_a_claim_that_was_not_answered_is_freed_by_the_next(self):
        self.client.enqueue(self.q)
        proxy = Proxy(self, pb.METHOD_CLAIM, times=1000)
        client = self.make(proxy.addr)
        self.fails(("UNAVAILABLE", "DEADLINE_EXCEEDED"), client.claim, [self.q], timeout=2, unknown=True)
        proxy.left = 0
        claim, = client.claim([self.q])  # not only after the lease
        self.assertEqual(self.client.get(claim.id).claims[-1].token, claim.token)

    def test_the_end_is_recorded_once(self):
        for method, end in (
                (pb.METHOD_COMPLETE, lambda client, claim: client.complete(claim).existed),
                (pb.METHOD_RELEASE, lambda client, claim: client.release([claim])[0].existed),
                (pb.METHOD_FAIL, lambda client, claim: client.fail(claim, "x", retry_in=60) == tasks.STATE_SCHEDULED),
                (pb.METHOD_UPDATE, lambda client, claim: client.update(claim, b"x").existed)):
            with self.subTest(method):
                self.q = queue()
                self.client.enqueue(self.q)
                claim, proxy = self.one(), Proxy(self, method)
                self.assertTrue(end(self.make(proxy.addr), claim))
                self.assertEqual(proxy.cut, 1)

    def test_unknown_outcome(self):
        proxy = Proxy(self, pb.METHOD_ENQUEUE, times=1000)
        # The end may come before an attempt or in it; the outcome is unknown either way.
        kinds = ("UNAVAILABLE", "DEADLINE_EXCEEDED")
        e = self.fails(kinds, self.make(proxy.addr).enqueue, self.q, timeout=5, unknown=True)
        self.assertIn("unknown", str(e))
        self.assertEqual(self.client.count(self.q).total.total, 1)

    def test_silence(self):
        proxy = Proxy(self, pb.METHOD_ENQUEUE, times=1000, silent=True)
        self.fails("DEADLINE_EXCEEDED", self.make(proxy.addr).enqueue, self.q, timeout=3, unknown=True)
        reads = Proxy(self, pb.METHOD_COUNT, times=1000, silent=True)
        self.fails("DEADLINE_EXCEEDED", self.make(reads.addr, timeout=2).count, self.q)

    def test_a_dead_node_is_passed_over(self):
        with socket.create_server(("127.0.0.1", 0)) as closed:
            dead = "127.0.0.1:%d" % closed.getsockname()[1]
        self.fails("UNAVAILABLE", self.make(dead, timeout=2).count, self.q)
        client = self.make(dead, ADDR)
        client.enqueue(self.q)
        self.assertEqual(client.count(self.q).total.total, 1)

    def test_a_silent_connection_is_asked(self):
        kept = wire._IDLE
        try:
            wire._IDLE = 2
            client = self.make()
            connection = client.connection()
            self.eventually(lambda: next(connection._numbers) > 3)  # pings have been sent
            self.assertTrue(connection.alive)
            client = self.make(Proxy(self, pb.METHOD_PING, times=1000, silent=True).addr)
            connection = client.connection()
            self.eventually(lambda: not connection.alive)
        finally:
            wire._IDLE = kept


@unittest.skipUnless("NORN_TLS_ADDR" in os.environ, "not run: NORN_TLS_ADDR, NORN_TLS_CA and NORN_AUTH_TOKEN are not set")
class Secured(Case):
    """A server with TLS and a token."""

    def make(self, **options):
        options = {"tls": ssl.create_default_context(cafile=os.environ["NORN_TLS_CA"]), "auth_token": os.environ["NORN_AUTH_TOKEN"], "timeout": PATIENCE, **options}
        return super().make(os.environ["NORN_TLS_ADDR"], **options)

    def test_it_works(self):
        payloads = [os.urandom(n) for n in (0, 1, 100, 20_000, 900_000)]
        self.client.enqueue_many([self.client.spec(self.q, p) for p in payloads])
        self.assertEqual([c.task.payload for c in self.client.claim([self.q], max_tasks=9)], payloads)
        threads = [threading.Thread(target=lambda: [self.client.get(self.client.enqueue(self.q, payloads[3]).id) for _ in range(10)]) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(self.client.count(self.q).total.total, 85)

    def test_strangers(self):
        self.fails("UNAUTHENTICATED", self.make(auth_token="wrong").status)
        self.fails("UNAUTHENTICATED", self.make(auth_token="").status)
        self.fails("UNAVAILABLE", self.make(tls=None, timeout=3).status)
        self.fails("UNAVAILABLE", self.make(tls=ssl.create_default_context(), timeout=3).status)


class Programs(Case):
    def run_program(self, name, *args, **kwargs):
        env = dict(os.environ, NORN_ADDR=ADDR)
        return subprocess.run([sys.executable, os.path.join(HERE, name), *args], env=env, capture_output=True, timeout=PATIENCE, **kwargs)

    def worker(self, *args):
        p = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "examples", "run_commands.py"), "--addr", ADDR, "-q", self.q, "--wait", "10", *args],
            stderr=subprocess.PIPE, text=True)
        self.addCleanup(p.stderr.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        return p

    def content(self, *path):
        """Of a file that may not be there."""
        try:
            with open(os.path.join(*path)) as f:
                return f.read()
        except OSError:
            return ""

    def lines(self, task):
        return [u.data.decode() for u in self.client.get(task).updates]

    def state(self, task):
        return self.client.get(task).state

    def test_enqueue_and_work(self):
        done = self.run_program("examples/enqueue.py", "-q", self.q, "--priority", "1", "--kind", "greet", "--tag", "vip", "--tag", "eu", "Ada", "Eve")
        ids = done.stdout.decode().split()
        self.assertEqual((done.returncode, len(ids)), (0, 2), done.stderr)
        p = self.worker("--slots", "2", "--", "sh", "-c", 
            'echo "Hello, $(cat)! $NORN_QUEUE $NORN_TASK_ID"; echo "attempt $NORN_ATTEMPT"; echo "$NORN_KIND: $NORN_TAGS"; echo; test -n "$NORN_TOKEN" && printf "the end"')
        self.eventually(lambda: self.client.count(self.q).total.completed == 2)
        for task, name in zip(ids, ("Ada", "Eve")):
            self.assertEqual(self.lines(task), ["Hello, %s! %s %s" % (name, self.q, task), "attempt 1", "greet: vip", "eu", "", "the end"])
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(PATIENCE), 0)

    def test_what_is_missing_is_named(self):
        # It said to run protoc also where that had been done, and Python had no protobuf.
        for missing, told in (("google.protobuf", "the protobuf package is missing"),):
            script = "import sys; sys.modules[%r] = None; import norn" % missing
            done = subprocess.run([sys.executable, "-c", script], env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)), capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual(done.returncode, 1)
            self.assertIn("ImportError: " + told, done.stderr)

    def test_failures(self):
        bad = self.run_program("examples/enqueue.py", "-q", "no good", "x")
        self.assertEqual(bad.returncode, 1)
        self.assertIn(b"INVALID_ARGUMENT", bad.stderr)
        task = self.client.enqueue(self.q, retry=tasks.RetryPolicy(max_attempts=1)).id
        later = self.client.enqueue(self.q, b"later").id
        p = self.worker("--", "sh", "-c", 'read x; test "$x" = later && exit 75; echo oh no >&2; exit 3')
        self.eventually(lambda: self.state(task) == tasks.STATE_DEAD and self.state(later) == tasks.STATE_SCHEDULED)
        self.assertIn("exit status 3: oh no", self.client.get(task).error)
        self.assertEqual(self.client.get(later).attempts, 0)
        p.send_signal(signal.SIGINT)
        self.assertEqual(p.wait(PATIENCE), 0)

    def test_renewal_and_loss(self):
        long = self.client.enqueue(self.q).id
        p = self.worker("--lease", "4", "--", "sleep", "6")
        self.eventually(lambda: self.state(long) == tasks.STATE_COMPLETED)
        self.assertEqual(len(self.client.get(long).claims), 1)  # it held its claim all the time
        doomed = self.client.enqueue(self.q)
        self.eventually(lambda: self.state(doomed.id) == tasks.STATE_CLAIMED)
        task = self.client.get(doomed.id)
        # Somebody else finishes it: the command is killed at the next renewal.
        stolen = norn.Claim(pb.ClaimReply(grants=[{"task": task.raw, "token": task.claims[-1].token, "lease_seconds": 1}]).grants[0], 0, 0)
        self.client.complete(stolen)
        self.assertIn("lost: CLAIM_LOST", p.stderr.readline())
        self.eventually(lambda: self.client.enqueue(self.q).id and self.client.count(self.q).total.completed > 2)  # the slot is free again

    def test_checkpoints(self):
        task = self.client.enqueue(self.q).id
        first = self.one(lease=60)
        self.client.update(first, b"page 3")
        self.client.fail(first, "x", retry_in=0.01)
        self.worker("--", "sh", "-c", 'cat "$NORN_CHECKPOINT_FILE"')
        self.eventually(lambda: self.state(task) == tasks.STATE_COMPLETED)
        self.assertEqual(self.lines(task), ["page 3", "page 3"])

    def test_one_renewal_for_all(self):
        proxy = Proxy(self, pb.METHOD_RENEW, times=0)
        ids = [self.client.enqueue(self.q).id for _ in range(8)]
        self.worker("--addr", proxy.addr, "--lease", "4", "--slots", "8", "--", "sleep", "6")
        self.eventually(lambda: all(self.state(i) == tasks.STATE_COMPLETED for i in ids))
        # Eight claims for 6 s with renewals every 1.2 s or so; each by itself would be forty.
        self.assertTrue(1 <= proxy.seen <= 10, proxy.seen)
        self.assertEqual([len(self.client.get(i).claims) for i in ids], [1] * 8)

    def test_frozen_beyond_its_lease(self):
        with tempfile.TemporaryDirectory() as home:
            task = self.client.enqueue(self.q).id
            # The shell is not frozen with its worker: it prints on.
            p = self.worker("--lease", "4", "--", "sh", "-c", "cd '%s'; trap 'touch ended; exit 1' TERM; while :; do echo x; sleep 0.02; done" % home)
            self.eventually(lambda: len(self.lines(task)) > 2)
            p.send_signal(signal.SIGSTOP)
            try:
                heir = self.one(lease=60, wait=PATIENCE)
                before = len(self.lines(task))
            finally:
                p.send_signal(signal.SIGCONT)
            self.eventually(lambda: os.path.exists(os.path.join(home, "ended")))
            while "lost" not in p.stderr.readline():
                self.assertIsNone(p.poll())
            self.assertEqual(len(self.lines(task)), before)
            self.client.complete(heir)
            self.assertEqual([c.outcome for c in self.client.get(task).claims], [tasks.CLAIM_OUTCOME_EXPIRED, tasks.CLAIM_OUTCOME_COMPLETED])

    def test_cancel_ends_the_whole_group(self):
        with tempfile.TemporaryDirectory() as home:
            task = self.client.enqueue(self.q).id
            self.worker("--lease", "4", "--", "sh", "-c", "cd '%s'; trap 'touch asked' TERM; echo $$ > shell; sleep 1000 & echo $! > pid; while :; do sleep 0.05; done" % home)
            self.eventually(lambda: self.content(home, "pid"))
            pids = [int(self.content(home, name)) for name in ("pid", "shell")]
            self.client.cancel([task])

            def gone(pid):
                stat = self.content("/proc/%d" % pid, "stat")
                return not stat or ") Z " in stat

            self.eventually(lambda: all(gone(pid) for pid in pids))  # the shell only when it is killed
            self.assertTrue(os.path.exists(os.path.join(home, "asked")))

    def test_second_signal_gives_the_task_back(self):
        task = self.client.enqueue(self.q).id
        p = self.worker("--", "sleep", "60")
        self.eventually(lambda: self.state(task) == tasks.STATE_CLAIMED)
        p.send_signal(signal.SIGTERM)
        time.sleep(2)
        self.assertEqual(self.state(task), tasks.STATE_CLAIMED)  # the first one lets it finish
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(PATIENCE), 0)
        self.assertEqual((self.state(task), self.client.get(task).attempts), (tasks.STATE_READY, 0))
