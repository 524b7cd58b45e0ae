"""A client and worker for Norn, the distributed task queue.

    import norn

    with norn.Client("127.0.0.1:7711") as client:
        client.enqueue("greetings", b"Ada")
        for claim in client.claim(["greetings"], wait=10):
            client.complete(claim, result=b"Hello, " + claim.task.payload)

Client is for threads, AsyncClient for asyncio, Worker runs handlers of either kind. Calls repeat themselves, also over new
connections and on other nodes, until they are answered or their timeout is over; no repetition has a second effect. Every
failure is a norn.Error. Times are seconds, IDs are TaskID.
"""

from __future__ import annotations

try:
    import google.protobuf  # noqa: F401
except ImportError as e:
    raise ImportError(
        "the protobuf package is missing for this Python: Debian has python3-protobuf for its own one, "
        "others get it with pip install protobuf") from e

from norn.aio import AsyncClient
from norn.client import Client, tls_context
from norn.errors import ClaimEnded, Discard, Error, RetryAfter, Snooze
from norn.ids import TaskID
from norn.types import Claim, Receipt, State, Task
from norn.worker import Job, Worker

__version__ = "0.1.0"
__all__ = [
    "AsyncClient", "Claim", "ClaimEnded", "Client", "Discard", "Error", "Job", "Receipt", "RetryAfter", "Snooze", "State", "Task",
    "TaskID", "Worker", "tls_context"]
