"""What a client gives back, as values with types."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from norn.ids import TaskID
from norn.v1 import service_pb2 as pb, task_pb2 as tasks
from norn.wire import clock


class State(enum.IntEnum):
    """What a task is at. The numbers are those of the protocol; one from the future is UNKNOWN."""

    UNKNOWN = 0
    WAITING = 1
    SCHEDULED = 2
    READY = 3
    CLAIMED = 4
    COMPLETED = 5
    DEAD = 6
    CANCELLED = 7

    @classmethod
    def _missing_(cls, value: object) -> State:
        return cls.UNKNOWN

    @property
    def finished(self) -> bool:
        """Nothing more happens to the task unless somebody retries it."""
        return self in (State.COMPLETED, State.DEAD, State.CANCELLED)


@dataclass(frozen=True)
class Receipt:
    """What an accepted write has bought."""

    id: TaskID
    existed: bool  # it was there before: this call was a repetition
    copies: int = 0  # replicas that hold it
    durable_copies: int = 0  # replicas that hold it on disk
    hinted: int = 0  # copies kept elsewhere for a replica that was out of reach
    partition: int = 0
    state: State = State.UNKNOWN  # of the task, after a cancellation or a retry

    @classmethod
    def of(cls, m: tasks.Receipt, state: int = 0) -> Receipt:
        """The receipt in a message."""
        return cls(TaskID(m.id), m.existed, m.copies, m.durable_copies, m.hinted, m.partition, State(state))


def _when(m: Any, name: str) -> datetime.datetime | None:
    if not m.HasField(name):
        return None
    at: datetime.datetime = getattr(m, name).ToDatetime(tzinfo=datetime.timezone.utc)
    return at


@dataclass(frozen=True)
class Task:
    """A task as it stands. `raw` is the message of the protocol, which has all there is."""

    id: TaskID
    queue: str
    payload: bytes
    state: State
    priority: int
    attempts: int  # that count: failures and expiries since the last retry by hand
    max_attempts: int
    kind: str
    tags: tuple[str, ...]
    headers: Mapping[str, str]
    key: str
    key_window_seconds: float
    dependencies: tuple[TaskID, ...]
    claims: Sequence[tasks.Claim]  # oldest first
    updates: Sequence[tasks.Update]
    error: str  # of the newest failure, or why it is dead or cancelled
    result: bytes
    retries: int  # how often it was retried by hand
    created_at: datetime.datetime | None
    not_before: datetime.datetime | None
    completed_at: datetime.datetime | None
    finished_at: datetime.datetime | None
    raw: tasks.Task = field(repr=False, compare=False)

    @classmethod
    def of(cls, m: tasks.Task) -> Task:
        """The task in a message."""
        return cls(
            id=TaskID(m.id), queue=m.queue, payload=m.payload, state=State(m.state), priority=m.priority, attempts=m.attempts,
            max_attempts=m.max_attempts, kind=m.kind, tags=tuple(m.tags), headers=dict(m.headers), key=m.key,
            key_window_seconds=m.key_window_seconds, dependencies=tuple(TaskID(d) for d in m.dependencies), claims=m.claims,
            updates=m.updates, error=m.error, result=m.result, retries=m.retries, created_at=_when(m, "created_at"),
            not_before=_when(m, "not_before"), completed_at=_when(m, "completed_at"), finished_at=_when(m, "finished_at"), raw=m)


class Claim:
    """The right to run a task until its deadline."""

    def __init__(self, grant: tasks.Grant, sent_at: float, waited: float) -> None:
        self.task = Task.of(grant.task)
        self.id = self.task.id
        self.token: int = grant.token  # rises with every claim of the task: let what you write to refuse lower ones
        self.checkpoint: bytes = grant.checkpoint  # the newest update of earlier claims
        self.seq = 0  # number of the next update
        self.lease, self.deadline = 0.0, 0.0
        self._extend(sent_at, waited, grant.lease_seconds)

    def _extend(self, sent_at: float, waited: float, lease: float) -> None:
        self.lease = lease
        # A thousandth for the drift between two clocks.
        self.deadline = sent_at + waited + lease - lease / 1000

    def left(self) -> float:
        """Seconds until the work must have stopped, unless it is renewed."""
        return self.deadline - clock()

    def _ref(self) -> pb.ClaimRef:
        return pb.ClaimRef(id=self.id.raw, token=self.token)
