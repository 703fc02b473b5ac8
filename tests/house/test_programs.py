"""The demo and the benchmarks run."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import uring_switch
from tests.house import sources

SLOW_DEMO = """
import sys
from benchmarks import slow_demo
slow_demo.LIMIT_S = int(sys.argv[2])
slow_demo.main(sys.argv[1])
"""
NO_COMPILER = "there is no slow disk: there is no cc, or no pkg-config"


def run(
    *arguments: str | Path, timeout_s: float = 110, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=sources.CHECKOUT,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
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
    """No compiler; no time."""
    result = run("-c", SLOW_DEMO, tmp_path, str(limit_s), PATH=path)
    assert result.returncode == 0, result.stderr
    why = json.loads(result.stdout)["missing"]
    assert why == (f"it takes more than {limit_s} s on this machine" if path else NO_COMPILER)
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text(errors="surrogateescape")


@pytest.mark.usefixtures("fuse")
def test_benchmarks_against_another_checkout(tmp_path: Path) -> None:
    """Itself, here."""
    options = ("--quick", "--rounds", "1", "--dir", tmp_path)
    result = run("-m", "benchmarks.against", sources.CHECKOUT, *options)
    assert (result.returncode, result.stderr) == (0, ""), result.stdout + result.stderr
    header, *rows = result.stdout.splitlines()
    assert header.split()[:3] == ["other", "this", "ratio"]
    assert len(rows) == 20
    assert list(tmp_path.iterdir()) == []


def able_contenders() -> set[str]:
    """Whom this machine lets take part in the benchmarks, by what is there."""
    able = {"plain directory"}
    if not os.path.exists("/dev/fuse"):
        return able
    able |= {"ffrfs with pyfuse3", "ffrfs"}
    if uring_switch.why_not() is None:
        able.add("ffrfs over io_uring")
    if shutil.which("squashfuse_ll") and shutil.which("mksquashfs"):
        able.add("squashfuse_ll")
    if (sources.CHECKOUT / "build" / "ratarmount" / "bin" / "ratarmount").exists():
        able.add("ratarmount")
    if kernel_mounts("erofs", "mkfs.erofs"):
        able.add("EROFS")
    if kernel_mounts("squashfs", "mksquashfs"):
        able.add("squashfs")
    return able


def kernel_mounts(kind: str, packer: str) -> bool:
    kernel_can = f"\t{kind}\n" in Path("/proc/filesystems").read_text()
    has_loop = os.path.exists("/dev/loop-control")
    return os.geteuid() == 0 and kernel_can and has_loop and shutil.which(packer) is not None


def able_on_a_slow_disk(able: set[str]) -> set[str]:
    """Who takes part in the part `prefetching`, where hints are given and a disk is mounted."""
    if not os.path.exists("/dev/fuse") or not shutil.which("cc"):
        return set()
    ours = {"ffrfs", "ffrfs with hints", "AIO batches"}
    if kernel_mounts("ext4", "mkfs.ext4"):
        ours.add("plain directory")
    return ours | able & {"EROFS", "squashfs", "squashfuse_ll", "ratarmount"}


def check_comparison(comparison: dict[str, Any]) -> None:
    samples, missing = comparison["samples"], comparison["missing"]
    assert all(value > 0 for values in samples.values() for value in values), comparison
    assert not samples.keys() & missing.keys()
    assert all(missing.values())


def check_contenders(comparison: dict[str, Any], everyone: set[str], absent: set[str]) -> None:
    samples, missing = comparison["samples"], comparison["missing"]
    assert samples
    if comparison["name"] not in ("packing", "packed size"):
        assert samples.keys() | missing.keys() == everyone
        assert absent <= missing.keys()


def check_prefetching(comparisons: list[dict[str, Any]], able: set[str]) -> None:
    samples = {comparison["name"]: comparison["samples"] for comparison in comparisons}
    assert set(samples["shuffled, 4 readers"]) == able
    hinted = able & {"ffrfs with hints"}
    assert set(samples["record order, 1 reader"]) == able - hinted - {
        *("AIO batches", "plain directory", "ratarmount")
    }
    assert set(samples["the same: files without a READ, at least"]) == hinted
    loaders = able & {"ffrfs", "ffrfs with hints"}
    assert set(samples["torch DataLoader, 4 workers"]) == (
        loaders if importlib.util.find_spec("torch") else set()
    )


def check_indexes(comparisons: list[dict[str, Any]], able: set[str]) -> None:
    samples = {comparison["name"]: comparison["samples"] for comparison in comparisons}
    assert set(samples["packing"]) == {"ffrfs pack", "tar cf"}
    assert set(samples["find -size +0, first"]) == able & {"ffrfs", "squashfuse_ll"}


def check_reference(comparisons: list[dict[str, Any]]) -> None:
    """Each row has its time and its CPU, of ffrecord too if that is installed."""
    installed = (sources.CHECKOUT / "build" / "ffrecord" / "ffrecord").exists()
    libraries = {"ffrfs"} | ({"ffrecord"} if installed else set())
    for comparison in comparisons:
        assert set(comparison["samples"]) == libraries
    names = {comparison["name"] for comparison in comparisons}
    rows = {name for name in names if not name.endswith(": CPU")}
    assert names - rows == {f"{name}: CPU" for name in rows}
    assert {"written until close", "read in order, batches of 64"} < rows
    assert any(name.startswith("DataLoader") for name in rows) == bool(
        importlib.util.find_spec("torch")
    )


def check_remote(comparisons: list[dict[str, Any]], able: set[str]) -> None:
    samples = {comparison["name"]: comparison["samples"] for comparison in comparisons}
    ours = {"ffrfs", "ffrfs with hints", "ffrfs with hints, local disk"}
    assert set(samples["nginx, first epoch"]) == (ours if "ffrfs" in able else set())


@pytest.mark.timeout(300)
def test_benchmarks_measure_every_part(tmp_path: Path) -> None:
    data, output = tmp_path / "data", tmp_path / "output"
    options = ("--quick", "--dir", data, "--output", output)
    result = run("-m", "benchmarks", *options, timeout_s=280)
    assert result.returncode == 0, result.stderr
    document = json.loads((output / "results.json").read_text())
    parts = document["parts"]
    assert set(parts) == {
        *("reading", "packing", "mounting", "streaming", "opening", "tfrecord"),
        *("prefetching", "epoch", "indexes", "reference", "remote", "cluster"),
    }
    runs = [part["run"] for part in parts.values()]
    assert all(run == runs[0] for run in runs)
    missing = runs[0]["missing"]
    able = able_contenders()
    assert not able & missing.keys(), missing
    table = run("-m", "benchmarks", "--tables", "--output", output).stdout
    assert table in result.stdout
    for name, reason in missing.items():
        assert f"**{name} is missing**: {reason}." in table
    for name, findings in parts.items():
        for figure in findings["figures"]:
            assert figure["name"] in table
            if figure["value"] is None:
                assert figure["note"].startswith("not measured: ")
            elif not figure["name"].endswith("above an empty pack's"):  # a difference
                assert figure["value"] > 0
        for comparison in findings["comparisons"]:
            check_comparison(comparison)
            if name not in ("prefetching", "epoch", "indexes", "reference", "remote"):
                alone = {"unverified server"} if name == "streaming" else set()
                check_contenders(comparison, able | missing.keys() | alone, set(missing))
    check_prefetching(parts["prefetching"]["comparisons"], able_on_a_slow_disk(able))
    check_indexes(parts["indexes"]["comparisons"], able)
    check_reference(parts["reference"]["comparisons"])
    check_remote(parts["remote"]["comparisons"], able)
    names = {comparison["name"] for comparison in parts["streaming"]["comparisons"]}
    assert {"first read, cached", "later read, cached", "again"} <= names
    epochs = [each["samples"] for each in parts["epoch"]["comparisons"]]
    assert epochs
    assert all("ffrfs" in each or "ffrfs, warmed" in each for each in epochs)
    assert bool(list(output.glob("*.png"))) == bool(importlib.util.find_spec("matplotlib"))
    assert list(data.iterdir()) == []
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text(errors="surrogateescape")


def test_a_part_is_measured_again(tmp_path: Path) -> None:
    data, output = tmp_path / "data", tmp_path / "output"
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
