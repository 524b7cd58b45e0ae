"""The worker with handlers, and the client for asyncio."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import unittest

import norn
from harness import ADDR, HERE, PATIENCE, Case, Proxy
from norn.v1 import service_pb2 as pb


class Workers(Case):
    def worker(self, **options):
        return norn.Worker(self.client, queues=[self.q], **options)

    def done(self, n=1):
        self.eventually(lambda: self.make_count().completed == n)

    def make_count(self):
        return self.other.count(self.q).total

    def setUp(self):
        super().setUp()
        self.other = self.make()

    def test_functions_and_coroutines(self):
        worker = self.worker(slots=3)

        @worker.handle(self.q)
        def plain(job):
            return b"plain " + job.payload

        @worker.handle(kind="other")
        async def other(job):
            await asyncio.sleep(0.01)
            await job.update_async("half")
            return "coroutine %d" % job.attempt

        tasks = [self.other.enqueue(self.q, b"%d" % n).id for n in range(5)]
        special = self.other.enqueue(self.q, kind="other").id
        with worker:
            self.done(6)
        self.assertEqual([self.other.get(t).result for t in tasks], [b"plain %d" % n for n in range(5)])
        task = self.other.get(special)
        self.assertEqual((task.result, [u.data for u in task.updates]), (b"coroutine 1", [b"half"]))
        self.assertEqual(self.client.claim([self.q]), [])  # the client may claim again

    def test_steering(self):
        worker = self.worker()

        @worker.handle(self.q)
        def steer(job):
            if job.attempt > 1:
                return job.checkpoint
            what = job.payload.decode()
            if what == "again":
                job.update(b"page 1")
                raise norn.RetryAfter(0.01, "not yet")
            if what == "later":
                raise norn.Snooze(600)
            if what == "dead":
                raise norn.Discard("hopeless")
            raise ValueError("boom")

        ids = {what: self.other.enqueue(self.q, what, max_attempts=1 if what == "bug" else 9).id for what in ("again", "later", "dead", "bug")}
        with worker:
            self.eventually(lambda: [getattr(self.make_count(), s) for s in ("completed", "scheduled", "dead")] == [1, 1, 2])
        again, later, dead, bug = (self.other.get(ids[what]) for what in ("again", "later", "dead", "bug"))
        self.assertEqual((again.state, again.result, again.attempts), (norn.State.COMPLETED, b"page 1", 1))
        self.assertEqual((later.state, later.attempts), (norn.State.SCHEDULED, 0))
        self.assertEqual((dead.state, dead.error), (norn.State.DEAD, "hopeless"))
        self.assertIn("ValueError: boom", bug.error)

    def test_the_end_of_a_claim_ends_the_handler(self):
        worker, began, ended = self.worker(slots=2, lease=4), threading.Semaphore(0), []

        @worker.handle(self.q)
        def plain(job):
            began.release()
            while not job.ended:
                job._worker._ended.wait(0.02)
            ended.append("function")
            job.check()

        @worker.handle(kind="coroutine")
        async def coroutine(job):
            began.release()
            try:
                await asyncio.sleep(PATIENCE)
            except asyncio.CancelledError:
                ended.append("coroutine")
                raise

        tasks = [self.other.enqueue(self.q).id, self.other.enqueue(self.q, kind="coroutine").id]
        with worker:
            for _ in tasks:
                self.assertTrue(began.acquire(timeout=PATIENCE))
            self.other.cancel(tasks)
            self.eventually(lambda: sorted(ended) == ["coroutine", "function"])
        self.assertEqual({self.other.get(t).state for t in tasks}, {norn.State.CANCELLED})

    def test_a_stop_lets_finish_and_a_hard_one_gives_back(self):
        for hard in (False, True):
            with self.subTest(hard):
                self.q += "x"
                worker, began, go = self.worker(patience=PATIENCE), threading.Event(), threading.Event()

                @worker.handle(self.q)
                def slow(job):
                    began.set()
                    while not go.wait(0.02):
                        job.check()
                    return b"whole"

                first = self.other.enqueue(self.q).id
                second = self.other.enqueue(self.q).id
                running = threading.Thread(target=worker.run)
                running.start()
                self.assertTrue(began.wait(PATIENCE))
                (worker.stop_now if hard else worker.stop)()
                if not hard:
                    go.set()
                running.join(PATIENCE)
                self.assertFalse(running.is_alive())
                one, two = self.other.get(first), self.other.get(second)
                self.assertEqual((one.state, one.attempts), (norn.State.READY, 0) if hard else (norn.State.COMPLETED, 0))
                self.assertEqual((two.state, two.attempts), (norn.State.READY, 0))

    def test_one_request_completes_and_claims(self):
        proxy = Proxy(self, pb.METHOD_WORK, times=0)
        for _ in range(5):
            self.other.enqueue(self.q)
        worker = norn.Worker(self.make(proxy.addr), queues=[self.q])
        worker.handle(self.q)(lambda job: None)
        with worker:
            self.done(5)
        self.assertEqual(proxy.seen, 5)

    def test_a_token_that_is_refused_ends_it(self):
        class Refused(norn.Client):
            def claim(self, *_, **__):
                raise norn.Error(9, "who are you")

        worker = norn.Worker(Refused("127.0.0.1:1"), queues=[self.q])
        worker.handle(self.q)(lambda job: None)
        e = self.fails("UNAUTHENTICATED", worker.run)
        self.assertIn("who are you", str(e))

    def test_mistakes_are_told(self):
        with self.assertRaisesRegex(ValueError, "no handler"):
            self.worker().run()
        with self.assertRaisesRegex(ValueError, "no queue"):
            norn.Worker(self.client).run()
        with self.assertRaisesRegex(ValueError, "of a queue or of a kind"):
            self.worker().handle()
        with self.assertRaisesRegex(TypeError, "list of names"):
            self.client.claim(self.q)
        with self.assertRaisesRegex(TypeError, "list of IDs"):
            self.client.cancel(self.client.new_id())


class Async(Case, unittest.IsolatedAsyncioTestCase):
    async def test_calls(self):
        async with norn.AsyncClient(self.client.addresses[0]) as client:
            receipts = await asyncio.gather(*(client.enqueue(self.q, b"%d" % n) for n in range(20)))
            self.assertEqual([t.id async for t in client.list(self.q)], sorted(r.id for r in receipts))
            claim, = await client.claim([self.q])
            await client.update(claim, b"half")
            self.assertEqual(await client.renew([claim], 60), [None])
            results, claims, _ = await client.work([(claim, b"done")], [self.q])
            self.assertIsInstance(results[0], norn.Receipt)
            self.assertEqual([u.data async for u in client.follow(claim.id)], [b"half"])
            self.assertEqual((await client.get(claim.id)).result, b"done")
            self.assertEqual(await client.fail(claims[0], "x", discard=True), norn.State.DEAD)
            with self.assertRaises(norn.Error):
                await client.get(await asyncio.to_thread(client.sync.new_id))
            self.assertEqual((await client.count(self.q)).total.total, 20)

    async def test_a_claim_that_was_cancelled_keeps_nothing(self):
        async with norn.AsyncClient(self.client.addresses[0]) as client:
            waiting = asyncio.ensure_future(client.claim([self.q], wait=PATIENCE, lease=600))
            connection = await asyncio.to_thread(client.sync.connection)
            while connection.open == 0:
                await asyncio.sleep(0.01)
            waiting.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await waiting
            task = (await asyncio.to_thread(self.client.enqueue, self.q)).id
            claims = await asyncio.to_thread(self.client.claim, [self.q], wait=PATIENCE)
            self.assertEqual([c.id for c in claims], [task])

    async def test_a_worker_on_this_loop(self):
        loop = asyncio.get_running_loop()
        async with norn.AsyncClient(self.client.addresses[0]) as client:
            worker, on = norn.Worker(client.sync), []

            @worker.handle(self.q)
            async def here(job):
                on.append(asyncio.get_running_loop() is loop)
                worker.stop()

            task = (await client.enqueue(self.q)).id
            await asyncio.wait_for(worker.run_async(), PATIENCE)
            self.assertEqual((on, (await client.get(task)).state), ([True], norn.State.COMPLETED))


class Examples(Case):
    """The programs in examples, as their pages show them."""

    def run_example(self, name):
        done = subprocess.run(
            [sys.executable, "-W", "error::ResourceWarning", os.path.join(HERE, "examples", name)], env=dict(os.environ, NORN_ADDR=ADDR),
            capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_first_task(self):
        self.assertEqual(self.run_example("first_task.py"), "Hello, Ada!\n")

    def test_pages(self):
        lines = self.run_example("pages.py").splitlines()
        self.assertGreaterEqual(len(lines), 4)
        self.assertRegex(lines[-1], "^[0-9A-Za-z]{27} (READY|SCHEDULED)$")

    def test_service(self):
        process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "examples", "service.py")], env=dict(os.environ, NORN_ADDR=ADDR), stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        report = self.client.enqueue("reports").id
        good, bad = (self.client.enqueue("reports", a, kind="send-welcome").id for a in ("ada@mail.example", "nobody"))
        self.eventually(lambda: all(self.client.get(t).state.finished for t in (report, good, bad)))
        self.assertEqual(self.client.get(report).result, b"3 pages")
        self.assertEqual((self.client.get(good).state, self.client.get(good).attempts), (norn.State.COMPLETED, 1))
        self.assertEqual(self.client.get(bad).error, "'nobody' is no address")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(PATIENCE), 0)
