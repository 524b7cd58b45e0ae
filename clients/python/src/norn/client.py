"""A client for threads: all calls, repeated safely over new connections and on other nodes."""

from __future__ import annotations

import datetime
import itertools
import os
import random
import ssl
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Callable, List, TypeVar, Union

from norn.errors import REFUSED, SETTLED, Error, late
from norn.ids import Generator, TaskID, partition_of
from norn.types import Claim, Receipt, State, Task
from norn.v1 import cluster_pb2 as clusters, error_pb2 as errors, service_pb2 as pb, task_pb2 as tasks
from norn.wire import READS, Connection, Pending, clock

AnyID = Union[TaskID, str, bytes]  # whatever TaskID takes
T = TypeVar("T")
Result = Union[T, Error]  # of one of many items

MAX_UNANSWERED = 100  # as many earlier requests a claim may name
MAX_BATCH_DEPENDENCIES = 10_000  # of all tasks of one request


def _judged(result: Any) -> Any:
    """The one result of a request with one item."""
    if result.HasField("error"):
        raise Error.of(result.error, getattr(result, "state", tasks.STATE_UNSPECIFIED))
    return result


def _only(results: Sequence[Any]) -> Any:
    """The one result of a request with one item."""
    if len(results) != 1:
        raise Error(errors.ERROR_KIND_INTERNAL, "%d results for one item" % len(results), effect=errors.EFFECT_UNKNOWN)
    return results[0]


def _fitting(items: Sequence[Any], limits: pb.Limits, size: Callable[[Any], tuple[int, int]]) -> int:
    """How many of so many items as a request may have, at least one, fit one. size gives bytes and dependencies of one."""
    most, dependencies = int(limits.max_batch_bytes), MAX_BATCH_DEPENDENCIES
    for n, item in enumerate(items):
        weight, needs = size(item)
        most, dependencies = most - weight, dependencies - needs
        if n and (most < 0 or dependencies < 0):
            return n
    return len(items)


def _written(reply: pb.WriteReply, _: float) -> Receipt:
    result = _judged(_only(reply.results))
    return Receipt.of(result.receipt, result.state)


def _names(queues: Sequence[str]) -> None:
    if isinstance(queues, str):
        raise TypeError("queues is a list of names, not a text: [%r]" % queues)


def _granted(reply: pb.ClaimReply, sent_at: float) -> list[Claim]:
    return [Claim(g, sent_at, reply.waited_seconds) for g in reply.grants]


class Client:
    """A cluster, through any of its nodes."""

    def __init__(
            self, *addresses: str, auth_token: str | Callable[[], str] | None = None, cluster_id: str = "",
            tls: ssl.SSLContext | None = None, agent: str = "norn-python", timeout: float = 30.0) -> None:
        """Makes a client; it connects with the first call.

        addresses are host:port of any nodes, one or several in a text with commas; none: those in NORN_ADDR, or
        127.0.0.1:7711. auth_token is a text, or a function that is asked for it with each connection; None: that in
        NORN_AUTH_TOKEN. tls is an ssl.SSLContext, such as tls_context makes. With cluster_id (a UUID) another cluster is
        refused before it is sent the token. timeout, in seconds, is that of calls that name none.
        """
        given = addresses or (os.environ.get("NORN_ADDR", "127.0.0.1:7711"),)
        addresses = tuple(one.strip() for text in given for one in text.split(",") if one.strip())
        if not addresses:
            raise ValueError("no address of a node")
        if auth_token is None:
            auth_token = os.environ.get("NORN_AUTH_TOKEN", "")
        self.timeout = timeout  # of calls that name none, in seconds
        self.addresses = addresses
        self.session = os.urandom(16)  # names this process in claims
        self.cluster_id = cluster_id  # or that of the first node that answered: all others must be of the same
        self._auth_token = auth_token
        self._options: dict[str, Any] = dict(ask=bool(cluster_id), tls=tls, agent=agent)
        self._numbers = itertools.count(1)
        self._losing = threading.Lock()
        self._lost: List[int] = []  # claim requests without an answer, to be named by the next one
        self._ids = Generator()
        self._first = 0  # index of the address that calls begin with
        self._newest: Connection | None = None  # connection, perhaps dead by now
        self._locks = [threading.Lock() for _ in addresses]  # one connects, the others wait
        self._connections: List[Connection | None] = [None] * len(addresses)
        self._failed: List[tuple[float, Error] | None] = [None] * len(addresses)  # when an attempt to connect failed last, and why
        self._waiting = set[Pending]()  # claims that wait for tasks
        self._closed, self._claiming = threading.Event(), True

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections; calls that are open fail."""
        self._closed.set()
        for connection in self._connections:
            if connection:
                connection.close()

    def connection(self, end: float | None = None, at: int | None = None) -> Connection:
        """A living connection, made now if need be; end is when to give up, by clock(), at the index of the address."""
        asked = clock()
        end = asked + self.timeout if end is None else end
        at = self._first if at is None else at
        if not self._locks[at].acquire(timeout=max(0, end - asked)):
            raise late("no connection to %s in time" % self.addresses[at], False)
        try:
            found = self._connections[at]
            if not self._closed.is_set() and (found is None or not found.alive):
                found = self._connect(at, asked, end)
            if self._closed.is_set():
                if found:
                    found.close()
                raise Error(errors.ERROR_KIND_CANCELLED, "the client is closed")
            assert found is not None
            return found
        finally:
            self._locks[at].release()

    def _connect(self, at: int, asked: float, end: float) -> Connection:
        """Makes a connection; the lock of the address is held."""
        # Whoever waited while an attempt failed is told of that one: were each to try in its turn, the last of many would
        # wait for all of them, and a renewal among them come too late.
        failed = self._failed[at]
        if failed and failed[0] >= asked:
            e = failed[1]
            raise Error(e.kind, e.message, e.guarantee, e.retry_after)
        try:
            wait = max(0.01, min(5, end - clock()))
            token = self._auth_token() if callable(self._auth_token) else self._auth_token
            found = Connection(self.addresses[at], auth_token=token, cluster_id=self.cluster_id, timeout=wait, **self._options)
        except Error as e:
            self._failed[at] = clock(), e
            raise
        self._connections[at] = self._newest = found
        self.cluster_id = found.hello.cluster_id
        return found

    def _end(self, timeout: float | None) -> float:
        """When a call with a timeout is given up, by clock()."""
        return clock() + (self.timeout if timeout is None else timeout)

    def _known(self, timeout: float | None = None) -> Connection:
        """A connection that knows what its node said of limits and placement."""
        if self._newest is None:
            self.call(pb.METHOD_PING, pb.Ping(), timeout=timeout)
        assert self._newest is not None
        return self._newest

    def call(
            self, method: int, message: Any, take: Callable[[Any, float], Any] = lambda reply, sent_at: reply,
            timeout: float | None = None) -> Any:
        """Sends a request until it is answered for good. message may be a function of the seconds left; take makes
        the result of the answer, and may raise Error. Raises the last Error; its effect is that of all attempts."""
        return self._call(method, message, take, timeout)[0]

    def _call(
            self, method: int, message: Any, take: Callable[[Any, float], Any], timeout: float | None = None, skip: int = 0,
            stoppable: bool = False) -> tuple[Any, bool]:
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
                answer = self._answer(pending, stoppable)
                try:
                    result = take(answer, pending.sent_at)
                except ValueError as e:
                    raise Error(
                        errors.ERROR_KIND_INTERNAL, "%s sent an answer to method %d that makes no sense: %s" % (connection.address, method, e),
                        effect=errors.EFFECT_UNKNOWN) from e
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

    def _answer(self, pending: Pending, stoppable: bool) -> Any:
        if not stoppable:
            return pending.result()
        self._waiting.add(pending)
        try:
            if not self._claiming:  # stop_claiming may have come before it was among those that wait
                pending.cancel()
            return pending.result()
        finally:
            self._waiting.discard(pending)

    def _each(
            self, method: int, items: Sequence[Any], request: Callable[[Sequence[Any]], Any], timeout: float | None = None,
            size: Callable[[Any], tuple[int, int]] = lambda item: (0, 0),
            take: Callable[[Any, Any, float], Any] = lambda result, item, sent_at: result) -> List[Any]:
        """Sends items in as few requests as the limits allow, and those again that could not be taken at the moment, until
        the timeout. Gives a result or an Error for each; raises Error only when no server has said anything of any."""
        end = self._end(timeout)
        out: List[Any] = [None] * len(items)
        open_, judged, pause, rounds = [*range(len(items))], False, 0.025, 0
        if not items:
            return out
        limits = self._known(timeout).hello.limits

        def taken(reply: Any, sent_at: float) -> List[Any]:
            if len(reply.results) != len(batch):
                raise Error(errors.ERROR_KIND_INTERNAL, "%d results for %d items" % (len(reply.results), len(batch)), effect=errors.EFFECT_UNKNOWN)
            return [Error.of(r.error, getattr(r, "state", 0)) if r.HasField("error") else take(r, items[i], sent_at)
                    for i, r in zip(batch, reply.results)]

        while open_:
            again: List[int] = []
            wait = random.uniform(pause / 2, pause)
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
    def _unanswered(out: List[Any], items: Sequence[int], error: Error) -> None:
        """Notes an error of a whole request; what may have happened before may still have."""
        for i in items:
            before, out[i] = out[i], Error(error.kind, error.message, error.guarantee, error.retry_after, error.effect)
            if before is not None and before.unknown:
                out[i].effect = errors.EFFECT_UNKNOWN

    # Producers

    def new_id(self, timeout: float | None = None) -> TaskID:
        """An ID for a task, in a partition that takes enqueues now."""
        placement = self._known(timeout).placement
        assert placement is not None
        task = self._ids.next()
        if any(placement.enqueueable):
            for _ in range(100 * placement.partitions):
                p = partition_of(task, placement.partitions)
                if placement.enqueueable[p // 8] >> p % 8 & 1:
                    break
                task = task[:12] + os.urandom(8)
        return TaskID(task)

    def spec(
            self, queue: str, payload: bytes | str = b"", *, id: AnyID | None = None, kind: str = "", tags: Sequence[str] = (),
            headers: Mapping[str, str] | None = None, priority: int = 0, delay: float | None = None,
            not_before: datetime.datetime | None = None, key: str = "", key_window_seconds: float = 0,
            dependencies: Iterable[AnyID] = (), on_dependency_failure: int = 0,
            retry: tasks.RetryPolicy | Mapping[str, float] | None = None, max_attempts: int = 0,
            timeout: float | None = None) -> tasks.TaskSpec:
        """What enqueue_many takes: a task with its ID, made once, so that it may be sent again after an unknown outcome.

        delay is in seconds from now, by the clocks of the servers; not_before an instant with a time zone. retry is a
        RetryPolicy or its fields, max_attempts the one of them that is needed most. A text is sent as UTF-8.
        """
        end = self._end(timeout)
        spec = tasks.TaskSpec(
            queue=queue, payload=payload.encode() if isinstance(payload, str) else payload, kind=kind, tags=tags, headers=headers,
            priority=priority, key=key, key_window_seconds=key_window_seconds, dependencies=[TaskID(d).raw for d in dependencies],
            on_dependency_failure=on_dependency_failure, retry=retry)  # type: ignore[arg-type]  # numbers are enough
        if max_attempts:
            spec.retry.max_attempts = max_attempts
        if delay:
            spec.not_before.FromNanoseconds(self._known(end - clock()).now_ns() + int(delay * 1e9))
        elif not_before is not None:
            if not_before.tzinfo is None:
                raise ValueError("not_before needs a time zone, such as datetime.timezone.utc")
            spec.not_before.FromDatetime(not_before)
        if id is not None:
            spec.id = TaskID(id).raw
        elif key:
            spec.id = self.key(queue, key, key_window_seconds, end - clock()).id
        else:
            spec.id = self.new_id(end - clock()).raw
        return spec

    def enqueue(
            self, queue: str, payload: bytes | str = b"", *, timeout: float | None = None, durability: pb.Durability | None = None,
            **fields: Any) -> Receipt:
        """Adds one task, see spec for the fields. Gives its Receipt once it is durable."""
        end = self._end(timeout)
        request = pb.EnqueueRequest(tasks=[self.spec(queue, payload, timeout=timeout, **fields)], durability=durability)

        def one(reply: pb.EnqueueReply, _: float) -> Receipt:
            return Receipt.of(_judged(_only(reply.results)).receipt)

        receipt: Receipt = self.call(pb.METHOD_ENQUEUE, request, one, end - clock())
        return receipt

    def enqueue_many(
            self, specs: Sequence[tasks.TaskSpec], timeout: float | None = None,
            durability: pb.Durability | None = None) -> List[Result[Receipt]]:
        """Adds tasks made by spec. Gives a Receipt or an Error for each."""
        return self._each(
            pb.METHOD_ENQUEUE, specs, lambda batch: pb.EnqueueRequest(tasks=batch, durability=durability), timeout,
            lambda spec: (spec.ByteSize() + 8, len(spec.dependencies)), lambda result, *_: Receipt.of(result.receipt))

    def key(self, queue: str, key: str, window: float = 0, timeout: float | None = None) -> pb.KeyReply:
        """The ID that a unique key has now, as a KeyReply."""
        reply: pb.KeyReply = self.call(pb.METHOD_KEY, pb.KeyRequest(queue=queue, key=key, window_seconds=window), timeout=timeout)
        return reply

    # Workers

    def next_claim(self) -> int:
        """A number for claim: with the same one a claim gets the same grants, as long as the leaders that made them lead."""
        return next(self._numbers)

    def claim(
            self, queues: Sequence[str], max_tasks: int = 1, lease: float = 0, wait: float = 0, worker: str = "",
            number: int | None = None, timeout: float | None = None) -> List[Claim]:
        """Claims the best ready tasks, as a list of Claim; empty when there was nothing in time.

        Without a number each attempt has its own, and names those before it that were not answered, here and in the
        next call: what they were granted is free at once, also when it died with its node."""
        _names(queues)
        limit = self.timeout + wait if timeout is None else timeout

        def request(left: float, number: Any) -> pb.ClaimRequest:  # with room for the answer: an empty answer is better than none
            room = max(0, min(wait, left - min(left / 10, 1)))
            return self._claim_request(number, queues=queues, max_tasks=max_tasks, lease_seconds=lease, wait_seconds=room, worker=worker)

        claims: List[Claim] = self._claiming_call(pb.METHOD_CLAIM, request, _granted, number, limit, stoppable=True)
        return claims

    def work(
            self, done: Sequence[tuple[Claim, bytes]], queues: Sequence[str], max_tasks: int = 1, lease: float = 0, worker: str = "",
            timeout: float | None = None) -> tuple[List[Result[Receipt]], List[Claim], Error | None]:
        """Completes claims and claims the next tasks, in one request that does not wait for tasks: who gets none waits with
        claim. done are pairs of a Claim and its result. Gives a Receipt or an Error for each of them, the list of new
        Claims, and the Error for which there are none (None: nothing was ready). After stop_claiming it only completes."""
        _names(queues)
        completions = [pb.Completion(id=c.id.raw, token=c.token, seq=c.seq, result=result) for c, result in done]

        def request(left: float, number: Any) -> pb.WorkRequest:
            ask = self._claim_request(number, queues=queues, max_tasks=max_tasks, lease_seconds=lease, worker=worker)
            return pb.WorkRequest(completions=completions, claim=ask if self._claiming else None)

        def taken(reply: pb.WorkReply, sent_at: float) -> tuple[List[Result[Receipt]], List[Claim], Error | None]:
            if len(reply.completions) != len(done):
                raise Error(errors.ERROR_KIND_INTERNAL, "%d results for %d completions" % (len(reply.completions), len(done)), effect=errors.EFFECT_UNKNOWN)
            results: List[Result[Receipt]] = [
                Error.of(r.error, r.state) if r.HasField("error") else Receipt.of(r.receipt, r.state) for r in reply.completions]
            return results, _granted(reply.claim, sent_at), Error.of(reply.claim_error) if reply.HasField("claim_error") else None

        out: tuple[List[Result[Receipt]], List[Claim], Error | None] = self._claiming_call(
            pb.METHOD_WORK, request, taken, None, timeout, stoppable=False)
        return out

    def _claim_request(self, number: Any, **ask: Any) -> pb.ClaimRequest:
        """A ClaimRequest with that number; without one it has a number of its own and names those that were not answered."""
        m = pb.ClaimRequest(session=self.session, **ask)
        if isinstance(number, list):
            m.request_no = self.next_claim()
            m.unanswered.extend(number[-MAX_UNANSWERED:])
            number.append(m.request_no)
        else:
            m.request_no = number
        return m

    def _claiming_call(
            self, method: int, request: Callable[[float, Any], Any], take: Callable[[Any, float], Any], number: int | None,
            timeout: float | None, stoppable: bool) -> Any:
        """A call that claims: request is given the seconds left and what _claim_request is to be given."""
        if number is not None:
            return self._call(method, lambda left: request(left, number), take, timeout, stoppable=stoppable)[0]
        with self._losing:
            lost: List[int] = self._lost
            self._lost = []  # numbers of attempts that nobody will take an answer to any more

        def answered(reply: Any, sent_at: float) -> Any:
            result = take(reply, sent_at)
            if method != pb.METHOD_WORK or not reply.HasField("claim_error"):
                lost.clear()  # what a claim that failed was granted the next one frees
            return result

        try:
            return self._call(method, lambda left: request(left, lost), answered, timeout, stoppable=stoppable)[0]
        finally:
            if lost:
                with self._losing:
                    self._lost = (self._lost + lost)[-MAX_UNANSWERED:]

    def stop_claiming(self) -> None:
        """Ends claims that wait: they raise CANCELLED, or give what had been granted already. See free_unanswered."""
        self._claiming = False
        waiting, now = [*self._waiting], clock()
        for pending in waiting:
            pending.cancel()
        for pending in waiting:
            pending.abandon(now)

    def go_on_claiming(self) -> None:
        """Claims may be made again after stop_claiming."""
        self._claiming = True

    def free_unanswered(self, timeout: float = 5) -> None:
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

    def renew(self, claims: Sequence[Claim], lease: float = 0, timeout: float | None = None) -> List[Error | None]:
        """Renews claims and moves their deadlines; lease 0: by their present length. Gives None or an Error for each."""
        return self._each(
            pb.METHOD_RENEW, claims, lambda batch: pb.RenewRequest(claims=[c._ref() for c in batch], lease_seconds=lease), timeout,
            take=lambda result, claim, sent_at: claim._extend(sent_at, 0, result.lease_seconds))

    def update(self, claim: Claim, data: bytes, output: bool = False, timeout: float | None = None) -> Receipt:
        """Appends to the task's log; unless it is output, it is the checkpoint of a later claim. After an Error that is
        unknown repeat it with the same data."""
        request = pb.UpdateRequest(id=claim.id.raw, token=claim.token, seq=claim.seq, data=data, output=output)
        receipt: Receipt = self.call(pb.METHOD_UPDATE, request, _written, timeout)
        claim.seq += 1
        return receipt

    def complete(self, claim: Claim, result: bytes = b"", timeout: float | None = None) -> Receipt:
        """Finishes a task; late is better than never."""
        request = pb.CompleteRequest(completions=[pb.Completion(id=claim.id.raw, token=claim.token, seq=claim.seq, result=result)])
        receipt: Receipt = self.call(pb.METHOD_COMPLETE, request, _written, timeout)
        return receipt

    def complete_many(self, claims: Sequence[Claim], timeout: float | None = None) -> List[Result[Receipt]]:
        """Finishes tasks. Gives a Receipt or an Error for each."""
        return self._each(
            pb.METHOD_COMPLETE, claims,
            lambda batch: pb.CompleteRequest(completions=[pb.Completion(id=c.id.raw, token=c.token, seq=c.seq) for c in batch]), timeout,
            take=lambda result, *_: Receipt.of(result.receipt, result.state))

    def fail(
            self, claim: Claim, error: str, retry_in: float | None = None, uncounted: bool = False, discard: bool = False,
            timeout: float | None = None) -> State:
        """Ends a claim with a failure. Gives the state of the task then."""
        failure = pb.Failure(id=claim.id.raw, token=claim.token, error=error, uncounted=uncounted, discard=discard)
        if retry_in is not None:
            failure.retry_in_seconds = max(retry_in, 0)  # whatever the clock here shows; 0 would be none
            failure.retry_at.FromNanoseconds(time.time_ns() + int(retry_in * 1e9))
        return State(self.call(
            pb.METHOD_FAIL, pb.FailRequest(failures=[failure]), lambda reply, _: _judged(_only(reply.results)).state, timeout))

    def release(self, claims: Sequence[Claim], timeout: float | None = None) -> List[Result[Receipt]]:
        """Gives tasks back, without using an attempt. Gives a Receipt or an Error for each."""
        return self._each(
            pb.METHOD_RELEASE, claims, lambda batch: pb.ReleaseRequest(claims=[c._ref() for c in batch]), timeout,
            take=lambda result, *_: Receipt.of(result.receipt, result.state))

    # Readers

    def get(self, task: AnyID, consistency: pb.Consistency | None = None, timeout: float | None = None) -> Task:
        """One Task."""
        reply: pb.GetReply = self.call(pb.METHOD_GET, pb.GetRequest(id=TaskID(task).raw, consistency=consistency), timeout=timeout)
        return Task.of(reply.task)

    def list(
            self, queue: str = "", states: Iterable[int] = (), page: int = 100, ids_only: bool = False,
            **conditions: Any) -> Iterator[Task]:
        """All tasks that fit, in the order of their IDs, fetched page by page; conditions are those of Filter."""
        request = pb.ListRequest(queue=queue, limit=page, ids_only=ids_only)
        request.states.extend(states)
        if conditions:
            request.filter.CopyFrom(pb.Filter(**conditions))
        while True:
            reply: pb.ListReply = self.call(pb.METHOD_LIST, request)
            yield from (Task.of(t) for t in reply.tasks)
            if not reply.next_cursor:
                return
            request.cursor = reply.next_cursor

    def count(self, queue: str = "", timeout: float | None = None) -> pb.CountReply:
        """The counters of all states: `total`, and one of each queue."""
        reply: pb.CountReply = self.call(pb.METHOD_COUNT, pb.CountRequest(queue=queue), timeout=timeout)
        return reply

    def log(self, task: AnyID, after: tuple[int, int] | None = None, wait: float = 0, limit: int = 0) -> pb.LogReply:
        """A page of the log; after is the (token, seq) of the last update seen."""
        token, seq = after or (0, 0)
        request = pb.LogRequest(
            id=TaskID(task).raw, after_token=token, after_seq=seq, after=after is not None, wait_seconds=wait, limit=limit)
        reply: pb.LogReply = self.call(pb.METHOD_LOG, request, timeout=self.timeout + wait)
        return reply

    def follow(self, task: AnyID) -> Iterator[tasks.Update]:
        """Updates of a task as they come, until it is finished."""
        after, wait = None, 0
        while True:
            reply = self.log(task, after, wait)
            for update in reply.updates:
                after = update.token, update.seq
                yield update
            over = State(reply.state).finished
            if over and not wait and not reply.updates:
                return
            wait = 0 if over else 20  # one replica tells who waits of the end; a majority says that nothing comes after

    def status(self) -> clusters.StatusReply:
        """The node and its partitions."""
        reply: clusters.StatusReply = self.call(pb.METHOD_STATUS, clusters.StatusRequest())
        return reply

    def explain(self, task: AnyID) -> pb.ExplainReply:
        """Why a task does not run."""
        reply: pb.ExplainReply = self.call(pb.METHOD_EXPLAIN, pb.ExplainRequest(id=TaskID(task).raw))
        return reply

    # Operators

    def cancel(self, task_ids: Iterable[AnyID], reason: str = "", only_states: Iterable[State] = ()) -> List[Result[Receipt]]:
        """Cancels tasks. Gives a Receipt or an Error for each, whose state says what stands against it."""
        only: Any = [int(state) for state in only_states]
        return self._each(
            pb.METHOD_CANCEL, _raw(task_ids), lambda batch: pb.CancelRequest(ids=batch, reason=reason, only_states=only),
            take=lambda result, *_: Receipt.of(result.receipt, result.state))

    def retry(self, task_ids: Iterable[AnyID], only_states: Iterable[State] = ()) -> List[Result[Receipt]]:
        """Gives tasks a new run of attempts at once. Gives a Receipt or an Error for each."""
        only: Any = [int(state) for state in only_states]
        return self._each(
            pb.METHOD_RETRY, _raw(task_ids), lambda batch: pb.RetryRequest(ids=batch, only_states=only),
            take=lambda result, *_: Receipt.of(result.receipt, result.state))

    def queues(self, *names: str) -> List[pb.Queue]:
        """Queues as they stand; without names all."""
        found: List[pb.Queue] = []
        cursor = b""
        while True:
            page: pb.QueuesReply = self.call(pb.METHOD_QUEUES, pb.QueuesRequest(names=names, cursor=cursor))
            found += page.queues
            cursor = page.next_cursor
            if not cursor:
                return found

    def set_queue(self, name: str, if_version: int = 0, retry: Mapping[str, Any] | None = None, **settings: Any) -> pb.Queue:
        """Changes settings of a queue, the fields of QueueSettings; retry is a dict of fields of RetryPolicy."""
        request = pb.SetQueueRequest(name=name, if_version=if_version, settings=pb.QueueSettings(retry=retry, **settings))
        request.fields.extend([*settings] + ["retry." + field for field in retry or ()])
        reply: pb.QueuesReply = self.call(pb.METHOD_SET_QUEUE, request)
        queue: pb.Queue = reply.queues[0]
        return queue


def _raw(ids: Iterable[AnyID]) -> Sequence[bytes]:
    if isinstance(ids, (str, bytes)):
        raise TypeError("it takes a list of IDs, not one: [%r]" % ids)
    return [TaskID(one).raw for one in ids]


def tls_context(ca: str | None = None, cert: str | None = None, key: str | None = None) -> ssl.SSLContext:
    """A context for the tls of a client: ca is a file of certificates to trust (None: the system's), cert and key are files of
    the certificate that the client shows."""
    context = ssl.create_default_context(cafile=ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if cert:
        context.load_cert_chain(cert, key)
    return context
