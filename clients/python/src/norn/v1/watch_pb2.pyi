from google.protobuf import timestamp_pb2 as _timestamp_pb2
from norn.v1 import service_pb2 as _service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

CONCERN_KIND_CLOCK: ConcernKind
CONCERN_KIND_DISK: ConcernKind
CONCERN_KIND_FACTS: ConcernKind
CONCERN_KIND_MOVE_STUCK: ConcernKind
CONCERN_KIND_NODE_DOWN: ConcernKind
CONCERN_KIND_NO_LEADER: ConcernKind
CONCERN_KIND_NO_MAJORITY: ConcernKind
CONCERN_KIND_NO_WORKER: ConcernKind
CONCERN_KIND_QUEUE_PAUSED: ConcernKind
CONCERN_KIND_SCHEDULE_FAILS: ConcernKind
CONCERN_KIND_SCHEDULE_LATE: ConcernKind
CONCERN_KIND_SCHEDULE_PAUSED_ITSELF: ConcernKind
CONCERN_KIND_TASKS_DIE: ConcernKind
CONCERN_KIND_UNSPECIFIED: ConcernKind
CONCERN_KIND_WORKER_TROUBLED: ConcernKind
CONCERN_KIND_WORK_WAITS: ConcernKind
DESCRIPTOR: _descriptor.FileDescriptor
QUEUE_ORDER_BUSY: QueueOrder
QUEUE_ORDER_CANCELLED: QueueOrder
QUEUE_ORDER_CLAIMED: QueueOrder
QUEUE_ORDER_COMPLETED: QueueOrder
QUEUE_ORDER_DEAD: QueueOrder
QUEUE_ORDER_OLDEST_READY: QueueOrder
QUEUE_ORDER_READY: QueueOrder
QUEUE_ORDER_SCHEDULED: QueueOrder
QUEUE_ORDER_UNSPECIFIED: QueueOrder
QUEUE_ORDER_WAITING: QueueOrder
QUEUE_ORDER_WAITING_CLAIMS: QueueOrder
SEVERITY_CRITICAL: Severity
SEVERITY_NOTE: Severity
SEVERITY_UNSPECIFIED: Severity
SEVERITY_WARNING: Severity

class AttentionReply(_message.Message):
    __slots__ = ["concerns", "node", "unseen"]
    CONCERNS_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    UNSEEN_FIELD_NUMBER: _ClassVar[int]
    concerns: _containers.RepeatedCompositeFieldContainer[Concern]
    node: str
    unseen: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, concerns: _Optional[_Iterable[_Union[Concern, _Mapping]]] = ..., node: _Optional[str] = ..., unseen: _Optional[_Iterable[str]] = ...) -> None: ...

class AttentionRequest(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class Concern(_message.Message):
    __slots__ = ["action", "count", "kind", "link", "severity", "since", "subject", "text"]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LINK_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    action: str
    count: int
    kind: ConcernKind
    link: str
    severity: Severity
    since: _timestamp_pb2.Timestamp
    subject: str
    text: str
    def __init__(self, kind: _Optional[_Union[ConcernKind, str]] = ..., severity: _Optional[_Union[Severity, str]] = ..., subject: _Optional[str] = ..., text: _Optional[str] = ..., action: _Optional[str] = ..., link: _Optional[str] = ..., count: _Optional[int] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Decisions(_message.Message):
    __slots__ = ["cancelled", "claimed", "completed", "dead", "enqueued", "expired", "failed", "retried"]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    CLAIMED_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    RETRIED_FIELD_NUMBER: _ClassVar[int]
    cancelled: _containers.RepeatedScalarFieldContainer[int]
    claimed: _containers.RepeatedScalarFieldContainer[int]
    completed: _containers.RepeatedScalarFieldContainer[int]
    dead: _containers.RepeatedScalarFieldContainer[int]
    enqueued: _containers.RepeatedScalarFieldContainer[int]
    expired: _containers.RepeatedScalarFieldContainer[int]
    failed: _containers.RepeatedScalarFieldContainer[int]
    retried: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, enqueued: _Optional[_Iterable[int]] = ..., claimed: _Optional[_Iterable[int]] = ..., completed: _Optional[_Iterable[int]] = ..., failed: _Optional[_Iterable[int]] = ..., dead: _Optional[_Iterable[int]] = ..., expired: _Optional[_Iterable[int]] = ..., cancelled: _Optional[_Iterable[int]] = ..., retried: _Optional[_Iterable[int]] = ...) -> None: ...

class Durations(_message.Message):
    __slots__ = ["counts", "sum_seconds", "up_to_seconds"]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    SUM_SECONDS_FIELD_NUMBER: _ClassVar[int]
    UP_TO_SECONDS_FIELD_NUMBER: _ClassVar[int]
    counts: _containers.RepeatedScalarFieldContainer[int]
    sum_seconds: float
    up_to_seconds: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, up_to_seconds: _Optional[_Iterable[float]] = ..., counts: _Optional[_Iterable[int]] = ..., sum_seconds: _Optional[float] = ...) -> None: ...

class HistoryReply(_message.Message):
    __slots__ = ["busiest", "decisions", "finish", "nodes", "run", "since", "start", "step_seconds", "wait"]
    BUSIEST_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    FINISH_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STEP_SECONDS_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    busiest: _containers.RepeatedCompositeFieldContainer[QueueDecisions]
    decisions: Decisions
    finish: Durations
    nodes: int
    run: Durations
    since: _timestamp_pb2.Timestamp
    start: _timestamp_pb2.Timestamp
    step_seconds: float
    wait: Durations
    def __init__(self, start: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., step_seconds: _Optional[float] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., decisions: _Optional[_Union[Decisions, _Mapping]] = ..., busiest: _Optional[_Iterable[_Union[QueueDecisions, _Mapping]]] = ..., nodes: _Optional[int] = ..., wait: _Optional[_Union[Durations, _Mapping]] = ..., run: _Optional[_Union[Durations, _Mapping]] = ..., finish: _Optional[_Union[Durations, _Mapping]] = ...) -> None: ...

class HistoryRequest(_message.Message):
    __slots__ = ["busiest", "queue", "seconds", "step_seconds", "until"]
    BUSIEST_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    STEP_SECONDS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    busiest: int
    queue: str
    seconds: float
    step_seconds: float
    until: _timestamp_pb2.Timestamp
    def __init__(self, queue: _Optional[str] = ..., seconds: _Optional[float] = ..., step_seconds: _Optional[float] = ..., until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., busiest: _Optional[int] = ...) -> None: ...

class QueueDecisions(_message.Message):
    __slots__ = ["cancelled", "claimed", "completed", "dead", "enqueued", "expired", "failed", "queue", "retried"]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    CLAIMED_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    RETRIED_FIELD_NUMBER: _ClassVar[int]
    cancelled: int
    claimed: int
    completed: int
    dead: int
    enqueued: int
    expired: int
    failed: int
    queue: str
    retried: int
    def __init__(self, queue: _Optional[str] = ..., enqueued: _Optional[int] = ..., claimed: _Optional[int] = ..., completed: _Optional[int] = ..., failed: _Optional[int] = ..., dead: _Optional[int] = ..., expired: _Optional[int] = ..., cancelled: _Optional[int] = ..., retried: _Optional[int] = ...) -> None: ...

class RankQueuesReply(_message.Message):
    __slots__ = ["cut", "found", "queues", "total"]
    CUT_FIELD_NUMBER: _ClassVar[int]
    FOUND_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    cut: bool
    found: int
    queues: _containers.RepeatedCompositeFieldContainer[_service_pb2.Queue]
    total: _service_pb2.Count
    def __init__(self, queues: _Optional[_Iterable[_Union[_service_pb2.Queue, _Mapping]]] = ..., found: _Optional[int] = ..., total: _Optional[_Union[_service_pb2.Count, _Mapping]] = ..., cut: bool = ...) -> None: ...

class RankQueuesRequest(_message.Message):
    __slots__ = ["by", "contains", "descending", "limit", "offset"]
    BY_FIELD_NUMBER: _ClassVar[int]
    CONTAINS_FIELD_NUMBER: _ClassVar[int]
    DESCENDING_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    by: QueueOrder
    contains: str
    descending: bool
    limit: int
    offset: int
    def __init__(self, contains: _Optional[str] = ..., by: _Optional[_Union[QueueOrder, str]] = ..., descending: bool = ..., limit: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class Severity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class ConcernKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class QueueOrder(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
