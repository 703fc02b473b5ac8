"""TFRecordOptions: how a TFRecord file is compressed.

Names and meanings are those of `tf.io.TFRecordOptions`. Not here: what the options do
(compression.py). Concurrency: an object without changing state.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import ClassVar


class TFRecordCompressionType(IntEnum):
    """The number of a compression, as TensorFlow gives it."""

    NONE = 0
    ZLIB = 1
    GZIP = 2


# zlib's own: 16 more than the size's logarithm asks for the gzip wrapper.
_WINDOW_BITS = {"ZLIB": range(9, 16), "GZIP": range(25, 32)}


class TFRecordOptions:
    """How to write, or read, one file: its compression, and the settings of zlib.

    `compression_type`: "" (none), "GZIP", "ZLIB", a TFRecordCompressionType, or another
    TFRecordOptions, whose type is taken; None leaves it open: nothing is compressed when
    writing, and what is there is recognised when reading.

    The others matter to a compressed file that is written, and only there. They are
    zlib's: `window_bits` 9 to 15 for ZLIB, 25 to 31 for GZIP; `compression_level` 0 to 9,
    or -1; `mem_level` 1 to 9; `compression_strategy` 0 to 4 (zlib.Z_DEFAULT_STRATEGY to
    Z_FIXED). Their defaults are TensorFlow's. TensorFlow's other arguments are not taken:
    a flush always makes everything readable (flush_mode), zlib has one method
    (compression_method), and buffers are ours to choose.

    Raises ValueError for a value that is none of these.
    """

    compression_type_map: ClassVar[dict[TFRecordCompressionType, str]] = {
        TFRecordCompressionType.NONE: "",
        TFRecordCompressionType.ZLIB: "ZLIB",
        TFRecordCompressionType.GZIP: "GZIP",
    }

    def __init__(
        self,
        compression_type: OptionsLike = None,
        *,
        window_bits: int | None = None,
        compression_level: int | None = None,
        mem_level: int | None = None,
        compression_strategy: int | None = None,
    ) -> None:
        if isinstance(compression_type, TFRecordOptions):
            compression_type = compression_type.compression_type
        # "", "GZIP", "ZLIB", or None.
        self.compression_type: str | None = (
            None if compression_type is None else self.get_compression_type_string(compression_type)
        )
        windows = _WINDOW_BITS.get(self.compression_type or "", range(9, 32))
        self.window_bits = _chosen("window_bits", window_bits, windows, windows[-1])
        self.compression_level = _chosen(
            "compression_level", compression_level, range(-1, 10), zlib.Z_DEFAULT_COMPRESSION
        )
        self.mem_level = _chosen("mem_level", mem_level, range(1, 10), 9)
        self.compression_strategy = _chosen(
            "compression_strategy", compression_strategy, range(5), zlib.Z_DEFAULT_STRATEGY
        )

    @classmethod
    def get_compression_type_string(cls, options: OptionsLike) -> str:
        """Return "GZIP", "ZLIB" or "": what options, a type, its name or None stand for."""
        if isinstance(options, TFRecordOptions):
            options = options.compression_type
        if not options:
            return ""
        for number, name in cls.compression_type_map.items():
            if options in (number, name):
                return name
        raise ValueError(f'not a valid compression_type: {options!r} (choose "", "GZIP" or "ZLIB")')

    def __repr__(self) -> str:
        return (
            f"TFRecordOptions({self.compression_type!r}, window_bits={self.window_bits}, "
            f"compression_level={self.compression_level}, mem_level={self.mem_level}, "
            f"compression_strategy={self.compression_strategy})"
        )


OptionsLike = TFRecordOptions | TFRecordCompressionType | str | None


def _chosen(name: str, value: int | None, allowed: range, default: int) -> int:
    if value is None:
        return default
    if value not in allowed:
        raise ValueError(f"{name} is {allowed[0]} to {allowed[-1]}, not {value!r}")
    return value
