"""TFRecordOptions has TensorFlow's names, and refuses values without a meaning."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from ffrfs.tfrecord import (
    TFRecordCompressionType,
    TFRecordOptions,
    TFRecordWriter,
    tf_record_iterator,
)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (None, ""),
        ("", ""),
        ("GZIP", "GZIP"),
        ("ZLIB", "ZLIB"),
        (TFRecordCompressionType.NONE, ""),
        (TFRecordCompressionType.GZIP, "GZIP"),
        (TFRecordCompressionType.ZLIB, "ZLIB"),
        (0, ""),
        (1, "ZLIB"),
        (2, "GZIP"),
        (TFRecordOptions(), ""),
        (TFRecordOptions(""), ""),
        (TFRecordOptions("GZIP"), "GZIP"),
        (TFRecordOptions(TFRecordCompressionType.ZLIB), "ZLIB"),
        (TFRecordOptions(TFRecordOptions("GZIP")), "GZIP"),
    ],
    ids=repr,
)
def test_the_name_of_a_compression(given: object, name: str) -> None:
    assert TFRecordOptions.get_compression_type_string(given) == name
    assert TFRecordOptions(given).compression_type in (name, None)


@pytest.mark.parametrize("wrong", ["gzip", "BZIP2", 3, -1, b"GZIP", ["GZIP"], 1.5])
def test_invalid_compressions_are_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="not a valid compression_type"):
        TFRecordOptions.get_compression_type_string(wrong)
    with pytest.raises(ValueError, match="not a valid compression_type"):
        TFRecordOptions(wrong)


def test_an_unset_type_differs_from_no_compression() -> None:
    assert TFRecordOptions().compression_type is None
    assert TFRecordOptions(TFRecordOptions()).compression_type is None
    assert TFRecordOptions("").compression_type == ""
    assert TFRecordOptions(TFRecordCompressionType.NONE).compression_type == ""


def test_numbers_are_those_of_tensorflow() -> None:
    assert TFRecordOptions.compression_type_map == {0: "", 1: "ZLIB", 2: "GZIP"}
    assert [*TFRecordCompressionType] == [0, 1, 2]


def test_defaults_are_those_of_tensorflow() -> None:
    for kind, window_bits in (("ZLIB", 15), ("GZIP", 31)):
        options = TFRecordOptions(kind)
        assert options.window_bits == window_bits
        assert options.compression_level == zlib.Z_DEFAULT_COMPRESSION
        assert options.mem_level == 9
        assert options.compression_strategy == zlib.Z_DEFAULT_STRATEGY


@pytest.mark.parametrize(
    "wrong",
    [
        {"compression_level": 10},
        {"compression_level": -2},
        {"mem_level": 0},
        {"mem_level": 10},
        {"compression_strategy": 5},
        {"compression_strategy": -1},
        {"window_bits": 15},  # a zlib stream in a GZIP file
        {"window_bits": 24},
        {"window_bits": 32},
        {"window_bits": -15},
        {"flush_mode": zlib.Z_FINISH},
        {"flush_mode": -1},
        {"input_buffer_size": 0},
        {"output_buffer_size": -1},
        {"compression_method": 7},
    ],
    ids=str,
)
def test_a_setting_out_of_its_range_is_named(wrong: dict[str, int]) -> None:
    (name,) = wrong
    with pytest.raises(ValueError, match=name):
        TFRecordOptions("GZIP", **wrong)


def test_all_settings_in_tensorflows_order() -> None:
    given = (zlib.Z_SYNC_FLUSH, 1000, 2000, 30, 3, zlib.DEFLATED, 5, zlib.Z_HUFFMAN_ONLY)
    options = TFRecordOptions("GZIP", *given)
    assert repr(options) == (
        "TFRecordOptions('GZIP', flush_mode=2, input_buffer_size=1000, output_buffer_size=2000, "
        "window_bits=30, compression_level=3, compression_method=8, mem_level=5, "
        "compression_strategy=2)"
    )


def written(path: Path, *settings: object, **named: object) -> bytes:
    """Return the bytes of a compressed file of 200 records."""
    with TFRecordWriter(path, TFRecordOptions("ZLIB", *settings, **named)) as writer:
        for number in range(200):
            writer.write(b"record %d " % number * 50)
    assert len(list(tf_record_iterator(path))) == 200
    return path.read_bytes()


@pytest.mark.parametrize(
    "mode", [zlib.Z_SYNC_FLUSH, zlib.Z_PARTIAL_FLUSH, zlib.Z_FULL_FLUSH, zlib.Z_BLOCK]
)
def test_the_mode_of_flushing_changes_the_stream(tmp_path: Path, mode: int) -> None:
    plain = written(tmp_path / "a", input_buffer_size=1000)
    changed = written(tmp_path / "b", mode, 1000)
    assert changed != plain
    assert zlib.decompress(changed) == zlib.decompress(plain)


def test_pieces_of_the_input_are_flushed(tmp_path: Path) -> None:
    sizes = {
        size: len(written(tmp_path / "a", zlib.Z_FULL_FLUSH, size)) for size in (500, 5000, 50000)
    }
    assert sizes[500] > sizes[5000] > sizes[50000]


def test_compressed_bytes_are_buffered(tmp_path: Path) -> None:
    path = tmp_path / "a"
    sizes = {}
    for gathered in (None, 1 << 20):
        options = TFRecordOptions("ZLIB", zlib.Z_SYNC_FLUSH, 100, gathered)
        with TFRecordWriter(path, options) as writer:
            writer.write(b"x" * 1000)
            sizes[gathered] = path.stat().st_size
            writer.flush()
            assert path.stat().st_size > 0
        assert list(tf_record_iterator(path)) == [b"x" * 1000]
    assert sizes[None] > sizes[1 << 20] == 0
