"""ffrfs.tfrecord has TensorFlow's names, and loads nothing before it is used."""

from __future__ import annotations

import pytest

from ffrfs import tfrecord
from tests.interpreter import python


@pytest.mark.parametrize("name", tfrecord.__all__)
def test_every_name_exists(name: str) -> None:
    value = getattr(tfrecord, name)
    assert getattr(tfrecord, name) is value
    assert value.__name__ == ("bytes" if name == "string" else name)
    assert name in dir(tfrecord)


def test_other_names_do_not_exist() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = tfrecord.nonsense


def test_files_load_neither_numpy_nor_protobuf() -> None:
    program = (
        "import sys; import ffrfs.tfrecord as t; t.TFRecordWriter, t.tf_record_iterator; "
        "print(*sorted({'numpy', 'google.protobuf'} & sys.modules.keys()))"
    )
    done = python("-c", program, check=True)
    assert done.stdout.split() == []
