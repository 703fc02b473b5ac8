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

_MODULE_OF = {
    "BytesList": "ffrfs.tfrecord.examples.example",
    "Example": "ffrfs.tfrecord.examples.example",
    "Feature": "ffrfs.tfrecord.examples.example",
    "FeatureList": "ffrfs.tfrecord.examples.example",
    "FeatureLists": "ffrfs.tfrecord.examples.example",
    "Features": "ffrfs.tfrecord.examples.example",
    "FixedLenFeature": "ffrfs.tfrecord.parsing.features",
    "FixedLenSequenceFeature": "ffrfs.tfrecord.parsing.features",
    "FloatList": "ffrfs.tfrecord.examples.example",
    "Int64List": "ffrfs.tfrecord.examples.example",
    "RaggedFeature": "ffrfs.tfrecord.parsing.features",
    "RaggedValue": "ffrfs.tfrecord.parsing.values",
    "RecordDataset": "ffrfs.tfrecord.dataset.record_dataset",
    "SequenceExample": "ffrfs.tfrecord.examples.example",
    "SparseFeature": "ffrfs.tfrecord.parsing.features",
    "SparseValue": "ffrfs.tfrecord.parsing.values",
    "TFRecordCompressionType": "ffrfs.tfrecord.options",
    "TFRecordOptions": "ffrfs.tfrecord.options",
    "TFRecordReader": "ffrfs.tfrecord.reader",
    "TFRecordWriter": "ffrfs.tfrecord.writer",
    "VarLenFeature": "ffrfs.tfrecord.parsing.features",
    "decode_raw": "ffrfs.tfrecord.examples.tensor",
    "float32": "ffrfs.tfrecord.parsing.dtypes",
    "create_index": "ffrfs.tfrecord.sidecar",
    "from_dict": "ffrfs.tfrecord.examples.example",
    "int64": "ffrfs.tfrecord.parsing.dtypes",
    "open_tfds": "ffrfs.tfrecord.examples.tfds_directory",
    "parse_example": "ffrfs.tfrecord.parsing.parse",
    "parse_sequence_example": "ffrfs.tfrecord.parsing.sequence",
    "parse_single_example": "ffrfs.tfrecord.parsing.parse",
    "parse_single_sequence_example": "ffrfs.tfrecord.parsing.parse",
    "parse_tensor": "ffrfs.tfrecord.examples.tensor",
    "serialize_tensor": "ffrfs.tfrecord.examples.tensor",
    "string": "ffrfs.tfrecord.parsing.dtypes",
    "tf_record_iterator": "ffrfs.tfrecord.iterator",
    "to_dict": "ffrfs.tfrecord.examples.example",
}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'ffrfs.tfrecord' has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
