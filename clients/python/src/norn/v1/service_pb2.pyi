from google.protobuf import timestamp_pb2 as _timestamp_pb2
from norn.v1 import error_pb2 as _error_pb2
from norn.v1 import task_pb2 as _task_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

BULK_ACTION_CANCEL: BulkAction
BULK_ACTION_RETRY: BulkAction
BULK_ACTION_UNSPECIFIED: BulkAction
DESCRIPTOR: _descriptor.FileDescriptor
METHOD_ACCESS: Method
METHOD_ATTENTION: Method
METHOD_BACKUP: Method
METHOD_BULK: Method
METHOD_CANCEL: Method
METHOD_CHANGE_SCHEDULES: Method
METHOD_CLAIM: Method
METHOD_CLUSTER: Method
METHOD_COMPLETE: Method
METHOD_COUNT: Method
METHOD_ENQUEUE: Method
METHOD_EXPLAIN: Method
METHOD_FAIL: Method
METHOD_GET: Method
METHOD_HELLO: Method
METHOD_HISTORY: Method
METHOD_KEY: Method
METHOD_LAUNCH: Method
METHOD_LINES: Method
METHOD_LIST: Method
METHOD_LOG: Method
METHOD_PING: Method
METHOD_QUEUES: Method
METHOD_RANK_QUEUES: Method
METHOD_RELEASE: Method
METHOD_RENEW: Method
METHOD_RESTORE: Method
METHOD_RETRY: Method
METHOD_SCHEDULES: Method
METHOD_SESSION: Method
METHOD_SET_QUEUE: Method
METHOD_SET_WORKER: Method
METHOD_STATUS: Method
METHOD_UNSPECIFIED: Method
METHOD_UPDATE: Method
METHOD_VERIFY: Method
METHOD_WHO_AM_I: Method
METHOD_WORK: Method
METHOD_WORKERS: Method
READ_LEVEL_ALL: ReadLevel
READ_LEVEL_COUNT: ReadLevel
READ_LEVEL_ONE: ReadLevel
READ_LEVEL_QUORUM: ReadLevel
REASON_KIND_ALL_BUSY: ReasonKind
REASON_KIND_BACK_OFF: ReasonKind
REASON_KIND_BEHIND: ReasonKind
REASON_KIND_CLAIMED: ReasonKind
REASON_KIND_CLAIM_LIMIT: ReasonKind
REASON_KIND_CYCLE: ReasonKind
REASON_KIND_DEPENDENCY: ReasonKind
REASON_KIND_FINISHED: ReasonKind
REASON_KIND_NOT_BEFORE: ReasonKind
REASON_KIND_NO_HANDLER: ReasonKind
REASON_KIND_NO_LEADER: ReasonKind
REASON_KIND_NO_MAJORITY: ReasonKind
REASON_KIND_NO_WORKER: ReasonKind
REASON_KIND_QUEUE_PAUSED: ReasonKind
REASON_KIND_UNKNOWN_DEPENDENCY: ReasonKind
REASON_KIND_UNSPECIFIED: ReasonKind
REASON_KIND_WORKER_TROUBLED: ReasonKind
RETENTION_ARCHIVE: Retention
RETENTION_DELETE: Retention
RETENTION_KEEP: Retention
RETENTION_UNSPECIFIED: Retention
WRITE_LEVEL_ALL: WriteLevel
WRITE_LEVEL_COUNT: WriteLevel
WRITE_LEVEL_ONE: WriteLevel
WRITE_LEVEL_QUORUM: WriteLevel

class BulkReply(_message.Message):
    __slots__ = ["done", "error", "failed", "matched", "next_cursor", "skipped"]
    DONE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    MATCHED_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    done: int
    error: _error_pb2.Error
    failed: int
    matched: int
    next_cursor: bytes
    skipped: int
    def __init__(self, matched: _Optional[int] = ..., done: _Optional[int] = ..., skipped: _Optional[int] = ..., failed: _Optional[int] = ..., error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., next_cursor: _Optional[bytes] = ...) -> None: ...

class BulkRequest(_message.Message):
    __slots__ = ["action", "all", "cursor", "dry_run", "durability", "expected", "filter", "limit", "queue", "reason", "states"]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    action: BulkAction
    all: bool
    cursor: bytes
    dry_run: bool
    durability: Durability
    expected: int
    filter: Filter
    limit: int
    queue: str
    reason: str
    states: _containers.RepeatedScalarFieldContainer[_task_pb2.State]
    def __init__(self, action: _Optional[_Union[BulkAction, str]] = ..., queue: _Optional[str] = ..., states: _Optional[_Iterable[_Union[_task_pb2.State, str]]] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ..., all: bool = ..., dry_run: bool = ..., expected: _Optional[int] = ..., limit: _Optional[int] = ..., cursor: _Optional[bytes] = ..., reason: _Optional[str] = ..., durability: _Optional[_Union[Durability, _Mapping]] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ["durability", "ids", "only_states", "reason"]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    ONLY_STATES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    durability: Durability
    ids: _containers.RepeatedScalarFieldContainer[bytes]
    only_states: _containers.RepeatedScalarFieldContainer[_task_pb2.State]
    reason: str
    def __init__(self, ids: _Optional[_Iterable[bytes]] = ..., reason: _Optional[str] = ..., only_states: _Optional[_Iterable[_Union[_task_pb2.State, str]]] = ..., durability: _Optional[_Union[Durability, _Mapping]] = ...) -> None: ...

class ClaimRef(_message.Message):
    __slots__ = ["id", "session", "token", "worker"]
    ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    session: bytes
    token: int
    worker: str
    def __init__(self, id: _Optional[bytes] = ..., token: _Optional[int] = ..., session: _Optional[bytes] = ..., worker: _Optional[str] = ...) -> None: ...

class ClaimReply(_message.Message):
    __slots__ = ["grants", "waited_seconds"]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    WAITED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    grants: _containers.RepeatedCompositeFieldContainer[_task_pb2.Grant]
    waited_seconds: float
    def __init__(self, grants: _Optional[_Iterable[_Union[_task_pb2.Grant, _Mapping]]] = ..., waited_seconds: _Optional[float] = ...) -> None: ...

class ClaimRequest(_message.Message):
    __slots__ = ["lease_seconds", "max_tasks", "queues", "request_no", "session", "unanswered", "wait_seconds", "worker"]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MAX_TASKS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_NO_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    UNANSWERED_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    lease_seconds: float
    max_tasks: int
    queues: _containers.RepeatedScalarFieldContainer[str]
    request_no: int
    session: bytes
    unanswered: _containers.RepeatedScalarFieldContainer[int]
    wait_seconds: float
    worker: str
    def __init__(self, queues: _Optional[_Iterable[str]] = ..., max_tasks: _Optional[int] = ..., lease_seconds: _Optional[float] = ..., wait_seconds: _Optional[float] = ..., worker: _Optional[str] = ..., session: _Optional[bytes] = ..., request_no: _Optional[int] = ..., unanswered: _Optional[_Iterable[int]] = ...) -> None: ...

class CompleteRequest(_message.Message):
    __slots__ = ["completions", "durability"]
    COMPLETIONS_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    completions: _containers.RepeatedCompositeFieldContainer[Completion]
    durability: Durability
    def __init__(self, completions: _Optional[_Iterable[_Union[Completion, _Mapping]]] = ..., durability: _Optional[_Union[Durability, _Mapping]] = ...) -> None: ...

class Completion(_message.Message):
    __slots__ = ["auto_seq", "id", "result", "seq", "session", "token"]
    AUTO_SEQ_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    auto_seq: bool
    id: bytes
    result: bytes
    seq: int
    session: bytes
    token: int
    def __init__(self, id: _Optional[bytes] = ..., token: _Optional[int] = ..., seq: _Optional[int] = ..., auto_seq: bool = ..., result: _Optional[bytes] = ..., session: _Optional[bytes] = ...) -> None: ...

class Consistency(_message.Message):
    __slots__ = ["at_least", "at_least_seq", "at_least_token", "level", "replicas"]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_SEQ_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    at_least: bool
    at_least_seq: int
    at_least_token: int
    level: ReadLevel
    replicas: int
    def __init__(self, level: _Optional[_Union[ReadLevel, str]] = ..., replicas: _Optional[int] = ..., at_least_token: _Optional[int] = ..., at_least_seq: _Optional[int] = ..., at_least: bool = ...) -> None: ...

class Count(_message.Message):
    __slots__ = ["cancelled", "claimed", "completed", "dead", "queue", "ready", "scheduled", "total", "waiting"]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    CLAIMED_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    cancelled: int
    claimed: int
    completed: int
    dead: int
    queue: str
    ready: int
    scheduled: int
    total: int
    waiting: int
    def __init__(self, queue: _Optional[str] = ..., waiting: _Optional[int] = ..., scheduled: _Optional[int] = ..., ready: _Optional[int] = ..., claimed: _Optional[int] = ..., completed: _Optional[int] = ..., dead: _Optional[int] = ..., cancelled: _Optional[int] = ..., total: _Optional[int] = ...) -> None: ...

class CountReply(_message.Message):
    __slots__ = ["queues", "total"]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    queues: _containers.RepeatedCompositeFieldContainer[Count]
    total: Count
    def __init__(self, total: _Optional[_Union[Count, _Mapping]] = ..., queues: _Optional[_Iterable[_Union[Count, _Mapping]]] = ...) -> None: ...

class CountRequest(_message.Message):
    __slots__ = ["queue"]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    queue: str
    def __init__(self, queue: _Optional[str] = ...) -> None: ...

class Durability(_message.Message):
    __slots__ = ["copies", "level"]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    copies: int
    level: WriteLevel
    def __init__(self, level: _Optional[_Union[WriteLevel, str]] = ..., copies: _Optional[int] = ...) -> None: ...

class EnqueueReply(_message.Message):
    __slots__ = ["results"]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[EnqueueResult]
    def __init__(self, results: _Optional[_Iterable[_Union[EnqueueResult, _Mapping]]] = ...) -> None: ...

class EnqueueRequest(_message.Message):
    __slots__ = ["durability", "tasks"]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    durability: Durability
    tasks: _containers.RepeatedCompositeFieldContainer[_task_pb2.TaskSpec]
    def __init__(self, tasks: _Optional[_Iterable[_Union[_task_pb2.TaskSpec, _Mapping]]] = ..., durability: _Optional[_Union[Durability, _Mapping]] = ...) -> None: ...

class EnqueueResult(_message.Message):
    __slots__ = ["error", "receipt", "stored_digest"]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    STORED_DIGEST_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    receipt: _task_pb2.Receipt
    stored_digest: bytes
    def __init__(self, receipt: _Optional[_Union[_task_pb2.Receipt, _Mapping]] = ..., error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., stored_digest: _Optional[bytes] = ...) -> None: ...

class ExplainReply(_message.Message):
    __slots__ = ["id", "queue", "reasons", "state"]
    ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    id: str
    queue: str
    reasons: _containers.RepeatedCompositeFieldContainer[Reason]
    state: _task_pb2.State
    def __init__(self, id: _Optional[str] = ..., queue: _Optional[str] = ..., state: _Optional[_Union[_task_pb2.State, str]] = ..., reasons: _Optional[_Iterable[_Union[Reason, _Mapping]]] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ["id"]
    ID_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    def __init__(self, id: _Optional[bytes] = ...) -> None: ...

class FailRequest(_message.Message):
    __slots__ = ["failures"]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    failures: _containers.RepeatedCompositeFieldContainer[Failure]
    def __init__(self, failures: _Optional[_Iterable[_Union[Failure, _Mapping]]] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ["at_least_seconds", "discard", "error", "id", "keep_away_seconds", "retry_at", "retry_in_seconds", "session", "token", "uncounted", "worker"]
    AT_LEAST_SECONDS_FIELD_NUMBER: _ClassVar[int]
    DISCARD_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    KEEP_AWAY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    RETRY_AT_FIELD_NUMBER: _ClassVar[int]
    RETRY_IN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    UNCOUNTED_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    at_least_seconds: float
    discard: bool
    error: str
    id: bytes
    keep_away_seconds: float
    retry_at: _timestamp_pb2.Timestamp
    retry_in_seconds: float
    session: bytes
    token: int
    uncounted: bool
    worker: str
    def __init__(self, id: _Optional[bytes] = ..., token: _Optional[int] = ..., error: _Optional[str] = ..., retry_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., uncounted: bool = ..., discard: bool = ..., at_least_seconds: _Optional[float] = ..., retry_in_seconds: _Optional[float] = ..., session: _Optional[bytes] = ..., worker: _Optional[str] = ..., keep_away_seconds: _Optional[float] = ...) -> None: ...

class Filter(_message.Message):
    __slots__ = ["created_after", "created_before", "depends_on", "error_contains", "finished_after", "finished_before", "headers", "key", "kind", "min_attempts", "payload_contains", "payload_paths", "tags", "worker"]
    class HeadersEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class PayloadPathsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CREATED_AFTER_FIELD_NUMBER: _ClassVar[int]
    CREATED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    DEPENDS_ON_FIELD_NUMBER: _ClassVar[int]
    ERROR_CONTAINS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AFTER_FIELD_NUMBER: _ClassVar[int]
    FINISHED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MIN_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_CONTAINS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_PATHS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    created_after: _timestamp_pb2.Timestamp
    created_before: _timestamp_pb2.Timestamp
    depends_on: bytes
    error_contains: str
    finished_after: _timestamp_pb2.Timestamp
    finished_before: _timestamp_pb2.Timestamp
    headers: _containers.ScalarMap[str, str]
    key: str
    kind: str
    min_attempts: int
    payload_contains: str
    payload_paths: _containers.ScalarMap[str, str]
    tags: _containers.RepeatedScalarFieldContainer[str]
    worker: str
    def __init__(self, created_before: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., created_after: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., finished_before: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., finished_after: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., error_contains: _Optional[str] = ..., headers: _Optional[_Mapping[str, str]] = ..., min_attempts: _Optional[int] = ..., key: _Optional[str] = ..., worker: _Optional[str] = ..., kind: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., payload_contains: _Optional[str] = ..., payload_paths: _Optional[_Mapping[str, str]] = ..., depends_on: _Optional[bytes] = ...) -> None: ...

class FurtherUpdate(_message.Message):
    __slots__ = ["data", "seq"]
    DATA_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    seq: int
    def __init__(self, seq: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class GetReply(_message.Message):
    __slots__ = ["task"]
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: _task_pb2.Task
    def __init__(self, task: _Optional[_Union[_task_pb2.Task, _Mapping]] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ["consistency", "id"]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    consistency: Consistency
    id: bytes
    def __init__(self, id: _Optional[bytes] = ..., consistency: _Optional[_Union[Consistency, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ["agent", "auth_token", "cluster_id", "max_version", "min_version", "only_cluster"]
    AGENT_FIELD_NUMBER: _ClassVar[int]
    AUTH_TOKEN_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_VERSION_FIELD_NUMBER: _ClassVar[int]
    MIN_VERSION_FIELD_NUMBER: _ClassVar[int]
    ONLY_CLUSTER_FIELD_NUMBER: _ClassVar[int]
    agent: str
    auth_token: str
    cluster_id: str
    max_version: int
    min_version: int
    only_cluster: bool
    def __init__(self, min_version: _Optional[int] = ..., max_version: _Optional[int] = ..., cluster_id: _Optional[str] = ..., auth_token: _Optional[str] = ..., agent: _Optional[str] = ..., only_cluster: bool = ...) -> None: ...

class HelloReply(_message.Message):
    __slots__ = ["cluster_id", "eta_seconds", "limits", "node", "now", "placement", "server_version", "version"]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    ETA_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    NOW_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    SERVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    eta_seconds: float
    limits: Limits
    node: str
    now: _timestamp_pb2.Timestamp
    placement: Placement
    server_version: str
    version: int
    def __init__(self, version: _Optional[int] = ..., cluster_id: _Optional[str] = ..., node: _Optional[str] = ..., server_version: _Optional[str] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., placement: _Optional[_Union[Placement, _Mapping]] = ..., eta_seconds: _Optional[float] = ..., now: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class KeyReply(_message.Message):
    __slots__ = ["id", "state"]
    ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    state: _task_pb2.State
    def __init__(self, id: _Optional[bytes] = ..., state: _Optional[_Union[_task_pb2.State, str]] = ...) -> None: ...

class KeyRequest(_message.Message):
    __slots__ = ["key", "queue", "window_seconds"]
    KEY_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    WINDOW_SECONDS_FIELD_NUMBER: _ClassVar[int]
    key: str
    queue: str
    window_seconds: float
    def __init__(self, queue: _Optional[str] = ..., key: _Optional[str] = ..., window_seconds: _Optional[float] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ["max_batch_bytes", "max_batch_tasks", "max_dependencies", "max_frame_bytes", "max_in_flight", "max_lease_seconds", "max_payload_bytes", "max_wait_seconds", "min_lease_seconds"]
    MAX_BATCH_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_TASKS_FIELD_NUMBER: _ClassVar[int]
    MAX_DEPENDENCIES_FIELD_NUMBER: _ClassVar[int]
    MAX_FRAME_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    MAX_LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MAX_PAYLOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MIN_LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    max_batch_bytes: int
    max_batch_tasks: int
    max_dependencies: int
    max_frame_bytes: int
    max_in_flight: int
    max_lease_seconds: float
    max_payload_bytes: int
    max_wait_seconds: float
    min_lease_seconds: float
    def __init__(self, max_frame_bytes: _Optional[int] = ..., max_payload_bytes: _Optional[int] = ..., max_batch_tasks: _Optional[int] = ..., max_batch_bytes: _Optional[int] = ..., max_dependencies: _Optional[int] = ..., max_in_flight: _Optional[int] = ..., min_lease_seconds: _Optional[float] = ..., max_lease_seconds: _Optional[float] = ..., max_wait_seconds: _Optional[float] = ...) -> None: ...

class ListReply(_message.Message):
    __slots__ = ["looked_at", "next_cursor", "reached", "tasks"]
    LOOKED_AT_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    REACHED_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    looked_at: int
    next_cursor: bytes
    reached: _timestamp_pb2.Timestamp
    tasks: _containers.RepeatedCompositeFieldContainer[_task_pb2.Task]
    def __init__(self, tasks: _Optional[_Iterable[_Union[_task_pb2.Task, _Mapping]]] = ..., next_cursor: _Optional[bytes] = ..., looked_at: _Optional[int] = ..., reached: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ["consistency", "cursor", "filter", "ids_only", "limit", "queue", "states"]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    FILTER_FIELD_NUMBER: _ClassVar[int]
    IDS_ONLY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    consistency: Consistency
    cursor: bytes
    filter: Filter
    ids_only: bool
    limit: int
    queue: str
    states: _containers.RepeatedScalarFieldContainer[_task_pb2.State]
    def __init__(self, queue: _Optional[str] = ..., states: _Optional[_Iterable[_Union[_task_pb2.State, str]]] = ..., limit: _Optional[int] = ..., cursor: _Optional[bytes] = ..., consistency: _Optional[_Union[Consistency, _Mapping]] = ..., filter: _Optional[_Union[Filter, _Mapping]] = ..., ids_only: bool = ...) -> None: ...

class LogReply(_message.Message):
    __slots__ = ["more", "state", "updates"]
    MORE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    more: bool
    state: _task_pb2.State
    updates: _containers.RepeatedCompositeFieldContainer[_task_pb2.Update]
    def __init__(self, updates: _Optional[_Iterable[_Union[_task_pb2.Update, _Mapping]]] = ..., more: bool = ..., state: _Optional[_Union[_task_pb2.State, str]] = ...) -> None: ...

class LogRequest(_message.Message):
    __slots__ = ["after", "after_seq", "after_token", "id", "limit", "wait_seconds"]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQ_FIELD_NUMBER: _ClassVar[int]
    AFTER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    after: bool
    after_seq: int
    after_token: int
    id: bytes
    limit: int
    wait_seconds: float
    def __init__(self, id: _Optional[bytes] = ..., after_token: _Optional[int] = ..., after_seq: _Optional[int] = ..., after: bool = ..., wait_seconds: _Optional[float] = ..., limit: _Optional[int] = ...) -> None: ...

class Ping(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class PingReply(_message.Message):
    __slots__ = ["now", "placement"]
    NOW_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    now: _timestamp_pb2.Timestamp
    placement: Placement
    def __init__(self, placement: _Optional[_Union[Placement, _Mapping]] = ..., now: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Placement(_message.Message):
    __slots__ = ["copies", "cut_off", "enqueueable", "partitions", "replicas", "window"]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    CUT_OFF_FIELD_NUMBER: _ClassVar[int]
    ENQUEUEABLE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    copies: int
    cut_off: bool
    enqueueable: bytes
    partitions: int
    replicas: int
    window: int
    def __init__(self, partitions: _Optional[int] = ..., enqueueable: _Optional[bytes] = ..., cut_off: bool = ..., replicas: _Optional[int] = ..., copies: _Optional[int] = ..., window: _Optional[int] = ...) -> None: ...

class Queue(_message.Message):
    __slots__ = ["bytes", "count", "effective", "name", "oldest_ready_seconds", "settings", "version", "waiting_claims"]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OLDEST_READY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WAITING_CLAIMS_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    count: Count
    effective: QueueSettings
    name: str
    oldest_ready_seconds: float
    settings: QueueSettings
    version: int
    waiting_claims: int
    def __init__(self, name: _Optional[str] = ..., settings: _Optional[_Union[QueueSettings, _Mapping]] = ..., effective: _Optional[_Union[QueueSettings, _Mapping]] = ..., count: _Optional[_Union[Count, _Mapping]] = ..., version: _Optional[int] = ..., waiting_claims: _Optional[int] = ..., oldest_ready_seconds: _Optional[float] = ..., bytes: _Optional[int] = ...) -> None: ...

class QueueSettings(_message.Message):
    __slots__ = ["dead_retention_seconds", "deleted", "draining", "lease_seconds", "max_tasks", "note", "paused", "paused_at", "paused_by", "retention", "retention_seconds", "retry"]
    DEAD_RETENTION_SECONDS_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MAX_TASKS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    PAUSED_AT_FIELD_NUMBER: _ClassVar[int]
    PAUSED_BY_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    RETENTION_SECONDS_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    dead_retention_seconds: float
    deleted: _timestamp_pb2.Timestamp
    draining: bool
    lease_seconds: float
    max_tasks: int
    note: str
    paused: bool
    paused_at: _timestamp_pb2.Timestamp
    paused_by: str
    retention: Retention
    retention_seconds: float
    retry: _task_pb2.RetryPolicy
    def __init__(self, paused: bool = ..., draining: bool = ..., note: _Optional[str] = ..., retry: _Optional[_Union[_task_pb2.RetryPolicy, _Mapping]] = ..., lease_seconds: _Optional[float] = ..., retention: _Optional[_Union[Retention, str]] = ..., retention_seconds: _Optional[float] = ..., dead_retention_seconds: _Optional[float] = ..., max_tasks: _Optional[int] = ..., deleted: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., paused_by: _Optional[str] = ..., paused_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class QueuesReply(_message.Message):
    __slots__ = ["next_cursor", "queues"]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    next_cursor: bytes
    queues: _containers.RepeatedCompositeFieldContainer[Queue]
    def __init__(self, queues: _Optional[_Iterable[_Union[Queue, _Mapping]]] = ..., next_cursor: _Optional[bytes] = ...) -> None: ...

class QueuesRequest(_message.Message):
    __slots__ = ["cursor", "limit", "names"]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    cursor: bytes
    limit: int
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, names: _Optional[_Iterable[str]] = ..., cursor: _Optional[bytes] = ..., limit: _Optional[int] = ...) -> None: ...

class Reason(_message.Message):
    __slots__ = ["count", "count_is_bound", "kind", "since", "task_state", "tasks", "text", "until", "worker"]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    COUNT_IS_BOUND_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    TASK_STATE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    count: int
    count_is_bound: bool
    kind: ReasonKind
    since: _timestamp_pb2.Timestamp
    task_state: _task_pb2.State
    tasks: _containers.RepeatedScalarFieldContainer[str]
    text: str
    until: _timestamp_pb2.Timestamp
    worker: str
    def __init__(self, kind: _Optional[_Union[ReasonKind, str]] = ..., text: _Optional[str] = ..., tasks: _Optional[_Iterable[str]] = ..., task_state: _Optional[_Union[_task_pb2.State, str]] = ..., until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., count: _Optional[int] = ..., count_is_bound: bool = ..., worker: _Optional[str] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ["claims"]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    claims: _containers.RepeatedCompositeFieldContainer[ClaimRef]
    def __init__(self, claims: _Optional[_Iterable[_Union[ClaimRef, _Mapping]]] = ...) -> None: ...

class RenewReply(_message.Message):
    __slots__ = ["results"]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[RenewResult]
    def __init__(self, results: _Optional[_Iterable[_Union[RenewResult, _Mapping]]] = ...) -> None: ...

class RenewRequest(_message.Message):
    __slots__ = ["claims", "lease_seconds"]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    claims: _containers.RepeatedCompositeFieldContainer[ClaimRef]
    lease_seconds: float
    def __init__(self, claims: _Optional[_Iterable[_Union[ClaimRef, _Mapping]]] = ..., lease_seconds: _Optional[float] = ...) -> None: ...

class RenewResult(_message.Message):
    __slots__ = ["claim", "error", "lease_seconds", "state"]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    claim: _task_pb2.Claim
    error: _error_pb2.Error
    lease_seconds: float
    state: _task_pb2.State
    def __init__(self, claim: _Optional[_Union[_task_pb2.Claim, _Mapping]] = ..., lease_seconds: _Optional[float] = ..., error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., state: _Optional[_Union[_task_pb2.State, str]] = ...) -> None: ...

class RetryRequest(_message.Message):
    __slots__ = ["ids", "only_states"]
    IDS_FIELD_NUMBER: _ClassVar[int]
    ONLY_STATES_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[bytes]
    only_states: _containers.RepeatedScalarFieldContainer[_task_pb2.State]
    def __init__(self, ids: _Optional[_Iterable[bytes]] = ..., only_states: _Optional[_Iterable[_Union[_task_pb2.State, str]]] = ...) -> None: ...

class SetQueueRequest(_message.Message):
    __slots__ = ["delete", "fields", "if_version", "name", "settings"]
    DELETE_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    IF_VERSION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    delete: bool
    fields: _containers.RepeatedScalarFieldContainer[str]
    if_version: int
    name: str
    settings: QueueSettings
    def __init__(self, name: _Optional[str] = ..., settings: _Optional[_Union[QueueSettings, _Mapping]] = ..., fields: _Optional[_Iterable[str]] = ..., if_version: _Optional[int] = ..., delete: bool = ...) -> None: ...

class UpdateRequest(_message.Message):
    __slots__ = ["data", "durability", "id", "last", "more", "output", "seq", "token"]
    DATA_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    durability: Durability
    id: bytes
    last: bool
    more: _containers.RepeatedCompositeFieldContainer[FurtherUpdate]
    output: bool
    seq: int
    token: int
    def __init__(self, id: _Optional[bytes] = ..., token: _Optional[int] = ..., seq: _Optional[int] = ..., data: _Optional[bytes] = ..., output: bool = ..., durability: _Optional[_Union[Durability, _Mapping]] = ..., more: _Optional[_Iterable[_Union[FurtherUpdate, _Mapping]]] = ..., last: bool = ...) -> None: ...

class WorkReply(_message.Message):
    __slots__ = ["claim", "claim_error", "completions", "failures", "releases"]
    CLAIM_ERROR_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    COMPLETIONS_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    claim: ClaimReply
    claim_error: _error_pb2.Error
    completions: _containers.RepeatedCompositeFieldContainer[WriteResult]
    failures: _containers.RepeatedCompositeFieldContainer[WriteResult]
    releases: _containers.RepeatedCompositeFieldContainer[WriteResult]
    def __init__(self, completions: _Optional[_Iterable[_Union[WriteResult, _Mapping]]] = ..., failures: _Optional[_Iterable[_Union[WriteResult, _Mapping]]] = ..., releases: _Optional[_Iterable[_Union[WriteResult, _Mapping]]] = ..., claim: _Optional[_Union[ClaimReply, _Mapping]] = ..., claim_error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...

class WorkRequest(_message.Message):
    __slots__ = ["claim", "completions", "durability", "failures", "releases"]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    COMPLETIONS_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    claim: ClaimRequest
    completions: _containers.RepeatedCompositeFieldContainer[Completion]
    durability: Durability
    failures: _containers.RepeatedCompositeFieldContainer[Failure]
    releases: _containers.RepeatedCompositeFieldContainer[ClaimRef]
    def __init__(self, completions: _Optional[_Iterable[_Union[Completion, _Mapping]]] = ..., durability: _Optional[_Union[Durability, _Mapping]] = ..., failures: _Optional[_Iterable[_Union[Failure, _Mapping]]] = ..., releases: _Optional[_Iterable[_Union[ClaimRef, _Mapping]]] = ..., claim: _Optional[_Union[ClaimRequest, _Mapping]] = ...) -> None: ...

class WriteReply(_message.Message):
    __slots__ = ["results"]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[WriteResult]
    def __init__(self, results: _Optional[_Iterable[_Union[WriteResult, _Mapping]]] = ...) -> None: ...

class WriteResult(_message.Message):
    __slots__ = ["error", "receipt", "state"]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    receipt: _task_pb2.Receipt
    state: _task_pb2.State
    def __init__(self, receipt: _Optional[_Union[_task_pb2.Receipt, _Mapping]] = ..., error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., state: _Optional[_Union[_task_pb2.State, str]] = ...) -> None: ...

class Method(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class WriteLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class ReadLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class BulkAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class ReasonKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Retention(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
