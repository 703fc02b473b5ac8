"""python -m benchmarks: arguments, the parts in turn, and where the results go."""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import sys
import tempfile
from pathlib import Path

from benchmarks import (
    cluster,
    contenders,
    epoch,
    indexes,
    machine,
    mounting,
    opening,
    original,
    packing,
    prefetching,
    ratarmount,
    reading,
    reference,
    remote,
    report,
    streaming,
    tfrecord,
)
from benchmarks.plan import Plan
from tests import uring_switch

CHECKOUT = Path(__file__).resolve().parent.parent
PUBLISHED = CHECKOUT / "docs" / "benchmarks"
RESULTS = "results.json"
PARTS = {
    "reading": reading.run,
    # Its files fill the memory once: a virtual machine is slow at the first use of memory, and
    # that must not slow a contender of the next parts.
    "streaming": streaming.run,
    "packing": packing.run,
    "mounting": mounting.run,
    "opening": opening.run,
    "tfrecord": tfrecord.run,
    "prefetching": prefetching.run,
    "epoch": epoch.run,
    "indexes": indexes.run,
    "reference": reference.run,
    "remote": remote.run,
    "cluster": cluster.run,
}


def main() -> None:
    args = _arguments()
    if args.tables:
        print(report.as_markdown(_known(args.output or PUBLISHED)), end="")
        return
    if args.redraw:
        _write({}, args.output or PUBLISHED)
        return
    # So that SIGTERM unmounts all mounts, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    args.dir.mkdir(parents=True, exist_ok=True)
    kind = machine.file_system(args.dir)
    if kind in ("tmpfs", "ramfs"):
        _say(f"warning: {args.dir} is on {kind}; choose a real disk with --dir")
    with (
        tempfile.TemporaryDirectory(prefix="bench-", dir=args.dir) as name,
        uring_switch.switched_on(),
    ):
        results = _measure(args, Path(name), _output(args))
    print(report.as_markdown(results))
    if args.quick:
        print("--quick: too little was measured for the figures to mean anything")


def _output(args: argparse.Namespace) -> Path | None:
    given: Path | None = args.output
    return PUBLISHED if given is None and not args.parts and not args.quick else given


def _measure(args: argparse.Namespace, folder: Path, output: Path | None) -> report.Results:
    if not args.quick:
        for install in (ratarmount.install, original.install):
            try:
                install()
            except RuntimeError as error:  # the results name it as missing
                _say(f"warning: {error}")
    field = contenders.find(folder)
    for name, reason in field.missing.items():
        _say(f"missing: {name}: {reason}")
    plan = Plan.quick(folder, field) if args.quick else Plan(folder, field)
    run = report.Run.begin(plan)
    results = {}
    for part in args.parts or PARTS:
        _say(f"{part} …")
        results[part] = report.Part(run, PARTS[part](plan))
        if output is not None:  # a part takes half an hour: keep it if the next fails
            _write({part: results[part]}, output)
    return results


def _write(measured: report.Results, output: Path) -> None:
    """Write the results. Parts that were not measured now keep their old ones."""
    output.mkdir(parents=True, exist_ok=True)
    known = _known(output) | measured
    results = {part: known[part] for part in PARTS if part in known}
    (output / RESULTS).write_text(report.as_json(results), encoding="utf-8")
    if importlib.util.find_spec("matplotlib"):
        from benchmarks import plots

        plots.draw({part: result.findings for part, result in results.items()}, output)
    else:
        _say("no plots: there is no matplotlib (it is in the extra `bench`)")
    _say(f"written: {os.path.relpath(output)}")


def _known(output: Path) -> report.Results:
    file = output / RESULTS
    return report.from_json(file.read_text(encoding="utf-8")) if file.exists() else {}


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument(
        "--dir",
        type=Path,
        default=CHECKOUT / "build" / "bench",
        help="where to make the data (about 25 GB), on a real disk (default: build/bench)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="where to write results.json and plots; parts that are there and are not measured "
        "now are kept (default: docs/benchmarks, if everything was measured in earnest)",
    )
    parser.add_argument(
        "--redraw",
        action="store_true",
        help="measure nothing: draw the plots again, from the results.json that is there",
    )
    parser.add_argument(
        "--tables",
        action="store_true",
        help="measure nothing: print the tables of the results.json that is there",
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does it run at all?")
    args = parser.parse_args()
    args.dir = args.dir.resolve()  # the form in the mount table
    if (args.redraw or args.tables) and not ((args.output or PUBLISHED) / RESULTS).exists():
        parser.error(f"there is no {RESULTS}")
    for part in args.parts:
        if part not in PARTS:
            parser.error(f"{part}: no such part; there are {', '.join(PARTS)}")
    return args


if __name__ == "__main__":
    main()
