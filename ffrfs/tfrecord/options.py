"""TFRecordOptions: how a TFRecord file is compressed.

Names and meanings are those of `tf.io.TFRecordOptions`. Not here: the use of the options
(compression.py). Concurrency: the objects do not change.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import ClassVar, TypeVar


class TFRecordCompressionType(IntEnum):
    """The number of a compression, as TensorFlow gives it."""

    NONE = 0
    ZLIB = 1
    GZIP = 2


# zlib's own values: 16 more than the logarithm of the window's size selects the gzip wrapper.
_WINDOW_BITS = {"ZLIB": range(9, 16), "GZIP": range(25, 32)}
_FLUSH_MODES = (
    zlib.Z_NO_FLUSH,
    zlib.Z_PARTIAL_FLUSH,
    zlib.Z_SYNC_FLUSH,
    zlib.Z_FULL_FLUSH,
    zlib.Z_BLOCK,
)
_SIZES = range(1, (1 << 30) + 1)  # of a buffer

Default = TypeVar("Default", bound=int | None)


class TFRecordOptions:
    """The options to write, or read, one file: its compression, and the settings of zlib.

    `compression_type`: "" (none), "GZIP", "ZLIB", a TFRecordCompressionType, or another
    TFRecordOptions, whose type is used; with None a writer does not compress, and a reader
    recognises the compression.

    The others are TensorFlow's, in its order, and have an effect only for a compressed file
    that is written. They are zlib's: `flush_mode` after each piece that is
    compressed (zlib.Z_NO_FLUSH, Z_PARTIAL_FLUSH, Z_SYNC_FLUSH, Z_FULL_FLUSH, Z_BLOCK);
    `window_bits` 9 to 15 for ZLIB, 25 to 31 for GZIP; `compression_level` 0 to 9, or -1;
    `compression_method` zlib.DEFLATED, the only one; `mem_level` 1 to 9;
    `compression_strategy` 0 to 4 (zlib.Z_DEFAULT_STRATEGY to Z_FIXED). Pieces of
    `input_buffer_size` bytes are gathered before they are compressed, and compressed ones of
    `output_buffer_size` before they are written (None: 256 KiB, and none). The other defaults
    are TensorFlow's.

    Raises ValueError for any other value.
    """

    compression_type_map: ClassVar[dict[TFRecordCompressionType, str]] = {
        TFRecordCompressionType.NONE: "",
        TFRecordCompressionType.ZLIB: "ZLIB",
        TFRecordCompressionType.GZIP: "GZIP",
    }

    def __init__(  # noqa: PLR0913, PLR0917 - TensorFlow's arguments, in its order
        self,
        compression_type: OptionsLike = None,
        flush_mode: int | None = None,
        input_buffer_size: int | None = None,
        output_buffer_size: int | None = None,
        window_bits: int | None = None,
        compression_level: int | None = None,
        compression_method: int | None = None,
        mem_level: int | None = None,
        compression_strategy: int | None = None,
    ) -> None:
        if isinstance(compression_type, TFRecordOptions):
            compression_type = compression_type.compression_type
        # "", "GZIP", "ZLIB", or None if it is open.
        self.compression_type: str | None = (
            None if compression_type is None else self.get_compression_type_string(compression_type)
        )
        if flush_mode not in (None, *_FLUSH_MODES):
            raise ValueError(f"flush_mode is one of {_FLUSH_MODES}, not {flush_mode!r}")
        self.flush_mode = zlib.Z_NO_FLUSH if flush_mode is None else flush_mode
        self.input_buffer_size = _chosen("input_buffer_size", input_buffer_size, _SIZES, None)
        self.output_buffer_size = _chosen("output_buffer_size", output_buffer_size, _SIZES, None)
        windows = _WINDOW_BITS.get(self.compression_type or "", range(9, 32))
        self.window_bits = _chosen("window_bits", window_bits, windows, windows[-1])
        self.compression_level = _chosen(
            "compression_level", compression_level, range(-1, 10), zlib.Z_DEFAULT_COMPRESSION
        )
        methods = range(zlib.DEFLATED, zlib.DEFLATED + 1)
        self.compression_method = _chosen(
            "compression_method", compression_method, methods, zlib.DEFLATED
        )
        self.mem_level = _chosen("mem_level", mem_level, range(1, 10), 9)
        self.compression_strategy = _chosen(
            "compression_strategy", compression_strategy, range(5), zlib.Z_DEFAULT_STRATEGY
        )

    @classmethod
    def get_compression_type_string(cls, options: OptionsLike) -> str:
        """Return "GZIP", "ZLIB" or "" for options, a type, its name or None."""
        if isinstance(options, TFRecordOptions):
            options = options.compression_type
        if not options:
            return ""
        for number, name in cls.compression_type_map.items():
            if options in (number, name):
                return name
        raise ValueError(f'not a valid compression_type: {options!r} (choose "", "GZIP" or "ZLIB")')

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={getattr(self, name)}" for name in _SETTINGS)
        return f"TFRecordOptions({self.compression_type!r}, {settings})"


OptionsLike = TFRecordOptions | TFRecordCompressionType | str | None


_SETTINGS = (
    "flush_mode",
    "input_buffer_size",
    "output_buffer_size",
    "window_bits",
    "compression_level",
    "compression_method",
    "mem_level",
    "compression_strategy",
)


def _chosen(name: str, value: int | None, allowed: range, default: Default) -> int | Default:
    if value is None:
        return default
    if value not in allowed:
        raise ValueError(f"{name} is {allowed[0]} to {allowed[-1]}, not {value!r}")
    return value
