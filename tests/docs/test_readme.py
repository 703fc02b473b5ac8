"""The number on the README's first screen is the one that was measured and published."""

from __future__ import annotations

import json
import re
from pathlib import Path

from benchmarks.contenders import FOLDER, HINTS
from benchmarks.prefetching import SHUFFLED
from tests.checkout import CHECKOUT
from tests.house import sources

RESULTS = CHECKOUT / "docs" / "benchmarks" / "results.json"


def test_the_readme_names_what_the_published_benchmark_measured() -> None:
    stated = re.search(r"\*\*(\d+) times as fast\*\*", sources.text(Path("README.md")))
    parts = json.loads(RESULTS.read_text(encoding="utf-8"))["parts"]
    found = next(each for each in parts["prefetching"]["comparisons"] if each["name"] == SHUFFLED)
    assert stated is not None
    assert int(stated[1]) == int(found["medians"][HINTS] / found["medians"][FOLDER])
