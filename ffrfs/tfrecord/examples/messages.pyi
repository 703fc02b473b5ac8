"""Types of the messages that messages.py makes at run time.

They are protobuf messages (google.protobuf.message.Message) with all of its methods;
this file declares those that all protobuf versions have.
"""

from abc import ABCMeta
from collections.abc import Iterable, Mapping, MutableMapping, MutableSequence
from typing import Any, Literal, Self, TypeVar

_T = TypeVar("_T")

class _Message:
    DESCRIPTOR: Any
    @classmethod
    def FromString(cls, data: bytes, /) -> Self: ...  # noqa: N802
    def ParseFromString(self, data: bytes, /) -> int: ...  # noqa: N802
    def MergeFromString(self, data: bytes, /) -> int: ...  # noqa: N802
    def SerializeToString(self, *, deterministic: bool = ...) -> bytes: ...  # noqa: N802
    def MergeFrom(self, other: Self, /) -> None: ...  # noqa: N802
    def CopyFrom(self, other: Self, /) -> None: ...  # noqa: N802
    def Clear(self) -> None: ...  # noqa: N802
    def ClearField(self, name: str, /) -> None: ...  # noqa: N802
    def HasField(self, name: str, /) -> bool: ...  # noqa: N802
    def WhichOneof(self, name: str, /) -> str | None: ...  # noqa: N802
    def ByteSize(self) -> int: ...  # noqa: N802
    def DiscardUnknownFields(self) -> None: ...  # noqa: N802

class _Repeated(MutableSequence[_T], metaclass=ABCMeta):
    def add(self) -> _T: ...

class BytesList(_Message):
    def __init__(self, *, value: Iterable[bytes] = ...) -> None: ...
    @property
    def value(self) -> MutableSequence[bytes]: ...

class FloatList(_Message):
    def __init__(self, *, value: Iterable[float] = ...) -> None: ...
    @property
    def value(self) -> MutableSequence[float]: ...

class Int64List(_Message):
    def __init__(self, *, value: Iterable[int] = ...) -> None: ...
    @property
    def value(self) -> MutableSequence[int]: ...

class Feature(_Message):
    def __init__(
        self,
        *,
        bytes_list: BytesList | None = ...,
        float_list: FloatList | None = ...,
        int64_list: Int64List | None = ...,
    ) -> None: ...
    @property
    def bytes_list(self) -> BytesList: ...
    @property
    def float_list(self) -> FloatList: ...
    @property
    def int64_list(self) -> Int64List: ...
    def WhichOneof(  # noqa: N802
        self, name: str, /
    ) -> Literal["bytes_list", "float_list", "int64_list"] | None: ...

class Features(_Message):
    def __init__(self, *, feature: Mapping[str, Feature] = ...) -> None: ...
    @property
    def feature(self) -> MutableMapping[str, Feature]: ...

class FeatureList(_Message):
    def __init__(self, *, feature: Iterable[Feature] = ...) -> None: ...
    @property
    def feature(self) -> _Repeated[Feature]: ...

class FeatureLists(_Message):
    def __init__(self, *, feature_list: Mapping[str, FeatureList] = ...) -> None: ...
    @property
    def feature_list(self) -> MutableMapping[str, FeatureList]: ...

class Example(_Message):
    def __init__(self, *, features: Features | None = ...) -> None: ...
    @property
    def features(self) -> Features: ...

class SequenceExample(_Message):
    def __init__(
        self, *, context: Features | None = ..., feature_lists: FeatureLists | None = ...
    ) -> None: ...
    @property
    def context(self) -> Features: ...
    @property
    def feature_lists(self) -> FeatureLists: ...
