"""The package tfrecord, another reader and writer of TFRecord files."""

from __future__ import annotations

import sys
from typing import Any

import pytest


def the_package_tfrecord() -> Any:
    """Import the package without its part for torch, which takes a second of CPU with torch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "torch", sys.modules.get("torch"))
        import tfrecord
        import tfrecord.tools.tfrecord2idx
    return tfrecord
