from google.protobuf import timestamp_pb2 as _timestamp_pb2
from norn.v1 import service_pb2 as _service_pb2
from norn.v1 import task_pb2 as _task_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor
SESSION_CAUSE_CANCELLED: SessionCause
SESSION_CAUSE_KILLED: SessionCause
SESSION_CAUSE_LOST: SessionCause
SESSION_CAUSE_SHUTDOWN: SessionCause
SESSION_CAUSE_UNSPECIFIED: SessionCause
SESSION_END_CHECKED: SessionEndKind
SESSION_END_COMPLETED: SessionEndKind
SESSION_END_FAILED: SessionEndKind
SESSION_END_NOT_RUNNING: SessionEndKind
SESSION_END_RELEASED: SessionEndKind
SESSION_END_REPORTED: SessionEndKind
SESSION_END_UNSPECIFIED: SessionEndKind
SESSION_REFUSAL_BACKLOG: SessionRefusal
SESSION_REFUSAL_BARRED: SessionRefusal
SESSION_REFUSAL_DEAD: SessionRefusal
SESSION_REFUSAL_DEADLINE: SessionRefusal
SESSION_REFUSAL_DRAINING: SessionRefusal
SESSION_REFUSAL_FULL: SessionRefusal
SESSION_REFUSAL_INVALID: SessionRefusal
SESSION_REFUSAL_NAME: SessionRefusal
SESSION_REFUSAL_QUEUE: SessionRefusal
SESSION_REFUSAL_RUNNING: SessionRefusal
SESSION_REFUSAL_STALE: SessionRefusal
SESSION_REFUSAL_STATE: SessionRefusal
SESSION_REFUSAL_UNSPECIFIED: SessionRefusal
SESSION_REFUSAL_VERSION: SessionRefusal
SESSION_STATE_HEALTHY: SessionState
SESSION_STATE_MUST_DIE: SessionState
SESSION_STATE_NEW: SessionState
SESSION_STATE_UNHEALTHY: SessionState
SESSION_STATE_UNSPECIFIED: SessionState
WORKER_ACTION_DRAIN: WorkerAction
WORKER_ACTION_KILL: WorkerAction
WORKER_ACTION_UNSPECIFIED: WorkerAction

class DispatcherMessage(_message.Message):
    __slots__ = ["get_log_lines", "get_running_tasks", "heartbeat_reply", "kill_task", "leave_ack", "notify", "renewed", "run_task", "status_ack", "suicide"]
    GET_LOG_LINES_FIELD_NUMBER: _ClassVar[int]
    GET_RUNNING_TASKS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_REPLY_FIELD_NUMBER: _ClassVar[int]
    KILL_TASK_FIELD_NUMBER: _ClassVar[int]
    LEAVE_ACK_FIELD_NUMBER: _ClassVar[int]
    NOTIFY_FIELD_NUMBER: _ClassVar[int]
    RENEWED_FIELD_NUMBER: _ClassVar[int]
    RUN_TASK_FIELD_NUMBER: _ClassVar[int]
    STATUS_ACK_FIELD_NUMBER: _ClassVar[int]
    SUICIDE_FIELD_NUMBER: _ClassVar[int]
    get_log_lines: SessionGetLogLines
    get_running_tasks: SessionGetRunningTasks
    heartbeat_reply: SessionHeartbeatReply
    kill_task: SessionKillTask
    leave_ack: SessionLeaveAck
    notify: SessionNotify
    renewed: SessionRenewed
    run_task: SessionRunTask
    status_ack: SessionStatusAck
    suicide: SessionSuicide
    def __init__(self, heartbeat_reply: _Optional[_Union[SessionHeartbeatReply, _Mapping]] = ..., renewed: _Optional[_Union[SessionRenewed, _Mapping]] = ..., get_running_tasks: _Optional[_Union[SessionGetRunningTasks, _Mapping]] = ..., run_task: _Optional[_Union[SessionRunTask, _Mapping]] = ..., notify: _Optional[_Union[SessionNotify, _Mapping]] = ..., kill_task: _Optional[_Union[SessionKillTask, _Mapping]] = ..., status_ack: _Optional[_Union[SessionStatusAck, _Mapping]] = ..., suicide: _Optional[_Union[SessionSuicide, _Mapping]] = ..., get_log_lines: _Optional[_Union[SessionGetLogLines, _Mapping]] = ..., leave_ack: _Optional[_Union[SessionLeaveAck, _Mapping]] = ...) -> None: ...

class LinesReply(_message.Message):
    __slots__ = ["ended", "first", "known", "lines"]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    ended: bool
    first: int
    known: bool
    lines: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, first: _Optional[int] = ..., lines: _Optional[_Iterable[bytes]] = ..., known: bool = ..., ended: bool = ...) -> None: ...

class LinesRequest(_message.Message):
    __slots__ = ["after", "id", "limit", "token", "worker"]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    after: int
    id: bytes
    limit: int
    token: int
    worker: str
    def __init__(self, worker: _Optional[str] = ..., id: _Optional[bytes] = ..., token: _Optional[int] = ..., after: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class SessionGetLogLines(_message.Message):
    __slots__ = ["after", "claim", "limit", "request"]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    after: int
    claim: _service_pb2.ClaimRef
    limit: int
    request: int
    def __init__(self, request: _Optional[int] = ..., claim: _Optional[_Union[_service_pb2.ClaimRef, _Mapping]] = ..., after: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class SessionGetRunningTasks(_message.Message):
    __slots__ = ["request"]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: int
    def __init__(self, request: _Optional[int] = ...) -> None: ...

class SessionHeartbeat(_message.Message):
    __slots__ = ["checked", "claims", "draining", "grace_seconds", "lease_seconds", "lock", "machine", "max_version", "min_version", "name", "prefetch", "queues", "resting", "set", "settled", "slots", "stamp", "started_at", "stop_seconds", "timeouts", "trouble"]
    CHECKED_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    GRACE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LOCK_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    MAX_VERSION_FIELD_NUMBER: _ClassVar[int]
    MIN_VERSION_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PREFETCH_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    RESTING_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    STAMP_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    STOP_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUTS_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    checked: int
    claims: _containers.RepeatedCompositeFieldContainer[_service_pb2.ClaimRef]
    draining: bool
    grace_seconds: float
    lease_seconds: float
    lock: str
    machine: str
    max_version: int
    min_version: int
    name: str
    prefetch: int
    queues: _containers.RepeatedCompositeFieldContainer[SessionQueue]
    resting: bool
    set: SessionSet
    settled: bool
    slots: int
    stamp: int
    started_at: _timestamp_pb2.Timestamp
    stop_seconds: float
    timeouts: SessionTimeouts
    trouble: str
    def __init__(self, stamp: _Optional[int] = ..., name: _Optional[str] = ..., machine: _Optional[str] = ..., lock: _Optional[str] = ..., started_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., min_version: _Optional[int] = ..., max_version: _Optional[int] = ..., slots: _Optional[int] = ..., prefetch: _Optional[int] = ..., queues: _Optional[_Iterable[_Union[SessionQueue, _Mapping]]] = ..., timeouts: _Optional[_Union[SessionTimeouts, _Mapping]] = ..., stop_seconds: _Optional[float] = ..., settled: bool = ..., draining: bool = ..., checked: _Optional[int] = ..., set: _Optional[_Union[SessionSet, _Mapping]] = ..., claims: _Optional[_Iterable[_Union[_service_pb2.ClaimRef, _Mapping]]] = ..., lease_seconds: _Optional[float] = ..., grace_seconds: _Optional[float] = ..., trouble: _Optional[str] = ..., resting: bool = ...) -> None: ...

class SessionHeartbeatReply(_message.Message):
    __slots__ = ["checked", "drain", "echo", "good", "refused", "set", "stop", "text", "timeouts", "version"]
    CHECKED_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    ECHO_FIELD_NUMBER: _ClassVar[int]
    GOOD_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUTS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    checked: int
    drain: bool
    echo: int
    good: bool
    refused: SessionRefusal
    set: SessionSet
    stop: _containers.RepeatedCompositeFieldContainer[SessionStop]
    text: str
    timeouts: SessionTimeouts
    version: int
    def __init__(self, echo: _Optional[int] = ..., version: _Optional[int] = ..., refused: _Optional[_Union[SessionRefusal, str]] = ..., text: _Optional[str] = ..., good: bool = ..., timeouts: _Optional[_Union[SessionTimeouts, _Mapping]] = ..., checked: _Optional[int] = ..., set: _Optional[_Union[SessionSet, _Mapping]] = ..., stop: _Optional[_Iterable[_Union[SessionStop, _Mapping]]] = ..., drain: bool = ...) -> None: ...

class SessionHeld(_message.Message):
    __slots__ = ["claim", "ended", "lease_seconds", "queue"]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    claim: _service_pb2.ClaimRef
    ended: bool
    lease_seconds: float
    queue: str
    def __init__(self, claim: _Optional[_Union[_service_pb2.ClaimRef, _Mapping]] = ..., queue: _Optional[str] = ..., lease_seconds: _Optional[float] = ..., ended: bool = ...) -> None: ...

class SessionKillTask(_message.Message):
    __slots__ = ["cause", "claim", "lease_seconds"]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    cause: SessionCause
    claim: _service_pb2.ClaimRef
    lease_seconds: float
    def __init__(self, claim: _Optional[_Union[_service_pb2.ClaimRef, _Mapping]] = ..., lease_seconds: _Optional[float] = ..., cause: _Optional[_Union[SessionCause, str]] = ...) -> None: ...

class SessionLeave(_message.Message):
    __slots__ = ["dying"]
    DYING_FIELD_NUMBER: _ClassVar[int]
    dying: bool
    def __init__(self, dying: bool = ...) -> None: ...

class SessionLeaveAck(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class SessionLogLines(_message.Message):
    __slots__ = ["claim", "ended", "first", "known", "lines", "request"]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    claim: _service_pb2.ClaimRef
    ended: bool
    first: int
    known: bool
    lines: _containers.RepeatedScalarFieldContainer[bytes]
    request: int
    def __init__(self, request: _Optional[int] = ..., claim: _Optional[_Union[_service_pb2.ClaimRef, _Mapping]] = ..., first: _Optional[int] = ..., lines: _Optional[_Iterable[bytes]] = ..., known: bool = ..., ended: bool = ...) -> None: ...

class SessionName(_message.Message):
    __slots__ = ["association", "dead", "incarnation", "instance", "lease_seconds", "lock", "machine", "node", "principal", "started_at"]
    ASSOCIATION_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LOCK_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    association: int
    dead: bool
    incarnation: bytes
    instance: bytes
    lease_seconds: float
    lock: str
    machine: str
    node: str
    principal: str
    started_at: _timestamp_pb2.Timestamp
    def __init__(self, instance: _Optional[bytes] = ..., machine: _Optional[str] = ..., lock: _Optional[str] = ..., started_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., association: _Optional[int] = ..., dead: bool = ..., lease_seconds: _Optional[float] = ..., node: _Optional[str] = ..., incarnation: _Optional[bytes] = ..., principal: _Optional[str] = ...) -> None: ...

class SessionNotify(_message.Message):
    __slots__ = ["claims", "seq"]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    claims: _containers.RepeatedCompositeFieldContainer[SessionQuestion]
    seq: int
    def __init__(self, seq: _Optional[int] = ..., claims: _Optional[_Iterable[_Union[SessionQuestion, _Mapping]]] = ...) -> None: ...

class SessionNotifyReply(_message.Message):
    __slots__ = ["ended", "seq"]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ended: _containers.RepeatedCompositeFieldContainer[_service_pb2.ClaimRef]
    seq: int
    def __init__(self, seq: _Optional[int] = ..., ended: _Optional[_Iterable[_Union[_service_pb2.ClaimRef, _Mapping]]] = ...) -> None: ...

class SessionQuestion(_message.Message):
    __slots__ = ["claim", "lease_seconds"]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    claim: _service_pb2.ClaimRef
    lease_seconds: float
    def __init__(self, claim: _Optional[_Union[_service_pb2.ClaimRef, _Mapping]] = ..., lease_seconds: _Optional[float] = ...) -> None: ...

class SessionQueue(_message.Message):
    __slots__ = ["queue", "slots", "weight"]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    queue: str
    slots: int
    weight: int
    def __init__(self, queue: _Optional[str] = ..., slots: _Optional[int] = ..., weight: _Optional[int] = ...) -> None: ...

class SessionRenewal(_message.Message):
    __slots__ = ["claim", "lease_seconds", "lost"]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    claim: _service_pb2.ClaimRef
    lease_seconds: float
    lost: SessionCause
    def __init__(self, claim: _Optional[_Union[_service_pb2.ClaimRef, _Mapping]] = ..., lease_seconds: _Optional[float] = ..., lost: _Optional[_Union[SessionCause, str]] = ...) -> None: ...

class SessionRenewed(_message.Message):
    __slots__ = ["echo", "renewals"]
    ECHO_FIELD_NUMBER: _ClassVar[int]
    RENEWALS_FIELD_NUMBER: _ClassVar[int]
    echo: int
    renewals: _containers.RepeatedCompositeFieldContainer[SessionRenewal]
    def __init__(self, echo: _Optional[int] = ..., renewals: _Optional[_Iterable[_Union[SessionRenewal, _Mapping]]] = ...) -> None: ...

class SessionReply(_message.Message):
    __slots__ = ["association", "messages"]
    ASSOCIATION_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    association: int
    messages: _containers.RepeatedCompositeFieldContainer[DispatcherMessage]
    def __init__(self, association: _Optional[int] = ..., messages: _Optional[_Iterable[_Union[DispatcherMessage, _Mapping]]] = ...) -> None: ...

class SessionRequest(_message.Message):
    __slots__ = ["association", "instance", "messages", "stamp", "wait_seconds"]
    ASSOCIATION_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    STAMP_FIELD_NUMBER: _ClassVar[int]
    WAIT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    association: int
    instance: bytes
    messages: _containers.RepeatedCompositeFieldContainer[WorkerMessage]
    stamp: int
    wait_seconds: float
    def __init__(self, instance: _Optional[bytes] = ..., association: _Optional[int] = ..., stamp: _Optional[int] = ..., messages: _Optional[_Iterable[_Union[WorkerMessage, _Mapping]]] = ..., wait_seconds: _Optional[float] = ...) -> None: ...

class SessionRunReply(_message.Message):
    __slots__ = ["claim", "push", "refused"]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    PUSH_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    claim: _service_pb2.ClaimRef
    push: int
    refused: SessionRefusal
    def __init__(self, push: _Optional[int] = ..., claim: _Optional[_Union[_service_pb2.ClaimRef, _Mapping]] = ..., refused: _Optional[_Union[SessionRefusal, str]] = ...) -> None: ...

class SessionRunTask(_message.Message):
    __slots__ = ["check", "echo", "grant", "push", "waited_seconds"]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    ECHO_FIELD_NUMBER: _ClassVar[int]
    GRANT_FIELD_NUMBER: _ClassVar[int]
    PUSH_FIELD_NUMBER: _ClassVar[int]
    WAITED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    check: int
    echo: int
    grant: _task_pb2.Grant
    push: int
    waited_seconds: float
    def __init__(self, push: _Optional[int] = ..., check: _Optional[int] = ..., echo: _Optional[int] = ..., waited_seconds: _Optional[float] = ..., grant: _Optional[_Union[_task_pb2.Grant, _Mapping]] = ...) -> None: ...

class SessionRunningTasks(_message.Message):
    __slots__ = ["held", "request"]
    HELD_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    held: _containers.RepeatedCompositeFieldContainer[SessionHeld]
    request: int
    def __init__(self, request: _Optional[int] = ..., held: _Optional[_Iterable[_Union[SessionHeld, _Mapping]]] = ...) -> None: ...

class SessionSet(_message.Message):
    __slots__ = ["hash", "version"]
    HASH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    hash: int
    version: int
    def __init__(self, version: _Optional[int] = ..., hash: _Optional[int] = ...) -> None: ...

class SessionStatusAck(_message.Message):
    __slots__ = ["claim", "lost", "state"]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    claim: _service_pb2.ClaimRef
    lost: bool
    state: _task_pb2.State
    def __init__(self, claim: _Optional[_Union[_service_pb2.ClaimRef, _Mapping]] = ..., lost: bool = ..., state: _Optional[_Union[_task_pb2.State, str]] = ...) -> None: ...

class SessionStop(_message.Message):
    __slots__ = ["cause", "claim"]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    cause: SessionCause
    claim: _service_pb2.ClaimRef
    def __init__(self, claim: _Optional[_Union[_service_pb2.ClaimRef, _Mapping]] = ..., cause: _Optional[_Union[SessionCause, str]] = ...) -> None: ...

class SessionSuicide(_message.Message):
    __slots__ = ["final", "reason"]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    final: bool
    reason: str
    def __init__(self, reason: _Optional[str] = ..., final: bool = ...) -> None: ...

class SessionTimeouts(_message.Message):
    __slots__ = ["check_gap_seconds", "heartbeat_gap_seconds", "lose_after_seconds", "period_seconds"]
    CHECK_GAP_SECONDS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_GAP_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LOSE_AFTER_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PERIOD_SECONDS_FIELD_NUMBER: _ClassVar[int]
    check_gap_seconds: float
    heartbeat_gap_seconds: float
    lose_after_seconds: float
    period_seconds: float
    def __init__(self, period_seconds: _Optional[float] = ..., heartbeat_gap_seconds: _Optional[float] = ..., check_gap_seconds: _Optional[float] = ..., lose_after_seconds: _Optional[float] = ...) -> None: ...

class SessionUpdateStatus(_message.Message):
    __slots__ = ["auto_seq", "check", "claim", "discard", "error", "further", "kind", "result", "retry_at", "retry_in_seconds", "seq", "uncounted"]
    AUTO_SEQ_FIELD_NUMBER: _ClassVar[int]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    DISCARD_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    FURTHER_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    RETRY_AT_FIELD_NUMBER: _ClassVar[int]
    RETRY_IN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    UNCOUNTED_FIELD_NUMBER: _ClassVar[int]
    auto_seq: bool
    check: int
    claim: _service_pb2.ClaimRef
    discard: bool
    error: str
    further: bytes
    kind: SessionEndKind
    result: bytes
    retry_at: _timestamp_pb2.Timestamp
    retry_in_seconds: float
    seq: int
    uncounted: bool
    def __init__(self, claim: _Optional[_Union[_service_pb2.ClaimRef, _Mapping]] = ..., check: _Optional[int] = ..., kind: _Optional[_Union[SessionEndKind, str]] = ..., seq: _Optional[int] = ..., auto_seq: bool = ..., result: _Optional[bytes] = ..., error: _Optional[str] = ..., retry_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., uncounted: bool = ..., discard: bool = ..., retry_in_seconds: _Optional[float] = ..., further: _Optional[bytes] = ...) -> None: ...

class SetWorkerRequest(_message.Message):
    __slots__ = ["action", "instance", "name", "reason"]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    action: WorkerAction
    instance: bytes
    name: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., instance: _Optional[bytes] = ..., action: _Optional[_Union[WorkerAction, str]] = ..., reason: _Optional[str] = ...) -> None: ...

class Worker(_message.Message):
    __slots__ = ["association", "declined", "declines", "draining", "instance", "killed", "lock", "machine", "name", "named", "node", "prefetch", "queues", "refused", "resting_seconds", "running", "set", "silent_seconds", "slots", "started_at", "state", "trouble", "unsure"]
    ASSOCIATION_FIELD_NUMBER: _ClassVar[int]
    DECLINED_FIELD_NUMBER: _ClassVar[int]
    DECLINES_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    KILLED_FIELD_NUMBER: _ClassVar[int]
    LOCK_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    NAMED_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    PREFETCH_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    RESTING_SECONDS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    SILENT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    UNSURE_FIELD_NUMBER: _ClassVar[int]
    association: int
    declined: int
    declines: SessionRefusal
    draining: bool
    instance: bytes
    killed: bool
    lock: str
    machine: str
    name: str
    named: bool
    node: str
    prefetch: int
    queues: _containers.RepeatedCompositeFieldContainer[SessionQueue]
    refused: SessionRefusal
    resting_seconds: float
    running: _containers.RepeatedCompositeFieldContainer[WorkerClaim]
    set: SessionSet
    silent_seconds: float
    slots: int
    started_at: _timestamp_pb2.Timestamp
    state: SessionState
    trouble: str
    unsure: int
    def __init__(self, name: _Optional[str] = ..., instance: _Optional[bytes] = ..., machine: _Optional[str] = ..., lock: _Optional[str] = ..., started_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., node: _Optional[str] = ..., state: _Optional[_Union[SessionState, str]] = ..., named: bool = ..., draining: bool = ..., refused: _Optional[_Union[SessionRefusal, str]] = ..., slots: _Optional[int] = ..., prefetch: _Optional[int] = ..., queues: _Optional[_Iterable[_Union[SessionQueue, _Mapping]]] = ..., running: _Optional[_Iterable[_Union[WorkerClaim, _Mapping]]] = ..., unsure: _Optional[int] = ..., set: _Optional[_Union[SessionSet, _Mapping]] = ..., silent_seconds: _Optional[float] = ..., association: _Optional[int] = ..., trouble: _Optional[str] = ..., declined: _Optional[int] = ..., declines: _Optional[_Union[SessionRefusal, str]] = ..., resting_seconds: _Optional[float] = ..., killed: bool = ...) -> None: ...

class WorkerClaim(_message.Message):
    __slots__ = ["id", "token"]
    ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    id: str
    token: int
    def __init__(self, id: _Optional[str] = ..., token: _Optional[int] = ...) -> None: ...

class WorkerMessage(_message.Message):
    __slots__ = ["heartbeat", "leave", "log_lines", "notify_reply", "run_reply", "running_tasks", "update_status"]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    LOG_LINES_FIELD_NUMBER: _ClassVar[int]
    NOTIFY_REPLY_FIELD_NUMBER: _ClassVar[int]
    RUNNING_TASKS_FIELD_NUMBER: _ClassVar[int]
    RUN_REPLY_FIELD_NUMBER: _ClassVar[int]
    UPDATE_STATUS_FIELD_NUMBER: _ClassVar[int]
    heartbeat: SessionHeartbeat
    leave: SessionLeave
    log_lines: SessionLogLines
    notify_reply: SessionNotifyReply
    run_reply: SessionRunReply
    running_tasks: SessionRunningTasks
    update_status: SessionUpdateStatus
    def __init__(self, heartbeat: _Optional[_Union[SessionHeartbeat, _Mapping]] = ..., running_tasks: _Optional[_Union[SessionRunningTasks, _Mapping]] = ..., run_reply: _Optional[_Union[SessionRunReply, _Mapping]] = ..., notify_reply: _Optional[_Union[SessionNotifyReply, _Mapping]] = ..., update_status: _Optional[_Union[SessionUpdateStatus, _Mapping]] = ..., log_lines: _Optional[_Union[SessionLogLines, _Mapping]] = ..., leave: _Optional[_Union[SessionLeave, _Mapping]] = ...) -> None: ...

class WorkersReply(_message.Message):
    __slots__ = ["last_asked", "next_cursor", "set", "waiting_claims", "workers"]
    LAST_ASKED_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    WAITING_CLAIMS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    last_asked: _timestamp_pb2.Timestamp
    next_cursor: bytes
    set: SessionSet
    waiting_claims: int
    workers: _containers.RepeatedCompositeFieldContainer[Worker]
    def __init__(self, workers: _Optional[_Iterable[_Union[Worker, _Mapping]]] = ..., set: _Optional[_Union[SessionSet, _Mapping]] = ..., next_cursor: _Optional[bytes] = ..., waiting_claims: _Optional[int] = ..., last_asked: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class WorkersRequest(_message.Message):
    __slots__ = ["cursor", "limit", "names", "queue", "troubled"]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    TROUBLED_FIELD_NUMBER: _ClassVar[int]
    cursor: bytes
    limit: int
    names: _containers.RepeatedScalarFieldContainer[str]
    queue: str
    troubled: bool
    def __init__(self, names: _Optional[_Iterable[str]] = ..., cursor: _Optional[bytes] = ..., limit: _Optional[int] = ..., troubled: bool = ..., queue: _Optional[str] = ...) -> None: ...

class SessionRefusal(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class SessionCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class SessionEndKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class SessionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class WorkerAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
