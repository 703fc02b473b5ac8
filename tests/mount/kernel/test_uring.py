"""Whether the kernel offers FUSE over io_uring: how a mount uses this, and reports it."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from ffrfs.mount.client.mount_statuses import mount_statuses
from ffrfs.mount.daemon.memory_limit import rings_bytes
from ffrfs.mount.engines.worker import PATH_VARIABLE
from ffrfs.mount.kernel import uring
from tests.checkout import CHECKOUT
from tests.mount import probes
from tests.mount.command import ffrfs, mount_command_fails, wait_until
from tests.mount.machine import Machine
from tests.mount.makers import MakeMount

MIB = 1 << 20
TREE = {"a": b"alpha", "d": {"b": b"beta"}}
ADVICE = ("Linux 6.14", "echo Y > /sys/module/fuse/parameters/enable_uring", "/etc/modprobe.d")
over_uring = pytest.mark.parametrize("engine", ["uring"], indirect=True)


# The kernel's files.


@pytest.mark.parametrize(
    ("text", "is_on"),
    [("Y\n", True), ("Y", True), ("N\n", False), ("", False), ("Yes\n", False), ("\xff", False)],
)
def test_kernel_parameter_that_enables_uring(tmp_path: Path, text: str, is_on: bool) -> None:
    parameter = tmp_path / "enable_uring"
    parameter.write_text(text, encoding="latin-1")
    assert uring.is_enabled(str(parameter)) == is_on


def test_kernel_without_the_switch(tmp_path: Path) -> None:
    assert not uring.is_enabled(str(tmp_path / "enable_uring"))


@pytest.mark.parametrize(
    ("text", "count"), [("0\n", 1), ("0-1\n", 2), ("0-127\n", 128), ("0,2-3,8-11\n", 7)]
)
def test_a_queue_for_each_possible_cpu(tmp_path: Path, text: str, count: int) -> None:
    possible = tmp_path / "possible"
    possible.write_text(text)
    assert uring.queue_count(str(possible)) == count


@pytest.mark.parametrize("text", ["", "\n", "x", "0-", "-1", "1,,2", "0-1-2", "9" * 30])
def test_invalid_list_of_cpus(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match="not a list of CPUs"):
        uring.count_cpus(text)
    possible = tmp_path / "possible"
    possible.write_text(text)
    assert uring.queue_count(str(possible)) >= 1  # as many as there are CPUs now


@pytest.mark.promise("S52")
@pytest.mark.parametrize("cpu_count", [1, 2, 128, 1024])
def test_memory_of_the_rings(cpu_count: int) -> None:
    assert rings_bytes(cpu_count, 256 * MIB) == 32 * MIB + cpu_count * 64 * 1024


# Mounts without io_uring.


@pytest.fixture
def switched_off(machine: Machine, places: Path) -> Machine:
    """A machine that shows a kernel without it, whatever this kernel offers."""
    if Path(uring.PARAMETER).exists():
        parameter = places / "enable_uring"
        parameter.write_text("N\n")
        machine.admin(f"mount --bind {parameter} {uring.PARAMETER}")
    return machine


@pytest.fixture
def public_pack(pack: Path, places: Path) -> Path:
    return Path(shutil.copy(pack, places / "pack.ffr"))


@pytest.mark.promise("S60", "S45")
@pytest.mark.parametrize("words", [["--transport", "uring"], ["-o", "transport=uring"]])
def test_uring_that_is_off_is_refused_with_advice(
    switched_off: Machine, public_pack: Path, places: Path, words: list[str]
) -> None:
    for how in ([], ["--check"]):
        done = switched_off.ffrfs("mount", *how, *words, public_pack, places / "mount")
        mount_command_fails(done, 32, "--transport uring", *ADVICE)
        assert not (places / "mount").exists()


@over_uring
@pytest.mark.promise("S60")
@pytest.mark.parametrize("transport", ["auto", "dev"])
def test_auto_and_dev_use_dev(mount: MakeMount, pack: Path, transport: str) -> None:
    tree = mount(pack, "--transport", transport)
    assert tree.ask(probes.read, "d/b") == b"beta"
    assert tree.statistics()["transport"] == "dev"
    assert "io_uring" not in tree.log()


@pytest.mark.promise("S60")
def test_pyfuse3_engine_refuses_uring(fuse: None, pack: Path, places: Path) -> None:
    for words in (["--transport", "uring"], ["-o", "transport=uring"]):
        done = ffrfs("mount", "--engine", "pyfuse3", *words, pack, places / "mount")
        mount_command_fails(done, 1, "uring", "needs the native engine")
    for transport in ("auto", "dev"):
        words = ["--engine", "pyfuse3", "--transport", transport, "--check"]
        assert ffrfs("mount", *words, pack, places / "mount").status == 0


def test_uring_without_the_native_engine(
    fuse: None, pack: Path, places: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PATH_VARIABLE, str(places / "absent"))
    done = ffrfs("mount", "--transport", "uring", pack, places / "mount")
    mount_command_fails(done, 32, "--transport uring", "was not built")


# Mounts with io_uring.


@over_uring
@pytest.mark.promise("S60")
def test_commands_show_uring(mount: MakeMount, pack: Path) -> None:
    tree = mount(pack)
    assert tree.ask(probes.read, "d/b") == b"beta"
    assert tree.statistics()["transport"] == "uring"
    assert tree.count_logged("transport uring")

    def transports() -> list[str | None]:
        return [one.transport for one in mount_statuses() if one.mountpoint == str(tree.path)]

    wait_until(lambda: transports() == ["uring"], "it has answered")
    assert re.search(r"^served by .*transport uring$", ffrfs("stats", tree.path).out, re.M)
    assert 'transport="uring"' in ffrfs("stats", "--prometheus", tree.path).out


@over_uring
@pytest.mark.promise("S60")
def test_uring_where_io_uring_is_forbidden(new_mount: MakeMount, pack: Path) -> None:
    """As in most containers, io_uring is forbidden, though the kernel offers it to FUSE."""
    tree = new_mount(pack)
    wrapping = [sys.executable, str(CHECKOUT / "tests/mount/without_call.py"), "io_uring_setup"]
    done = tree.mount("--transport", "uring", prefix=wrapping)
    mount_command_fails(done, 2, "cannot make a ring of io_uring: Function not implemented")
    assert not tree.path.exists()


@over_uring
@pytest.mark.promise("S52")
def test_memory_limit_too_small_for_uring_advises_dev(new_mount: MakeMount, pack: Path) -> None:
    mount_command_fails(new_mount(pack).mount("--max-memory", "16M"), 1, "--transport dev")
