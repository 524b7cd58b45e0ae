"""The life of tasks, from enqueue to completion."""

import os
import struct
import threading
import time

import norn
from harness import PATIENCE, Case, queue
from norn import ids, wire
from norn.v1 import service_pb2 as pb, task_pb2 as tasks


class Tasks(Case):
    def test_enqueue_again(self):
        spec = self.client.spec(self.q, b"Ada", priority=3, headers={"a": "1", "b": "2"})
        first, second = self.client.enqueue_many([spec]) + self.client.enqueue_many([spec])
        self.assertEqual((first.id, first.existed, second.existed), (ids.id_text(spec.id), False, True))
        self.assertEqual((first.copies, first.durable_copies, first.hinted), (1, 1, 0))
        self.assertEqual(first.partition, ids.partition_of(spec.id, self.client.connection().placement.partitions))
        other = tasks.TaskSpec()
        other.CopyFrom(spec)
        other.payload = b"Eve"
        self.is_error(self.client.enqueue_many([other])[0], "ALREADY_EXISTS")
        reply = self.client.call(pb.METHOD_ENQUEUE, pb.EnqueueRequest(tasks=[other]))
        self.assertEqual(len(reply.results[0].stored_digest), 16)
        task = self.client.get(first.id)
        self.assertEqual((task.payload, task.priority, dict(task.headers), task.state), (b"Ada", 3, {"a": "1", "b": "2"}, tasks.STATE_READY))
        self.assertEqual(self.client.count(self.q).total.total, 1)

    def test_without_an_id_the_server_makes_one(self):
        reply = self.client.call(pb.METHOD_ENQUEUE, pb.EnqueueRequest(tasks=[tasks.TaskSpec(queue=self.q)]))
        self.assertEqual(ids.id_bytes(reply.results[0].receipt.id)[7] & 3, 0)

    def test_partitions(self):
        specs = [self.client.spec(self.q) for _ in range(200)]
        for spec, receipt in zip(specs, self.client.enqueue_many(specs)):
            self.assertEqual(receipt.partition, ids.partition_of(spec.id, 64))

    def test_best_first(self):
        low, high, mid, mid_later = (self.client.enqueue(self.q, priority=p).id for p in (-5, 7, 0, 0))
        self.assertEqual([c.task.id for c in self.client.claim([self.q], max_tasks=9)], [high, mid, mid_later, low])

    def test_bad_items_harm_only_themselves(self):
        limit = self.client.connection().hello.limits.max_payload_bytes
        old = tasks.TaskSpec(queue=self.q, id=struct.pack(">II", 1, 0) + os.urandom(12))
        kinds = {
            "queue name": (tasks.TaskSpec(queue="no good"), "INVALID_ARGUMENT"),
            "no queue": (tasks.TaskSpec(), "INVALID_ARGUMENT"),
            "payload": (tasks.TaskSpec(queue=self.q, payload=bytes(limit + 1)), "INVALID_ARGUMENT"),
            "length of the ID": (tasks.TaskSpec(queue=self.q, id=b"x"), "INVALID_ARGUMENT"),
            "kind of the ID": (tasks.TaskSpec(queue=self.q, id=old.id[:7] + b"\x01" + old.id[8:]), "INVALID_ARGUMENT"),
            "headers": (tasks.TaskSpec(queue=self.q, headers={str(i): "" for i in range(65)}), "INVALID_ARGUMENT"),
            "jitter": (tasks.TaskSpec(queue=self.q, retry=tasks.RetryPolicy(jitter=2)), "INVALID_ARGUMENT"),
            "future": (tasks.TaskSpec(queue=self.q, id=ids.Generator().next(time.time_ns() + 60 * 10**9)), "OUT_OF_WINDOW"),
        }
        good = self.client.spec(self.q)
        for spec, _ in kinds.values():
            spec.id = spec.id or self.client.new_id().raw
        results = self.client.enqueue_many([spec for spec, _ in kinds.values()] + [good])
        for (name, (_, kind)), result in zip(kinds.items(), results):
            with self.subTest(name):
                self.is_error(result, kind)
        self.assertEqual(results[-1].id, ids.id_text(good.id))
        self.assertEqual(self.client.count(self.q).total.total, 1)

    def test_whole_requests_that_are_refused(self):
        call = self.client.call
        for name, method, message in (
                ("empty batch", pb.METHOD_ENQUEUE, pb.EnqueueRequest()),
                ("batch", pb.METHOD_RENEW, pb.RenewRequest(claims=[pb.ClaimRef(id=bytes(20), token=1)] * 10001)),
                ("no queue", pb.METHOD_CLAIM, pb.ClaimRequest()),
                ("session", pb.METHOD_CLAIM, pb.ClaimRequest(queues=[self.q], session=b"short")),
                ("lease", pb.METHOD_CLAIM, pb.ClaimRequest(queues=[self.q], lease_seconds=0.5)),
                ("wait", pb.METHOD_CLAIM, pb.ClaimRequest(queues=[self.q], wait_seconds=301)),
                ("page", pb.METHOD_LIST, pb.ListRequest(limit=1001)),
                ("cursor", pb.METHOD_LIST, pb.ListRequest(cursor=b"x")),
                ("state", pb.METHOD_LIST, pb.ListRequest(states=[99])),
                ("ID", pb.METHOD_GET, pb.GetRequest(id=b"x")),
                ("level", pb.METHOD_ENQUEUE, pb.EnqueueRequest(tasks=[tasks.TaskSpec(queue=self.q)], durability=pb.Durability(level=9)))):
            with self.subTest(name):
                self.fails("INVALID_ARGUMENT", call, method, message)
        e = self.fails("UNAVAILABLE", self.client.enqueue, self.q, timeout=3, durability=pb.Durability(level=pb.WRITE_LEVEL_COUNT, copies=2))
        self.assertEqual(e.guarantee, "durable copies")
        self.fails("NOT_FOUND", self.client.get, self.client.new_id())
        self.fails("NOT_FOUND", self.client.log, self.client.new_id())

    def test_large_batches_are_split(self):
        specs = [self.client.spec(self.q, bytes(900_000)) for _ in range(20)]  # 18 MB
        self.assertEqual([r.existed for r in self.client.enqueue_many(specs)], [False] * 20)
        claims = []
        while len(claims) < 20:
            got = self.client.claim([self.q], max_tasks=20)
            self.assertTrue(got)
            claims += got
        self.assertEqual([c.id for c in claims], [ids.id_text(s.id) for s in specs])
        self.assertEqual([r.existed for r in self.client.complete_many(claims)], [False] * 20)

    def test_later(self):
        start = time.time()
        task = self.client.get(self.client.enqueue(self.q, delay=5).id)
        self.assertEqual(task.state, tasks.STATE_SCHEDULED)
        self.assertEqual(self.client.claim([self.q]), [])
        self.assertEqual(self.one(wait=PATIENCE).task.id, task.id)
        self.assertGreaterEqual(time.time(), start + 5)

    def test_reading(self):
        specs = [self.client.spec(self.q, b"%d" % i) for i in range(25)]
        self.client.enqueue_many(specs)
        self.client.complete(self.one())
        for page in (1, 10, 25, 1000):
            self.assertEqual([t.payload for t in self.client.list(self.q, page=page)], [s.payload for s in specs])
        self.assertEqual([t.payload for t in self.client.list(self.q, states=[tasks.STATE_COMPLETED])], [b"0"])
        reply = self.client.call(pb.METHOD_LIST, pb.ListRequest(queue=self.q, limit=10))
        self.assertEqual(len(reply.tasks), 10)
        self.assertTrue(reply.next_cursor)
        count = self.client.count(self.q)
        self.assertEqual((count.total.total, count.total.ready, count.total.completed), (25, 24, 1))
        self.assertEqual([c.queue for c in count.queues], [self.q])
        self.assertIn(self.q, [c.queue for c in self.client.count().queues])
        status = self.client.status()
        self.assertEqual((len(status.nodes), len(status.partitions), status.cluster_id), (1, 64, self.client.cluster_id))

    def test_many_threads_one_connection(self):
        got, connection = {}, self.client.connection()

        def run(n):
            for i in range(20):
                payload = b"%d %d" % (n, i)
                receipt = self.client.enqueue(self.q, payload)
                got[payload] = self.client.get(receipt.id).payload

        threads = [threading.Thread(target=run, args=(n,)) for n in range(24)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(len(got), 480)
        self.assertTrue(all(k == v for k, v in got.items()))
        self.assertIs(self.client.connection(), connection)


class Claims(Case):
    def test_nothing(self):
        start = time.monotonic()
        self.assertEqual(self.client.claim([self.q]), [])
        self.assertEqual(self.client.claim([self.q], wait=0.3), [])
        self.assertGreaterEqual(time.monotonic(), start + 0.3)

    def test_long_poll(self):
        other, before = queue(), wire.clock()
        timer = threading.Timer(0.3, self.client.enqueue, (self.q, b"late"))
        timer.start()
        claim = self.client.claim([other, self.q], lease=20, wait=PATIENCE, worker="py")[0]
        after = wire.clock()
        timer.join()
        self.assertEqual((claim.task.payload, claim.task.queue, claim.lease), (b"late", self.q, 20))
        self.assertEqual([(c.worker, c.outcome, c.token) for c in claim.task.claims], [("py", tasks.CLAIM_OUTCOME_ACTIVE, claim.token)])
        # The lease counts from the grant, not from the beginning of the wait.
        self.assertGreater(claim.deadline, before + 0.3 + 19.9 - 0.1)
        self.assertLess(claim.deadline, after + 20)

    def test_the_same_claim_again(self):
        self.client.enqueue(self.q)
        self.client.enqueue(self.q)
        number = self.client.next_claim()
        first, second = (self.one(number=number) for _ in range(2))
        self.assertEqual((first.id, first.token), (second.id, second.token))
        self.assertNotEqual(self.one().id, first.id)

    def test_complete_and_claim(self):
        for payload in (b"1", b"2"):
            self.client.enqueue(self.q, payload)
        first = self.one()
        results, claims, error = self.client.work([(first, b"done")], [self.q], lease=7, worker="py")
        self.assertIsNone(error)
        self.assertEqual([r.id for r in results], [first.task.id])
        self.assertEqual([(c.task.payload, c.lease) for c in claims], [(b"2", 7)])
        self.assertEqual(self.client.get(first.task.id).result, b"done")
        results, claims, error = self.client.work([(claims[0], b""), (first, b"done")], [self.q])
        self.assertEqual((len(results), claims, error), (2, [], None))
        # What is wrong with one part says nothing of the other.
        self.client.enqueue(self.q, b"3")
        last = self.one()
        results, claims, error = self.client.work([(last, b"")], ["no good"])
        self.assertEqual((results[0].id, claims, error.name), (last.task.id, [], "INVALID_ARGUMENT"))

    def test_renew(self):
        self.client.enqueue(self.q)
        claim = self.one(lease=5)
        before = claim.deadline
        self.assertEqual(self.client.renew([claim]), [None])
        self.assertEqual(claim.lease, 5)
        self.assertGreater(claim.deadline, before)
        self.assertEqual(self.client.renew([claim], lease=50), [None])
        self.assertEqual(claim.lease, 50)
        self.client.release([claim])
        lost, unknown = self.client.renew([claim, norn.Claim(pb.ClaimReply(grants=[{"task": {"id": self.client.new_id()}, "token": 1}]).grants[0], 0, 0)])
        self.is_error(lost, "CLAIM_LOST")
        self.is_error(unknown, "NOT_FOUND")

    def test_expiry(self):
        self.client.enqueue(self.q)
        dead = self.one(lease=1)
        self.client.update(dead, b"half")
        self.client.update(dead, b"noise", output=True)
        heir = self.one(lease=1, wait=PATIENCE)
        self.assertLess(dead.left(), 0)
        self.assertEqual((heir.id, heir.task.attempts, heir.checkpoint), (dead.id, 1, b"half"))
        self.assertGreater(heir.token, dead.token)
        self.is_error(self.client.renew([dead])[0], "CLAIM_LOST")
        self.fails("CLAIM_LOST", self.client.fail, dead, "too late")
        self.assertFalse(self.client.complete(dead, b"late").existed)  # late is better than never
        self.is_error(self.client.renew([heir])[0], "CLAIM_LOST")
        task = self.client.get(dead.id)
        self.assertEqual((task.state, task.result), (tasks.STATE_COMPLETED, b"late"))

    def test_log(self):
        self.client.enqueue(self.q)
        claim = self.one()
        seen = []
        follower = threading.Thread(target=lambda: seen.extend(u.data for u in self.client.follow(claim.id)))
        follower.start()
        for data in (b"a", b"b", b"c"):
            self.assertFalse(self.client.update(claim, data).existed)
        claim.seq = 1
        self.assertTrue(self.client.update(claim, b"b").existed)
        claim.seq = 4  # number 3 is missing: 4 is hidden
        self.client.update(claim, b"e")
        self.assertEqual([u.data for u in self.client.log(claim.id).updates], [b"a", b"b", b"c"])
        claim.seq = 3
        self.client.update(claim, b"d")
        claim.seq = 5
        page = self.client.log(claim.id, after=(claim.token, 0), limit=2)
        self.assertEqual(([u.data for u in page.updates], page.more), ([b"b", b"c"], True))
        self.assertFalse(self.client.complete(claim, b"result").existed)
        self.assertTrue(self.client.complete(claim, b"result").existed)
        follower.join(PATIENCE)
        self.assertEqual(seen, [b"a", b"b", b"c", b"d", b"e"])
        task = self.client.get(claim.id)
        self.assertEqual((task.state, task.result, [u.seq for u in task.updates]), (tasks.STATE_COMPLETED, b"result", [0, 1, 2, 3, 4]))

    def test_fail(self):
        self.client.enqueue(self.q, retry=tasks.RetryPolicy(max_attempts=2, initial_seconds=3, jitter=0.001))
        first = self.one()
        self.assertEqual(self.client.fail(first, "boom"), tasks.STATE_SCHEDULED)
        self.assertEqual(self.client.fail(first, "boom"), self.client.get(first.id).state)  # a repetition
        second = self.one(wait=PATIENCE)
        self.assertEqual((second.task.attempts, second.task.error), (1, "boom"))
        self.assertEqual(self.client.fail(second, "not now", retry_in=0.1, uncounted=True), tasks.STATE_SCHEDULED)
        third = self.one(wait=PATIENCE)
        self.assertEqual(third.task.attempts, 1)
        self.assertEqual(self.client.fail(third, "x" * 20000 + "end"), tasks.STATE_DEAD)
        task = self.client.get(first.id)
        self.assertEqual((task.state, task.attempts, [c.outcome for c in task.claims]), (tasks.STATE_DEAD, 2, [tasks.CLAIM_OUTCOME_FAILED] * 3))
        self.assertTrue(task.error.endswith("xend"))
        self.assertLess(len(task.error), 17000)
        self.client.enqueue(self.q)
        self.assertEqual(self.client.fail(self.one(), "hopeless", discard=True), tasks.STATE_DEAD)

    def test_release(self):
        self.client.enqueue(self.q)
        first = self.one()
        self.assertFalse(self.client.release([first])[0].existed)
        self.assertTrue(self.client.release([first])[0].existed)
        second = self.one()
        self.assertEqual((second.id, second.task.attempts), (first.id, 0))
        self.assertGreater(second.token, first.token)
        self.is_error(self.client.release([norn.Claim(pb.ClaimReply(grants=[{"task": second.task.raw, "token": 1}]).grants[0], 0, 0)])[0], "CLAIM_LOST")
