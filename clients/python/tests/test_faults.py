"""What a client makes of servers that refuse, fall silent, lose answers or talk nonsense."""

import os
import resource
import socket
import subprocess
import sys
import threading
import time
import types
import unittest.mock

import norn
import run_commands as worker
from harness import ADDR, HERE, PATIENCE, Case, Fake, Proxy
from norn import ids, wire
from norn.v1 import error_pb2 as errors, service_pb2 as pb, task_pb2 as tasks

UNAUTHENTICATED, UNAVAILABLE, DISK_FULL = errors.ERROR_KIND_UNAUTHENTICATED, errors.ERROR_KIND_UNAVAILABLE, errors.ERROR_KIND_DISK_FULL
COUNT = pb.CountReply()


def failure(kind, effect=errors.EFFECT_NONE, lasting=False):
    e = norn.Error(kind, "as told", effect=effect)
    e.lasting = lasting
    return e


def item(kind, effect=errors.EFFECT_NONE):
    return pb.EnqueueResult(error=Fake.message(failure(kind, effect)))


def done(spec):
    return pb.EnqueueResult(receipt=tasks.Receipt(id=ids.id_text(spec.id)))


class Addresses(Case):
    def test_a_refused_hello_is_final_for_its_address_only(self):
        refuses = Fake(self, hello=failure(UNAUTHENTICATED)).addr
        serves = Fake(self, lambda *_: COUNT).addr
        self.make(refuses, serves).count()
        e = self.fails("UNAUTHENTICATED", self.make(refuses, refuses).count)
        self.assertEqual(e.message, "as told")
        self.fails("UNAUTHENTICATED", self.make(refuses).count)

    def test_what_is_lasting_is_not_tried_again(self):
        fake = Fake(self, lambda *_: failure(UNAVAILABLE, lasting=True))
        self.fails("UNAVAILABLE", self.make(fake.addr).count)
        self.assertEqual(len(fake.asked), 1)

    def test_another_node_may_have_room(self):
        full, roomy = Fake(self, lambda *_: failure(DISK_FULL)), Fake(self, lambda *_: COUNT)
        self.make(full.addr, roomy.addr).count()
        self.fails("DISK_FULL", self.make(full.addr, full.addr).count)
        self.assertEqual(len(full.asked), 3)

    def test_a_node_that_does_not_answer_costs_one_call(self):
        """Calls with little time must not begin with it again and again."""
        silent, serves = self.silent(), Fake(self, lambda *_: COUNT).addr
        client = self.make(silent, serves, timeout=1)
        self.fails("DEADLINE_EXCEEDED", client.count)
        client.count()

    def test_a_timeout_is_of_the_whole_call(self):
        """Also of one that needs an ID first, and so a node."""
        client, start = self.make(self.silent()), wire.clock()
        self.fails(("DEADLINE_EXCEEDED", "UNAVAILABLE"), client.enqueue, "q", timeout=0.5)
        self.fails(("DEADLINE_EXCEEDED", "UNAVAILABLE"), client.enqueue, "q", timeout=0.5, key="k", delay=1)
        self.assertLess(wire.clock() - start, 15)  # by default it would be 30, each

    def test_many_wait_for_a_node_together(self):
        client, failed = self.make(self.silent(), Fake(self, lambda *_: COUNT).addr, timeout=12), []

        def call():
            try:
                client.count()
            except norn.Error as e:
                failed.append(e)

        threads = [threading.Thread(target=call) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(failed, [])

    def silent(self):
        listener = socket.create_server(("127.0.0.1", 0))  # it takes connections, and nobody reads from them
        self.addCleanup(listener.close)
        return "127.0.0.1:%d" % listener.getsockname()[1]


class Nonsense(Case):
    def test_an_answer_that_cannot_be_read(self):
        answers = iter([b"\xff\xff\xff", COUNT, pb.CountReply()])
        client = self.make(Fake(self, lambda *_: next(answers)).addr, timeout=PATIENCE)
        self.fails("INTERNAL", client.count)
        client.count()  # the connection is still read
        fake = Fake(self, lambda method, _: b"\xff\xff\xff" if method == pb.METHOD_CANCEL else pb.PingReply())
        self.fails("INTERNAL", self.make(fake.addr).cancel, [bytes(20)], unknown=True)

    def test_too_few_results(self):
        client = self.make(Fake(self, lambda *_: b"").addr)
        self.fails("INTERNAL", client.cancel, [bytes(20)], unknown=True)


class Batches(Case):
    def batches(self, fake):
        return [pb.EnqueueRequest.FromString(body).tasks for method, body in fake.asked if method == pb.METHOD_ENQUEUE]

    def specs(self, n, **fields):
        return [tasks.TaskSpec(queue="q", id=os.urandom(20), **fields) for _ in range(n)]

    def enqueues(self, judge):
        """A server that judges batches."""
        return Fake(self, lambda method, body: judge(pb.EnqueueRequest.FromString(body).tasks) if method == pb.METHOD_ENQUEUE else pb.PingReply())

    def test_limits(self):
        fake = self.enqueues(lambda batch: pb.EnqueueReply(results=[done(s) for s in batch]))
        client = self.make(fake.addr)
        for r in client.enqueue_many(self.specs(25, dependencies=[os.urandom(20)] * 1000)):
            self.assertIsInstance(r, norn.Receipt)
        self.assertEqual([len(b) for b in self.batches(fake)], [10, 10, 5])
        fake.asked.clear()
        client.enqueue_many(self.specs(2000, headers={"h": "x" * 16_000}))  # 32 MB and no payload: a frame has 24
        self.assertGreater(len(self.batches(fake)), 1)

    def test_it_is_said_of_each_what_is_known(self):
        """The first answer is lost, and the second says that nothing was done: the first may have done it."""
        said = iter([None, UNAVAILABLE])

        def judge(batch):
            kind = next(said, UNAVAILABLE)
            return kind if kind is None else pb.EnqueueReply(results=[item(kind) for _ in batch])

        fake = self.enqueues(judge)
        client = self.make(fake.addr)
        client.connection()
        threading.Timer(0.5, lambda: [s.shutdown(socket.SHUT_RDWR) for s in fake.socks[1:]]).start()
        result, = client.enqueue_many(self.specs(1), timeout=3)
        self.is_error(result, "UNAVAILABLE", unknown=True)

    def test_what_was_done_is_said(self):
        """Of two requests one is answered: it must not look as if nothing had happened."""
        def judge(batch):
            return pb.EnqueueReply(results=[done(s) for s in batch]) if len(batch) == 10 else failure(UNAVAILABLE)

        specs = self.specs(13, dependencies=[os.urandom(20)] * 1000)
        results = self.make(self.enqueues(judge).addr).enqueue_many(specs, timeout=3)
        self.assertEqual([r.id for r in results[:10]], [ids.id_text(s.id) for s in specs[:10]])
        for r in results[10:]:
            self.is_error(r, "UNAVAILABLE")

    def test_items_are_sent_again(self):
        specs = self.specs(3)
        said = iter([pb.EnqueueReply(results=[item(UNAVAILABLE), item(errors.ERROR_KIND_CONFLICT), done(specs[2])])])
        fake = self.enqueues(lambda batch: next(said, None) or pb.EnqueueReply(results=[done(s) for s in batch]))
        first, second, third = self.make(fake.addr).enqueue_many(specs)
        self.assertEqual(first.id, ids.id_text(specs[0].id))
        self.is_error(second, "CONFLICT")
        self.assertIsInstance(third, norn.Receipt)
        self.assertEqual([list(b) for b in self.batches(fake)], [specs, specs[:1]])


class Clocks(Case):
    def test_a_delay_is_of_the_servers_time(self):
        """An hour behind, ten minutes would be none at all."""
        hello = pb.HelloReply(version=1, cluster_id="c", limits=pb.Limits(max_in_flight=16))
        for ahead in (3600, -3600):
            hello.now.FromNanoseconds(time.time_ns() + ahead * 10**9)
            client = self.make(Fake(self, hello=hello).addr)
            not_before = client.spec("q", delay=600, id=bytes(20)).not_before.ToNanoseconds()
            self.assertLess(abs(not_before / 1e9 - time.time() - ahead - 600), PATIENCE)


class Claims(Case):
    def test_who_claims_no_more_names_what_was_not_answered(self):
        self.client.enqueue(self.q)
        proxy = Proxy(self, pb.METHOD_CLAIM, times=1000)
        client = self.make(proxy.addr)
        self.fails(("UNAVAILABLE", "DEADLINE_EXCEEDED"), client.claim, [self.q], timeout=1, unknown=True)
        client.stop_claiming()
        self.fails(("UNAVAILABLE", "DEADLINE_EXCEEDED"), client.free_unanswered, timeout=1, unknown=True)
        proxy.left = 0
        client.free_unanswered()
        self.one(wait=10)  # not only after the lease of 30 s

    def worker(self, addr, *command, lease="30", **options):
        p = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "examples", "run_commands.py"), "--addr", addr, "-q", self.q, "--wait", "10", "--lease", lease, *command],
            stderr=subprocess.PIPE, text=True, **options)
        self.addCleanup(p.stderr.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        return p

    def state(self, task):
        return self.client.get(task).state

    def test_many_that_wait_in_vain_end_together(self):
        client = self.make(Fake(self, lambda *_: None).addr)
        threads = [threading.Thread(target=lambda: self.fails("CANCELLED", client.claim, ["q"], unknown=True)) for _ in range(12)]
        for t in threads:
            t.start()
        self.eventually(lambda: len(client._waiting) == 12)
        start = wire.clock()
        client.stop_claiming()
        self.assertLess(wire.clock() - start, 4)  # each by itself would take 6
        for t in threads:
            t.join(PATIENCE)

    def test_a_worker_that_ends_frees_what_was_not_answered(self):
        task = self.client.enqueue(self.q).id
        proxy = Proxy(self, pb.METHOD_CLAIM, silent=True)
        p = self.worker(proxy.addr, "true")
        self.eventually(lambda: proxy.cut)
        p.terminate()
        self.assertEqual(p.wait(PATIENCE), 0)
        self.assertEqual((self.state(task), self.client.get(task).attempts), (tasks.STATE_READY, 0))

    def test_a_third_signal_ends_a_worker_whom_nobody_hears(self):
        self.client.enqueue(self.q)
        proxy = Proxy(self, pb.METHOD_WORK, times=1 << 30)
        p = self.worker(proxy.addr, "true")
        self.eventually(lambda: proxy.cut > 1)
        for _ in range(PATIENCE):
            p.terminate()
            try:
                self.assertEqual(p.wait(1), 1)
                return
            except subprocess.TimeoutExpired:
                pass
        self.fail("it goes on")

    def test_a_machine_without_room_fails_tasks_and_goes_on(self):
        task = self.client.enqueue(self.q, retry=tasks.RetryPolicy(max_attempts=1)).id
        p = self.worker(ADDR, "true", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
        self.eventually(lambda: self.state(task) == tasks.STATE_DEAD)
        self.assertIn("cannot be run", self.client.get(task).error)
        self.assertIsNone(p.poll())

    def test_a_renewal_that_is_not_answered_is_made_elsewhere(self):
        task = self.client.enqueue(self.q).id
        proxy = Proxy(self, pb.METHOD_RENEW, times=1000, silent=True)
        self.worker(proxy.addr + "," + ADDR, "--", "sleep", "12", lease="8")
        self.eventually(lambda: self.state(task) in (tasks.STATE_COMPLETED, tasks.STATE_DEAD))
        self.assertGreater(proxy.cut, 0)
        self.assertEqual(len(self.client.get(task).claims), 1)


class Runs(unittest.TestCase):
    """One command, and what is said of it, without a server."""

    def setUp(self):
        grant = tasks.Grant(task=tasks.Task(id="0" * 27, queue="q"), token=1, lease_seconds=5)
        self.said = []
        client = types.SimpleNamespace(**{name: self.says(name) for name in ("fail", "release")})
        self.worker = types.SimpleNamespace(client=client, complete=self.says("complete"), args=types.SimpleNamespace(command=["true"]), aborting=threading.Event(), ended=threading.Event())
        self.run_ = worker.Run(self.worker, norn.Claim(grant, wire.clock(), 0))

    def says(self, name):
        def say(*_, **__):
            self.said.append(name)
            return []
        return say

    def test_work_that_is_done_counts_though_the_claim_is_lost(self):
        attend = self.run_.attend

        def lose(process):
            why = attend(process)
            self.run_.lost = "it lapsed"
            return why

        self.run_.attend = lose
        self.run_.run()
        self.assertEqual(self.said, ["complete"])

    def test_a_command_that_cannot_be_told_to_end(self):
        """As one of another user: its slot and its claim wait for it."""
        self.worker.args.command = ["sleep", "1"]
        self.worker.aborting.set()
        with unittest.mock.patch("os.killpg", side_effect=PermissionError("not yours")):
            self.run_.run()
        self.assertEqual(self.said, ["release"])

    def test_no_command_goes_on_by_itself(self):
        self.worker.args.command, killed = ["sleep", "60"], []
        self.run_.attend = lambda process: killed.append(process) or next(iter(()))
        self.run_.run()
        self.assertEqual((self.said, killed[0].returncode), (["fail"], -9))
        killed[0].stdout.close()
