"""A client for asyncio.

It is the client for threads with a pool of them: what is hard about calls, to repeat them without a second effect, is there
once. A call that waits for an answer holds a thread of the pool, and no more.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Callable, Iterator, List, TypeVar

from norn.client import AnyID, Client, Result
from norn.errors import Error
from norn.types import Claim, Receipt, State, Task
from norn.v1 import service_pb2 as pb, task_pb2 as tasks

T = TypeVar("T")


class AsyncClient:
    """A cluster, through any of its nodes, for one event loop.

        async with norn.AsyncClient("127.0.0.1:7711") as client:
            await client.enqueue("greetings", b"Ada")
    """

    def __init__(self, *addresses: str, max_calls: int = 64, **options: Any) -> None:
        """As Client; max_calls is how many calls may be open at once, others wait for their turn."""
        self.sync = Client(*addresses, **options)  # the client for threads, such as a Worker wants it
        self._pool = ThreadPoolExecutor(max_calls, "norn call")

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections; calls that are open fail."""
        self.sync.close()
        await asyncio.get_running_loop().run_in_executor(None, self._pool.shutdown)

    async def _run(self, call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, functools.partial(call, *args, **kwargs))

    async def enqueue(self, queue: str, payload: bytes | str = b"", **fields: Any) -> Receipt:
        """Adds one task, see Client.spec for the fields. Gives its Receipt once it is durable."""
        return await self._run(self.sync.enqueue, queue, payload, **fields)

    async def spec(self, queue: str, payload: bytes | str = b"", **fields: Any) -> tasks.TaskSpec:
        """What enqueue_many takes, see Client.spec."""
        return await self._run(self.sync.spec, queue, payload, **fields)

    async def enqueue_many(self, specs: Sequence[tasks.TaskSpec], timeout: float | None = None) -> List[Result[Receipt]]:
        """Adds tasks made by spec. Gives a Receipt or an Error for each."""
        return await self._run(self.sync.enqueue_many, specs, timeout)

    async def claim(
            self, queues: Sequence[str], max_tasks: int = 1, lease: float = 0, wait: float = 0, worker: str = "") -> List[Claim]:
        """Claims the best ready tasks. What comes after the await was cancelled is given back at once."""
        call = self._pool.submit(self.sync.claim, queues, max_tasks, lease, wait, worker)
        try:
            return await asyncio.wrap_future(call)
        except asyncio.CancelledError:
            call.add_done_callback(self._give_back)
            raise

    def _give_back(self, call: Future[List[Claim]]) -> None:
        if call.cancelled() or call.exception() is not None:
            return
        claims = call.result()
        if claims:
            try:
                self.sync.release(claims)
            except Error:
                pass  # they lapse

    async def work(
            self, done: Sequence[tuple[Claim, bytes]], queues: Sequence[str], max_tasks: int = 1, lease: float = 0,
            worker: str = "") -> tuple[List[Result[Receipt]], List[Claim], Error | None]:
        """Completes claims and claims the next tasks, in one request, see Client.work."""
        return await self._run(self.sync.work, done, queues, max_tasks, lease, worker)

    async def renew(self, claims: Sequence[Claim], lease: float = 0, timeout: float | None = None) -> List[Error | None]:
        """Renews claims and moves their deadlines. Gives None or an Error for each."""
        return await self._run(self.sync.renew, claims, lease, timeout)

    async def update(self, claim: Claim, data: bytes, output: bool = False) -> Receipt:
        """Appends to the task's log; unless it is output, it is the checkpoint of a later claim."""
        return await self._run(self.sync.update, claim, data, output)

    async def complete(self, claim: Claim, result: bytes = b"") -> Receipt:
        """Finishes a task; late is better than never."""
        return await self._run(self.sync.complete, claim, result)

    async def fail(
            self, claim: Claim, error: str, retry_in: float | None = None, uncounted: bool = False, discard: bool = False) -> State:
        """Ends a claim with a failure. Gives the state of the task then."""
        return await self._run(self.sync.fail, claim, error, retry_in, uncounted, discard)

    async def release(self, claims: Sequence[Claim]) -> List[Result[Receipt]]:
        """Gives tasks back, without using an attempt. Gives a Receipt or an Error for each."""
        return await self._run(self.sync.release, claims)

    async def get(self, task: AnyID) -> Task:
        """One Task."""
        return await self._run(self.sync.get, task)

    async def list(self, queue: str = "", **conditions: Any) -> AsyncIterator[Task]:
        """All tasks that fit, in the order of their IDs, fetched page by page, see Client.list."""
        async for task in self._each(self.sync.list(queue, **conditions)):
            yield task

    async def follow(self, task: AnyID) -> AsyncIterator[tasks.Update]:
        """Updates of a task as they come, until it is finished."""
        async for update in self._each(self.sync.follow(task)):
            yield update

    async def _each(self, items: Iterator[T]) -> AsyncIterator[T]:
        end = object()
        while True:
            item: Any = await self._run(next, items, end)
            if item is end:
                return
            yield item

    async def count(self, queue: str = "") -> pb.CountReply:
        """The counters of all states: `total`, and one of each queue."""
        return await self._run(self.sync.count, queue)

    async def cancel(self, task_ids: Sequence[AnyID], reason: str = "") -> List[Result[Receipt]]:
        """Cancels tasks. Gives a Receipt or an Error for each."""
        return await self._run(self.sync.cancel, task_ids, reason)

    async def retry(self, task_ids: Sequence[AnyID]) -> List[Result[Receipt]]:
        """Gives tasks a new run of attempts at once. Gives a Receipt or an Error for each."""
        return await self._run(self.sync.retry, task_ids)
