"""The dtypes of values in the spellings of users: NumPy's, TensorFlow's, names, `str`, `bytes`.

TensorFlow's are recognised by their names; this module does not import it. Concurrency:
functions without state.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

Kind: TypeAlias = Literal["int64", "float32", "bytes"]
# np.int64, "int64", tf.int64, np.dtype(np.int64), …; bytes, str, "string", tf.string.
DType: TypeAlias = Any

# These are the counterparts of tf.int64, tf.float32 and tf.string.
int64 = np.int64
float32 = np.float32
string = bytes

_STRING = np.dtype(object)
# Words with another meaning in TensorFlow than in NumPy.
_TENSORFLOW_WORDS: dict[object, np.dtype[Any]] = {
    "string": _STRING,
    "float": np.dtype(np.float32),
    float: np.dtype(np.float32),
}


def numpy_dtype(dtype: DType) -> np.dtype[Any] | None:
    """Return NumPy's dtype for a DType; `object` for strings of bytes; None if unknown."""
    if type(dtype).__module__.partition(".")[0] == "tensorflow":
        dtype = getattr(dtype, "name", None)
    if dtype is None:
        return None  # NumPy would take None for float64
    if isinstance(dtype, str | type) and dtype in _TENSORFLOW_WORDS:
        return _TENSORFLOW_WORDS[dtype]
    try:
        known = np.dtype(dtype)
    except (TypeError, ValueError):
        return None
    return _STRING if known.kind in "SUO" else known


def kind_of(dtype: DType, name: str) -> Kind:
    """Return which of the three kinds `dtype` is; `name` is the feature's, for errors."""
    known = numpy_dtype(dtype)
    if known == np.int64:
        return "int64"
    if known == np.float32:
        return "float32"
    if known == _STRING:
        return "bytes"
    raise ValueError(f'feature "{name}": dtype is {dtype!r}; it must be int64, float32 or bytes')
