from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

CLAIM_OUTCOME_ACTIVE: ClaimOutcome
CLAIM_OUTCOME_COMPLETED: ClaimOutcome
CLAIM_OUTCOME_ENDED: ClaimOutcome
CLAIM_OUTCOME_EXPIRED: ClaimOutcome
CLAIM_OUTCOME_FAILED: ClaimOutcome
CLAIM_OUTCOME_RELEASED: ClaimOutcome
CLAIM_OUTCOME_UNSPECIFIED: ClaimOutcome
DEPENDENCY_FAILURE_CANCEL: DependencyFailure
DEPENDENCY_FAILURE_RUN: DependencyFailure
DEPENDENCY_FAILURE_WAIT: DependencyFailure
DESCRIPTOR: _descriptor.FileDescriptor
STATE_CANCELLED: State
STATE_CLAIMED: State
STATE_COMPLETED: State
STATE_DEAD: State
STATE_READY: State
STATE_SCHEDULED: State
STATE_UNSPECIFIED: State
STATE_WAITING: State

class Attempt(_message.Message):
    __slots__ = ["completed_by", "counted", "duration_seconds", "end", "error", "number", "outcome", "principal", "stack", "start", "token", "wait_seconds", "worker"]
    COMPLETED_BY_FIELD_NUMBER: _ClassVar[int]
    COUNTED_FIELD_NUMBER: _ClassVar[int]
    DURATION_SECONDS_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    STACK_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    completed_by: str
    counted: bool
    duration_seconds: float
    end: _timestamp_pb2.Timestamp
    error: str
    number: int
    outcome: ClaimOutcome
    principal: str
    stack: str
    start: _timestamp_pb2.Timestamp
    token: int
    wait_seconds: float
    worker: str
    def __init__(self, number: _Optional[int] = ..., token: _Optional[int] = ..., worker: _Optional[str] = ..., start: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., end: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., duration_seconds: _Optional[float] = ..., outcome: _Optional[_Union[ClaimOutcome, str]] = ..., error: _Optional[str] = ..., stack: _Optional[str] = ..., wait_seconds: _Optional[float] = ..., counted: bool = ..., principal: _Optional[str] = ..., completed_by: _Optional[str] = ...) -> None: ...

class Claim(_message.Message):
    __slots__ = ["end", "outcome", "principal", "start", "token", "worker"]
    END_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    end: _timestamp_pb2.Timestamp
    outcome: ClaimOutcome
    principal: str
    start: _timestamp_pb2.Timestamp
    token: int
    worker: str
    def __init__(self, token: _Optional[int] = ..., worker: _Optional[str] = ..., start: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., end: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., outcome: _Optional[_Union[ClaimOutcome, str]] = ..., principal: _Optional[str] = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ["checkpoint", "end", "eta_seconds", "lease_seconds", "start", "task", "token"]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    ETA_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    checkpoint: bytes
    end: _timestamp_pb2.Timestamp
    eta_seconds: float
    lease_seconds: float
    start: _timestamp_pb2.Timestamp
    task: Task
    token: int
    def __init__(self, task: _Optional[_Union[Task, _Mapping]] = ..., token: _Optional[int] = ..., lease_seconds: _Optional[float] = ..., start: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., end: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., eta_seconds: _Optional[float] = ..., checkpoint: _Optional[bytes] = ...) -> None: ...

class Receipt(_message.Message):
    __slots__ = ["copies", "durable_copies", "existed", "hinted", "id", "partition"]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    DURABLE_COPIES_FIELD_NUMBER: _ClassVar[int]
    EXISTED_FIELD_NUMBER: _ClassVar[int]
    HINTED_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    copies: int
    durable_copies: int
    existed: bool
    hinted: int
    id: str
    partition: int
    def __init__(self, id: _Optional[str] = ..., copies: _Optional[int] = ..., durable_copies: _Optional[int] = ..., hinted: _Optional[int] = ..., partition: _Optional[int] = ..., existed: bool = ...) -> None: ...

class RetryPolicy(_message.Message):
    __slots__ = ["initial_seconds", "jitter", "max_attempts", "max_seconds", "multiplier"]
    INITIAL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    JITTER_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    MAX_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    initial_seconds: float
    jitter: float
    max_attempts: int
    max_seconds: float
    multiplier: float
    def __init__(self, max_attempts: _Optional[int] = ..., initial_seconds: _Optional[float] = ..., max_seconds: _Optional[float] = ..., multiplier: _Optional[float] = ..., jitter: _Optional[float] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ["attempt_log", "attempts", "claims", "completed_at", "created_at", "dependencies", "error", "finished_at", "further_cancel", "further_completion", "further_failure", "further_retry", "further_spec", "headers", "id", "key", "key_window_seconds", "kind", "max_attempts", "not_before", "on_dependency_failure", "payload", "priority", "queue", "result", "retries", "state", "tags", "updates"]
    class HeadersEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_LOG_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_AT_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCIES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    FURTHER_CANCEL_FIELD_NUMBER: _ClassVar[int]
    FURTHER_COMPLETION_FIELD_NUMBER: _ClassVar[int]
    FURTHER_FAILURE_FIELD_NUMBER: _ClassVar[int]
    FURTHER_RETRY_FIELD_NUMBER: _ClassVar[int]
    FURTHER_SPEC_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    KEY_WINDOW_SECONDS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_FIELD_NUMBER: _ClassVar[int]
    ON_DEPENDENCY_FAILURE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    attempt_log: _containers.RepeatedCompositeFieldContainer[Attempt]
    attempts: int
    claims: _containers.RepeatedCompositeFieldContainer[Claim]
    completed_at: _timestamp_pb2.Timestamp
    created_at: _timestamp_pb2.Timestamp
    dependencies: _containers.RepeatedScalarFieldContainer[str]
    error: str
    finished_at: _timestamp_pb2.Timestamp
    further_cancel: bytes
    further_completion: bytes
    further_failure: bytes
    further_retry: bytes
    further_spec: bytes
    headers: _containers.ScalarMap[str, str]
    id: str
    key: str
    key_window_seconds: float
    kind: str
    max_attempts: int
    not_before: _timestamp_pb2.Timestamp
    on_dependency_failure: DependencyFailure
    payload: bytes
    priority: int
    queue: str
    result: bytes
    retries: int
    state: State
    tags: _containers.RepeatedScalarFieldContainer[str]
    updates: _containers.RepeatedCompositeFieldContainer[Update]
    def __init__(self, id: _Optional[str] = ..., queue: _Optional[str] = ..., payload: _Optional[bytes] = ..., priority: _Optional[int] = ..., state: _Optional[_Union[State, str]] = ..., attempts: _Optional[int] = ..., max_attempts: _Optional[int] = ..., created_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., not_before: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., dependencies: _Optional[_Iterable[str]] = ..., claims: _Optional[_Iterable[_Union[Claim, _Mapping]]] = ..., updates: _Optional[_Iterable[_Union[Update, _Mapping]]] = ..., completed_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., error: _Optional[str] = ..., headers: _Optional[_Mapping[str, str]] = ..., result: _Optional[bytes] = ..., on_dependency_failure: _Optional[_Union[DependencyFailure, str]] = ..., key: _Optional[str] = ..., key_window_seconds: _Optional[float] = ..., retries: _Optional[int] = ..., finished_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., further_spec: _Optional[bytes] = ..., further_completion: _Optional[bytes] = ..., further_failure: _Optional[bytes] = ..., further_cancel: _Optional[bytes] = ..., further_retry: _Optional[bytes] = ..., attempt_log: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ..., kind: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ...) -> None: ...

class TaskSpec(_message.Message):
    __slots__ = ["delay_seconds", "dependencies", "headers", "id", "key", "key_window_seconds", "kind", "not_before", "on_dependency_failure", "payload", "priority", "queue", "retry", "tags"]
    class HeadersEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    DELAY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCIES_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    KEY_WINDOW_SECONDS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_FIELD_NUMBER: _ClassVar[int]
    ON_DEPENDENCY_FAILURE_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    delay_seconds: float
    dependencies: _containers.RepeatedScalarFieldContainer[bytes]
    headers: _containers.ScalarMap[str, str]
    id: bytes
    key: str
    key_window_seconds: float
    kind: str
    not_before: _timestamp_pb2.Timestamp
    on_dependency_failure: DependencyFailure
    payload: bytes
    priority: int
    queue: str
    retry: RetryPolicy
    tags: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[bytes] = ..., queue: _Optional[str] = ..., payload: _Optional[bytes] = ..., priority: _Optional[int] = ..., not_before: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., dependencies: _Optional[_Iterable[bytes]] = ..., on_dependency_failure: _Optional[_Union[DependencyFailure, str]] = ..., retry: _Optional[_Union[RetryPolicy, _Mapping]] = ..., headers: _Optional[_Mapping[str, str]] = ..., key: _Optional[str] = ..., key_window_seconds: _Optional[float] = ..., delay_seconds: _Optional[float] = ..., kind: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ...) -> None: ...

class Update(_message.Message):
    __slots__ = ["at", "data", "further", "seq", "token"]
    AT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    FURTHER_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    at: _timestamp_pb2.Timestamp
    data: bytes
    further: bytes
    seq: int
    token: int
    def __init__(self, token: _Optional[int] = ..., seq: _Optional[int] = ..., data: _Optional[bytes] = ..., at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., further: _Optional[bytes] = ...) -> None: ...

class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class ClaimOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class DependencyFailure(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
