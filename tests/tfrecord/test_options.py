"""TFRecordOptions: TensorFlow's names, and no value that would mean nothing."""

from __future__ import annotations

import zlib

import pytest

from ffrfs.tfrecord import TFRecordCompressionType, TFRecordOptions


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
def test_no_compression(wrong: object) -> None:
    with pytest.raises(ValueError, match="not a valid compression_type"):
        TFRecordOptions.get_compression_type_string(wrong)
    with pytest.raises(ValueError, match="not a valid compression_type"):
        TFRecordOptions(wrong)


def test_an_open_type_is_not_none_at_all() -> None:
    assert TFRecordOptions().compression_type is None
    assert TFRecordOptions(TFRecordOptions()).compression_type is None
    assert TFRecordOptions("").compression_type == ""
    assert TFRecordOptions(TFRecordCompressionType.NONE).compression_type == ""


def test_numbers_are_tensorflows() -> None:
    assert TFRecordOptions.compression_type_map == {0: "", 1: "ZLIB", 2: "GZIP"}
    assert [*TFRecordCompressionType] == [0, 1, 2]


def test_defaults_are_tensorflows() -> None:
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
    ],
    ids=str,
)
def test_a_setting_out_of_its_range_is_named(wrong: dict[str, int]) -> None:
    (name,) = wrong
    with pytest.raises(ValueError, match=name):
        TFRecordOptions("GZIP", **wrong)


@pytest.mark.parametrize(
    "dead", ["flush_mode", "input_buffer_size", "output_buffer_size", "compression_method"]
)
def test_what_would_do_nothing_is_refused(dead: str) -> None:
    with pytest.raises(TypeError, match=dead):
        TFRecordOptions("GZIP", **{dead: 1})


def test_they_show_what_they_are() -> None:
    assert repr(TFRecordOptions("ZLIB", compression_level=3)) == (
        "TFRecordOptions('ZLIB', window_bits=15, compression_level=3, mem_level=9, "
        "compression_strategy=0)"
    )
