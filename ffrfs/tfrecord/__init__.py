"""TFRecord files and tf.train.Example without TensorFlow.

The names and meanings are those of `tf.io` (`tf.python_io`) and `tf.train`. Nothing is
imported before it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ffrfs.tfrecord.dataset.record_dataset import RecordDataset
    from ffrfs.tfrecord.examples.example import (
        BytesList,
        Example,
        Feature,
        FeatureList,
        FeatureLists,
        Features,
        FloatList,
        Int64List,
        SequenceExample,
        from_dict,
        to_dict,
    )
    from ffrfs.tfrecord.examples.tensor import decode_raw, parse_tensor, serialize_tensor
    from ffrfs.tfrecord.examples.tfds_directory import open_tfds
    from ffrfs.tfrecord.iterator import tf_record_iterator
    from ffrfs.tfrecord.options import TFRecordCompressionType, TFRecordOptions
    from ffrfs.tfrecord.parsing.dtypes import float32, int64, string
    from ffrfs.tfrecord.parsing.features import (
        FixedLenFeature,
        FixedLenSequenceFeature,
        RaggedFeature,
        SparseFeature,
        VarLenFeature,
    )
    from ffrfs.tfrecord.parsing.parse import (
        parse_example,
        parse_single_example,
        parse_single_sequence_example,
    )
    from ffrfs.tfrecord.parsing.sequence import parse_sequence_example
    from ffrfs.tfrecord.parsing.values import RaggedValue, SparseValue
    from ffrfs.tfrecord.reader import TFRecordReader
    from ffrfs.tfrecord.sidecar import create_index
    from ffrfs.tfrecord.writer import TFRecordWriter

__all__ = [
    "BytesList",
    "Example",
    "Feature",
    "FeatureList",
    "FeatureLists",
    "Features",
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "FloatList",
    "Int64List",
    "RaggedFeature",
    "RaggedValue",
    "RecordDataset",
    "SequenceExample",
    "SparseFeature",
    "SparseValue",
    "TFRecordCompressionType",
    "TFRecordOptions",
    "TFRecordReader",
    "TFRecordWriter",
    "VarLenFeature",
    "create_index",
    "decode_raw",
    "float32",
    "from_dict",
    "int64",
    "open_tfds",
    "parse_example",
    "parse_sequence_example",
    "parse_single_example",
    "parse_single_sequence_example",
    "parse_tensor",
    "serialize_tensor",
    "string",
    "tf_record_iterator",
    "to_dict",
]

_NAMES_IN = {
    "dataset.record_dataset": "RecordDataset",
    "examples.example": "BytesList Example Feature FeatureList FeatureLists Features FloatList "
    "Int64List SequenceExample from_dict to_dict",
    "examples.tensor": "decode_raw parse_tensor serialize_tensor",
    "examples.tfds_directory": "open_tfds",
    "iterator": "tf_record_iterator",
    "options": "TFRecordCompressionType TFRecordOptions",
    "parsing.dtypes": "float32 int64 string",
    "parsing.features": "FixedLenFeature FixedLenSequenceFeature RaggedFeature SparseFeature "
    "VarLenFeature",
    "parsing.parse": "parse_example parse_single_example parse_single_sequence_example",
    "parsing.sequence": "parse_sequence_example",
    "parsing.values": "RaggedValue SparseValue",
    "reader": "TFRecordReader",
    "sidecar": "create_index",
    "writer": "TFRecordWriter",
}
_MODULE_OF = {name: module for module, names in _NAMES_IN.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'ffrfs.tfrecord' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"ffrfs.tfrecord.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
