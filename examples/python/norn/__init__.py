"""A client of Norn, the task queue, over its wire protocol.

Written from docs/reference/protocol.md and proto/norn/v1/*.proto alone. It needs Python
3.9, the protobuf package (Debian: python3-protobuf) and the code that protoc
makes of the .proto files; README.md says how.

    with norn.Client("127.0.0.1:7711") as client:
        client.enqueue("greetings", b"Ada")
        for claim in client.claim(["greetings"], wait=10):
            client.complete(claim, result=b"Hello, " + claim.task.payload)

Calls repeat themselves, also over new connections and on other nodes, until
they are answered or their timeout is over; no repetition has a second effect.
Every failure is a norn.Error. Times are seconds, IDs are 20 bytes (text is
taken too). A client may be used from any thread.
"""

import itertools
import os
import random
import threading
import time
from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)  # protoc puts the package norn.v1 elsewhere

try:
    import norn.v1.service_pb2  # noqa: F401
except ImportError as e:
    if (e.name or "").partition(".")[0] == "google":  # what protoc made is there, and imports it
        raise ImportError("the protobuf package is missing for this Python: Debian has python3-protobuf for its own one, others get it with pip install protobuf") from e
    raise ImportError("norn.v1 is missing: run protoc -I proto --python_out=DIR proto/norn/v1/*.proto, and put DIR into PYTHONPATH") from e

from norn.errors import REFUSED, SETTLED, Error, late  # noqa: E402
from norn.ids import Generator, id_bytes, id_text, partition_of  # noqa: E402
from norn.wire import READS, Connection, clock  # noqa: E402
from norn.v1 import cluster_pb2 as clusters, error_pb2 as errors, service_pb2 as pb, task_pb2 as tasks  # noqa: E402

__all__ = ["Claim", "Client", "Connection", "Error", "Generator", "clock", "errors", "id_bytes", "id_text", "partition_of", "pb", "tasks"]

MAX_UNANSWERED = 100  # as many earlier requests a claim may name
MAX_BATCH_DEPENDENCIES = 10_000  # of all tasks of one request


class Claim:
    """The right to run a task until its deadline."""

    def __init__(self, grant, sent_at, waited):
        self.task = grant.task
        self.id = id_bytes(grant.task.id)
        self.token = grant.token  # rises with every claim of the task: let what you write to refuse lower ones
        self.checkpoint = grant.checkpoint  # the newest update of earlier claims
        self.seq = 0  # number of the next update
        self._extend(sent_at, waited, grant.lease_seconds)

    def _extend(self, sent_at, waited, lease):
        self.lease = lease
        # A thousandth for the drift between two clocks.
        self.deadline = sent_at + waited + lease - lease / 1000

    def left(self):
        """Seconds until the work must have stopped, unless it is renewed."""
        return self.deadline - clock()


def _ref(claim):
    return pb.ClaimRef(id=claim.id, token=claim.token)


def _judged(result):
    """The one result of a request with one item."""
    if result.HasField("error"):
        raise Error.of(result.error, getattr(result, "state", tasks.STATE_UNSPECIFIED))
    return result


def _fitting(items, limits, size):
    """How many of so many items as a request may have, at least one, fit one. size gives bytes and dependencies of one."""
    most, dependencies = limits.max_batch_bytes, MAX_BATCH_DEPENDENCIES
    for n, item in enumerate(items):
        weight, needs = size(item)
        most, dependencies = most - weight, dependencies - needs
        if n and (most < 0 or dependencies < 0):
            return n
    return len(items)


def _granted(reply, sent_at):
    return [Claim(g, sent_at, reply.waited_seconds) for g in reply.grants]


class Client:
    """A cluster, through any of its nodes."""

    def __init__(self, *addresses, auth_token="", cluster_id="", tls=None, agent="norn-python", timeout=30.0):
        """Addresses are host:port. tls is an ssl.SSLContext. With cluster_id (a UUID) another
        cluster is refused before it is sent the token. It connects with the first call."""
        if not addresses:
            raise ValueError("no address of a node")
        self.timeout = timeout  # of calls that name none, in seconds
        self.addresses = addresses
        self.session = os.urandom(16)  # names this process in claims
        self.cluster_id = cluster_id  # or that of the first node that answered: all others must be of the same
        self._options = dict(auth_token=auth_token, ask=bool(cluster_id), tls=tls, agent=agent)
        self._numbers = itertools.count(1)
        self._losing, self._lost = threading.Lock(), []  # claim requests without an answer, to be named by the next one
        self._ids = Generator()
        self._first = 0  # index of the address that calls begin with
        self._newest = None  # connection, perhaps dead by now
        self._locks = [threading.Lock() for _ in addresses]  # one connects, the others wait
        self._connections = [None] * len(addresses)
        self._failed = [None] * len(addresses)  # when an attempt to connect failed last, and why
        self._waiting = set()  # claims that wait for tasks
        self._closed, self._claiming = threading.Event(), True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Closes the connections; calls that are open fail."""
        self._closed.set()
        for connection in self._connections:
            if connection:
                connection.close()

    def connection(self, end=None, at=None):
        """A living connection, made now if need be; end is when to give up, by clock(), at the index of the address."""
        asked = clock()
        end = asked + self.timeout if end is None else end
        at = self._first if at is None else at
        if not self._locks[at].acquire(timeout=max(0, end - asked)):
            raise late("no connection to %s in time" % self.addresses[at], False)
        try:
            found = self._connections[at]
            if not self._closed.is_set() and not (found and found.alive):
                found = self._connect(at, asked, end)
            if self._closed.is_set():
                if found:
                    found.close()
                raise Error(errors.ERROR_KIND_CANCELLED, "the client is closed")
            return found
        finally:
            self._locks[at].release()

    def _connect(self, at, asked, end):
        """Makes a connection; the lock of the address is held."""
        # Whoever waited while an attempt failed is told of that one: were each to try in its turn, the last of many would
        # wait for all of them, and a renewal among them come too late.
        if self._failed[at] and self._failed[at][0] >= asked:
            e = self._failed[at][1]
            raise Error(e.kind, e.message, e.guarantee, e.retry_after)
        try:
            wait = max(0.01, min(5, end - clock()))
            found = Connection(self.addresses[at], cluster_id=self.cluster_id, timeout=wait, **self._options)
        except Error as e:
            self._failed[at] = clock(), e
            raise
        self._connections[at] = self._newest = found
        self.cluster_id = found.hello.cluster_id
        return found

    def _end(self, timeout):
        """When a call with a timeout is given up, by clock()."""
        return clock() + (self.timeout if timeout is None else timeout)

    def _known(self, timeout=None):
        """A connection that knows what its node said of limits and placement."""
        if self._newest is None:
            self.call(pb.METHOD_PING, pb.Ping(), timeout=timeout)
        return self._newest

    def call(self, method, message, take=lambda reply, sent_at: reply, timeout=None):
        """Sends a request until it is answered for good. message may be a function of the seconds left; take makes
        the result of the answer, and may raise Error. Raises the last Error; its effect is that of all attempts."""
        return self._call(method, message, take, timeout)[0]

    def _call(self, method, message, take, timeout=None, skip=0, stoppable=False):
        """The same; gives also whether an attempt before the one that was answered may have had its effect. It begins so
        many addresses further. What is stoppable ends with stop_claiming."""
        end = self._end(timeout)
        maybe, pause, refused, full = False, 0.025, 0, 0
        at, nodes = (self._first + skip) % len(self.addresses), len(self.addresses)
        while True:
            hello = True
            try:
                if stoppable and not self._claiming:
                    raise Error(errors.ERROR_KIND_CANCELLED, "no more tasks are wanted")
                connection = self.connection(end, at)
                hello = False
                pending = connection.start(method, message(end - clock()) if callable(message) else message, end)
                result = take(self._answer(pending, stoppable), pending.sent_at)
                self._first = at
                return result, maybe
            except Error as e:
                maybe = maybe or e.unknown
                refused = refused + 1 if hello and e.kind in REFUSED else 0
                full += e.kind == errors.ERROR_KIND_DISK_FULL
                if hello:  # a refusal is final for its address, and only for that
                    again = refused < nodes and e.kind != errors.ERROR_KIND_CANCELLED
                else:  # no room on one disk says nothing of the others
                    again = e.again or e.kind == errors.ERROR_KIND_DISK_FULL and full < nodes
                if again and self._first == at:
                    self._first = (at + 1) % nodes  # whoever comes next need not run into the same node first
                wait = max(e.retry_after, random.uniform(pause / 2, pause))
                if not again or clock() + wait >= end or self._closed.wait(wait):
                    unknown = maybe and method not in READS and (hello or e.kind not in SETTLED)
                    e.effect = errors.EFFECT_UNKNOWN if unknown else errors.EFFECT_NONE
                    raise
                pause, at = min(2 * pause, 1), (at + 1) % nodes

    def _answer(self, pending, stoppable):
        if not stoppable:
            return pending.result()
        self._waiting.add(pending)
        try:
            if not self._claiming:  # stop_claiming may have come before it was among those that wait
                pending.cancel()
            return pending.result()
        finally:
            self._waiting.discard(pending)

    def _each(self, method, items, request, timeout=None, size=lambda item: (0, 0), take=lambda result, item, sent_at: result):
        """Sends items in as few requests as the limits allow, and those again that could not be taken at the moment, until
        the timeout. Gives a result or an Error for each; raises Error only when no server has said anything of any."""
        end = self._end(timeout)
        out, open_, judged, pause, rounds = [None] * len(items), list(range(len(items))), False, 0.025, 0
        limits = self._known(timeout).hello.limits if items else None

        def taken(reply, sent_at):
            if len(reply.results) != len(batch):
                raise Error(errors.ERROR_KIND_INTERNAL, "%d results for %d items" % (len(reply.results), len(batch)), effect=errors.EFFECT_UNKNOWN)
            return [Error.of(r.error, getattr(r, "state", 0)) if r.HasField("error") else take(r, items[i], sent_at)
                    for i, r in zip(batch, reply.results)]

        while open_:
            again, wait = [], random.uniform(pause / 2, pause)
            while open_:
                n = _fitting([items[i] for i in open_[:limits.max_batch_tasks]], limits, size)
                batch, open_ = open_[:n], open_[n:]
                try:
                    results, maybe = self._call(method, request([items[i] for i in batch]), taken, max(0, end - clock()), min(rounds, 1))
                except Error as e:
                    alone = e.kind == errors.ERROR_KIND_INVALID_ARGUMENT and n < len(items)  # it is these items' own affair
                    if not judged and not alone:
                        raise
                    judged = True
                    self._unanswered(out, batch, e)
                    if alone:
                        continue
                    self._unanswered(out, open_, Error(e.kind, e.message, e.guarantee, e.retry_after))
                    return out
                judged = True
                for i, result in zip(batch, results):
                    before, out[i] = out[i], result
                    if isinstance(result, Error):
                        unknown = (maybe or before is not None and before.unknown) and result.kind not in SETTLED
                        result.effect = errors.EFFECT_UNKNOWN if unknown or result.unknown else errors.EFFECT_NONE
                        if result.again:
                            again.append(i)
                            wait = max(wait, result.retry_after)
            open_, pause, rounds = again, min(2 * pause, 1), rounds + 1
            if not open_ or clock() + wait >= end or self._closed.wait(wait):
                return out
        return out

    @staticmethod
    def _unanswered(out, items, error):
        """Notes an error of a whole request; what may have happened before may still have."""
        for i in items:
            before, out[i] = out[i], Error(error.kind, error.message, error.guarantee, error.retry_after, error.effect)
            if before is not None and before.unknown:
                out[i].effect = errors.EFFECT_UNKNOWN

    # Producers

    def new_id(self, timeout=None):
        """An ID of kind 0, in a partition that takes enqueues now."""
        placement = self._known(timeout).placement
        task = self._ids.next()
        if any(placement.enqueueable):
            for _ in range(100 * placement.partitions):
                p = partition_of(task, placement.partitions)
                if placement.enqueueable[p // 8] >> p % 8 & 1:
                    break
                task = task[:12] + os.urandom(8)
        return task

    def spec(self, queue, payload=b"", delay=None, timeout=None, **fields):
        """A TaskSpec with an ID. delay is in seconds from now, by the clocks of the servers; the other fields are those of
        the .proto."""
        spec, end = tasks.TaskSpec(queue=queue, payload=payload, **fields), self._end(timeout)
        if delay:
            spec.not_before.FromNanoseconds(self._known(end - clock()).now_ns() + int(delay * 1e9))
        if not spec.id and spec.key:
            spec.id = self.key(queue, spec.key, spec.key_window_seconds, end - clock()).id
        spec.id = spec.id or self.new_id(end - clock())
        return spec

    def enqueue(self, queue, payload=b"", timeout=None, durability=None, **fields):
        """Adds one task, see spec for the fields. Gives its Receipt once it is durable."""
        end = self._end(timeout)
        request = pb.EnqueueRequest(tasks=[self.spec(queue, payload, timeout=timeout, **fields)], durability=durability)
        return self.call(pb.METHOD_ENQUEUE, request, lambda reply, _: _judged(reply.results[0]).receipt, end - clock())

    def enqueue_many(self, specs, timeout=None, durability=None):
        """Adds tasks made by spec. Gives a Receipt or an Error for each."""
        return self._each(
            pb.METHOD_ENQUEUE, specs, lambda batch: pb.EnqueueRequest(tasks=batch, durability=durability), timeout,
            lambda spec: (spec.ByteSize() + 8, len(spec.dependencies)), lambda result, *_: result.receipt)

    def key(self, queue, key, window=0, timeout=None):
        """The ID that a unique key has now, as a KeyReply."""
        return self.call(pb.METHOD_KEY, pb.KeyRequest(queue=queue, key=key, window_seconds=window), timeout=timeout)

    # Workers

    def next_claim(self):
        """A number for claim: with the same one a claim gets the same grants, as long as the leaders that made them lead."""
        return next(self._numbers)

    def claim(self, queues, max_tasks=1, lease=0, wait=0, worker="", number=None, timeout=None):
        """Claims the best ready tasks, as a list of Claim; empty when there was nothing in time.

        Without a number each attempt has its own, and names those before it that were not answered, here and in the
        next call: what they were granted is free at once, also when it died with its node."""
        limit = self.timeout + wait if timeout is None else timeout

        def request(left, number):  # with room for the answer: an empty answer is better than none
            room = max(0, min(wait, left - min(left / 10, 1)))
            return self._claim_request(number, queues=queues, max_tasks=max_tasks, lease_seconds=lease, wait_seconds=room, worker=worker)

        return self._claiming_call(pb.METHOD_CLAIM, request, _granted, number, limit, stoppable=True)

    def work(self, done, queues, max_tasks=1, lease=0, worker="", timeout=None):
        """Completes claims and claims the next tasks, in one request that does not wait for tasks: who gets none waits with
        claim. done are pairs of a Claim and its result. Gives a Receipt or an Error for each of them, the list of new
        Claims, and the Error for which there are none (None: nothing was ready). After stop_claiming it only completes."""
        completions = [pb.Completion(id=c.id, token=c.token, seq=c.seq, result=result) for c, result in done]

        def request(left, number):
            ask = self._claim_request(number, queues=queues, max_tasks=max_tasks, lease_seconds=lease, worker=worker)
            return pb.WorkRequest(completions=completions, claim=ask if self._claiming else None)

        def taken(reply, sent_at):
            if len(reply.completions) != len(done):
                raise Error(errors.ERROR_KIND_INTERNAL, "%d results for %d completions" % (len(reply.completions), len(done)), effect=errors.EFFECT_UNKNOWN)
            results = [Error.of(r.error, r.state) if r.HasField("error") else r.receipt for r in reply.completions]
            return results, _granted(reply.claim, sent_at), Error.of(reply.claim_error) if reply.HasField("claim_error") else None

        return self._claiming_call(pb.METHOD_WORK, request, taken, None, timeout, stoppable=False)

    def _claim_request(self, number, **ask):
        """A ClaimRequest with that number; without one it has a number of its own and names those that were not answered."""
        m = pb.ClaimRequest(session=self.session, **ask)
        if isinstance(number, list):
            m.request_no = self.next_claim()
            m.unanswered.extend(number[-MAX_UNANSWERED:])
            number.append(m.request_no)
        else:
            m.request_no = number
        return m

    def _claiming_call(self, method, request, take, number, timeout, stoppable):
        """A call that claims: request is given the seconds left and what _claim_request is to be given."""
        if number is not None:
            return self._call(method, lambda left: request(left, number), take, timeout, stoppable=stoppable)[0]
        with self._losing:
            lost, self._lost = self._lost, []  # numbers of attempts that nobody will take an answer to any more

        def answered(reply, sent_at):
            result = take(reply, sent_at)
            lost.clear()
            return result

        try:
            return self._call(method, lambda left: request(left, lost), answered, timeout, stoppable=stoppable)[0]
        finally:
            if lost:
                with self._losing:
                    self._lost = (self._lost + lost)[-MAX_UNANSWERED:]

    def stop_claiming(self):
        """Ends claims that wait: they raise CANCELLED, or give what had been granted already. See free_unanswered."""
        self._claiming = False
        waiting, now = list(self._waiting), clock()
        for pending in waiting:
            pending.cancel()
        for pending in waiting:
            pending.abandon(now)

    def free_unanswered(self, timeout=5):
        """Frees what claims were granted whose answers were lost; otherwise it blocks its tasks until the lease is over,
        and costs an attempt. The next claim does so too: this is for who makes none any more."""
        with self._losing:
            lost, self._lost = self._lost, []
        if not lost:
            return
        try:
            self.call(pb.METHOD_CLAIM, pb.ClaimRequest(session=self.session, request_no=self.next_claim(), unanswered=lost), timeout=timeout)
        except Error:
            with self._losing:
                self._lost = (lost + self._lost)[-MAX_UNANSWERED:]
            raise

    def renew(self, claims, lease=0, timeout=None):
        """Renews claims and moves their deadlines; lease 0: by their present length. Gives None or an Error for each."""
        return self._each(
            pb.METHOD_RENEW, claims, lambda batch: pb.RenewRequest(claims=[_ref(c) for c in batch], lease_seconds=lease), timeout,
            take=lambda result, claim, sent_at: claim._extend(sent_at, 0, result.lease_seconds))

    def update(self, claim, data, output=False, timeout=None):
        """Appends to the task's log; unless it is output, it is the checkpoint of a later claim. After an Error that is
        unknown repeat it with the same data."""
        request = pb.UpdateRequest(id=claim.id, token=claim.token, seq=claim.seq, data=data, output=output)
        receipt = self.call(pb.METHOD_UPDATE, request, lambda reply, _: _judged(reply.results[0]).receipt, timeout)
        claim.seq += 1
        return receipt

    def complete(self, claim, result=b"", timeout=None):
        """Finishes a task; late is better than never."""
        request = pb.CompleteRequest(completions=[pb.Completion(id=claim.id, token=claim.token, seq=claim.seq, result=result)])
        return self.call(pb.METHOD_COMPLETE, request, lambda reply, _: _judged(reply.results[0]).receipt, timeout)

    def complete_many(self, claims, timeout=None):
        """Finishes tasks. Gives a Receipt or an Error for each."""
        return self._each(
            pb.METHOD_COMPLETE, claims,
            lambda batch: pb.CompleteRequest(completions=[pb.Completion(id=c.id, token=c.token, seq=c.seq) for c in batch]), timeout,
            take=lambda result, *_: result.receipt)

    def fail(self, claim, error, retry_in=None, uncounted=False, discard=False, timeout=None):
        """Ends a claim with a failure. Gives the state of the task then."""
        failure = pb.Failure(id=claim.id, token=claim.token, error=error, uncounted=uncounted, discard=discard)
        if retry_in is not None:
            failure.retry_in_seconds = max(retry_in, 0)  # whatever the clock here shows; 0 would be none
            failure.retry_at.FromNanoseconds(time.time_ns() + int(retry_in * 1e9))
        return self.call(pb.METHOD_FAIL, pb.FailRequest(failures=[failure]), lambda reply, _: _judged(reply.results[0]).state, timeout)

    def release(self, claims, timeout=None):
        """Gives tasks back, without using an attempt. Gives a Receipt or an Error for each."""
        return self._each(
            pb.METHOD_RELEASE, claims, lambda batch: pb.ReleaseRequest(claims=[_ref(c) for c in batch]), timeout,
            take=lambda result, *_: result.receipt)

    # Readers

    def get(self, task, consistency=None):
        """One Task."""
        return self.call(pb.METHOD_GET, pb.GetRequest(id=id_bytes(task), consistency=consistency)).task

    def list(self, queue="", states=(), page=100, ids_only=False, **conditions):
        """All tasks that fit, in the order of their IDs, fetched page by page; conditions are those of Filter."""
        request = pb.ListRequest(queue=queue, states=states, limit=page, ids_only=ids_only)
        if conditions:
            request.filter.CopyFrom(pb.Filter(**conditions))
        while True:
            reply = self.call(pb.METHOD_LIST, request)
            yield from reply.tasks
            if not reply.next_cursor:
                return
            request.cursor = reply.next_cursor

    def count(self, queue=""):
        """The counters, a CountReply."""
        return self.call(pb.METHOD_COUNT, pb.CountRequest(queue=queue))

    def log(self, task, after=None, wait=0, limit=0):
        """A page of the log, a LogReply; after is the (token, seq) of the last update seen."""
        token, seq = after or (0, 0)
        request = pb.LogRequest(id=id_bytes(task), after_token=token, after_seq=seq, after=after is not None, wait_seconds=wait, limit=limit)
        return self.call(pb.METHOD_LOG, request, timeout=self.timeout + wait)

    def follow(self, task):
        """Updates of a task as they come, until it is finished."""
        after, wait = None, 0
        while True:
            reply = self.log(task, after, wait)
            for update in reply.updates:
                after = update.token, update.seq
                yield update
            over = reply.state in (tasks.STATE_COMPLETED, tasks.STATE_DEAD, tasks.STATE_CANCELLED)
            if over and not wait and not reply.updates:
                return
            wait = 0 if over else 20  # one replica tells who waits of the end; a majority says that nothing comes after

    def status(self):
        """The node and its partitions, a StatusReply."""
        return self.call(pb.METHOD_STATUS, clusters.StatusRequest())

    def explain(self, task):
        """Why a task does not run, an ExplainReply."""
        return self.call(pb.METHOD_EXPLAIN, pb.ExplainRequest(id=id_bytes(task)))

    # Operators

    def cancel(self, task_ids, reason="", only_states=()):
        """Cancels tasks. Gives a WriteResult or an Error for each, whose state says what stands against it."""
        return self._each(
            pb.METHOD_CANCEL, [id_bytes(t) for t in task_ids],
            lambda batch: pb.CancelRequest(ids=batch, reason=reason, only_states=only_states))

    def retry(self, task_ids, only_states=()):
        """Gives tasks a new run of attempts at once. Gives a WriteResult or an Error for each."""
        return self._each(
            pb.METHOD_RETRY, [id_bytes(t) for t in task_ids], lambda batch: pb.RetryRequest(ids=batch, only_states=only_states))

    def queues(self, *names):
        """Queues as they stand, a list of Queue; without names all."""
        found, cursor = [], b""
        while True:
            page = self.call(pb.METHOD_QUEUES, pb.QueuesRequest(names=names, cursor=cursor))
            found += page.queues
            cursor = page.next_cursor
            if not cursor:
                return found

    def set_queue(self, name, if_version=0, retry=None, **settings):
        """Changes settings of a queue, the fields of QueueSettings; retry is a dict of fields of RetryPolicy."""
        request = pb.SetQueueRequest(name=name, if_version=if_version, settings=pb.QueueSettings(retry=retry, **settings))
        request.fields.extend(list(settings) + ["retry." + field for field in retry or ()])
        return self.call(pb.METHOD_SET_QUEUE, request).queues[0]
