"""docs/operating.md: its alert rules and its dashboard name metrics that mounts export; its
statements about df and SQLite hold.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ffrfs import pack_folder
from tests.checkout import CHECKOUT
from tests.docs.figures import Given, grouping_labels, selectors
from tests.interpreter import python
from tests.mount.command import ffrfs, wait_until

OPERATING = CHECKOUT / "docs" / "operating"
RULES = OPERATING / "alerts.yml"
DASHBOARD = OPERATING / "dashboard.json"
EXPRESSION = re.compile(r"^ +expr: (?:>-\n((?: {10}\S.*\n)+)|(\S.*)\n)", re.MULTILINE)
# Prometheus adds these to each sample.
ADDED_LABELS = {"instance"}
TIMEOUT_S = 60


def rules() -> list[str]:
    text = RULES.read_text()
    found = [folded or plain for folded, plain in EXPRESSION.findall(text)]
    assert len(found) == text.count("- alert:") == text.count("expr:")
    return found


def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return loaded


def dashboard_queries() -> list[str]:
    found = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    variables = dashboard()["templating"]["list"]
    return found + [each["query"]["query"] for each in variables if each["type"] == "query"]


def write_database(path: Path, mode: str) -> sqlite3.Connection:
    """Write a table of ten rows; the caller closes the database."""
    database = sqlite3.connect(path)
    database.execute(f"PRAGMA journal_mode={mode}")
    database.execute("CREATE TABLE t (x)")
    database.executemany("INSERT INTO t VALUES (?)", [(number,) for number in range(10)])
    database.commit()
    return database


def write_databases(folder: Path) -> None:
    """Write plain.db, closed.db in WAL mode, and two whose eleventh row is only in the WAL file."""
    folder.mkdir()
    write_database(folder / "plain.db", "DELETE").close()
    write_database(folder / "closed.db", "WAL").close()
    live = write_database(folder / "live.db", "WAL")
    live.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    live.execute("INSERT INTO t VALUES (10)")
    live.commit()
    for name, endings in {"log": ["-wal"], "both": ["-wal", "-shm"]}.items():
        for ending in ["", *endings]:
            shutil.copy(folder / f"live.db{ending}", folder / f"{name}.db{ending}")
    live.close()
    (folder / "live.db").unlink()


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory, fuse: None) -> Iterator[Path]:
    """A folder with `tree`, a mount, and `tree.prom`, its metrics."""
    work = tmp_path_factory.mktemp("operating")
    write_databases(work / "source")
    pack_folder(work / "source", work / "pack.ffr")
    metrics = ("--metrics-file", work / "tree.prom", "--max-memory", "512M")
    cache = ("--cache-dir", work / "cache")  # a fetcher has metrics, too
    done = ffrfs("mount", *metrics, *cache, work / "pack.ffr", work / "tree")
    assert (done.status, done.err) == (0, "")
    try:
        yield work
    finally:
        done = ffrfs("umount", work / "tree")
    assert done.status == 0


@pytest.fixture(scope="module")
def given(work: Path) -> Given:
    file = work / "tree.prom"
    wait_until(file.exists, "the figures are written")
    given = Given(file.read_text())
    # A mount exports it only if the kernel reports it.
    given.add("ffrfs_memory_pressure_ratio", mountpoint="")
    # The filesystem collector of node_exporter exports it.
    given.add("node_filesystem_device_error", device="", fstype="fuse.ffrfs", mountpoint="")
    return given


@pytest.mark.parametrize("query", [*rules(), *dashboard_queries()])
def test_query_names_metrics_that_mounts_export(given: Given, query: str) -> None:
    found = list(selectors(query))
    assert found
    known = set(ADDED_LABELS)
    for each in found:
        assert each.metric in given.labels, f"no mount gives {each.metric}"
        labels = given.labels[each.metric]
        known |= labels.keys()
        for label, operator, value in each.labels:
            assert label in labels or label in ADDED_LABELS, f"{each.metric} has no {label}"
            if not value.startswith("$"):
                pattern = value if operator in ("=~", "!~") else re.escape(value)
                assert any(re.fullmatch(pattern, one) for one in labels[label]), f"{label}={value}"
    assert grouping_labels(query) <= known


def test_document_names_exactly_the_exported_metrics(given: Given) -> None:
    text = (CHECKOUT / "docs" / "operating.md").read_text()
    named = set(re.findall(r"\bffrfs_\w+", text))
    series = re.compile("_(bucket|sum|count)$")
    there = {series.sub("", name) for name in given.labels if name.startswith("ffrfs_")}
    assert {series.sub("", name) for name in named} == there


def test_wrong_queries_are_found(given: Given) -> None:
    for query, label in [
        ("ffrfs_reads", None),
        ('ffrfs_reads_total{mount="x"}', None),
        ('ffrfs_prefetch_records_total{event="lost"}', None),
        ("sum by (place) (ffrfs_reads_total)", "place"),
    ]:
        with pytest.raises(AssertionError):
            test_query_names_metrics_that_mounts_export(given, query)
        assert label is None or label in grouping_labels(query)


def promtool(*arguments: str | Path) -> str:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("there is no promtool here (apt-get install prometheus)")
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_accepts_rules() -> None:
    assert f"{len(rules())} rules found" in promtool("check", "rules", RULES)


def test_each_alert_fires_for_its_fault_alone(tmp_path: Path) -> None:
    text = (Path(__file__).parent / "alerts_test.yml").read_text()
    for name in re.findall(r"- alert: (\w+)", RULES.read_text()):
        assert f'alertname="{name}"' in text
    (tmp_path / "test.yml").write_text(text.replace("RULES", json.dumps(str(RULES))))
    promtool("test", "rules", tmp_path / "test.yml")


def test_rules_are_yaml() -> None:
    yaml = pytest.importorskip("yaml")
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    for rule, expression in zip(group["rules"], rules(), strict=True):
        assert rule["expr"].split() == expression.split()
        assert rule["annotations"].keys() == {"summary", "action"}


def test_panels_are_side_by_side() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24
    for panel in panels:
        for each in (panel, *panel["targets"]):
            assert each["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_df_excludes_mounts_by_their_type(work: Path) -> None:
    def df(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["df", *options, str(work / "tree")],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    assert df("--output=fstype,pcent").stdout.split()[-2:] == ["fuse.ffrfs", "100%"]
    assert df("-x", "fuse.ffrfs").returncode == 1  # nothing is left to show


COUNT = """\
import json, sqlite3, sys
try:
    rows = sqlite3.connect(sys.argv[1], uri=True).execute("SELECT count(*) FROM t").fetchone()[0]
except sqlite3.OperationalError as error:
    rows = str(error)
print(json.dumps(rows))
"""
FAILS = "unable to open database file"


@pytest.mark.parametrize(
    ("name", "as_usual", "immutable"),
    [("plain", 10, 10), ("closed", FAILS, 10), ("log", FAILS, 10), ("both", 11, 10)],
)
def test_sqlite_databases_on_a_mount(
    work: Path, name: str, as_usual: int | str, immutable: int
) -> None:
    def rows(options: str) -> object:
        place = f"file:{work / 'tree' / name}.db{options}"
        done = python("-c", COUNT, place, check=True)
        return json.loads(done.stdout)

    assert [rows(""), rows("?mode=ro"), rows("?immutable=1")] == [as_usual, as_usual, immutable]
