"""The units of systemd/, as systemd itself judges them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ffrfs.mount.config.config import read_config
from ffrfs.mount.kernel.options import parse_words, split_options
from tests.checkout import CHECKOUT
from tests.unit import Unit

SYSTEMD = CHECKOUT / "systemd"
TOML = "--config=-/etc/ffrfs/data.toml"

# systemd.exec(5): with any of these, a service has a mount namespace of its own, and no other
# process sees its mounts.
NAMESPACES = {
    *("BindPaths", "BindReadOnlyPaths", "DynamicUser", "ExecPaths", "ExtensionDirectories"),
    *("ExtensionImages", "InaccessiblePaths", "LogNamespace", "MountAPIVFS", "MountFlags"),
    *("MountImages", "NoExecPaths", "PrivateDevices", "PrivateIPC", "PrivateMounts"),
    *("PrivateNetwork", "PrivateTmp", "PrivateUsers", "ProcSubset", "ProtectControlGroups"),
    *("ProtectHome", "ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables"),
    *("ProtectProc", "ProtectSystem", "ReadOnlyPaths", "ReadWritePaths", "RootDirectory"),
    *("RootImage", "TemporaryFileSystem"),
}
Analyze = Callable[..., subprocess.CompletedProcess[str]]  # systemd-analyze, with arguments

# In tenths; other versions of systemd count a little differently. Mounting needs the exposure that
# is left: root, mount(2), the machine's own tree.
EXPOSURE_MAX = 45


@pytest.fixture
def service(units: Path) -> Unit:
    return Unit.load(units / "ffrfs@.service", "data")


@pytest.mark.promise("S46")
@pytest.mark.parametrize("name", ["ffrfs@.service", "ffrfs@data.service", "ffrfs.target"])
def test_systemd_accepts_units(analyze: Analyze, units: Path, name: str) -> None:
    done = analyze("verify", "--man=no", "--recursive-errors=yes", units / name)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", ["mnt-data.mount", "mnt-data.automount"])
def test_systemd_accepts_examples(analyze: Analyze, examples: Path, name: str) -> None:
    done = analyze("verify", "--man=no", "--recursive-errors=yes", examples / name)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_systemd_reports_an_invalid_unit(analyze: Analyze, units: Path) -> None:
    unit = units / "ffrfs@.service"
    unit.write_text(unit.read_text().replace("KillMode=process", "KillMode=kindly"))
    done = analyze("verify", "--man=no", "--recursive-errors=yes", unit)
    assert done.returncode != 0
    assert "kill mode" in done.stderr


def test_security_exposure_is_below_the_limit(analyze: Analyze, units: Path) -> None:
    unit = units / "ffrfs@.service"
    done = analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", unit)
    assert done.returncode == 0, done.stdout


def test_the_unit_has_no_mount_namespace(service: Unit) -> None:
    assert not NAMESPACES & set(service.keys())
    # The unit's comment names them, so that nobody adds one.
    named = set(re.findall(r"\b([A-Z]\w+)=", (SYSTEMD / "ffrfs@.service").read_text()))
    assert {"ProtectSystem", "PrivateTmp", "PrivateDevices", "ProtectHome"} <= named


def test_syscall_filter_names_are_known_to_systemd(analyze: Analyze, service: Unit) -> None:
    known = set(analyze("syscall-filter").stdout.split())
    for value in service.values("SystemCallFilter"):
        assert set(value.removeprefix("~").split()) <= known


def test_commands(service: Unit) -> None:
    service.environment = {
        "PACKS": "'/srv/a b.ffr' /srv/c.ffr",
        "MOUNTPOINT": "/mnt/my data",
        "OPTIONS": "-o allow_other --cache-mb 64",
    }
    ffrfs = [sys.executable, "-P", "-m", "ffrfs"]
    assert service.commands("ExecStart") == [
        [
            *(*ffrfs, "mount", "-f", TOML, "-o", "allow_other", "--cache-mb", "64"),
            *("--", "/srv/a b.ffr", "/srv/c.ffr", "/mnt/my data"),
        ]
    ]
    assert service.commands("ExecStop") == [[*ffrfs, "umount", TOML, "--", "/mnt/my data"]]
    assert service.setting("EnvironmentFile") == "-/etc/ffrfs/data.conf"


def test_variables_are_empty_without_their_file(service: Unit) -> None:
    """The unit sets them empty, since systemd would warn of a variable that is not set at all."""
    words = service.values("Environment")[0].split()
    assignments = [word.partition("=") for word in words]
    service.environment = {name: value for name, _, value in assignments}
    assert service.environment == {"PACKS": "", "MOUNTPOINT": "", "OPTIONS": ""}
    (start,), (stop,) = service.commands("ExecStart"), service.commands("ExecStop")
    assert start[5:] == ["-f", TOML, "--", ""]
    assert stop[5:] == [TOML, "--", ""]


def test_example_of_a_configuration(examples: Path) -> None:
    config = read_config(str(examples / "example.toml"))
    assert (config.packs, config.mountpoint) == (("/srv/data.ffr",), "/mnt/data")
    assert parse_words(config.words).allow_other
    # The settings that are commented out there are valid.
    text = re.sub(r"^#(?=\w+ =)", "", (examples / "example.toml").read_text(), flags=re.MULTILINE)
    (examples / "whole.toml").write_text(text)
    whole = read_config(str(examples / "whole.toml"))
    assert set(whole.settings) == {"cache_bytes", "metrics_file"}


def test_example_of_a_mount_unit(examples: Path) -> None:
    mount = Unit.load(examples / "mnt-data.mount")
    options = parse_words(split_options([mount.setting("Options", "Mount")]))
    assert options.allow_other
    automount = Unit.load(examples / "mnt-data.automount")
    assert mount.setting("Where", "Mount") == automount.setting("Where", "Automount")


def test_example_in_a_comment_is_a_line_of_fstab(examples: Path) -> None:
    text = (examples / "mnt-data.mount").read_text()
    (line,) = re.findall(r"^# +(/srv.*)$", text, re.MULTILINE)
    spec, place, fstype, options, *_ = line.split()
    mount = Unit.load(examples / "mnt-data.mount")
    assert [spec, place, fstype, options] == [
        mount.setting(key, "Mount") for key in ("What", "Where", "Type", "Options")
    ]
