"""The records as tf.train.Example: messages, values as Python's and NumPy's, features of a file.

example.py and messages.py have the messages, and tensor.py the message of a tensor. content.py
finds the features of a message, features_found.py those of a file, tfds_directory.py and
tfds_features.py those that a TFDS directory declares.

Not here: reading records (ffrfs.tfrecord), arrays of many Examples (ffrfs.tfrecord.parsing).
"""

from __future__ import annotations

from ffrfs.errors import MissingPackageError

try:
    from google.protobuf import message  # noqa: F401
except ImportError:
    raise MissingPackageError.of("Examples need the package protobuf", "examples") from None
