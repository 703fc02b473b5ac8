"""The message classes of tf.train, made by the protobuf library without TensorFlow.

They follow TensorFlow's published schema, tensorflow/core/example/feature.proto and
example.proto: the same full names, field numbers and packing, so bytes and text form are
the same. They have a separate descriptor pool: TensorFlow, or generated classes of the same
schema, can be imported into the process before or after.

messages.pyi has the types: the classes exist only at run time. Not here: conversion to and
from NumPy (example.py), parsing without message objects (parse.py).
"""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FieldOptions,
    FileDescriptorProto,
)
from google.protobuf.message import Message

_PACKAGE = "tensorflow"
_FILE = "tensorflow/core/example/example.proto"
_Field = FieldDescriptorProto


def _add_list(file: FileDescriptorProto, name: str, field_type: int, packed: bool) -> None:
    """Add a message with `repeated <field_type> value = 1`."""
    field = file.message_type.add(name=name).field.add(
        name="value", number=1, type=field_type, label=_Field.LABEL_REPEATED
    )
    if packed:
        field.options.packed = True
    if field_type == _Field.TYPE_INT64:  # JavaScript's numbers are too small
        field.options.jstype = FieldOptions.JS_STRING


def _add_field(
    message: DescriptorProto, name: str, number: int, of: str, repeated: bool = False
) -> FieldDescriptorProto:
    """Add a field that holds messages of the type `of`."""
    return message.field.add(
        name=name,
        number=number,
        type=_Field.TYPE_MESSAGE,
        label=_Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL,
        type_name=f".{_PACKAGE}.{of}",
    )


def _add_map(message: DescriptorProto, name: str, of: str) -> None:
    """Add `map<string, of> name = 1`: on the wire it is a repeated message of key and value."""
    entry = message.nested_type.add(
        name="".join(part.title() for part in name.split("_")) + "Entry",
        options=descriptor_pb2.MessageOptions(map_entry=True),
    )
    entry.field.add(name="key", number=1, type=_Field.TYPE_STRING, label=_Field.LABEL_OPTIONAL)
    _add_field(entry, "value", 2, of)
    _add_field(message, name, 1, f"{message.name}.{entry.name}", repeated=True)


def _schema() -> FileDescriptorProto:
    file = FileDescriptorProto(name=_FILE, package=_PACKAGE, syntax="proto3")
    _add_list(file, "BytesList", _Field.TYPE_BYTES, packed=False)
    _add_list(file, "FloatList", _Field.TYPE_FLOAT, packed=True)
    _add_list(file, "Int64List", _Field.TYPE_INT64, packed=True)

    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    _add_field(feature, "bytes_list", 1, "BytesList").oneof_index = 0
    _add_field(feature, "float_list", 2, "FloatList").oneof_index = 0
    _add_field(feature, "int64_list", 3, "Int64List").oneof_index = 0

    _add_map(file.message_type.add(name="Features"), "feature", "Feature")
    feature_list = file.message_type.add(name="FeatureList")
    _add_field(feature_list, "feature", 1, "Feature", repeated=True)
    _add_map(file.message_type.add(name="FeatureLists"), "feature_list", "FeatureList")

    example = file.message_type.add(name="Example")
    _add_field(example, "features", 1, "Features")
    sequence = file.message_type.add(name="SequenceExample")
    _add_field(sequence, "context", 1, "Features")
    _add_field(sequence, "feature_lists", 2, "FeatureLists")
    return file


_pool = descriptor_pool.DescriptorPool()
_pool.AddSerializedFile(_schema().SerializeToString())


def _message_class(name: str) -> type[Message]:
    made = message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))
    made.__module__ = __name__  # where pickle can find it
    return made


BytesList = _message_class("BytesList")
FloatList = _message_class("FloatList")
Int64List = _message_class("Int64List")
Feature = _message_class("Feature")
Features = _message_class("Features")
FeatureList = _message_class("FeatureList")
FeatureLists = _message_class("FeatureLists")
Example = _message_class("Example")
SequenceExample = _message_class("SequenceExample")
