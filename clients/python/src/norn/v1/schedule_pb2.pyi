from google.protobuf import timestamp_pb2 as _timestamp_pb2
from norn.v1 import error_pb2 as _error_pb2
from norn.v1 import service_pb2 as _service_pb2
from norn.v1 import task_pb2 as _task_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

CATCH_UP_ALL: CatchUp
CATCH_UP_LATEST: CatchUp
CATCH_UP_NONE: CatchUp
DESCRIPTOR: _descriptor.FileDescriptor
LAUNCH_KIND_BACKFILL: LaunchKind
LAUNCH_KIND_LAUNCH: LaunchKind
LAUNCH_KIND_SKIP: LaunchKind
LAUNCH_KIND_TRIGGER: LaunchKind
LAUNCH_KIND_UNSPECIFIED: LaunchKind
LAUNCH_STATUS_CANCELLED: LaunchStatus
LAUNCH_STATUS_COMPLETED: LaunchStatus
LAUNCH_STATUS_FAILED: LaunchStatus
LAUNCH_STATUS_NOT_ENQUEUED: LaunchStatus
LAUNCH_STATUS_OPEN: LaunchStatus
LAUNCH_STATUS_RUNNING: LaunchStatus
LAUNCH_STATUS_UNKNOWN: LaunchStatus
LAUNCH_STATUS_UNSPECIFIED: LaunchStatus
OVERLAP_ALLOW: Overlap
OVERLAP_QUEUE_ONE: Overlap
OVERLAP_REPLACE: Overlap
OVERLAP_SKIP: Overlap
SKIP_REASON_EDITED: SkipReason
SKIP_REASON_IN_DOUBT: SkipReason
SKIP_REASON_LIMIT: SkipReason
SKIP_REASON_MISSED: SkipReason
SKIP_REASON_OVERLAP: SkipReason
SKIP_REASON_PAUSED: SkipReason
SKIP_REASON_TOO_LATE: SkipReason
SKIP_REASON_UNSPECIFIED: SkipReason

class BackfillSchedule(_message.Message):
    __slots__ = ["dry_run", "seed", "to"]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    dry_run: bool
    seed: bytes
    to: _timestamp_pb2.Timestamp
    def __init__(self, to: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., seed: _Optional[bytes] = ..., dry_run: bool = ..., **kwargs) -> None: ...

class ChangeSchedulesReply(_message.Message):
    __slots__ = ["results"]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ScheduleResult]
    def __init__(self, results: _Optional[_Iterable[_Union[ScheduleResult, _Mapping]]] = ...) -> None: ...

class ChangeSchedulesRequest(_message.Message):
    __slots__ = ["changes"]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[ScheduleChange]
    def __init__(self, changes: _Optional[_Iterable[_Union[ScheduleChange, _Mapping]]] = ...) -> None: ...

class CronStatus(_message.Message):
    __slots__ = ["master", "node_zones", "schedules", "term", "zones"]
    MASTER_FIELD_NUMBER: _ClassVar[int]
    NODE_ZONES_FIELD_NUMBER: _ClassVar[int]
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    ZONES_FIELD_NUMBER: _ClassVar[int]
    master: str
    node_zones: str
    schedules: int
    term: int
    zones: str
    def __init__(self, master: _Optional[str] = ..., term: _Optional[int] = ..., zones: _Optional[str] = ..., node_zones: _Optional[str] = ..., schedules: _Optional[int] = ...) -> None: ...

class DeleteSchedule(_message.Message):
    __slots__ = ["uuid"]
    UUID_FIELD_NUMBER: _ClassVar[int]
    uuid: str
    def __init__(self, uuid: _Optional[str] = ...) -> None: ...

class Launch(_message.Message):
    __slots__ = ["begun", "count", "enqueued", "finished", "instant", "kind", "late_seconds", "note", "reason", "status", "task_id", "to"]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    INSTANT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LATE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    begun: _timestamp_pb2.Timestamp
    count: int
    enqueued: _timestamp_pb2.Timestamp
    finished: _timestamp_pb2.Timestamp
    instant: _timestamp_pb2.Timestamp
    kind: LaunchKind
    late_seconds: float
    note: str
    reason: SkipReason
    status: LaunchStatus
    task_id: str
    to: _timestamp_pb2.Timestamp
    def __init__(self, kind: _Optional[_Union[LaunchKind, str]] = ..., instant: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., to: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., count: _Optional[int] = ..., reason: _Optional[_Union[SkipReason, str]] = ..., status: _Optional[_Union[LaunchStatus, str]] = ..., begun: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., enqueued: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., finished: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., task_id: _Optional[str] = ..., late_seconds: _Optional[float] = ..., note: _Optional[str] = ...) -> None: ...

class LaunchRequest(_message.Message):
    __slots__ = ["begun", "durability", "sender_full", "tasks", "until"]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    SENDER_FULL_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    begun: _containers.RepeatedScalarFieldContainer[int]
    durability: _service_pb2.Durability
    sender_full: bool
    tasks: _containers.RepeatedCompositeFieldContainer[_task_pb2.TaskSpec]
    until: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, tasks: _Optional[_Iterable[_Union[_task_pb2.TaskSpec, _Mapping]]] = ..., begun: _Optional[_Iterable[int]] = ..., durability: _Optional[_Union[_service_pb2.Durability, _Mapping]] = ..., until: _Optional[_Iterable[int]] = ..., sender_full: bool = ...) -> None: ...

class Occurrence(_message.Message):
    __slots__ = ["at", "local", "note", "offset"]
    AT_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    at: _timestamp_pb2.Timestamp
    local: str
    note: str
    offset: str
    def __init__(self, at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., local: _Optional[str] = ..., offset: _Optional[str] = ..., note: _Optional[str] = ...) -> None: ...

class PauseSchedule(_message.Message):
    __slots__ = ["from_now", "note", "paused"]
    FROM_NOW_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    from_now: bool
    note: str
    paused: bool
    def __init__(self, paused: bool = ..., note: _Optional[str] = ..., from_now: bool = ...) -> None: ...

class PutSchedule(_message.Message):
    __slots__ = ["create", "dry_run", "keep_paused", "spec", "upcoming"]
    CREATE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    KEEP_PAUSED_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    UPCOMING_FIELD_NUMBER: _ClassVar[int]
    create: bool
    dry_run: bool
    keep_paused: bool
    spec: ScheduleSpec
    upcoming: int
    def __init__(self, spec: _Optional[_Union[ScheduleSpec, _Mapping]] = ..., create: bool = ..., dry_run: bool = ..., keep_paused: bool = ..., upcoming: _Optional[int] = ...) -> None: ...

class Schedule(_message.Message):
    __slots__ = ["ahead_seconds", "changed", "created", "ended", "failed", "history", "last", "launches", "made_by", "name", "next", "next_launch", "overdue_seconds", "problem", "queued", "reading", "resolved", "running", "skipped", "spec", "upcoming", "uuid", "version", "warnings"]
    AHEAD_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    LAUNCHES_FIELD_NUMBER: _ClassVar[int]
    MADE_BY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    NEXT_LAUNCH_FIELD_NUMBER: _ClassVar[int]
    OVERDUE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    READING_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    UPCOMING_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    ahead_seconds: float
    changed: _timestamp_pb2.Timestamp
    created: _timestamp_pb2.Timestamp
    ended: bool
    failed: int
    history: _containers.RepeatedCompositeFieldContainer[Launch]
    last: Launch
    launches: int
    made_by: str
    name: str
    next: _timestamp_pb2.Timestamp
    next_launch: _timestamp_pb2.Timestamp
    overdue_seconds: float
    problem: str
    queued: _timestamp_pb2.Timestamp
    reading: int
    resolved: str
    running: int
    skipped: int
    spec: ScheduleSpec
    upcoming: _containers.RepeatedCompositeFieldContainer[Occurrence]
    uuid: str
    version: int
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., uuid: _Optional[str] = ..., version: _Optional[int] = ..., created: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., changed: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., spec: _Optional[_Union[ScheduleSpec, _Mapping]] = ..., last: _Optional[_Union[Launch, _Mapping]] = ..., next: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., next_launch: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., queued: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., overdue_seconds: _Optional[float] = ..., launches: _Optional[int] = ..., skipped: _Optional[int] = ..., failed: _Optional[int] = ..., running: _Optional[int] = ..., ended: bool = ..., ahead_seconds: _Optional[float] = ..., history: _Optional[_Iterable[_Union[Launch, _Mapping]]] = ..., problem: _Optional[str] = ..., upcoming: _Optional[_Iterable[_Union[Occurrence, _Mapping]]] = ..., resolved: _Optional[str] = ..., warnings: _Optional[_Iterable[str]] = ..., reading: _Optional[int] = ..., made_by: _Optional[str] = ...) -> None: ...

class ScheduleChange(_message.Message):
    __slots__ = ["backfill", "delete", "if_version", "maker", "name", "pause", "put", "trigger"]
    BACKFILL_FIELD_NUMBER: _ClassVar[int]
    DELETE_FIELD_NUMBER: _ClassVar[int]
    IF_VERSION_FIELD_NUMBER: _ClassVar[int]
    MAKER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PAUSE_FIELD_NUMBER: _ClassVar[int]
    PUT_FIELD_NUMBER: _ClassVar[int]
    TRIGGER_FIELD_NUMBER: _ClassVar[int]
    backfill: BackfillSchedule
    delete: DeleteSchedule
    if_version: int
    maker: ScheduleMaker
    name: str
    pause: PauseSchedule
    put: PutSchedule
    trigger: TriggerSchedule
    def __init__(self, name: _Optional[str] = ..., if_version: _Optional[int] = ..., put: _Optional[_Union[PutSchedule, _Mapping]] = ..., pause: _Optional[_Union[PauseSchedule, _Mapping]] = ..., delete: _Optional[_Union[DeleteSchedule, _Mapping]] = ..., trigger: _Optional[_Union[TriggerSchedule, _Mapping]] = ..., backfill: _Optional[_Union[BackfillSchedule, _Mapping]] = ..., maker: _Optional[_Union[ScheduleMaker, _Mapping]] = ...) -> None: ...

class ScheduleDefinition(_message.Message):
    __slots__ = ["changed", "created", "maker", "reading", "spec", "spec_apart", "uuid", "version"]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    MAKER_FIELD_NUMBER: _ClassVar[int]
    READING_FIELD_NUMBER: _ClassVar[int]
    SPEC_APART_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    changed: _timestamp_pb2.Timestamp
    created: _timestamp_pb2.Timestamp
    maker: ScheduleMaker
    reading: int
    spec: ScheduleSpec
    spec_apart: ScheduleSpec
    uuid: bytes
    version: int
    def __init__(self, uuid: _Optional[bytes] = ..., version: _Optional[int] = ..., created: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., changed: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., spec: _Optional[_Union[ScheduleSpec, _Mapping]] = ..., reading: _Optional[int] = ..., spec_apart: _Optional[_Union[ScheduleSpec, _Mapping]] = ..., maker: _Optional[_Union[ScheduleMaker, _Mapping]] = ...) -> None: ...

class ScheduleMaker(_message.Message):
    __slots__ = ["name", "prefix", "roles", "token"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    name: str
    prefix: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    token: str
    def __init__(self, name: _Optional[str] = ..., token: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ..., prefix: _Optional[str] = ...) -> None: ...

class ScheduleResult(_message.Message):
    __slots__ = ["before", "changed", "created", "error", "schedule", "task_ids"]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    TASK_IDS_FIELD_NUMBER: _ClassVar[int]
    before: ScheduleSpec
    changed: bool
    created: bool
    error: _error_pb2.Error
    schedule: Schedule
    task_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, schedule: _Optional[_Union[Schedule, _Mapping]] = ..., changed: bool = ..., created: bool = ..., before: _Optional[_Union[ScheduleSpec, _Mapping]] = ..., task_ids: _Optional[_Iterable[str]] = ..., error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...

class ScheduleSpec(_message.Message):
    __slots__ = ["catch_up", "catch_up_count", "catch_up_window_seconds", "cron", "deadline_seconds", "end", "history", "jitter_seconds", "max_launches", "note", "overlap", "owner", "pause_on_failure", "paused", "start", "task", "time_zone"]
    CATCH_UP_COUNT_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_WINDOW_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CRON_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    JITTER_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MAX_LAUNCHES_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    PAUSE_ON_FAILURE_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    catch_up: CatchUp
    catch_up_count: int
    catch_up_window_seconds: float
    cron: str
    deadline_seconds: float
    end: _timestamp_pb2.Timestamp
    history: int
    jitter_seconds: float
    max_launches: int
    note: str
    overlap: Overlap
    owner: str
    pause_on_failure: bool
    paused: bool
    start: _timestamp_pb2.Timestamp
    task: _task_pb2.TaskSpec
    time_zone: str
    def __init__(self, cron: _Optional[str] = ..., time_zone: _Optional[str] = ..., task: _Optional[_Union[_task_pb2.TaskSpec, _Mapping]] = ..., overlap: _Optional[_Union[Overlap, str]] = ..., catch_up: _Optional[_Union[CatchUp, str]] = ..., catch_up_window_seconds: _Optional[float] = ..., catch_up_count: _Optional[int] = ..., jitter_seconds: _Optional[float] = ..., start: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., end: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., deadline_seconds: _Optional[float] = ..., max_launches: _Optional[int] = ..., paused: bool = ..., note: _Optional[str] = ..., pause_on_failure: bool = ..., history: _Optional[int] = ..., owner: _Optional[str] = ...) -> None: ...

class SchedulesReply(_message.Message):
    __slots__ = ["more", "schedules", "status"]
    MORE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    more: bool
    schedules: _containers.RepeatedCompositeFieldContainer[Schedule]
    status: CronStatus
    def __init__(self, schedules: _Optional[_Iterable[_Union[Schedule, _Mapping]]] = ..., more: bool = ..., status: _Optional[_Union[CronStatus, _Mapping]] = ...) -> None: ...

class SchedulesRequest(_message.Message):
    __slots__ = ["after", "history", "limit", "names", "upcoming", "upcoming_from"]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    UPCOMING_FIELD_NUMBER: _ClassVar[int]
    UPCOMING_FROM_FIELD_NUMBER: _ClassVar[int]
    after: str
    history: bool
    limit: int
    names: _containers.RepeatedScalarFieldContainer[str]
    upcoming: int
    upcoming_from: _timestamp_pb2.Timestamp
    def __init__(self, names: _Optional[_Iterable[str]] = ..., history: bool = ..., after: _Optional[str] = ..., limit: _Optional[int] = ..., upcoming: _Optional[int] = ..., upcoming_from: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class TriggerSchedule(_message.Message):
    __slots__ = ["task_id"]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    task_id: bytes
    def __init__(self, task_id: _Optional[bytes] = ...) -> None: ...

class Overlap(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class CatchUp(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class LaunchKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class LaunchStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class SkipReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
