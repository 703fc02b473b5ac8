""".ci/system-packages: finds what is missing, installs only that, or says what to install."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house import sources

SCRIPT = sources.CHECKOUT / ".ci" / "system-packages"
ROOT, USER = "echo 0", "echo 1000"
FOR_TESTS = ["doctest-dev", "mount", "strace", "nginx-light"]
FOR_CHECKS = ["systemd", "shellcheck", "prometheus", "mandoc", "man-db", "zsh", "fish"]
FOR_CHECKS += ["openmpi-bin", "chromium"]


class Machine:
    """A PATH with Python and no compiler, and with programs that log how they are called."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.log = folder / "log"
        self.program("env", 'shift; exec "$@"')
        self.program("python3", f'exec "{sys.executable}" "$@"')

    def program(self, name: str, body: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def noted_program(self, name: str, body: str = "exit 0") -> None:
        self.program(name, f'echo "{name} $*" >> "{self.log}"\n{body}')

    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def run(self, *purposes: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", str(SCRIPT), *purposes],
            env={"PATH": str(self.bin), "SBIN": str(self.bin)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_user_without_sudo_gets_the_install_command(machine: Machine) -> None:
    machine.program("id", USER)
    machine.noted_program("apt-get")
    result = machine.run(
        "build", "test", "service", "clusters", "view", "fuzz", "bench", "packages"
    )
    assert result.returncode == 1
    command = result.stderr.splitlines()[-1].split()
    assert command[:3] == ["apt-get", "update", "&&"]
    wanted = {"g++", "gcc", "pkg-config", "libfuse3-dev", "fuse3", "libaio-dev", "libisal-dev"}
    wanted |= {"libssl-dev", "squashfuse", "squashfs-tools", "erofs-utils", "e2fsprogs"}
    wanted |= {"clang", "libclang-rt-dev", "lld", "mmdebstrap", *FOR_TESTS, *FOR_CHECKS}
    assert wanted <= set(command)
    assert machine.calls() == []


def test_installed_packages_are_not_requested(machine: Machine) -> None:
    machine.program("id", USER)
    for name in ("g++", "gcc", "pkg-config", "squashfuse_ll"):  # they always succeed
        machine.program(name, "exit 0")
    result = machine.run("build", "bench")
    assert result.stderr.splitlines()[-1].split()[5:] == [
        "fuse3",
        "squashfs-tools",
        "e2fsprogs",
        "erofs-utils",
        "s3fs",
    ]


def test_clang_without_its_runtime_is_not_enough(machine: Machine) -> None:
    machine.program("id", USER)
    machine.program("clang++", "exit 1")
    result = machine.run("fuzz")
    assert result.stderr.splitlines()[-1].split()[5:] == ["libclang-rt-dev", "lld"]


def test_root_installs_without_update_if_lists_exist(machine: Machine) -> None:
    machine.program("id", ROOT)
    machine.program("ls", "exit 0")
    machine.noted_program("apt-get")
    assert machine.run("test").returncode == 0
    assert machine.calls() == [
        f"apt-get install --yes --no-install-recommends {' '.join(FOR_TESTS)}"
    ]


def test_missing_lists_are_fetched_first(machine: Machine) -> None:
    machine.program("id", ROOT)
    machine.program("ls", "exit 1")
    machine.noted_program("apt-get")
    assert machine.run("test").returncode == 0
    assert [call.split()[1] for call in machine.calls()] == ["update", "install"]


def test_stale_lists_are_fetched_again(machine: Machine) -> None:
    machine.program("id", ROOT)
    machine.program("ls", "exit 0")
    machine.noted_program("apt-get", f'[ "$(/usr/bin/wc -l < "{machine.log}")" != 1 ]')
    assert machine.run("test").returncode == 0
    assert [call.split()[1] for call in machine.calls()] == ["install", "update", "install"]


def test_sudo_that_needs_no_password_is_used(machine: Machine) -> None:
    machine.program("id", USER)
    machine.program("ls", "exit 0")
    machine.noted_program("sudo", '[ "$1" = -n ] || exec "$@"')
    machine.noted_program("apt-get")
    assert machine.run("test").returncode == 0
    assert machine.calls()[0] == "sudo -n true"
    assert machine.calls()[-1].startswith("apt-get install")


def test_old_python_is_refused(machine: Machine) -> None:
    machine.program("python3", "case $1 in --version) echo Python 3.9.2 ;; *) exit 1 ;; esac")
    result = machine.run("build")
    assert result.returncode == 1
    assert "needs Python 3.11 or newer; python3 is Python 3.9.2" in result.stderr


def test_unknown_purpose_is_a_usage_error(machine: Machine) -> None:
    assert machine.run("fly").returncode == 2


def test_script_is_executable() -> None:
    assert os.access(SCRIPT, os.X_OK)
