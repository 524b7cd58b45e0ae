from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor
EFFECT_NONE: Effect
EFFECT_PARTIAL: Effect
EFFECT_UNKNOWN: Effect
ERROR_KIND_ALREADY_EXISTS: ErrorKind
ERROR_KIND_CANCELLED: ErrorKind
ERROR_KIND_CLAIM_LOST: ErrorKind
ERROR_KIND_CONFLICT: ErrorKind
ERROR_KIND_DEADLINE_EXCEEDED: ErrorKind
ERROR_KIND_DISK_FULL: ErrorKind
ERROR_KIND_INCOMPATIBLE: ErrorKind
ERROR_KIND_INTERNAL: ErrorKind
ERROR_KIND_INVALID_ARGUMENT: ErrorKind
ERROR_KIND_NOT_FOUND: ErrorKind
ERROR_KIND_OUT_OF_WINDOW: ErrorKind
ERROR_KIND_OVERLOADED: ErrorKind
ERROR_KIND_PERMISSION_DENIED: ErrorKind
ERROR_KIND_UNAUTHENTICATED: ErrorKind
ERROR_KIND_UNAVAILABLE: ErrorKind
ERROR_KIND_UNIMPLEMENTED: ErrorKind
ERROR_KIND_UNSPECIFIED: ErrorKind

class Error(_message.Message):
    __slots__ = ["effect", "guarantee", "kind", "lasting", "message", "retry_after_seconds"]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    GUARANTEE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LASTING_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_SECONDS_FIELD_NUMBER: _ClassVar[int]
    effect: Effect
    guarantee: str
    kind: ErrorKind
    lasting: bool
    message: str
    retry_after_seconds: float
    def __init__(self, kind: _Optional[_Union[ErrorKind, str]] = ..., message: _Optional[str] = ..., guarantee: _Optional[str] = ..., retry_after_seconds: _Optional[float] = ..., effect: _Optional[_Union[Effect, str]] = ..., lasting: bool = ...) -> None: ...

class ErrorKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []

class Effect(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
