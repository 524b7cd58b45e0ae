from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AccessMap(_message.Message):
    __slots__ = ["certificate", "jwt_subject", "name", "roles", "tenant"]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    JWT_SUBJECT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    certificate: str
    jwt_subject: str
    name: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    tenant: str
    def __init__(self, name: _Optional[str] = ..., certificate: _Optional[str] = ..., jwt_subject: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ..., tenant: _Optional[str] = ...) -> None: ...

class AccessReply(_message.Message):
    __slots__ = ["allowed", "last", "lines", "maps", "reason", "revision", "roles", "secret", "suspended", "tenants", "tokens"]
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    MAPS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    TENANTS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    allowed: bool
    last: int
    lines: _containers.RepeatedScalarFieldContainer[str]
    maps: _containers.RepeatedCompositeFieldContainer[AccessMap]
    reason: str
    revision: int
    roles: _containers.RepeatedCompositeFieldContainer[AccessRole]
    secret: str
    suspended: bool
    tenants: _containers.RepeatedCompositeFieldContainer[AccessTenant]
    tokens: _containers.RepeatedCompositeFieldContainer[AccessToken]
    def __init__(self, revision: _Optional[int] = ..., roles: _Optional[_Iterable[_Union[AccessRole, _Mapping]]] = ..., tokens: _Optional[_Iterable[_Union[AccessToken, _Mapping]]] = ..., secret: _Optional[str] = ..., allowed: bool = ..., reason: _Optional[str] = ..., lines: _Optional[_Iterable[str]] = ..., last: _Optional[int] = ..., suspended: bool = ..., maps: _Optional[_Iterable[_Union[AccessMap, _Mapping]]] = ..., tenants: _Optional[_Iterable[_Union[AccessTenant, _Mapping]]] = ...) -> None: ...

class AccessRequest(_message.Message):
    __slots__ = ["audit", "check", "create_token", "enable_tokens", "list", "remove_map", "remove_role", "remove_tenant", "renew_token", "revoke_token", "set_map", "set_role", "set_tenant"]
    AUDIT_FIELD_NUMBER: _ClassVar[int]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    CREATE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    ENABLE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    REMOVE_MAP_FIELD_NUMBER: _ClassVar[int]
    REMOVE_ROLE_FIELD_NUMBER: _ClassVar[int]
    REMOVE_TENANT_FIELD_NUMBER: _ClassVar[int]
    RENEW_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REVOKE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    SET_MAP_FIELD_NUMBER: _ClassVar[int]
    SET_ROLE_FIELD_NUMBER: _ClassVar[int]
    SET_TENANT_FIELD_NUMBER: _ClassVar[int]
    audit: ReadAudit
    check: CheckAccess
    create_token: CreateToken
    enable_tokens: EnableTokens
    list: ListAccess
    remove_map: RemoveMap
    remove_role: RemoveRole
    remove_tenant: RemoveTenant
    renew_token: RenewToken
    revoke_token: RevokeToken
    set_map: SetMap
    set_role: SetRole
    set_tenant: SetTenant
    def __init__(self, list: _Optional[_Union[ListAccess, _Mapping]] = ..., set_role: _Optional[_Union[SetRole, _Mapping]] = ..., remove_role: _Optional[_Union[RemoveRole, _Mapping]] = ..., create_token: _Optional[_Union[CreateToken, _Mapping]] = ..., renew_token: _Optional[_Union[RenewToken, _Mapping]] = ..., revoke_token: _Optional[_Union[RevokeToken, _Mapping]] = ..., check: _Optional[_Union[CheckAccess, _Mapping]] = ..., audit: _Optional[_Union[ReadAudit, _Mapping]] = ..., enable_tokens: _Optional[_Union[EnableTokens, _Mapping]] = ..., set_map: _Optional[_Union[SetMap, _Mapping]] = ..., remove_map: _Optional[_Union[RemoveMap, _Mapping]] = ..., set_tenant: _Optional[_Union[SetTenant, _Mapping]] = ..., remove_tenant: _Optional[_Union[RemoveTenant, _Mapping]] = ...) -> None: ...

class AccessRole(_message.Message):
    __slots__ = ["allow", "built_in", "name"]
    ALLOW_FIELD_NUMBER: _ClassVar[int]
    BUILT_IN_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    allow: _containers.RepeatedScalarFieldContainer[str]
    built_in: bool
    name: str
    def __init__(self, name: _Optional[str] = ..., allow: _Optional[_Iterable[str]] = ..., built_in: bool = ...) -> None: ...

class AccessTenant(_message.Message):
    __slots__ = ["limits", "name", "prefix"]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    limits: TenantLimits
    name: str
    prefix: str
    def __init__(self, name: _Optional[str] = ..., prefix: _Optional[str] = ..., limits: _Optional[_Union[TenantLimits, _Mapping]] = ...) -> None: ...

class AccessToken(_message.Message):
    __slots__ = ["created", "creator", "expires", "id", "last_used", "name", "roles", "tenant"]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    CREATOR_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    LAST_USED_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    created: _timestamp_pb2.Timestamp
    creator: str
    expires: _timestamp_pb2.Timestamp
    id: str
    last_used: _timestamp_pb2.Timestamp
    name: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    tenant: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ..., created: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., creator: _Optional[str] = ..., expires: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., last_used: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., tenant: _Optional[str] = ..., **kwargs) -> None: ...

class CheckAccess(_message.Message):
    __slots__ = ["id", "queue", "verb"]
    ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    VERB_FIELD_NUMBER: _ClassVar[int]
    id: str
    queue: str
    verb: str
    def __init__(self, id: _Optional[str] = ..., verb: _Optional[str] = ..., queue: _Optional[str] = ...) -> None: ...

class CreateToken(_message.Message):
    __slots__ = ["name", "roles", "tenant", "ttl_seconds"]
    FROM_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TTL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    name: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    tenant: str
    ttl_seconds: float
    def __init__(self, name: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ..., ttl_seconds: _Optional[float] = ..., tenant: _Optional[str] = ..., **kwargs) -> None: ...

class EnableTokens(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class ListAccess(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class ReadAudit(_message.Message):
    __slots__ = ["after", "limit"]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    after: int
    limit: int
    def __init__(self, after: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class RemoveMap(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class RemoveRole(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class RemoveTenant(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class RenewToken(_message.Message):
    __slots__ = ["id", "ttl_seconds"]
    ID_FIELD_NUMBER: _ClassVar[int]
    TTL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    id: str
    ttl_seconds: float
    def __init__(self, id: _Optional[str] = ..., ttl_seconds: _Optional[float] = ...) -> None: ...

class RevokeToken(_message.Message):
    __slots__ = ["id"]
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class SetMap(_message.Message):
    __slots__ = ["certificate", "jwt_subject", "name", "roles", "tenant"]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    JWT_SUBJECT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    certificate: str
    jwt_subject: str
    name: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    tenant: str
    def __init__(self, name: _Optional[str] = ..., certificate: _Optional[str] = ..., jwt_subject: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ..., tenant: _Optional[str] = ...) -> None: ...

class SetRole(_message.Message):
    __slots__ = ["allow", "name"]
    ALLOW_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    allow: _containers.RepeatedScalarFieldContainer[str]
    name: str
    def __init__(self, name: _Optional[str] = ..., allow: _Optional[_Iterable[str]] = ...) -> None: ...

class SetTenant(_message.Message):
    __slots__ = ["limits", "name", "prefix"]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    limits: TenantLimits
    name: str
    prefix: str
    def __init__(self, name: _Optional[str] = ..., prefix: _Optional[str] = ..., limits: _Optional[_Union[TenantLimits, _Mapping]] = ...) -> None: ...

class StoredMap(_message.Message):
    __slots__ = ["certificate", "jwt_subject", "roles", "tenant"]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    JWT_SUBJECT_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    certificate: str
    jwt_subject: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    tenant: str
    def __init__(self, certificate: _Optional[str] = ..., jwt_subject: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ..., tenant: _Optional[str] = ...) -> None: ...

class StoredRole(_message.Message):
    __slots__ = ["allow"]
    ALLOW_FIELD_NUMBER: _ClassVar[int]
    allow: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, allow: _Optional[_Iterable[str]] = ...) -> None: ...

class StoredTenant(_message.Message):
    __slots__ = ["limits", "prefix"]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    limits: TenantLimits
    prefix: str
    def __init__(self, prefix: _Optional[str] = ..., limits: _Optional[_Union[TenantLimits, _Mapping]] = ...) -> None: ...

class StoredToken(_message.Message):
    __slots__ = ["created", "creator", "expires", "hash", "name", "roles", "tenant", "tenant_hash"]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    CREATOR_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    TENANT_HASH_FIELD_NUMBER: _ClassVar[int]
    created: _timestamp_pb2.Timestamp
    creator: str
    expires: _timestamp_pb2.Timestamp
    hash: bytes
    name: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    tenant: str
    tenant_hash: bytes
    def __init__(self, name: _Optional[str] = ..., hash: _Optional[bytes] = ..., roles: _Optional[_Iterable[str]] = ..., created: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., creator: _Optional[str] = ..., expires: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., tenant: _Optional[str] = ..., tenant_hash: _Optional[bytes] = ..., **kwargs) -> None: ...

class TenantLimits(_message.Message):
    __slots__ = ["bytes", "claims", "connections", "queues", "rate", "schedules", "tasks", "waits"]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    CONNECTIONS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    claims: int
    connections: int
    queues: int
    rate: float
    schedules: int
    tasks: int
    waits: int
    def __init__(self, queues: _Optional[int] = ..., tasks: _Optional[int] = ..., schedules: _Optional[int] = ..., claims: _Optional[int] = ..., waits: _Optional[int] = ..., connections: _Optional[int] = ..., rate: _Optional[float] = ..., bytes: _Optional[int] = ...) -> None: ...

class WhoAmIReply(_message.Message):
    __slots__ = ["allow", "expires", "id", "name", "node", "prefix", "proof", "revision", "roles", "tenant"]
    ALLOW_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    PROOF_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    allow: _containers.RepeatedScalarFieldContainer[str]
    expires: _timestamp_pb2.Timestamp
    id: str
    name: str
    node: str
    prefix: str
    proof: str
    revision: int
    roles: _containers.RepeatedScalarFieldContainer[str]
    tenant: str
    def __init__(self, name: _Optional[str] = ..., id: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ..., proof: _Optional[str] = ..., allow: _Optional[_Iterable[str]] = ..., expires: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., node: _Optional[str] = ..., revision: _Optional[int] = ..., tenant: _Optional[str] = ..., prefix: _Optional[str] = ...) -> None: ...

class WhoAmIRequest(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...
