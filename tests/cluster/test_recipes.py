"""The recipes of docs/cluster: Slurm, Apptainer, Kubernetes, Ansible.

The tests run their files, with other paths, in namespaces like those of a node, a container or a
pod: no scheduler, container runtime or cluster is here. Not here: the proxy (test_proxy.py).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ffrfs import pack_folder
from ffrfs.cli.main import main, make_parser
from ffrfs.mount.config.config import read_config
from ffrfs.mount.daemon.pressure import WATCH_VARIABLE
from ffrfs.mount.kernel.options import parse_words
from tests.checkout import CHECKOUT
from tests.mount.command import kill_group, wait_until
from tests.mount.pid_one import SYSTEMD, UNIT_FOLDER, new_pid_one
from tests.own_mounts import with_own_mounts
from tests.remote.servers.nginx import Nginx, nginx
from tests.service.programs import needed

RECIPES = CHECKOUT / "docs" / "cluster"
TREE = {f"train/{number}": bytes([number]) * 40_000 for number in range(60)}
TIMEOUT_S = 60
ROOT, NOBODY = 0, 65534

# $1: a folder of the test; $2: Python's folder. The rest of the machine stays as it is.
_BEGIN = """set -e
mount -t tmpfs -o mode=755 run /run
# Opened to all, as most systems have it.
mknod -m 666 "$1/fuse" c 10 229
mount --bind "$1/fuse" /dev/fuse
# Python may be where only root can reach it.
mkdir "$1/python"
mount --rbind "$2" "$1/python"
if [ "${2#/root/}" != "$2" ]; then
  mount -t tmpfs -o mode=755 root /root
  mkdir -p "$2"
  mount --rbind "$1/python" "$2"
fi
echo ready
exec sleep 600
"""


class Done(NamedTuple):
    status: int
    out: str


class Node:
    """A machine, as far as namespaces can imitate one: everything in it ends with close()."""

    def __init__(self, place: Path) -> None:
        self.place = place
        # A user's daemons have their state here.
        self.user = {"HOME": str(place), "TMPDIR": str(place), "XDG_RUNTIME_DIR": f"{place}/user"}
        (place / "user").mkdir(mode=0o700)
        os.chown(place / "user", NOBODY, NOBODY)
        self._process = subprocess.Popen(
            with_own_mounts(
                *("sh", "-c", _BEGIN, "sh", str(place), sys.base_prefix),
                options=("--pid", "--mount-proc", "--fork", "--kill-child"),
            ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def enter(
        self, *command: str | Path, user_id: int = ROOT, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        user = ("setpriv", f"--reuid={user_id}", f"--regid={user_id}", "--clear-groups")
        return subprocess.Popen(
            [
                *("nsenter", "--target", str(_only_child(self._process.pid))),
                *("--mount", "--pid", "--"),
                *(user if user_id else ()),
                *map(str, command),
            ],
            env={"PATH": f"{self.place}/bin:/usr/sbin:/usr/bin:/sbin:/bin", **(env or {})},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *command: str | Path, **more: Any) -> Done:
        return _done(self.enter(*command, **more))

    def pid_of(self, container: subprocess.Popen[str]) -> int:
        """Return the id, as the node counts, of the first process of a container of enter()."""
        ours = os.readlink(f"/proc/{_only_child(self._process.pid)}/ns/mnt")
        # nsenter forks, and then unshare makes the namespace.
        children = Path(f"/proc/{container.pid}/task/{container.pid}/children")
        wait_until(children.read_text, "the container begins")
        process = Path(f"/proc/{_only_child(container.pid)}")
        wait_until(lambda: os.readlink(process / "ns/mnt") != ours, "it has its namespace")
        (pid,) = re.findall(r"^NSpid:.*\s(\d+)$", (process / "status").read_text(), re.MULTILINE)
        return int(pid)

    def mounts(self) -> list[str]:
        """Return the mount points of ffrfs in the node."""
        pid = _only_child(self._process.pid)
        rows = Path(f"/proc/{pid}/mountinfo").read_text(errors="surrogateescape").splitlines()
        return [row.split()[4] for row in rows if " - fuse.ffrfs " in row]

    def close(self) -> None:
        self._process.kill()  # --kill-child then kills all others
        self._process.communicate(timeout=TIMEOUT_S)


def _only_child(pid: int) -> int:
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


def _done(process: subprocess.Popen[str]) -> Done:
    try:
        out, _ = process.communicate(timeout=TIMEOUT_S)
    finally:
        if process.poll() is None:
            kill_group(process)
    return Done(process.returncode, out)


def replaced(path: Path, words: Mapping[str, object]) -> str:
    """Return a recipe with the paths of this test; it must have each word to be replaced."""
    text = path.read_text()
    for old, new in words.items():
        assert old in text, old
        text = text.replace(old, str(new))
    return text


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that all users reach, unlike pytest's own, with `bin/ffrfs` and a set, `web/set`."""
    if os.geteuid() != 0:
        pytest.skip("only root can have namespaces of its own without a user namespace")
    with tempfile.TemporaryDirectory(prefix="ffrfs-cluster-") as name:
        place = Path(name)
        place.chmod(0o777)
        for folder in ("bin", "web", "source/train"):
            (place / folder).mkdir(parents=True)
        program = place / "bin" / "ffrfs"
        words = shlex.join([f"PYTHONPATH={CHECKOUT}", sys.executable, "-m", "ffrfs"])
        # The recipes pass no variables of our environment to the programs that they start.
        program.write_text(f'#!/bin/sh\n{WATCH_VARIABLE}=/dev/null exec env {words} "$@"\n')
        program.chmod(0o755)
        for path, content in TREE.items():
            (place / "source" / path).write_bytes(content)
        pack_folder(place / "source", place / "web" / "set", shards=2)
        yield place


@pytest.fixture
def node(place: Path, fuse: None) -> Iterator[Node]:
    node = Node(place)
    try:
        yield node
    finally:
        node.close()


def digest_of(folder: str | Path) -> str:
    """Return a shell command that prints the digest of the tree there, as in EXPECTED."""
    return f"cd {folder} && cat {' '.join(TREE)} | sha256sum"


EXPECTED = hashlib.sha256(b"".join(TREE.values())).hexdigest() + "  -\n"


def check_arguments(words: Sequence[str]) -> None:
    """Check that ffrfs takes the command line."""
    assert words[0] == "ffrfs"
    make_parser().parse_args(words[1:])


@pytest.mark.parametrize("path", sorted(RECIPES.rglob("*.sh")), ids=lambda path: path.name)
def test_shellcheck_finds_nothing(path: Path) -> None:
    program = shutil.which("shellcheck")
    if program is None:
        pytest.skip("there is no shellcheck here (apt-get install shellcheck)")
    done = subprocess.run([program, path], capture_output=True, timeout=TIMEOUT_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


KILL_FOR_GOOD = """
kill -STOP "$1"
for child in $(cat "/proc/$1/task/$1/children"); do
  if grep -qx ffrfs-guardian "/proc/$child/comm"; then kill -KILL "$child"; fi
done
kill -KILL "$1"
"""


class Slurm:
    """Does on a node what slurmd and slurmctld do for the jobs of one user."""

    def __init__(self, node: Node, user_id: int) -> None:
        self.node, self.user_id, self._place = node, user_id, node.place
        self.mountpoint = f"{self._place}/mnt/{user_id}/imagenet"
        self.references = self._place / "references" / str(user_id)
        self._user = {"XDG_RUNTIME_DIR": f"{self.references}/run"}
        common = {
            "/opt/ffrfs/bin/ffrfs": self._place / "bin/ffrfs",
            "=/mnt/ffrfs": f"={self._place}/mnt",
            "=/run/ffrfs-slurm": f"={self._place}/references",
        }
        own = {
            "data_sets=/etc/ffrfs/slurm": f"data_sets={self._place}/etc",
            "cache_group=ffrfs": "cache_group=root",
        }
        self.write("prolog.sh", common | own)
        self.write("epilog.sh", common)
        cache = self._place / "cache"
        cache.mkdir()
        cache.chmod(0o2770)
        (self._place / "etc").mkdir()
        words = {"s3://bucket/imagenet/": f"{self._place}/web/set", "/nvme/ffrfs": cache}
        self.write("imagenet.toml", words, "etc/imagenet.toml")
        (self._place / "etc/absent.toml").write_text('packs = ["/absent.ffr"]')

    def write(self, name: str, words: Mapping[str, object], target: str = "") -> None:
        path = self._place / (target or name)
        path.write_text(replaced(RECIPES / "slurm" / name, words))
        path.chmod(0o755)

    def start(self, program: str, job: int, comment: str = "") -> subprocess.Popen[str]:
        environment = {
            "SLURM_JOB_ID": str(job),
            "SLURM_JOB_UID": str(self.user_id),
            "SLURM_JOB_COMMENT": comment or "a word, ffrfs:imagenet",
        }
        # slurmd sets no PATH.
        words = (f"{name}={value}" for name, value in environment.items())
        return self.node.enter("/usr/bin/env", "-i", *words, self._place / program)

    def run(self, program: str, job: int, comment: str = "") -> int:
        return _done(self.start(program, job, comment)).status

    def as_user(self, *command: str) -> Done:
        return self.node.run(*command, user_id=self.user_id, env=self._user)

    def is_read(self) -> bool:
        return self.as_user("sh", "-c", digest_of(self.mountpoint)) == (0, EXPECTED)

    def kill_daemon(self) -> None:
        """Kill the daemon, and its guardian, which would replace it; the user has other mounts."""
        found = json.loads(self.as_user("ffrfs", "ps", "--json").out)
        (mount,) = (one for one in found if one["mountpoint"] == str(self.mountpoint))
        assert self.node.run("sh", "-ec", KILL_FOR_GOOD, "sh", str(mount["pid"])).status == 0
        dead = ("ffrfs", "check", self.mountpoint)
        wait_until(lambda: self.as_user(*dead).status == 2, "the mount is dead")


@pytest.fixture(params=[ROOT, NOBODY], ids=["root's", "a user's"])
def slurm(node: Node, request: pytest.FixtureRequest) -> Slurm:
    if request.param and node.run("ffrfs", "--version", user_id=request.param).status != 0:
        pytest.skip("an ordinary user cannot run this Python")
    return Slurm(node, request.param)


def test_slurm_jobs_share_a_mount(slurm: Slurm) -> None:
    """Two start at a time, one again after a failure, and one after the daemon was killed."""
    at_once = [slurm.start("prolog.sh", job) for job in (1, 2)]
    assert [_done(process).status for process in at_once] == [0, 0]
    assert slurm.run("prolog.sh", 1) == 0
    assert slurm.node.mounts() == [slurm.mountpoint]
    assert slurm.is_read()

    assert slurm.run("epilog.sh", 1) == 0
    assert slurm.node.mounts() == [slurm.mountpoint]
    slurm.kill_daemon()
    assert slurm.run("prolog.sh", 3) == 0
    assert slurm.node.mounts() == [slurm.mountpoint]
    assert slurm.is_read()

    assert slurm.run("epilog.sh", 2) == 0
    slurm.kill_daemon()
    assert slurm.run("epilog.sh", 3) == 0
    assert slurm.run("epilog.sh", 3) == 0
    assert slurm.node.mounts() == []
    assert not os.path.lexists(slurm.mountpoint)
    assert not list(slurm.references.glob("*/jobs/*"))


@pytest.mark.parametrize("slurm", [ROOT], indirect=True)
def test_slurm_drains_a_node_only_for_its_own_faults(slurm: Slurm) -> None:
    # A set whose pack is absent, a set without a file, a path, and empty names.
    assert slurm.run("prolog.sh", 1, "ffrfs:absent ffrfs:none ffrfs:../etc/imagenet ffrfs: *") == 0
    for name, why in {"absent": "/absent.ffr", "none": "none.toml"}.items():
        assert why in (slurm.references / name / "message").read_text()
    assert {path.name for path in slurm.references.iterdir()} == {"absent", "none", "run"}
    assert slurm.run("epilog.sh", 1) == 0
    assert slurm.run("epilog.sh", 2) == 0  # a job that has named nothing
    program = slurm.node.place / "bin/ffrfs"
    program.rename(program.with_name("elsewhere"))
    assert slurm.run("prolog.sh", 3) == 1
    # A mount that was made before is removed, also without ffrfs.
    program.with_name("elsewhere").rename(program)
    assert slurm.run("prolog.sh", 4) == 0
    program.unlink()
    assert [slurm.run("epilog.sh", job) for job in (3, 4)] == [0, 0]
    assert slurm.node.mounts() == []


@pytest.mark.parametrize("slurm", [NOBODY], indirect=True)
def test_slurm_job(slurm: Slurm) -> None:
    """The script of a job runs, with an srun that runs its command once, here."""
    place = slurm.node.place
    order, state = place / "order.txt", place / "references"
    words = {"=/mnt/ffrfs": f"={place}/mnt", "/run/ffrfs-slurm": state, "order.txt": order}
    slurm.write("job.sh", words)
    order.write_text("".join(f"{path}\n" for path in TREE))
    for name, text in {
        "srun": 'while [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"\n',
        "python": f'[ "$1 $2" = "train.py --data" ] || exit 9\n{digest_of("$3")}\n',
    }.items():
        (place / "bin" / name).write_text(f"#!/bin/sh\n{text}")
        (place / "bin" / name).chmod(0o755)
    assert slurm.run("prolog.sh", 1) == 0
    done = slurm.as_user(str(place / "job.sh"))
    assert done.status == 0, done.out
    assert done.out.endswith(EXPECTED)
    assert f"\nOK {slurm.mountpoint}: live" in f"\n{done.out}"  # a busy node may need two tries
    assert slurm.run("epilog.sh", 1) == 0
    slurm.write("job.sh", words | {"timeout 30": "timeout 15", "sleep 1;": "sleep 14;"})
    done = slurm.as_user(str(place / "job.sh"))
    assert done.status == 1, done.out
    assert "not mounted" in done.out


# Apptainer gives this with --fakeroot: root in a user namespace, and mounts of its own.
FAKEROOT = ("unshare", "--user", "--map-root-user", "--mount")


@pytest.fixture
def in_container(node: Node) -> Callable[..., Done]:
    """Runs a command of an ordinary user in a container."""
    if node.run("ffrfs", "--version", user_id=NOBODY).status != 0:
        pytest.skip("an ordinary user cannot run this Python")
    if node.run(*FAKEROOT, "true", user_id=NOBODY).status != 0:
        pytest.skip("an ordinary user may not make a user namespace here")
    return lambda *words, **more: node.run(*FAKEROOT, *words, user_id=NOBODY, env=node.user, **more)


def test_apptainer_mount_inside(node: Node, in_container: Callable[..., Done]) -> None:
    place = node.place
    with_mount = (RECIPES / "apptainer" / "with-mount.sh", place / "web/set", place / "mnt")
    done = in_container(*with_mount, "sh", "-c", f"{digest_of(place / 'mnt')}; exit 7")
    assert done == (7, EXPECTED)
    # A command that is killed takes its mount with it.
    done = in_container(*with_mount, "sh", "-c", "kill -KILL $$")
    assert done.status != 0
    wait_until(lambda: "while-open" not in node.run("ps", "axww").out, "the daemons have ended")
    done = in_container(with_mount[0], place / "none.ffr", place / "mnt", "echo", "run")
    assert done.status == 1
    assert "none.ffr" in done.out
    assert "run" not in done.out


@pytest.mark.parametrize("user_id", [ROOT, NOBODY], ids=["root's", "the user's own"])
def test_apptainer_bind(node: Node, in_container: Callable[..., Done], user_id: int) -> None:
    """A mount of the host, seen by a container through --bind."""
    place = node.place
    inside = place / "inside"
    inside.mkdir()
    words = ("-o", "allow_other") if user_id == ROOT else ()
    mount = ("ffrfs", "mount", *words, place / "web/set", place / "mnt")
    done = node.run(*mount, user_id=user_id, env=node.user if user_id else {})
    assert done.status == 0, done.out
    bind = f"mount --rbind {place}/mnt {inside} && {digest_of(inside)}"
    assert in_container("sh", "-c", bind) == (0, EXPECTED)
    assert node.run("umount", place / "mnt").status == 0


@pytest.fixture
def server(place: Path) -> Iterator[Nginx]:
    with nginx(place / "web") as server:
        yield server


def manifests(words: Mapping[str, object]) -> dict[str, dict[str, Any]]:
    """Return the manifests by kind; the file has one of each kind."""
    yaml = pytest.importorskip("yaml")
    text = replaced(RECIPES / "kubernetes" / "daemonset.yaml", words)
    found = list(yaml.safe_load_all(text))
    kinds = {each["kind"]: each for each in found}
    assert len(kinds) == len(found)
    return kinds


def commands_of(container: Mapping[str, Any]) -> Iterator[list[str]]:
    yield container["command"]
    hooks = container.get("lifecycle", {}).values()
    probes = (container[name] for name in container if name.endswith("Probe"))
    for each in (*hooks, *probes):
        yield each["exec"]["command"]


def test_kubernetes_manifests_are_consistent() -> None:
    kinds = manifests({})
    daemon_set, pod = kinds["DaemonSet"]["spec"], kinds["Pod"]["spec"]
    labels = daemon_set["template"]["metadata"]["labels"]
    assert daemon_set["selector"]["matchLabels"] == labels
    assert (
        daemon_set["template"]["spec"]["serviceAccountName"]
        == (kinds["ServiceAccount"]["metadata"]["name"])
    )
    (container,) = daemon_set["template"]["spec"]["containers"]
    assert container["securityContext"]["privileged"]
    for spec, propagation in (
        (daemon_set["template"]["spec"], "Bidirectional"),
        (pod, "HostToContainer"),
    ):
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        for each in [*spec["containers"], *spec.get("initContainers", [])]:
            mounts = {mount["name"]: mount for mount in each["volumeMounts"]}
            assert mounts.keys() == volumes.keys()
            found = {mount.get("mountPropagation") for mount in mounts.values()}
            assert propagation in found
    for command in commands_of(container):
        words = shlex.split(command[2].partition("||")[0]) if command[0] == "sh" else command
        check_arguments(words)
    assert [*commands_of(container)][1][1] == "umount"


def test_kubernetes_settings_are_those_of_the_daemon_set(tmp_path: Path) -> None:
    kinds = manifests({})
    ((name, text),) = kinds["ConfigMap"]["data"].items()
    (tmp_path / name).write_text(text)
    config = read_config(str(tmp_path / name))
    assert parse_words(config.words).allow_other
    (container,) = kinds["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    paths = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert container["command"][-1] == f"{paths['config']}/{name}"
    assert os.path.dirname(str(config.mountpoint)) == paths["mounts"]
    assert config.settings["cache_dir"] == paths["cache"]


# A container gets mounts from the node, and if it is "unchanged", not "slave", gives its own back.
def container_of(propagation: str, command: Sequence[str]) -> list[str]:
    begin = 'mount -t tmpfs -o mode=755 run /run && exec "$@"'
    enter = ("unshare", "--mount", "--propagation", propagation)
    return [*enter, "sh", "-c", begin, "sh", *command]


def test_kubernetes_pods_see_mounts_of_other_pods(node: Node, server: Nginx, place: Path) -> None:
    """The mount comes, dies with its container, comes again with the next one, and is unmounted."""
    names = {name: place / name for name in ("mounts", "cache", "etc")}
    for path in names.values():
        path.mkdir()
    words = {
        "s3://bucket/imagenet/": f"{server.url}/set/",
        "/var/lib/ffrfs": names["mounts"],
        "/var/cache/ffrfs": names["cache"],
        "/etc/ffrfs": names["etc"],
        "/data": names["mounts"],
    }
    kinds = manifests(words)
    (container,) = kinds["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    ((name, text),) = kinds["ConfigMap"]["data"].items()
    (names["etc"] / name).write_text(text)
    # kubelet does this for the directory of a hostPath.
    share = f"mount --bind {names['mounts']} {names['mounts']}"
    assert node.run("sh", "-c", f"{share} && mount --make-rshared {names['mounts']}").status == 0

    def inside(container: subprocess.Popen[str], command: Sequence[str]) -> Done:
        return node.run("nsenter", f"--target={node.pid_of(container)}", "--mount", *command)

    # The pod is there before the mount. Its init container waits.
    wait = kinds["Pod"]["spec"]["initContainers"][0]["command"]
    reader = node.enter(*container_of("slave", ["sh", "-c", f"{shlex.join(wait)}; exec sleep 600"]))
    read = ["sh", "-c", digest_of(names["mounts"] / "imagenet")]
    startup = container["startupProbe"]["exec"]["command"]
    umount = container["lifecycle"]["preStop"]["exec"]["command"]

    def start() -> subprocess.Popen[str]:
        daemon = node.enter(*container_of("unchanged", container["command"]))
        wait_until(lambda: inside(daemon, startup).status == 0, "the mount is ready")
        wait_until(lambda: inside(reader, read) == (0, EXPECTED), "the pod sees it")
        assert node.mounts() == [f"{names['mounts']}/imagenet"]
        return daemon

    daemon = start()
    os.kill(_only_child(daemon.pid), signal.SIGKILL)
    assert _done(daemon).status != 0
    assert node.mounts() == [f"{names['mounts']}/imagenet"]  # the dead mount
    daemon = start()
    assert inside(daemon, umount).status == 0
    assert _done(daemon).status == 0
    assert node.mounts() == []
    assert inside(reader, read) != (0, EXPECTED)
    kill_group(reader)


class Rendered(NamedTuple):
    data_sets: list[dict[str, Any]]
    template: Callable[[str, Mapping[str, Any]], str]


@pytest.fixture
def ansible() -> Rendered:
    """The data sets of the playbook, and a function that renders its templates."""
    yaml = pytest.importorskip("yaml")
    jinja2 = pytest.importorskip("jinja2")
    (play,) = yaml.safe_load((RECIPES / "ansible" / "playbook.yml").read_text())
    environment = jinja2.Environment(trim_blocks=True, undefined=jinja2.StrictUndefined)
    environment.filters["to_json"] = json.dumps

    def template(name: str, item: Mapping[str, Any]) -> str:
        text = (RECIPES / "ansible" / "templates" / name).read_text()
        known = play["vars"] | {"ansible_managed": "by a test", "item": item}
        rendered: str = environment.from_string(text).render(known)
        return rendered

    for task in play["tasks"]:
        if "ansible.builtin.template" in task:
            assert (
                RECIPES / "ansible/templates" / task["ansible.builtin.template"]["src"]
            ).exists()
        line = task.get("ansible.builtin.command", "")
        if "bin/ffrfs " in line:
            check_arguments(["ffrfs", *shlex.split(line.partition("bin/ffrfs ")[2])])
    return Rendered(play["vars"]["ffrfs_data_sets"], template)


def test_ansible_units(ansible: Rendered, tmp_path: Path) -> None:
    program = needed("systemd-analyze", "systemd")
    assert main(["install-units", "--destdir", str(tmp_path)]) == 0
    units = tmp_path / UNIT_FOLDER
    for item in ansible.data_sets:
        path = tmp_path / f"{item['name']}.toml"
        path.write_text(ansible.template("data-set.toml.j2", item))
        config = read_config(str(path))
        assert [*config.packs] == item["packs"]
        assert parse_words(config.words).allow_other
        unit = units / f"ffrfs@{item['name']}.service"
        drop_in = Path(f"{unit}.d") / "cluster.conf"
        drop_in.parent.mkdir()
        text = ansible.template("drop-in.conf.j2", item)
        drop_in.write_text(text)
        assert ("AF_INET" in text) == ("://" in item["packs"][0])
        done = subprocess.run(
            [program, "--no-pager", "verify", "--man=no", "--recursive-errors=yes", unit],
            env=os.environ | {"SYSTEMD_UNIT_PATH": f"{units}:"},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_ansible_services_under_systemd(
    ansible: Rendered, server: Nginx, place: Path, tmp_path: Path, fuse: None
) -> None:
    """One data set is at a URL, which the drop-in must allow, and one at a path."""
    if not os.path.exists(SYSTEMD):
        pytest.skip("there is no systemd here (apt-get install systemd)")
    installed = tmp_path / "installed"
    assert main(["install-units", "--destdir", str(installed)]) == 0
    with new_pid_one(tmp_path / "systemd", installed) as machine:
        shutil.copytree(place / "web" / "set", machine.srv / "set")
        for item, pack in zip(ansible.data_sets, (f"{server.url}/set/", "/srv/set"), strict=True):
            name, known = item["name"], item | {"packs": [pack]}
            text = ansible.template("data-set.toml.j2", known)
            assert "/var/cache/ffrfs" in text
            machine.write_configuration(name, text.replace("/var/cache/ffrfs", "/srv/cache"))
            machine.add_drop_in(f"ffrfs@{name}.service", ansible.template("drop-in.conf.j2", known))
            assert machine.systemctl("daemon-reload").status == 0
            done = machine.systemctl("start", f"ffrfs@{name}.service")
            assert done.status == 0, (done.err, machine.log())
            done = machine.run("sh", "-c", digest_of(item["mountpoint"]))
            assert done.out == EXPECTED, done
        assert machine.systemctl("stop", "ffrfs@*").status == 0
        assert machine.mounts() == []
