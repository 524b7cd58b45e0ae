"""Dependencies, unique keys, cancel, retry, explain, filters and the settings of queues."""

import threading
import time

import norn
from harness import PATIENCE, Case
from norn import ids
from norn.v1 import service_pb2 as pb, task_pb2 as tasks

WAITING, SCHEDULED, READY, CLAIMED = tasks.STATE_WAITING, tasks.STATE_SCHEDULED, tasks.STATE_READY, tasks.STATE_CLAIMED
COMPLETED, DEAD, CANCELLED = tasks.STATE_COMPLETED, tasks.STATE_DEAD, tasks.STATE_CANCELLED


class Control(Case):
    def add(self, payload=b"", **fields):
        return self.client.enqueue(self.q, payload, **fields).id

    def state(self, task):
        return self.client.get(task).state

    def kill(self, error="hopeless"):
        """Has the next task of the queue die."""
        claim = self.one()
        self.assertEqual(self.client.fail(claim, error, discard=True), DEAD)
        return claim.task.id


class Dependencies(Control):
    def after(self, *dependencies, **fields):
        return self.add(dependencies=[ids.id_bytes(d) for d in dependencies], **fields)

    def test_order(self):
        a, b = self.add(), self.add()
        c = self.after(a, b)
        self.assertEqual(self.state(c), WAITING)
        self.assertEqual(self.client.get(c).dependencies, (a, b))
        claims = self.client.claim([self.q], max_tasks=9)
        self.assertEqual([x.task.id for x in claims], [a, b])
        for x in claims:
            self.assertEqual(self.client.claim([self.q]), [])
            self.client.complete(x)
        self.assertEqual(self.one(wait=PATIENCE).task.id, c)
        self.assertEqual(self.state(self.after(a, b)), READY)  # they are done already

    def test_a_dependency_that_is_not_there_yet(self):
        dependency = self.client.new_id()
        task = self.after(dependency)
        self.assertEqual(self.state(task), WAITING)
        self.client.enqueue(self.q, id=dependency)
        self.client.complete(self.one())
        self.assertEqual(self.one(wait=PATIENCE).task.id, task)

    def test_what_follows_from_a_failure(self):
        dependency = self.add()
        policies = (tasks.DEPENDENCY_FAILURE_CANCEL, tasks.DEPENDENCY_FAILURE_RUN, tasks.DEPENDENCY_FAILURE_WAIT)
        cancel, run, wait = (self.after(dependency, on_dependency_failure=p) for p in policies)
        last = self.after(cancel)
        self.kill()
        self.eventually(lambda: [self.state(t) for t in (cancel, run, wait, last)] == [CANCELLED, READY, WAITING, CANCELLED])
        self.assertIn(dependency, self.client.get(cancel).error)
        # Each in its turn can be given another run.
        e = self.client.retry([cancel])[0]
        self.is_error(e, "CONFLICT")
        self.assertIn(dependency, e.message)
        self.assertEqual(self.client.retry([dependency])[0].state, READY)
        self.assertEqual(self.client.retry([cancel])[0].state, WAITING)

    def test_nonsense(self):
        own = self.client.new_id()
        self.fails("INVALID_ARGUMENT", self.client.enqueue, self.q, id=own, dependencies=[own])
        with self.assertRaises(ValueError):
            self.client.enqueue(self.q, dependencies=[b"x"])
        self.fails("INVALID_ARGUMENT", self.client.enqueue, self.q, dependencies=[own] * 1001)


class Keys(Control):
    def test_until_finished(self):
        free = self.client.key(self.q, "k")
        self.assertEqual((free.state, free.id[7] & 3), (tasks.STATE_UNSPECIFIED, 2))
        first = self.client.enqueue(self.q, b"x", key="k")
        self.assertEqual((ids.id_bytes(first.id), first.existed), (free.id, False))
        self.assertEqual(self.client.key(self.q, "k").state, READY)
        again = self.client.enqueue(self.q, b"x", key="k")
        self.assertEqual((again.id, again.existed), (first.id, True))
        e = self.fails("ALREADY_EXISTS", self.client.enqueue, self.q, b"y", key="k")
        self.assertIn(first.id, e.message)
        self.client.complete(self.one())
        self.assertTrue(self.client.enqueue(self.q, b"x", key="k", id=ids.id_bytes(first.id)).existed)  # the repetition of then
        second = self.client.enqueue(self.q, b"y", key="k")
        self.assertNotEqual(second.id, first.id)
        self.assertEqual((second.existed, self.client.get(second.id).key), (False, "k"))

    def test_window(self):
        month = 30 * 86400
        first = self.client.enqueue(self.q, b"x", key="k", key_window_seconds=month)
        self.client.complete(self.one())
        self.assertTrue(self.client.enqueue(self.q, b"x", key="k", key_window_seconds=month).existed)
        seconds = int.from_bytes(ids.id_bytes(first.id)[:4], "big") + 1_400_000_000
        self.assertEqual(seconds % month, 0)
        self.assertEqual(self.client.get(first.id).key_window_seconds, month)

    def test_ids(self):
        self.fails("INVALID_ARGUMENT", self.client.enqueue, self.q, key="k", id=self.client.new_id())
        self.fails("INVALID_ARGUMENT", self.client.key, self.q, "")
        reply = self.client.call(pb.METHOD_ENQUEUE, pb.EnqueueRequest(tasks=[tasks.TaskSpec(queue=self.q, key="k")]))
        self.assertEqual(ids.id_bytes(reply.results[0].receipt.id), self.client.key(self.q, "k").id)
        self.assertNotEqual(self.client.key(self.q, "k").id, self.client.key(self.q + "2", "k").id)


class Cancel(Control):
    def test_states(self):
        ready, later, done = self.add(priority=1), self.add(delay=60), self.add(priority=2)
        self.client.complete(self.one())
        unknown = self.client.new_id()
        results = self.client.cancel([ready, later, done, unknown], "not needed")
        self.assertEqual([(r.state, r.existed) for r in results[:2]], [(CANCELLED, False)] * 2)
        self.is_error(results[2], "CONFLICT")
        self.assertEqual(results[2].state, COMPLETED)
        self.is_error(results[3], "NOT_FOUND")
        self.assertTrue(self.client.cancel([ready])[0].existed)
        task = self.client.get(ready)
        self.assertEqual((task.state, task.error), (CANCELLED, "not needed"))
        self.assertTrue(task.finished_at)
        self.assertEqual(self.client.claim([self.q]), [])

    def test_only_some_states(self):
        task = self.add()
        e = self.client.cancel([task], only_states=[SCHEDULED, WAITING])[0]
        self.is_error(e, "CONFLICT")
        self.assertEqual((e.state, self.state(task)), (READY, READY))
        self.assertEqual(self.client.cancel([task], only_states=[READY])[0].state, CANCELLED)

    def test_work_that_runs(self):
        for finish in (False, True):
            task = self.add()
            claim = self.one()
            self.client.cancel([task])
            e = self.client.renew([claim])[0]
            self.is_error(e, "CLAIM_LOST")
            self.assertEqual(e.state, CANCELLED)
            if finish:  # the completion wins
                self.client.complete(claim, b"done")
            self.assertEqual(self.state(task), COMPLETED if finish else CANCELLED)


class Retry(Control):
    def test_states(self):
        dead = self.add(retry=tasks.RetryPolicy(max_attempts=1))
        self.client.fail(self.one(), "boom")
        backs_off = self.add(retry=tasks.RetryPolicy(initial_seconds=600))
        self.client.fail(self.one(), "boom")
        self.assertEqual([self.state(dead), self.state(backs_off)], [DEAD, SCHEDULED])
        for task in (dead, backs_off):
            result = self.client.retry([task])[0]
            self.assertEqual((result.state, result.existed), (READY, False))
            self.assertEqual((self.state(task), self.client.get(task).attempts, self.client.get(task).retries), (READY, 0, 1))
            self.assertTrue(self.client.retry([task])[0].existed)
        self.assertEqual({c.task.id for c in self.client.claim([self.q], max_tasks=9)}, {dead, backs_off})

    def test_conflicts(self):
        self.add()
        done = self.one()
        self.client.complete(done)
        cancelled, later = self.add(), self.add(delay=600)
        self.client.cancel([cancelled])
        for task, state in ((done, COMPLETED), (cancelled, CANCELLED), (later, SCHEDULED)):
            e = self.client.retry([ids.id_bytes(task.task.id if isinstance(task, norn.Claim) else task)])[0]
            self.is_error(e, "CONFLICT")
            self.assertEqual(e.state, state)
        self.is_error(self.client.retry([self.client.new_id()])[0], "NOT_FOUND")
        self.is_error(self.client.retry([later], only_states=[DEAD])[0], "CONFLICT")


class Explain(Control):
    def reasons(self, task):
        reply = self.client.explain(task)
        self.assertEqual((reply.id, reply.queue, reply.state), (task, self.q, self.state(task)))
        self.assertTrue(all(r.text for r in reply.reasons))
        return {r.kind: r for r in reply.reasons}

    def test_reasons(self):
        first, second = self.add(), self.add()
        got = self.reasons(second)
        self.assertEqual(set(got), {pb.REASON_KIND_BEHIND, pb.REASON_KIND_NO_WORKER})
        self.assertEqual((got[pb.REASON_KIND_BEHIND].count, got[pb.REASON_KIND_BEHIND].count_is_bound), (1, False))
        self.client.claim([self.q], worker="py")
        self.assertEqual(self.reasons(first)[pb.REASON_KIND_CLAIMED].worker, "py")
        self.assertEqual(set(self.reasons(self.add(delay=60))), {pb.REASON_KIND_NOT_BEFORE})
        claim = self.one()
        self.client.fail(claim, "boom", retry_in=60)
        self.assertEqual(set(self.reasons(second)), {pb.REASON_KIND_BACK_OFF})
        self.client.cancel([second])
        self.assertEqual(set(self.reasons(second)), {pb.REASON_KIND_FINISHED})
        self.fails("NOT_FOUND", self.client.explain, self.client.new_id())

    def test_dependencies(self):
        known, unknown = self.add(), self.client.new_id()
        task = self.add(dependencies=[ids.id_bytes(known), ids.id_bytes(unknown)])
        got = self.reasons(task)
        self.assertEqual(set(got), {pb.REASON_KIND_DEPENDENCY, pb.REASON_KIND_UNKNOWN_DEPENDENCY})
        self.assertEqual((list(got[pb.REASON_KIND_DEPENDENCY].tasks), got[pb.REASON_KIND_DEPENDENCY].task_state), ([known], READY))
        self.assertEqual(list(got[pb.REASON_KIND_UNKNOWN_DEPENDENCY].tasks), [unknown])
        a, b = self.client.new_id(), self.client.new_id()
        self.add(id=a, dependencies=[b])
        self.add(id=b, dependencies=[a])
        cycle = self.reasons(a)[pb.REASON_KIND_CYCLE]
        self.assertEqual(set(cycle.tasks), {a, b})


class Queues(Control):
    def test_pause(self):
        self.assertTrue(self.client.set_queue(self.q, paused=True, note="repairs").settings.paused)
        task = self.add()
        self.assertEqual(self.client.claim([self.q]), [])
        self.assertEqual(self.state(task), READY)
        self.assertIn(pb.REASON_KIND_QUEUE_PAUSED, [r.kind for r in self.client.explain(task).reasons])
        claims = []
        waiter = threading.Thread(target=lambda: claims.extend(self.client.claim([self.q], wait=PATIENCE)))
        waiter.start()
        self.eventually(lambda: self.client.queues(self.q)[0].waiting_claims == 1)
        self.client.set_queue(self.q, paused=False, note="")
        waiter.join(PATIENCE)
        self.assertEqual([c.task.id for c in claims], [task])

    def test_claims_outlive_a_pause(self):
        self.add()
        claim = self.one()
        self.client.set_queue(self.q, paused=True)
        self.assertEqual(self.client.renew([claim]), [None])
        self.client.complete(claim)

    def test_drain(self):
        task = self.add()
        self.client.set_queue(self.q, draining=True)
        self.assertIn("draining", self.fails("CONFLICT", self.client.enqueue, self.q).message)
        self.assertEqual(self.one().task.id, task)
        self.client.set_queue(self.q, draining=False)
        self.add()

    def test_settings(self):
        first = self.client.set_queue(self.q, retry={"max_attempts": 3}, lease_seconds=7, max_tasks=2)
        self.assertEqual((first.settings.retry.max_attempts, first.settings.lease_seconds, first.effective.retry.multiplier), (3, 7, 2))
        self.assertEqual(self.client.get(self.add()).max_attempts, 3)
        self.assertEqual(self.one().lease, 7)
        self.add()
        self.fails("OVERLOADED", self.client.enqueue, self.q, timeout=3)
        second = self.client.set_queue(self.q, max_tasks=0, if_version=first.version)
        self.assertGreater(second.version, first.version)
        self.assertEqual((second.settings.lease_seconds, second.settings.max_tasks, second.count.total), (7, 0, 2))
        self.fails("CONFLICT", self.client.set_queue, self.q, if_version=first.version, paused=True)
        call = self.client.call
        self.fails("INVALID_ARGUMENT", call, pb.METHOD_SET_QUEUE, pb.SetQueueRequest(name=self.q))
        self.fails("INVALID_ARGUMENT", call, pb.METHOD_SET_QUEUE, pb.SetQueueRequest(name=self.q, fields=["colour"]))
        self.fails("INVALID_ARGUMENT", self.client.set_queue, "no good", paused=True)

    def test_list(self):
        self.fails("NOT_FOUND", self.client.queues, self.q)
        self.add()
        found, = self.client.queues(self.q)
        self.assertEqual((found.name, found.count.ready, found.version), (self.q, 1, 0))
        names = [q.name for q in self.client.queues()]
        self.assertIn(self.q, names)
        self.assertEqual(names, sorted(names))


class Filters(Control):
    def found(self, **conditions):
        return [t.id for t in self.client.list(self.q, **conditions)]

    def test_conditions(self):
        dead = self.add(headers={"a": "1", "b": "2"}, priority=2)
        self.kill("no such file")
        claimed = self.add(headers={"a": "1"}, priority=1)
        self.client.claim([self.q], worker="py")
        between = time.time_ns()
        keyed = self.add(key="k", kind="send", tags=["vip", "eu"])
        self.assertEqual(self.found(), sorted([dead, claimed, keyed]))
        self.assertEqual(self.found(headers={"a": "1"}), [dead, claimed])
        self.assertEqual(self.found(headers={"a": "1", "b": "2"}), [dead])
        self.assertEqual(self.found(error_contains="such"), [dead])
        self.assertEqual(self.found(error_contains="SUCH"), [])
        self.assertEqual(self.found(worker="py"), [claimed])
        self.assertEqual(self.found(key="k"), [keyed])
        self.assertEqual((self.found(kind="send"), self.found(kind="sen")), ([keyed], []))
        self.assertEqual((self.found(tags=["eu", "vip"]), self.found(tags=["eu", "us"])), ([keyed], []))
        self.assertEqual((self.client.get(keyed).kind, list(self.client.get(keyed).tags)), ("send", ["vip", "eu"]))
        self.assertEqual(self.found(min_attempts=1), [dead])
        at = tasks.Task().created_at
        at.FromNanoseconds(between)
        self.assertEqual(self.found(created_before=at), [dead, claimed])
        self.assertEqual(self.found(created_after=at), [keyed])
        self.assertEqual(self.found(finished_before=at), [dead])
        self.assertEqual(self.found(finished_after=at), [])
        self.assertEqual(self.found(headers={"a": "1"}, states=[DEAD]), [dead])

    def test_ids_only(self):
        task = self.add(b"payload", headers={"a": "1"})
        found, = self.client.list(self.q, ids_only=True)
        self.assertEqual(found.raw, tasks.Task(id=task, queue=self.q, state=READY))
