"""A worker: slots that claim tasks, run handlers and report what came of it, and one renewal for all of them.

It pulls: it asks with claims that wait, has no session with the server, and hears of a cancellation when it renews.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import random
import signal
import socket
import threading
import traceback
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Callable, TypeVar, Union

from norn.client import Client
from norn.errors import ClaimEnded, Discard, Error, RetryAfter, Snooze
from norn.ids import TaskID
from norn.types import Claim, State, Task

log = logging.getLogger("norn.worker")

SETTLE = 900.0  # seconds for which a report is repeated
GONE = ("CLAIM_LOST", "NOT_FOUND", "CANCELLED")  # what a renewal says of a claim that is over
HOPELESS = ("INVALID_ARGUMENT", "UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED", "INCOMPATIBLE")  # it will not get better

Output = Union[bytes, str, None]
Handler = Callable[["Job"], Union[Output, Coroutine[Any, Any, Output]]]
H = TypeVar("H", bound=Handler)


class Job:
    """A task that a handler works on."""

    def __init__(self, worker: Worker, claim: Claim) -> None:
        self._worker, self._claim = worker, claim
        self._ended: str | None = None  # why nothing the handler does counts any more
        self._cancel: Callable[[], Any] | None = None  # ends a coroutine
        self._writing = threading.Lock()  # updates are numbered in the order of their calls

    @property
    def task(self) -> Task:
        """The task as it was when it was claimed."""
        return self._claim.task

    @property
    def id(self) -> TaskID:
        """Of the task."""
        return self._claim.id

    @property
    def queue(self) -> str:
        """Of the task."""
        return self.task.queue

    @property
    def kind(self) -> str:
        """What is to be done, beside the queue; "": nobody has said."""
        return self.task.kind

    @property
    def headers(self) -> Mapping[str, str]:
        """What travels with the task."""
        return self.task.headers

    @property
    def payload(self) -> bytes:
        """What the producer has sent."""
        return self.task.payload

    @property
    def attempt(self) -> int:
        """1 for the first one."""
        return self.task.attempts + 1

    @property
    def token(self) -> int:
        """It rises with every claim of the task: let what you write to refuse lower ones."""
        return self._claim.token

    @property
    def checkpoint(self) -> bytes:
        """The newest update of earlier claims."""
        return self._claim.checkpoint

    @property
    def ended(self) -> bool:
        """The claim is over, or the worker must end: the handler should return. See check."""
        return self._why() is not None

    def left(self) -> float:
        """Seconds until the claim is over unless it is renewed, which the worker does."""
        return self._claim.left()

    def check(self) -> None:
        """Raises ClaimEnded when the claim is over, or the worker must end. Long handlers of threads call it now and then."""
        why = self._why()
        if why is not None:
            raise ClaimEnded(why)

    def _why(self) -> str | None:
        # The clock is asked each time: a process that was frozen must find out before it does anything else.
        if self._ended is None and self._claim.left() <= 0:
            self._end("the claim could not be renewed in time")
        return self._ended

    def _end(self, why: str) -> None:
        if self._ended is None:
            self._ended = why
            if self._cancel:
                self._cancel()

    def update(self, data: bytes | str, output: bool = False) -> None:
        """Appends to the task's log, and returns when it is durable; unless it is output it is the checkpoint of a later claim.
        Raises ClaimEnded when the claim is over."""
        data = data.encode() if isinstance(data, str) else data
        with self._writing:
            while True:
                self.check()
                try:
                    self._worker.client.update(self._claim, data, output=output, timeout=max(0.1, min(5, self.left())))
                    return
                except Error as e:
                    if e.name == "CLAIM_LOST":
                        self._end(str(e))
                    elif not e.unknown and not e.again:
                        raise
                self._worker._ended.wait(0.1)  # the call may have ended at once

    async def update_async(self, data: bytes | str, output: bool = False) -> None:
        """The same for coroutines."""
        await asyncio.get_running_loop().run_in_executor(None, self.update, data, output)


class Worker:
    """Takes tasks of some queues and runs handlers.

        worker = norn.Worker(client, slots=4)

        @worker.handle("greetings")
        def greet(job):
            return b"Hello, " + job.payload

        worker.run()  # until SIGINT, SIGTERM or stop()

    A handler is a function, which runs on a thread of its slot, or a coroutine function. What it returns is the task's result.
    An exception fails the task, and the retry policy decides what comes next; RetryAfter, Snooze and Discard steer that. When
    the claim is lost a coroutine is cancelled, and a function finds job.ended. A handler may run more than once for a task.
    """

    def __init__(
            self, client: Client, *, queues: Sequence[str] = (), slots: int = 1, lease: float = 30, wait: float = 20,
            name: str = "", patience: float = 30) -> None:
        """queues are those to take from, by default those that have a handler. slots is how many handlers run at once, lease the
        length of claims in seconds, renewed at a third of it; wait how long a request for tasks may wait; name is shown in the
        claims; patience is how long a stop lets handlers finish before it gives their tasks back, without using an attempt."""
        if slots < 1:
            raise ValueError("slots is at least 1")
        self.client, self.slots, self.lease, self.wait, self.patience = client, slots, lease, wait, patience
        self.name = name or "%s/%d" % (socket.gethostname(), os.getpid())
        self._queues = list(queues)
        self._by_queue: dict[str, Handler] = {}
        self._by_kind: dict[str, Handler] = {}
        self._stopping, self._aborting, self._ended = threading.Event(), threading.Event(), threading.Event()
        self._failed: BaseException | None = None  # why there is no sense in going on
        self._lock, self._jobs = threading.Lock(), set[Job]()
        self._loop: asyncio.AbstractEventLoop | None = None  # of coroutines
        self._own_loop: threading.Thread | None = None
        self._thread: threading.Thread | None = None

    def handle(self, queue: str = "", *, kind: str = "") -> Callable[[H], H]:
        """Decorates the handler of a queue, or of a kind of task in all of the worker's queues, which goes before."""
        if bool(queue) == bool(kind):
            raise ValueError("a handler is of a queue or of a kind: handle(\"mail\") or handle(kind=\"welcome\")")

        def register(handler: H) -> H:
            (self._by_queue if queue else self._by_kind)[queue or kind] = handler
            return handler

        return register

    # Running

    def run(self, signals: bool = True) -> None:
        """Runs until stop() or, on the main thread, until SIGINT or SIGTERM: the first one stops, the second gives back what runs.
        Raises the Error for which there is no sense in going on, such as a token that is refused."""
        previous: dict[int, Any] = {}
        if signals and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                previous[number] = signal.signal(number, self._interrupt)
        try:
            self._run()
        finally:
            for one, handler in previous.items():
                signal.signal(one, handler)

    async def run_async(self) -> None:
        """The same within asyncio: coroutine handlers run on this loop. When it is cancelled the worker stops."""
        loop = self._loop = asyncio.get_running_loop()
        running = loop.run_in_executor(None, self._run)
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            self._stopping.set()
            self.client.stop_claiming()
            await running
            raise

    def stop(self) -> None:
        """Takes no more tasks; what runs may finish, for `patience` seconds. It returns at once, run() when all is over."""
        self._stopping.set()

    def stop_now(self) -> None:
        """Ends what runs, and gives the tasks back without using an attempt."""
        self._stopping.set()
        self._aborting.set()

    def __enter__(self) -> Worker:
        """Runs on a thread until the end of the block, which waits for what runs."""
        self._thread = threading.Thread(target=self._run_quietly, name="norn worker", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
        if self._thread:
            self._thread.join()
        if self._failed and e is None:
            raise self._failed

    def _run_quietly(self) -> None:
        try:
            self._run()
        except BaseException as e:  # __exit__ raises it
            self._failed = e

    def _interrupt(self, number: int, frame: Any) -> None:
        if self._stopping.is_set():
            self._aborting.set()
        self._stopping.set()

    def _run(self) -> None:
        queues = self._queues or list(self._by_queue)
        if not queues:
            raise ValueError("no queue: name some, or decorate handlers with handle(\"queue\")")
        if not self._by_queue and not self._by_kind:
            raise ValueError("no handler: decorate one with handle(\"queue\")")
        slots = [threading.Thread(target=self._slot, args=(queues,), name="norn slot %d" % n) for n in range(self.slots)]
        heartbeat = threading.Thread(target=self._heartbeat, name="norn heartbeat")
        for thread in [*slots, heartbeat]:
            thread.start()
        try:
            while not self._stopping.wait(0.2):
                pass
            self.client.stop_claiming()
            waited = 0.0
            while any(slot.is_alive() for slot in slots):
                waited += 0.05
                if waited >= self.patience or self._aborting.wait(0.05):
                    self._abort()
                    break
            for slot in slots:
                slot.join()
        finally:
            self._ended.set()
            heartbeat.join()
            self._end_loop()
            self.client.go_on_claiming()
        if self._failed:
            raise self._failed

    def _abort(self) -> None:
        self._aborting.set()
        with self._lock:
            jobs = [*self._jobs]
        for job in jobs:
            job._end("the worker was stopped")

    # Slots

    def _slot(self, queues: Sequence[str]) -> None:
        try:
            self._take(queues)
        except BaseException as e:  # a worker with fewer slots than it says would be hard to notice
            self._failed = e
            self._stopping.set()
        finally:
            try:
                self.client.free_unanswered()
            except Error as e:
                log.warning("tasks may have been granted on the way out, their claims will lapse: %s", e)

    def _take(self, queues: Sequence[str]) -> None:
        while not self._stopping.is_set():
            try:
                claims = self.client.claim(queues, lease=self.lease, wait=self.wait, worker=self.name)
            except Error as e:
                if self._stopping.is_set():
                    return
                if e.name in HOPELESS:
                    raise
                log.warning("no tasks: %s", e)
                self._stopping.wait(1)
                continue  # which frees what was granted meanwhile
            while claims:
                if self._stopping.is_set():
                    self.client.release(claims)
                    return
                claims = self._job(claims.pop(0), queues) + claims

    def _job(self, claim: Claim, queues: Sequence[str]) -> list[Claim]:
        """Runs a handler and says what came of it. Gives the claims that came with that."""
        job = Job(self, claim)
        with self._lock:
            self._jobs.add(job)
        try:
            try:
                handler = self._by_kind.get(claim.task.kind) or self._by_queue.get(claim.task.queue)
                if handler is None:
                    raise Snooze(60, "this worker has no handler for kind %r of queue %s" % (claim.task.kind, claim.task.queue))
                output = self._call(handler, job)
                result = output.encode() if isinstance(output, str) else output or b""
            except BaseException as e:
                self._report(job, e)
                return []
            return self._complete(claim, result, queues)
        except Error as e:
            log.warning("task %s: %s", claim.id, e)
            return []
        finally:
            with self._lock:
                self._jobs.discard(job)

    def _call(self, handler: Handler, job: Job) -> Output:
        out = handler(job)
        if out is None or isinstance(out, (bytes, str)):
            return out
        if not inspect.iscoroutine(out):
            raise TypeError("a handler returns bytes, a text or None, not %s" % type(out).__name__)
        running: Future[Output] = asyncio.run_coroutine_threadsafe(out, self._coroutines())
        job._cancel = running.cancel
        if job._ended is not None:
            running.cancel()
        return running.result()

    def _complete(self, claim: Claim, result: bytes, queues: Sequence[str]) -> list[Claim]:
        """Completes a task and claims the next one in the same request. Work that is done counts, however late."""
        if self._stopping.is_set():
            self.client.complete(claim, result, timeout=SETTLE)
            return []
        results, claims, _ = self.client.work([(claim, result)], queues, lease=self.lease, worker=self.name, timeout=SETTLE)
        if isinstance(results[0], Error):
            if results[0].again:
                self.client.complete(claim, result, timeout=SETTLE)
            else:
                log.warning("task %s: %s", claim.id, results[0])
        return claims

    def _report(self, job: Job, e: BaseException) -> None:
        """Says how a handler has failed."""
        claim = job._claim
        if job.ended and self._aborting.is_set() and claim.left() > 0:
            for result in self.client.release([claim], timeout=max(0.1, claim.left())):
                if isinstance(result, Error):
                    raise result
        elif job.ended:
            log.warning("task %s lost: %s", claim.id, job._ended)
        elif isinstance(e, Snooze):
            self.client.fail(claim, str(e), retry_in=e.seconds, uncounted=True, timeout=SETTLE)
        elif isinstance(e, RetryAfter):
            self.client.fail(claim, str(e), retry_in=e.seconds, timeout=SETTLE)
        elif isinstance(e, Discard):
            self.client.fail(claim, str(e) or "discarded", discard=True, timeout=SETTLE)
        else:
            text = "".join(traceback.format_exception(type(e), e, e.__traceback__))
            log.warning("task %s failed: %s: %s", claim.id, type(e).__name__, e)
            self.client.fail(claim, "%s: %s\n\n%s" % (type(e).__name__, e, text[-8192:]), timeout=SETTLE)

    # Coroutines

    def _coroutines(self) -> asyncio.AbstractEventLoop:
        """The loop that coroutines run on, made with the first of them."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._own_loop = threading.Thread(target=self._loop.run_forever, name="norn coroutines", daemon=True)
                self._own_loop.start()
            return self._loop

    def _end_loop(self) -> None:
        if self._own_loop and self._loop:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._own_loop.join()
            self._loop.close()
            self._loop = self._own_loop = None

    # Renewals

    def _heartbeat(self) -> None:
        """Renews every claim by one request, at a third of the lease or a little earlier: workers must not march in step."""
        every = self.lease / 3
        pause = every
        while not self._ended.wait(pause * random.uniform(0.9, 1)):
            with self._lock:
                jobs = [j for j in self._jobs if not j.ended]
            # A renewal that failed is made again at once, at another node: to wait as long again would be too late.
            pause = every if not jobs or self._renew(jobs, every / 2) else min(1, every / 10)

    def _renew(self, jobs: Sequence[Job], timeout: float) -> bool:
        """Renews claims, and tells whether it is known of each what has become of it."""
        try:
            results = self.client.renew([j._claim for j in jobs], timeout=timeout)
        except Exception as e:  # whatever it is: without renewals all that runs here is lost
            log.warning("%d claims could not be renewed, trying again: %s", len(jobs), e)
            return False
        known = True
        for job, error in zip(jobs, results):
            if error and (error.name in GONE or error.state == State.CANCELLED):
                job._end(str(error))
            elif error:
                known = False
                log.warning("task %s could not be renewed, trying again: %s", job.id, error)
        return known
