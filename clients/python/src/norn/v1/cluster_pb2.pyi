from norn.v1 import service_pb2 as _service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AcceptLoss(_message.Message):
    __slots__ = ["nodes"]
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, nodes: _Optional[_Iterable[str]] = ...) -> None: ...

class BackupReply(_message.Message):
    __slots__ = ["bounds", "cohort", "epoch", "next", "nodes", "replicas", "sums", "tasks"]
    BOUNDS_FIELD_NUMBER: _ClassVar[int]
    COHORT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    SUMS_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    bounds: bytes
    cohort: int
    epoch: int
    next: bytes
    nodes: _containers.RepeatedScalarFieldContainer[str]
    replicas: int
    sums: bytes
    tasks: bytes
    def __init__(self, tasks: _Optional[bytes] = ..., next: _Optional[bytes] = ..., epoch: _Optional[int] = ..., cohort: _Optional[int] = ..., replicas: _Optional[int] = ..., sums: _Optional[bytes] = ..., nodes: _Optional[_Iterable[str]] = ..., bounds: _Optional[bytes] = ...) -> None: ...

class BackupRequest(_message.Message):
    __slots__ = ["after", "before", "bounds", "claims", "divide", "epoch", "only", "partition", "session", "whole_cohort"]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    BOUNDS_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    DIVIDE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    ONLY_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    WHOLE_COHORT_FIELD_NUMBER: _ClassVar[int]
    after: bytes
    before: bytes
    bounds: bytes
    claims: bool
    divide: int
    epoch: int
    only: str
    partition: int
    session: bytes
    whole_cohort: bool
    def __init__(self, partition: _Optional[int] = ..., after: _Optional[bytes] = ..., session: _Optional[bytes] = ..., whole_cohort: bool = ..., epoch: _Optional[int] = ..., before: _Optional[bytes] = ..., bounds: _Optional[bytes] = ..., claims: bool = ..., only: _Optional[str] = ..., divide: _Optional[int] = ..., **kwargs) -> None: ...

class ClusterReply(_message.Message):
    __slots__ = ["changed", "comparisons", "copies", "nodes", "notes", "partitions", "register"]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    COMPARISONS_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    changed: bool
    comparisons: int
    copies: int
    nodes: _containers.RepeatedScalarFieldContainer[str]
    notes: _containers.RepeatedScalarFieldContainer[str]
    partitions: _containers.RepeatedScalarFieldContainer[int]
    register: bytes
    def __init__(self, changed: bool = ..., notes: _Optional[_Iterable[str]] = ..., copies: _Optional[int] = ..., comparisons: _Optional[int] = ..., nodes: _Optional[_Iterable[str]] = ..., partitions: _Optional[_Iterable[int]] = ..., register: _Optional[bytes] = ...) -> None: ...

class ClusterRequest(_message.Message):
    __slots__ = ["accept_loss", "destroy", "dry_run", "export", "leave", "rebalance", "remove", "repair", "replace", "set_replicas"]
    ACCEPT_LOSS_FIELD_NUMBER: _ClassVar[int]
    DESTROY_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    EXPORT_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    REBALANCE_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    REPAIR_FIELD_NUMBER: _ClassVar[int]
    REPLACE_FIELD_NUMBER: _ClassVar[int]
    SET_REPLICAS_FIELD_NUMBER: _ClassVar[int]
    accept_loss: AcceptLoss
    destroy: DestroyCluster
    dry_run: bool
    export: ExportRegister
    leave: LeaveNode
    rebalance: Rebalance
    remove: RemoveNode
    repair: Repair
    replace: ReplaceNode
    set_replicas: SetReplicas
    def __init__(self, leave: _Optional[_Union[LeaveNode, _Mapping]] = ..., remove: _Optional[_Union[RemoveNode, _Mapping]] = ..., replace: _Optional[_Union[ReplaceNode, _Mapping]] = ..., rebalance: _Optional[_Union[Rebalance, _Mapping]] = ..., repair: _Optional[_Union[Repair, _Mapping]] = ..., accept_loss: _Optional[_Union[AcceptLoss, _Mapping]] = ..., destroy: _Optional[_Union[DestroyCluster, _Mapping]] = ..., export: _Optional[_Union[ExportRegister, _Mapping]] = ..., set_replicas: _Optional[_Union[SetReplicas, _Mapping]] = ..., dry_run: bool = ...) -> None: ...

class DestroyCluster(_message.Message):
    __slots__ = ["cluster_id", "force"]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    force: bool
    def __init__(self, cluster_id: _Optional[str] = ..., force: bool = ...) -> None: ...

class ExportRegister(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class LeaveNode(_message.Message):
    __slots__ = ["node", "stay"]
    NODE_FIELD_NUMBER: _ClassVar[int]
    STAY_FIELD_NUMBER: _ClassVar[int]
    node: str
    stay: bool
    def __init__(self, node: _Optional[str] = ..., stay: bool = ...) -> None: ...

class MovementStatus(_message.Message):
    __slots__ = ["copied", "copies_left", "handed_over", "handovers_left", "stuck"]
    COPIED_FIELD_NUMBER: _ClassVar[int]
    COPIES_LEFT_FIELD_NUMBER: _ClassVar[int]
    HANDED_OVER_FIELD_NUMBER: _ClassVar[int]
    HANDOVERS_LEFT_FIELD_NUMBER: _ClassVar[int]
    STUCK_FIELD_NUMBER: _ClassVar[int]
    copied: int
    copies_left: int
    handed_over: int
    handovers_left: int
    stuck: int
    def __init__(self, copies_left: _Optional[int] = ..., handovers_left: _Optional[int] = ..., stuck: _Optional[int] = ..., copied: _Optional[int] = ..., handed_over: _Optional[int] = ...) -> None: ...

class NodeStatus(_message.Message):
    __slots__ = ["address", "alive", "clock_error_ms", "clock_fault", "clock_offset_ms", "copies_left", "disk_full", "forgot", "handovers_left", "incarnation", "led", "name", "needed_by", "needed_by_register", "peer_addresses", "quarantine_refused", "quarantined_bytes", "quarantined_tasks", "repair", "state", "vnodes", "weight", "zone"]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    ALIVE_FIELD_NUMBER: _ClassVar[int]
    CLOCK_ERROR_MS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FAULT_FIELD_NUMBER: _ClassVar[int]
    CLOCK_OFFSET_MS_FIELD_NUMBER: _ClassVar[int]
    COPIES_LEFT_FIELD_NUMBER: _ClassVar[int]
    DISK_FULL_FIELD_NUMBER: _ClassVar[int]
    FORGOT_FIELD_NUMBER: _ClassVar[int]
    HANDOVERS_LEFT_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    LED_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NEEDED_BY_FIELD_NUMBER: _ClassVar[int]
    NEEDED_BY_REGISTER_FIELD_NUMBER: _ClassVar[int]
    PEER_ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_BYTES_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_TASKS_FIELD_NUMBER: _ClassVar[int]
    QUARANTINE_REFUSED_FIELD_NUMBER: _ClassVar[int]
    REPAIR_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    VNODES_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    ZONE_FIELD_NUMBER: _ClassVar[int]
    address: str
    alive: bool
    clock_error_ms: float
    clock_fault: str
    clock_offset_ms: float
    copies_left: int
    disk_full: str
    forgot: str
    handovers_left: int
    incarnation: str
    led: int
    name: str
    needed_by: int
    needed_by_register: bool
    peer_addresses: _containers.RepeatedScalarFieldContainer[str]
    quarantine_refused: int
    quarantined_bytes: int
    quarantined_tasks: int
    repair: RepairStatus
    state: str
    vnodes: int
    weight: int
    zone: str
    def __init__(self, name: _Optional[str] = ..., incarnation: _Optional[str] = ..., state: _Optional[str] = ..., zone: _Optional[str] = ..., address: _Optional[str] = ..., led: _Optional[int] = ..., vnodes: _Optional[int] = ..., clock_offset_ms: _Optional[float] = ..., clock_error_ms: _Optional[float] = ..., peer_addresses: _Optional[_Iterable[str]] = ..., weight: _Optional[int] = ..., alive: bool = ..., copies_left: _Optional[int] = ..., handovers_left: _Optional[int] = ..., clock_fault: _Optional[str] = ..., quarantined_tasks: _Optional[int] = ..., quarantined_bytes: _Optional[int] = ..., quarantine_refused: _Optional[int] = ..., repair: _Optional[_Union[RepairStatus, _Mapping]] = ..., forgot: _Optional[str] = ..., needed_by: _Optional[int] = ..., needed_by_register: bool = ..., disk_full: _Optional[str] = ...) -> None: ...

class PartitionStatus(_message.Message):
    __slots__ = ["claim_available", "cohort", "copies", "enqueue_available", "epoch", "id", "leader", "moving", "oldest_ready_seconds", "planned"]
    CLAIM_AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    COHORT_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    ENQUEUE_AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    MOVING_FIELD_NUMBER: _ClassVar[int]
    OLDEST_READY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PLANNED_FIELD_NUMBER: _ClassVar[int]
    claim_available: bool
    cohort: _containers.RepeatedScalarFieldContainer[str]
    copies: int
    enqueue_available: bool
    epoch: int
    id: int
    leader: str
    moving: bool
    oldest_ready_seconds: float
    planned: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[int] = ..., epoch: _Optional[int] = ..., leader: _Optional[str] = ..., cohort: _Optional[_Iterable[str]] = ..., enqueue_available: bool = ..., claim_available: bool = ..., oldest_ready_seconds: _Optional[float] = ..., planned: _Optional[_Iterable[str]] = ..., moving: bool = ..., copies: _Optional[int] = ...) -> None: ...

class QueueCounters(_message.Message):
    __slots__ = ["cancelled", "completed", "dead", "queue", "unfinished"]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    UNFINISHED_FIELD_NUMBER: _ClassVar[int]
    cancelled: int
    completed: int
    dead: int
    queue: str
    unfinished: int
    def __init__(self, queue: _Optional[str] = ..., unfinished: _Optional[int] = ..., completed: _Optional[int] = ..., dead: _Optional[int] = ..., cancelled: _Optional[int] = ...) -> None: ...

class Rebalance(_message.Message):
    __slots__ = ["fresh"]
    FRESH_FIELD_NUMBER: _ClassVar[int]
    fresh: bool
    def __init__(self, fresh: bool = ...) -> None: ...

class RegisterStatus(_message.Message):
    __slots__ = ["generation", "majority", "revision"]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    MAJORITY_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    generation: int
    majority: bool
    revision: int
    def __init__(self, majority: bool = ..., revision: _Optional[int] = ..., generation: _Optional[int] = ...) -> None: ...

class RemoveNode(_message.Message):
    __slots__ = ["force", "node"]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    force: bool
    node: str
    def __init__(self, node: _Optional[str] = ..., force: bool = ...) -> None: ...

class Repair(_message.Message):
    __slots__ = ["partitions"]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class RepairStatus(_message.Message):
    __slots__ = ["clashes", "compared", "facts_moved", "failed", "left"]
    CLASHES_FIELD_NUMBER: _ClassVar[int]
    COMPARED_FIELD_NUMBER: _ClassVar[int]
    FACTS_MOVED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    clashes: int
    compared: int
    facts_moved: int
    failed: int
    left: int
    def __init__(self, left: _Optional[int] = ..., compared: _Optional[int] = ..., failed: _Optional[int] = ..., facts_moved: _Optional[int] = ..., clashes: _Optional[int] = ...) -> None: ...

class ReplaceNode(_message.Message):
    __slots__ = ["force", "new", "old"]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    NEW_FIELD_NUMBER: _ClassVar[int]
    OLD_FIELD_NUMBER: _ClassVar[int]
    force: bool
    new: str
    old: str
    def __init__(self, old: _Optional[str] = ..., new: _Optional[str] = ..., force: bool = ...) -> None: ...

class ReplicaState(_message.Message):
    __slots__ = ["cancelled", "completed", "counters", "dead", "facts", "incarnation", "node", "problem", "quarantined", "quarantined_tasks", "queues", "root", "unfinished"]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_TASKS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    UNFINISHED_FIELD_NUMBER: _ClassVar[int]
    cancelled: int
    completed: int
    counters: int
    dead: int
    facts: int
    incarnation: str
    node: str
    problem: str
    quarantined: _containers.RepeatedScalarFieldContainer[str]
    quarantined_tasks: int
    queues: _containers.RepeatedCompositeFieldContainer[QueueCounters]
    root: bytes
    unfinished: int
    def __init__(self, node: _Optional[str] = ..., incarnation: _Optional[str] = ..., problem: _Optional[str] = ..., root: _Optional[bytes] = ..., facts: _Optional[int] = ..., unfinished: _Optional[int] = ..., completed: _Optional[int] = ..., dead: _Optional[int] = ..., cancelled: _Optional[int] = ..., counters: _Optional[int] = ..., queues: _Optional[_Iterable[_Union[QueueCounters, _Mapping]]] = ..., quarantined_tasks: _Optional[int] = ..., quarantined: _Optional[_Iterable[str]] = ...) -> None: ...

class RestoreReply(_message.Message):
    __slots__ = ["fresh", "left_out", "result", "tasks"]
    FRESH_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    fresh: int
    left_out: _containers.RepeatedScalarFieldContainer[bytes]
    result: _service_pb2.WriteResult
    tasks: int
    def __init__(self, tasks: _Optional[int] = ..., fresh: _Optional[int] = ..., result: _Optional[_Union[_service_pb2.WriteResult, _Mapping]] = ..., left_out: _Optional[_Iterable[bytes]] = ...) -> None: ...

class RestoreRequest(_message.Message):
    __slots__ = ["durability", "partition", "tasks"]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    durability: _service_pb2.Durability
    partition: int
    tasks: bytes
    def __init__(self, partition: _Optional[int] = ..., tasks: _Optional[bytes] = ..., durability: _Optional[_Union[_service_pb2.Durability, _Mapping]] = ...) -> None: ...

class SetReplicas(_message.Message):
    __slots__ = ["replicas"]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    replicas: int
    def __init__(self, replicas: _Optional[int] = ...) -> None: ...

class StatusReply(_message.Message):
    __slots__ = ["cluster_id", "movement", "node", "nodes", "partitions", "register", "repair", "replicas", "voters"]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    MOVEMENT_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    REPAIR_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    VOTERS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    movement: MovementStatus
    node: str
    nodes: _containers.RepeatedCompositeFieldContainer[NodeStatus]
    partitions: _containers.RepeatedCompositeFieldContainer[PartitionStatus]
    register: RegisterStatus
    repair: RepairStatus
    replicas: int
    voters: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, cluster_id: _Optional[str] = ..., voters: _Optional[_Iterable[str]] = ..., nodes: _Optional[_Iterable[_Union[NodeStatus, _Mapping]]] = ..., partitions: _Optional[_Iterable[_Union[PartitionStatus, _Mapping]]] = ..., node: _Optional[str] = ..., replicas: _Optional[int] = ..., register: _Optional[_Union[RegisterStatus, _Mapping]] = ..., movement: _Optional[_Union[MovementStatus, _Mapping]] = ..., repair: _Optional[_Union[RepairStatus, _Mapping]] = ...) -> None: ...

class StatusRequest(_message.Message):
    __slots__ = ["removed"]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    removed: bool
    def __init__(self, removed: bool = ...) -> None: ...

class VerifiedPartition(_message.Message):
    __slots__ = ["differs", "id", "replicas", "unreachable"]
    DIFFERS_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    differs: bool
    id: int
    replicas: _containers.RepeatedCompositeFieldContainer[ReplicaState]
    unreachable: bool
    def __init__(self, id: _Optional[int] = ..., differs: bool = ..., unreachable: bool = ..., replicas: _Optional[_Iterable[_Union[ReplicaState, _Mapping]]] = ...) -> None: ...

class VerifyReply(_message.Message):
    __slots__ = ["partitions"]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[VerifiedPartition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[VerifiedPartition, _Mapping]]] = ...) -> None: ...

class VerifyRequest(_message.Message):
    __slots__ = ["partitions", "queues"]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedScalarFieldContainer[int]
    queues: bool
    def __init__(self, partitions: _Optional[_Iterable[int]] = ..., queues: bool = ...) -> None: ...
