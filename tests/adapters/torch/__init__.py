"""Tests of ffrfs.torch, all of which import torch: without it they skip, and fail in CI."""

import importlib.util
import os

if not os.environ.get("CI") and importlib.util.find_spec("torch") is None:
    import pytest

    pytest.skip("torch is not here: pip install ffrfs[torch]", allow_module_level=True)
