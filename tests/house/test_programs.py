"""The demo and the benchmarks run."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from benchmarks.contenders import FOLDER, NATIVE, PYFUSE3
from tests.house import sources
from tests.interpreter import python

SLOW_DEMO = """
import sys
from benchmarks import slow_demo
slow_demo.LIMIT_S = int(sys.argv[2])
slow_demo.main(sys.argv[1])
"""
# They run one after another: each enables io_uring for the machine, and disables it at its end.
benchmarks = pytest.mark.xdist_group("benchmarks")
OURS = {FOLDER, NATIVE, PYFUSE3}
NO_COMPILER = "there is no slow disk: there is no cc, or no pkg-config"


def run(
    *arguments: str | Path, timeout_s: float = 110, **environment: str
) -> subprocess.CompletedProcess[str]:
    return python(
        *arguments,
        cwd=sources.CHECKOUT,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        timeout=timeout_s,
    )


@pytest.mark.usefixtures("fuse")
def test_demo(tmp_path: Path) -> None:
    result = run("examples/demo.py", TMPDIR=str(tmp_path))
    assert (result.returncode, result.stderr) == (0, ""), result.stdout + result.stderr
    assert result.stdout.splitlines()[-1].startswith("All ")
    speeds = result.stdout.partition(" readers\n")[2].partition("\n\n")[0]
    # A busy machine may take longer than the demo waits.
    assert re.fullmatch(r"(   [a-z ]+[\d,]+\n?){3}|   not shown: it takes more than .*", speeds)
    assert list(tmp_path.iterdir()) == []  # neither data nor a mount is left behind


@pytest.mark.usefixtures("fuse")
@pytest.mark.timeout(300)
def test_demo_reads_from_a_slow_disk(tmp_path: Path) -> None:
    result = run("-c", SLOW_DEMO, tmp_path, "250", timeout_s=280)
    assert result.returncode == 0, result.stderr
    rates = json.loads(result.stdout)
    assert list(rates) == ["plain directory", "ffrfs", "ffrfs with hints"]
    assert min(rates.values()) > 0
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text(errors="surrogateescape")


@pytest.mark.parametrize(("path", "limit_s"), [("", 40), (os.environ["PATH"], 1)])
def test_demo_shows_no_speed_where_there_is_no_slow_disk(
    tmp_path: Path, path: str, limit_s: int
) -> None:
    """One has no compiler for the slow disk, the other too little time."""
    result = run("-c", SLOW_DEMO, tmp_path, str(limit_s), PATH=path)
    assert result.returncode == 0, result.stderr
    why = json.loads(result.stdout)["missing"]
    assert why == (f"it takes more than {limit_s} s on this machine" if path else NO_COMPILER)
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text(errors="surrogateescape")


@benchmarks
@pytest.mark.usefixtures("fuse")
def test_benchmarks_against_another_checkout(tmp_path: Path) -> None:
    """Here the other checkout is this one itself."""
    options = ("--quick", "--rounds", "1", "--dir", tmp_path)
    result = run("-m", "benchmarks.against", sources.CHECKOUT, *options)
    assert (result.returncode, result.stderr) == (0, ""), result.stdout + result.stderr
    header, *rows = result.stdout.splitlines()
    assert header.split()[:3] == ["other", "this", "ratio"]
    assert len(rows) == 20
    assert list(tmp_path.iterdir()) == []


def check_comparison(comparison: dict[str, Any]) -> None:
    samples, missing = comparison["samples"], comparison["missing"]
    assert all(value > 0 for values in samples.values() for value in values), comparison
    assert samples or missing
    assert not samples.keys() & missing.keys()
    assert all(missing.values())


# Each list takes about a minute by itself.
PARTS = (
    ["reading", "streaming", "packing", "mounting", "opening", "tfrecord"],
    ["prefetching", "epoch"],
    ["indexes", "reference", "remote", "cluster"],  # without a plot
)


def test_help_of_the_benchmarks_lists_every_part() -> None:
    text = " ".join(run("-m", "benchmarks", "--help").stdout.split())
    assert f"of {', '.join(chain(*PARTS))} options:" in text


@benchmarks
@pytest.mark.timeout(300)
@pytest.mark.parametrize("names", PARTS, ids=" ".join)
def test_benchmarks_measure_every_part(tmp_path: Path, names: list[str]) -> None:
    data, output = tmp_path / "data", tmp_path / "output"
    options = ("--quick", "--dir", data, "--output", output)
    result = run("-m", "benchmarks", *options, *names, timeout_s=280)
    assert result.returncode == 0, result.stderr
    document = json.loads((output / "results.json").read_text())
    parts = document["parts"]
    assert list(parts) == names
    runs = [part["run"] for part in parts.values()]
    assert all(run == runs[0] for run in runs)
    missing = runs[0]["missing"]
    assert missing.keys().isdisjoint(OURS if os.path.exists("/dev/fuse") else {FOLDER}), missing
    table = run("-m", "benchmarks", "--tables", "--output", output).stdout
    assert table in result.stdout
    for name, reason in missing.items():
        assert f"**{name} is missing**: {reason}." in table
    for findings in parts.values():
        for figure in findings["figures"]:
            assert figure["name"] in table
            if figure["value"] is None:
                assert figure["note"].startswith("not measured: ")
            elif not figure["name"].endswith("above an empty pack's"):  # a difference may be < 0
                assert figure["value"] > 0
        for comparison in findings["comparisons"]:
            check_comparison(comparison)
    can_plot = names != PARTS[-1] and importlib.util.find_spec("matplotlib")
    assert bool(list(output.glob("*.png"))) == bool(can_plot)
    assert list(data.iterdir()) == []
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text(errors="surrogateescape")


@benchmarks
def test_a_part_can_be_measured_again(tmp_path: Path) -> None:
    """The directory is given by a relative path."""
    data, output = os.path.relpath(tmp_path / "data", sources.CHECKOUT), tmp_path / "output"
    found = []
    for parts in (["reading", "opening"], ["opening"]):
        result = run("-m", "benchmarks", "--quick", "--dir", data, "--output", output, *parts)
        assert result.returncode == 0, result.stderr
        found.append(json.loads((output / "results.json").read_text())["parts"])
    before, after = found
    assert list(before) == list(after) == ["reading", "opening"]
    assert before["reading"] == after["reading"]
    assert before["opening"] != after["opening"]
    table = run("-m", "benchmarks", "--tables", "--output", output).stdout
    for part in after.values():
        assert all(figure["name"] in table for figure in part["figures"])
