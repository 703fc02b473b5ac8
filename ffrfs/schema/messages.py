"""The messages of tensorflow_metadata, and files of them.

The ending of a file's name gives its form: .pbtxt and .txt are text, .json is JSON, any other is
binary. The package is an extra; no other module imports it. Concurrency: functions without state.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, TypeAlias, TypeVar

from ffrfs.errors import FormatError, MissingPackageError, OptionError, parse_reason
from ffrfs.files.replacing import new_file
from ffrfs.remote.url import is_url

try:
    from google.protobuf import json_format, text_format
    from google.protobuf.message import DecodeError, Message
    from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2, statistics_pb2
except ModuleNotFoundError:
    raise MissingPackageError.of(
        "schemas and statistics need the package tensorflow-metadata", "schema"
    ) from None

__all__ = [
    "Anomalies",
    "PathType",
    "Proto",
    "Schema",
    "Statistics",
    "anomalies_pb2",
    "load",
    "load_any",
    "name_of",
    "schema_pb2",
    "statistics_pb2",
    "store",
    "to_json",
    "to_text",
]

# A message of one of these classes: their fields have no types for mypy.
Proto: TypeAlias = Any

Schema = schema_pb2.Schema
Statistics = statistics_pb2.DatasetFeatureStatisticsList
Anomalies = anomalies_pb2.Anomalies

# The limit for reading a file: it allows statistics of a hundred thousand features.
_SIZE_MAX = 1 << 30
_TEXT_ENDS = (".pbtxt", ".txt")

M = TypeVar("M", bound=Message)
PathType = str | os.PathLike[str]


def load(path: PathType, of: type[M]) -> M:
    """Return the message of the class `of` in a file. FormatError if the file has none."""
    name = _local(path)
    with open(name, "rb") as file:
        data = file.read(_SIZE_MAX + 1)
    if len(data) > _SIZE_MAX:
        raise FormatError.at(name, "over 1 GiB; too large for a schema or statistics")
    try:
        found = _parsed(data, name, of)
    except (
        DecodeError,
        ValueError,  # for a number that is too long, and for text that is not UTF-8
        text_format.ParseError,
        json_format.ParseError,
        RecursionError,  # for text that is nested too deep
    ) as error:
        reason = " ".join(parse_reason(error).split())
        raise FormatError.at(name, f"not a {of.DESCRIPTOR.name} in this form: {reason}") from None
    if not _is_text(found):
        raise FormatError.at(name, f"not a {of.DESCRIPTOR.name} in this form: text is not UTF-8")
    # The bytes of one message may be valid for another class, which has none of their fields.
    if _has_unknown(found) and (other := _whole(data, but=of)) is not None:
        raise FormatError.at(name, f"holds a {other}, not a {of.DESCRIPTOR.name}")
    return found


def _whole(data: bytes, but: type[Message]) -> str | None:
    """Return the name of the class, other than `but`, that knows all of these bytes."""
    for of in (Schema, Statistics, Anomalies):
        with contextlib.suppress(DecodeError):
            if of is not but and not _has_unknown(of.FromString(data)):
                return str(of.DESCRIPTOR.name)
    return None


def _parsed(data: bytes, name: str, of: type[M]) -> M:
    if name.endswith(_TEXT_ENDS):
        return text_format.Parse(data.decode(), of())  # type: ignore[no-any-return]
    if name.endswith(".json"):
        return json_format.Parse(data.decode(), of())  # type: ignore[no-any-return]
    return of.FromString(data)  # type: ignore[no-any-return]


def _is_text(message: Proto) -> bool:
    """Return whether all strings are UTF-8; protobuf gives others as bytes."""
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING:
            if not all(isinstance(one, str) for one in ([value] if _is_one(value) else value)):
                return False
        elif field.type == field.TYPE_MESSAGE:
            inside = [value] if _is_one(value) else value
            if hasattr(value, "keys"):
                if not all(isinstance(key, str) for key in value):
                    return False
                inside = value.values()
            if not all(map(_is_text, inside)):
                return False
    return True


def _is_one(value: Proto) -> bool:
    return isinstance(value, str | bytes | Message)


def load_any(path: PathType) -> Proto:
    """Return the Schema, Statistics or Anomalies that a file holds."""
    reasons = []
    for of in (Schema, Statistics, Anomalies):
        try:
            found = load(path, of)
        except FormatError as error:
            reasons.append(f"{error.reason}")
            continue
        # The bytes of one binary message may be valid for another class.
        if found.ByteSize() and not _has_unknown(found):
            return found
    name = os.fspath(path)
    # For text, the reason of the first class, Schema, names the line: people write schemas.
    told = f" ({reasons[0]})" if reasons and name.endswith((*_TEXT_ENDS, ".json")) else ""
    raise FormatError.at(name, f"holds no schema, statistics or anomalies{told}")


def _has_unknown(message: Proto) -> bool:
    """Return whether the file had fields that the message does not know."""
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    return bool(known.ByteSize() != message.ByteSize())


def store(path: PathType, message: Message, *, force: bool = False) -> None:
    """Write a message to a file, which appears when it is complete.

    Raises PackError if the file exists, unless `force`; OSError.
    """
    name = _local(path)
    if name.endswith(".json"):
        data = to_json(message).encode()
    elif name.endswith(_TEXT_ENDS):
        data = to_text(message).encode()
    else:
        data = message.SerializeToString(deterministic=True)
    with new_file(name, force=force) as file:
        file.write(data)


def _local(path: PathType) -> str:
    name = os.fspath(path)
    if is_url(name):
        raise OptionError(f"{name}: is a URL; schemas and statistics are local files")
    return name


def name_of(enum: Proto, number: int) -> str:
    """Return the name of a value of an enum; a file may have a number without a name."""
    return str(enum.Name(number)) if number in enum.values() else f"unknown ({number})"


def to_text(message: Message) -> str:
    """Return the message as text, as in schema.pbtxt."""
    return text_format.MessageToString(message, as_utf8=True)  # type: ignore[no-any-return]


def to_json(message: Message) -> str:
    return json_format.MessageToJson(message, preserving_proto_field_name=True) + "\n"  # type: ignore[no-any-return]
